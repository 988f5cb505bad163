"""The papers' propositions, searched for counterexamples as the page is built."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd

from dpstudy.chapters.statements import STATEMENTS, find, sampled_gaussian
from dpstudy.errors import UserError
from dpstudy.lab.experiment import NOTEBOOK_PROFILES
from dpstudy.ledger.published import MNIST_PARAMETERS
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas
from dpstudy.papers.backpropagation_clipping.propositions import convolution_sensitivity
from dpstudy.papers.losing_less.propositions import convergence
from dpstudy.papers.tempered_sigmoids.propositions import (
    clipped_fields,
    clipping_bias,
    temperature_and_bias,
)
from dpstudy.papers.tempered_sigmoids.propositions import gradient_norms as tempered_sigmoids
from dpstudy.propositions.statement import LOOSE_BELOW, VERDICTS, Outcome

PAPERS = {
    "papernot2021tempered": "tempered sigmoids",
    "koskela2020computing": "accountants",
    "mironov2019renyi": "accountants",
    "abadi2016deep": "accountants",
    "shamsabadi2023losing": "losing less",
    "stevens2022backpropagation": "backprop clipping",
    "stevens2022code": "backprop clipping",
    "amian2022tanh": "tanh filter",
}
_COMPUTED = "Computed as this page was built, in double precision."


def check_profile(profile: str) -> Note:
    """Say what a profile changes in this chapter: nothing.

    Raises:
        UserError: there is no such profile.
    """
    if profile not in NOTEBOOK_PROFILES:
        raise UserError(f"unknown profile {profile!r}; one of: {', '.join(NOTEBOOK_PROFILES)}")
    return Note(
        "Live in every profile",
        f"profile is {profile!r}. Nothing is trained or read in this chapter: all profiles run "
        "every search, from seed 0, as the page is built.",
    )


@cache
def outcome(name: str) -> Outcome:
    """Return what the search for a counterexample to the named statement comes to."""
    return find(name).check()


def statements_table() -> Table:
    """Run all searches and tabulate what they come to."""
    rows = [
        {
            "Name": name,
            "Statement": statement.says,
            "Where": f"{PAPERS[statement.paper]}, {statement.where}",
            "Verdict": outcome(name).verdict,
            "Worst": outcome(name).worst,
            "Tightness": outcome(name).tightness,
            "Looked": outcome(name).looked,
        }
        for name, statement in STATEMENTS.items()
    ]
    counts = ", ".join(f"{sum(r['Verdict'] == v for r in rows)} {v}" for v in VERDICTS)
    return Table(
        name="statements",
        caption=(
            f"{len(rows)} statements: {counts}. Worst: how far the left side was brought past the "
            "right one; 0 or less, up to rounding, where the statement holds. Tightness: the "
            f"largest ratio of the two sides found; below {LOOSE_BELOW} a bound counts as loose. "
            "Corrected: the statement fails and the form given beside it in this chapter survives "
            f"the same search. {_COMPUTED}"
        ),
        data=pd.DataFrame(rows).astype({"Tightness": float}),
        formats={"Worst": _short, "Tightness": _short},
    )


def _short(value: float) -> str:
    return "0" if abs(value) < 5e-10 else f"{value:.3g}"


def section_table(*names: str) -> Table:
    """Tabulate one section's statements: what would refute each, and what was found."""
    rows = [
        {
            "Statement": find(name).says,
            "Refuted by": find(name).refuted_by,
            "Verdict": outcome(name).verdict,
            "Found": outcome(name).finding,
            "Holds instead": find(name).instead,
        }
        for name in names
    ]
    data = pd.DataFrame(rows)
    if data["Holds instead"].isna().all():
        data = data.drop(columns="Holds instead")
    return Table(
        name=f"section-{names[0]}",
        caption=f"What was looked for, and what was found. {_COMPUTED}",
        data=data,
    )


def verdicts_in_words() -> str:
    """State each verdict, one line a statement."""
    return "\n".join(f"{outcome(name).verdict:<13} {name}" for name in STATEMENTS)


def gradient_norms() -> Figure:
    """Draw the longest gradients found against T, with the bounds of Eq. 4 and 5."""
    temperatures = np.array([-4.0, -3, -2, -1, 0.25, 1, 2, 3, 4])
    k = tempered_sigmoids.STUDIED_CLASSES
    series = {
        "binary": tempered_sigmoids.steepest_by_temperature(None, temperatures),
        f"{k} classes": tempered_sigmoids.steepest_by_temperature(k, temperatures),
    }
    bounds = {"|T|": 1.0, "√2 |T|": math.sqrt(2), f"√{k} |T|": math.sqrt(k)}
    with canvas(size=(6.4, 3.8)) as (fig, [ax]):
        ends = np.array([-4.0, 0, 4])
        for style, (label, factor) in zip(STYLES, bounds.items(), strict=False):
            line = style.line | {"marker": ""}
            ax.plot(ends, factor * np.abs(ends), label=f"bound {label}", **line)
        for style, (label, found) in zip(STYLES[3:], series.items(), strict=False):
            mark = {"linestyle": "", "marker": style.marker, "color": style.color}
            ax.plot(
                temperatures, found, label=f"longest found, {label}", markeredgecolor="k", **mark
            )
        ax.set(xlabel="inverse temperature T", ylabel="gradient norm, |z| = 1")
        ax.legend(loc="upper center", ncols=2, fontsize="small")
        ax.set_ylim(0, 17.5)
    data = pd.DataFrame({"T": temperatures} | {f"found, {name}": v for name, v in series.items()})
    for label, factor in bounds.items():
        data[f"bound {label}"] = factor * np.abs(temperatures)
    worst = max(np.max(np.abs(series["binary"] / np.abs(temperatures) - 1)), 0)
    return Figure(
        name="gradient-norms",
        fig=fig,
        alt=(
            "Gradient norm against T from -4 to 4, three V-shaped bounds. The longest binary "
            f"gradients found lie on the lowest, |T|, to within {worst:.1%}; those of {k} classes "
            f"lie on the middle one, √2 |T|, far below √{k} |T|."
        ),
        caption=(
            "The longest gradients that climbing finds at each T, for |z| = 1, and the bounds of "
            f"Eq. 4 and 5 of tempered sigmoids with our √2. {_COMPUTED}"
        ),
        data=data,
    )


def bias_against_bound() -> Figure:
    """Draw the bias of clipped descent against Theorem 1's Δ, with both constants."""
    drawn = pd.DataFrame(clipping_bias.drawn()).query("delta > 0")
    climbed = pd.DataFrame(clipping_bias.climbed_biases())
    with canvas(size=(6.4, 4.0)) as (fig, [ax]):
        for style, (d, group) in zip(STYLES, drawn.groupby("dimension"), strict=False):
            name = f"descent, {d} dimension{'s' if d > 1 else ''}"
            marks = {"marker": style.marker, "color": style.color, "linestyle": ""}
            ax.plot(group["delta"], group["bias"], label=name, markersize=3, **marks)
        marks = {"marker": "*", "color": STYLES[4].color, "linestyle": "", "markersize": 9}
        ax.plot(climbed["delta"], climbed["bias"], label="climbed", **marks)
        ends = np.array([1e-3, 1e2])
        for constant, dash in ((clipping_bias.PROVEN, "-"), (clipping_bias.SHARP, "--")):
            ax.plot(ends, constant * ends, color="k", linestyle=dash, label=f"{constant:g} Δ")
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=(1e-6, 3e2))
        ax.set(xlabel="Δ = (T − C) |Θ|", ylabel="bias: excess loss of the clipped end")
        ax.legend(fontsize="small", loc="upper left")
    data = pd.concat([drawn, climbed.assign(dimension=np.nan)], ignore_index=True)
    top = float((data["bias"] / data["delta"]).max())
    return Figure(
        name="bias-against-bound",
        fig=fig,
        alt=(
            "Bias against Δ, both logarithmic. Points of gradient descent on random data scatter "
            "below two parallel lines, 2 Δ and Δ/2. Stars, cases climbed, lie "
            f"close under the lower line; the highest reaches {top:.3f} Δ."
        ),
        caption=(
            "Theorem 1 of tempered sigmoids: the excess loss where clipped gradient descent ends, "
            "for random data, T, C and Θ (where T > C), and for the worst cases found. The proof "
            f"gives 2 Δ; half of Δ is enough. {_COMPUTED}"
        ),
        data=data,
    )


def bias_against_temperature() -> Figure:
    """Draw the bias over T on data on which a lower T makes it larger."""
    data = pd.DataFrame(temperature_and_bias.counterexample())
    with canvas(size=(6.0, 3.6)) as (fig, [ax]):
        ax.plot(data.temperature, data.bound, color="k", ls="--", label="bound, Δ/2")
        style = {**STYLES[0].line, "markevery": 12}
        ax.plot(data.temperature, data.bias, **style, label="bias")
        ax.set(xscale="log", xlabel="temperature T", ylabel="excess loss")
        ax.set_yscale("symlog", linthresh=float(data.bias.max()) / 3)
        ax.set_ylim(bottom=0)
        ax.legend(fontsize="small")
    said = (
        "the bias is {at_lower:.2g} at T = {lower:.3g} and {at_higher:.2g} at T = {higher:.3g}"
    ).format(**temperature_and_bias.compared())
    return Figure(
        name="bias-against-temperature",
        fig=fig,
        alt=f"Excess loss against T. The bound rises throughout; {said}.",
        caption=(
            "The bias of clipped gradient descent over the temperature, on the data that the "
            f"search found, at one C and on one Θ: {said}. {_COMPUTED}"
        ),
        data=data,
    )


def circulation() -> Figure:
    """Draw how clipped fields circulate around loops: binary not at all, three classes so."""
    sizes = np.geomspace(0.05, 5, 25)
    kinds = {"binary": None, "three classes": 3}
    by_size = {name: clipped_fields.around(classes, sizes) for name, classes in kinds.items()}
    on_the_way = {name: clipped_fields.along_the_loop(classes) for name, classes in kinds.items()}
    with canvas(1, 2, size=(8.4, 3.6)) as (fig, axes):
        for style, name in zip(STYLES, kinds, strict=False):
            way = np.append(0, on_the_way[name])
            turn = np.linspace(0, 1, len(way))
            axes[0].plot(turn, way, label=name, markevery=64, **style.line)
            axes[1].plot(sizes, np.maximum(by_size[name], 1e-7), markevery=3, **style.line)
        axes[0].axhline(0, color="0.35", linewidth=1)
        axes[0].set(xlabel="share of the way around", ylabel="line integral / length")
        axes[0].legend()
        axes[1].set(xscale="log", yscale="log", xlabel="size of the loop", ylim=(1e-7, 1))
        axes[1].set(ylabel="circulation")
    most = {name: float(values[-1]) for name, values in on_the_way.items()}
    return Figure(
        name="circulation",
        fig=fig,
        alt=(
            "Left: line integral on the way around a loop. The binary loss' comes back to "
            f"{most['binary']:.0e}, that of three classes ends at {most['three classes']:.2f}. "
            "Right: circulation against the loop's size, both logarithmic. Three classes reach "
            f"{by_size['three classes'].max():.2f}; the binary loss stays at the quadrature's "
            f"error, {by_size['binary'].max():.0e} or less."
        ),
        caption=(
            "The line integral of the clipped field around ellipses, over that of its length, at "
            "the place and in the plane where a search found most. Left: on the way around once. "
            "Right: the whole way, for loops of other sizes; values below 10⁻⁷ are drawn there. "
            f"{_COMPUTED}"
        ),
        data=pd.DataFrame({"size": sizes} | by_size),
    )


def deltas() -> Figure:
    """Draw δ against ε for one small mechanism: by chance, by PLD and by RDP."""
    case = sampled_gaussian.CASES[2]
    asked = np.geomspace(1e-1, 1e-4, 10)
    curves = {
        name: np.array([sampled_gaussian.by(name)(case._replace(delta=d)) for d in asked])
        for name in ("pld", "rdp")
    }
    at = np.linspace(0.05, curves["rdp"].max(), 25)
    estimates = np.array([sampled_gaussian.estimated_delta(case, e) for e in at])
    with canvas(size=(6.4, 3.8)) as (fig, [ax]):
        for style, (name, label) in zip(STYLES, (("pld", "PLD"), ("rdp", "RDP")), strict=False):
            ax.plot(curves[name], asked, label=label, **style.line)
        low, high = (estimates[:, 0] + sign * 3 * estimates[:, 1] for sign in (-1, 1))
        shown = low > 0
        ax.fill_between(at[shown], low[shown], high[shown], color="0.6", label="draws, ± 3 errors")
        ax.set(yscale="log", xlabel="ε", ylabel="δ", ylim=(5e-5, 0.2))
        ax.legend()
    data = pd.concat(
        [pd.DataFrame({"by": name, "epsilon": curves[name], "delta": asked}) for name in curves]
        + [
            pd.DataFrame(
                {"by": "draws", "epsilon": at, "delta": estimates[:, 0], "error": estimates[:, 1]}
            )
        ]
    )
    q, sigma, steps = case[:3]
    return Figure(
        name="delta-against-epsilon",
        fig=fig,
        alt=(
            "δ on a logarithmic axis against ε: three falling curves. The band of what was drawn "
            "and PLD's curve coincide; RDP's lies to the right, at δ = 10⁻⁴ by "
            f"{curves['rdp'][-1] - curves['pld'][-1]:.2f} in ε."
        ),
        caption=(
            f"{steps} steps of the sub-sampled Gaussian, q = {q:g}, σ = {sigma:g}: δ estimated "
            f"from {sampled_gaussian.DRAWS:,} draws of the privacy loss in each direction, and "
            f"the ε that two accountants give for δ. {_COMPUTED}"
        ),
        data=data,
    )


def convergence_rates() -> Figure:
    """Draw SSE and cross-entropy over steps, on axes that make each one's law a line."""
    steps = 3000
    curves = convergence.curves(steps)
    t = np.arange(1, steps + 1)
    chosen = np.unique(np.geomspace(1, steps, 200).astype(int)) - 1
    with canvas(1, 2, size=(8.4, 3.6), sharey=True) as (fig, axes):
        for style, (name, values) in zip(STYLES, curves.items(), strict=False):
            line = style.line | {"marker": ""}
            axes[0].plot(t[:300], np.maximum(values[:300], 1e-14), label=name, **line)
            axes[1].plot(t, np.maximum(values, 1e-14), label=name, **line)
        last = curves["cross-entropy"][-1] * steps / t[300:]
        axes[1].plot(t[300:], 2 * last, color="0.4", linewidth=1)
        axes[1].annotate("1/t", (t[800], 2 * last[500]), xytext=(0, 4), textcoords="offset points")
        axes[0].set(yscale="log", xlabel="step t", ylabel="loss", ylim=(1e-12, 10))
        axes[1].set(xscale="log", xlabel="step t, logarithmic")
        axes[0].legend(loc="lower left", fontsize="small")
    return Figure(
        name="convergence-rates",
        fig=fig,
        alt=(
            "Loss against step, twice, the loss logarithmic. SSE with enough features falls along "
            "a straight line where the step axis is linear, to rounding. Cross-entropy falls along "
            "a straight line of slope -1 where it is logarithmic. SSE with too few features "
            f"flattens at {curves['SSE, too few features'][-1]:.2g}."
        ),
        caption=(
            f"Gradient descent on a linear model, {convergence.EXAMPLES} random examples in three "
            f"classes, {convergence.FEATURES} features or {convergence.FEW_FEATURES}, step length "
            f"1/β. Seed 0. {_COMPUTED}"
        ),
        data=pd.DataFrame({"step": t[chosen]} | {k: v[chosen] for k, v in curves.items()}),
    )


_MODES = {"constant": "zeros", "wrap": "wrapped around", "reflect": "reflected", "edge": "repeated"}


def convolutions_table() -> Table:
    """Tabulate the longest gradients and largest norms found, by convolution and padding."""
    one = convolution_sensitivity
    norms = {shape: one.operator_norm(shape).ratio for shape in (*one.ONE_INPUT, *one.TWO_INPUTS)}
    gradients = {
        shape: one.conv_gradient(shape).ratio for shape in (*one.PLAIN, *one.PADDED, *one.COPYING)
    }
    rows = [
        {
            "Padding": f"{shape.padding}, {_MODES[shape.mode]}" if shape.padding else "none",
            "Image": f"{shape.image} × {shape.image}",
            "Kernel": f"{shape.kernel} × {shape.kernel}",
            "Stride": shape.stride,
            "Channels": f"{shape.inputs} → {shape.outputs}",
            "Gradient / ab": gradients.get(shape, np.nan),
            "Norm / bound": norms.get(shape, np.nan),
            "Norm of padding": one.padding_norm(shape),
        }
        for shape in (*gradients, *norms)
    ]
    return Table(
        name="convolutions",
        caption=(
            "Gradient / ab: the longest kernel gradient found over Theorem 3's bound. Norm / "
            "bound: the largest operator norm found over Proposition 5's. Norm of padding: by how "
            f"much padding can lengthen an image. Above 1 a bound is broken. {_COMPUTED}"
        ),
        data=pd.DataFrame(rows),
        formats=dict.fromkeys(("Gradient / ab", "Norm / bound", "Norm of padding"), "{:.4f}"),
    )


def tanh_filter() -> Figure:
    """Draw Eq. 4 beside tanh, and the length of what the filter lets through."""
    x = np.linspace(-4, 4, 161)
    printed = (1 - np.exp(-x)) / (1 + np.exp(-x))
    entries = np.geomspace(1e-4, 10, 60)
    root = math.sqrt(MNIST_PARAMETERS)
    filtered = root * np.tanh(entries)
    series = {
        "not filtered": root * entries,
        "filtered": filtered,
        "filtered, then clipped to 1": np.minimum(filtered, 1),
    }
    with canvas(1, 2, size=(8.4, 3.6)) as (fig, axes):
        for style, (name, y) in zip(
            STYLES, (("tanh x", np.tanh(x)), ("Eq. 4 as printed", printed)), strict=False
        ):
            axes[0].plot(x, y, label=name, markevery=20, **style.line)
        axes[0].set(xlabel="x")
        axes[0].legend()
        for style, (name, y) in zip(STYLES, series.items(), strict=False):
            axes[1].plot(entries, y, label=name, markevery=6, **style.line)
        small = {"xytext": (0, 3), "textcoords": "offset points", "fontsize": "small"}
        for level in (root, 1):
            axes[1].axhline(level, color="0.35", linewidth=1)
        axes[1].annotate("√n", (10, root), ha="right", **small)
        axes[1].annotate("1, accounted for", (1e-4, 1), **small)
        axes[1].set(xscale="log", yscale="log", xlabel="size of every entry")
        axes[1].set(ylabel="gradient norm", ylim=(1e-2, 3e3))
        axes[1].legend(fontsize="small", loc="upper left")
    above = float(entries[np.argmax(filtered > 1)])
    return Figure(
        name="tanh-filter-length",
        fig=fig,
        alt=(
            "Left: tanh x, and the printed formula, which is flatter. Right: gradient norm "
            "against the size of every entry, both logarithmic. Filtered and unfiltered gradients "
            f"grow together, pass 1 at entries of about {above:.3f}, and the filtered ones level "
            f"off at √n = {root:.0f}. Filtered and then clipped, they stay at 1."
        ),
        caption=(
            f"Left: Eq. 4 of the tanh filter. Right: the norm of a gradient of n = "
            f"{MNIST_PARAMETERS:,} equal entries before and after the filter. {_COMPUTED}"
        ),
        data=pd.DataFrame({"entry": entries} | series),
    )
