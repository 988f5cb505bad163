"""The papers' propositions, and what searches for counterexamples found."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from dpstudy.claims.rules import Statement
from dpstudy.errors import check_known
from dpstudy.lab import records
from dpstudy.lab.experiment import NOTEBOOK_PROFILES
from dpstudy.page.figure import STYLES, Figure, Several, Table, canvas
from dpstudy.propositions import proposition
from dpstudy.propositions.proposition import LOOSE_BELOW, VERDICTS, Proposition
from under_the_clip.backpropagation_clipping.experiments import BATCH
from under_the_clip.chapters import papers
from under_the_clip.claims import CLAIMS
from under_the_clip.losing_less.propositions import convergence
from under_the_clip.published import DELTA, MNIST_PARAMETERS
from under_the_clip.statements import STATEMENTS, find
from under_the_clip.tempered_sigmoids.propositions import clipping_bias
from under_the_clip.tempered_sigmoids.propositions import gradient_norms as norms
from under_the_clip.theorems import accountants

_IN_LEDGER = {
    rule.name: claim.id
    for claims in CLAIMS.values()
    for claim in claims
    for rule in claim.rules.values()
    if isinstance(rule, Statement)
}
# What searches came to, by statement.
Found = dict[str, dict[str, Any]]

# By what is cited, under whose name it is shown.
PAPERS = {key: chapter.paper for chapter in papers() for key in chapter.cited} | dict.fromkeys(
    (
        *("koskela2020computing", "mironov2019renyi", "abadi2016deep"),
        *("papernot2022hyperparameter", "koskela2024privacy"),
    ),
    "accountants",
)
# What matters to someone who trains with privacy, by consequence: the statement in short, and what
# follows from what became of it.
CONSEQUENCES = {
    "tanh-filter-sensitivity-one": (
        "ε may be computed as if a filtered gradient had sensitivity 1.",
        "Clip after the filter.",
    ),
    "layer-sensitivity": (
        "An example moves a layer's summed gradient by at most ab.",
        "The published code scaled its noise to ab over the batch size: its ε is false.",
    ),
    "corrected-code-targets": (
        "The corrected code's noise gives the ε that it aims at.",
        "Account for all layers of a step as one Gaussian, by PLD.",
    ),
    "shuffled-as-if-sampled": (
        "The formula for Poisson sampling holds for shuffled batches.",
        "Sample by Poisson, or pay for one unsampled step an epoch.",
    ),
    "layer-sensitivity-mean-loss": (
        "ab is enough where the loss is a mean over the drawn batch.",
        "Divide by a constant, never by the size of the drawn batch.",
    ),
    "dense-sensitivity-bias": ("ab is enough with a bias.", "Pay for a bias, or leave it out."),
    "convolution-sensitivity-padding": (
        "ab is enough with zeros around the image.",
        "Pad with zeros; the paper did without and need not have.",
    ),
    "group-privacy": (
        "(ε, δ) for one record is (kε, δ) for k records.",
        "Where people have several records, ask for a far smaller δ.",
    ),
    "gradient-norm-multiclass-sharp": (
        "With any number k of classes √2 |T| |z| bounds a gradient; the paper has √k.",
        "It bounds the last layer alone: no reason for a larger C.",
    ),
    "gradient-norm-sum": (
        "|p − y| + |W| + |a| bounds a gradient (Eq. 11).",
        "Small weights still bound gradients: by the product.",
    ),
    "clipping-bias": (
        "Clipping costs at most 2 (T − C) |Θ| in loss (Theorem 1).",
        "A quarter is enough. A lower T alone need not lower the cost.",
    ),
    "clipped-field-multiclass": (
        "With several classes clipped gradients need have no objective.",
        "There is no objective to bound: Theorem 1's proof does not carry over.",
    ),
}


@cache
def outcomes(profile: str = "stored") -> Found:
    """Return what the searches came to, by name; see `proposition.content`.

    "stored" searches only for what `dpstudy theorems` did not store, other profiles for everything;
    UserError of what is no profile.
    """
    check_known("profile", profile, NOTEBOOK_PROFILES)
    stored, _ = records.read_all(records.folder(proposition.KIND), proposition.KIND)
    kept = stored if profile == "stored" else {}
    return {
        name: kept.get(name) or proposition.content(statement, statement.check())
        for name, statement in STATEMENTS.items()
    }


def read_off(name: str, pattern: str) -> tuple[str, ...]:
    """Return the groups of a pattern in the stored finding of a statement."""
    found = outcomes()[name]["finding"]
    match = re.search(pattern, found)
    assert match, (name, found)
    return match.groups()


def mistakes() -> Figure:
    """Draw by what factor each of the five mistakes exceeds what is stated."""
    aim, cost = read_off("corrected-code-targets", r"([\d.]+) and ([\d.]+\d)")
    [delta] = read_off("shuffled-as-if-sampled", r"MNIST, ε = [\d.]+: ([\d.e-]+) ±")
    rows = (
        ("1 Divided noise", "sensitivity", BATCH),
        ("2 Entries for a norm", "sensitivity", math.sqrt(MNIST_PARAMETERS)),
        ("3 The drawn batch", "sensitivity", 2 - 1 / BATCH),
        ("4 Layers alone", "ε", float(cost) / float(aim)),
        ("5 Shuffling", "δ", float(delta) / DELTA),
    )
    data = pd.DataFrame(rows, columns=["mistake", "of", "times"])
    said = [f"{times:,.{0 if times > 100 else 1}f} × {of}" for _, of, times in rows]
    style = {"sensitivity": 0, "ε": 4, "δ": 3}
    with canvas(size=(5.2, 2.6)) as (figure, [axes]):
        colors = [STYLES[style[of]].color for of in data["of"]]
        bars = axes.barh(-data.index, data["times"] - 1, 0.55, left=1, color=colors)
        axes.bar_label(bars, said, padding=4)
        axes.set_yticks(-data.index, data["mistake"])
        axes.set(xscale="log", xlim=(1, 1e7), xlabel="times what is stated")
        axes.grid(visible=False, axis="y")
    told = "; ".join(f"{row[0]}: {times}" for row, times in zip(rows, said, strict=True))
    return Figure(
        name="five-mistakes",
        fig=figure,
        caption="How many times what is stated the truth is, of ε, of δ, or of the sensitivity, "
        f"the most that one example can move a sum. The first and third: in batches of {BATCH:,}.",
        alt=f"Five bars on a logarithmic axis. {told}.",
        data=data,
    )


def _became(name: str) -> str:
    found, instead = outcomes()[name], find(name).instead
    if found["verdict"] == "misprint":
        return f"A misprint. It should read: {instead}"
    if found["verdict"] == "corrected":
        return f"False. Instead: {instead}"
    if found["verdict"] == "refuted":
        return f"False. {found['finding']}"
    said = found["verdict"].capitalize()
    return f"{said}: {instead}" if instead else f"{said}."


def in_short() -> Table:
    """Tabulate the statements that matter most: what became of them, and what follows."""
    rows = [
        {
            "Statement": says,
            "Paper": "asked here" if find(name).ours else PAPERS[find(name).paper],
            "What became of it": _became(name),
            "For you": follows,
        }
        for name, (says, follows) in CONSEQUENCES.items()
    ]
    return Table(
        name="propositions-in-short",
        caption=(
            f"The {len(rows)} statements that matter most, by consequence. Verdicts are what a "
            "search for a counterexample came to."
        ),
        data=pd.DataFrame(rows),
    )


@dataclass(frozen=True, kw_only=True)
class Numbered(Several):
    """Tables of statements where a notebook is read; propositions with numbers in the book.

    The `statements` are by the title of the part that they stand for, each with what was found.
    """

    statements: Mapping[str, list[tuple[Proposition, dict[str, Any]]]]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = []
        for part, title in zip(self.parts, self.titles, strict=True):
            held = [_proposition(*one) for one in self.statements.get(title, [])]
            html = part.download() if held else part._repr_html_()
            body = "\n\n".join([*held, f"```{{raw}} html\n{html}\n```"])
            shown.append(f":::::{{dropdown}} {title}\n{body}\n:::::" if title else body)
        shown[1:1] = ["::::::{dropdown} Every statement, by paper"]
        return super()._repr_mimebundle_() | {"text/markdown": "\n\n".join([*shown, "::::::"])}


def all_statements(profile: str) -> Numbered:
    """Show every statement, folded by paper, below the number of verdicts; see `outcomes`."""
    found = outcomes(profile)
    by_paper: dict[str, dict[str, Proposition]] = {paper: {} for paper in PAPERS.values()}
    for name, statement in STATEMENTS.items():
        by_paper[PAPERS[statement.paper]][name] = statement
    tables = [_of_paper(paper, statements, found) for paper, statements in by_paper.items()]
    parts = (_counted(by_paper, found), *tables, convergence_rates())
    held = {paper: [(s, found[n]) for n, s in of.items()] for paper, of in by_paper.items()}
    return Numbered(parts, ("", *by_paper, "losing less: the rates of its losses"), statements=held)


def _proposition(statement: Proposition, found: dict[str, Any]) -> str:
    claim = _IN_LEDGER.get(statement.name)
    lines = [
        _plain(statement.says),
        f"*{found['verdict'].capitalize()}.* {_plain(found['finding'])}",
        f"Would fall to: {_plain(statement.refuted_by)}",
        f"Holds instead: {_plain(statement.instead)}" if statement.instead else "",
        f'<a href="10_claims.html#claim-{claim}">In the ledger</a>' if claim else "",
    ]
    body = "\n\n".join(line for line in lines if line)
    place = _plain(statement.where)
    return f"::::{{prf:proposition}} {place}\n:label: {statement.name}\n\n{body}\n::::"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>$#~^|])", r"\\\1", text)


def _counted(by_paper: dict[str, dict[str, Proposition]], found: Found) -> Table:
    rows = [
        {"Paper": paper, **dict.fromkeys(VERDICTS, 0), **Counter(found[n]["verdict"] for n in of)}
        for paper, of in by_paper.items()
    ]
    return Table(
        name="verdicts",
        caption=(
            f"Verdicts on {len(STATEMENTS)} statements. Loose: the two sides' ratio stays below "
            f"{LOOSE_BELOW}. Corrected: it is false as stated, and the form given instead survives "
            "the search. Misprint: likewise, and the paper does not build on what is printed."
        ),
        data=pd.DataFrame(rows),
    )


def _of_paper(paper: str, statements: dict[str, Proposition], found: Found) -> Table:
    rows = [
        {
            "Statement": statement.says,
            "Where": statement.where,
            "Would fall to": statement.refuted_by,
            "Verdict": found[name]["verdict"],
            "Found": found[name]["finding"],
            "Holds instead": statement.instead,
        }
        for name, statement in statements.items()
    ]
    return Table(
        name=f"statements-{paper.replace(' ', '-')}",
        caption=f"Every statement of this group ({paper}), what was looked for and what was found.",
        data=pd.DataFrame(rows),
    )


def verdicts_in_words(profile: str) -> str:
    """State each verdict, one line a statement; see `outcomes`."""
    return "\n".join(f"{found['verdict']:<13} {name}" for name, found in outcomes(profile).items())


def gradient_norms() -> Figure:
    """Draw the longest gradients found against T, with the bounds of Eq. 4 and 5."""
    temperatures = np.array([-4.0, -3, -2, -1, 0.25, 1, 2, 3, 4])
    k = norms.STUDIED_CLASSES
    series = {
        "binary": norms.steepest_by_temperature(None, temperatures),
        f"{k} classes": norms.steepest_by_temperature(k, temperatures),
    }
    bounds = {"|T|": 1.0, "√2 |T|": math.sqrt(2), f"√{k} |T|": math.sqrt(k)}
    with canvas(size=(5.2, 3.2)) as (fig, [ax]):
        ends = np.array([-4.0, 0, 4])
        for style, (label, factor) in zip(STYLES, bounds.items(), strict=False):
            line = style.line | {"marker": ""}
            ax.plot(ends, factor * np.abs(ends), label=f"bound {label}", **line)
        for style, (label, found) in zip(STYLES[3:], series.items(), strict=False):
            mark = style.line | {"linestyle": "", "markeredgecolor": "k"}
            ax.plot(temperatures, found, **mark, label=f"longest found, {label}")
        ax.set(xlabel="inverse temperature T", ylabel="gradient norm, |z| = 1", ylim=(0, 17.5))
        ax.legend(loc="upper center", ncols=2, fontsize="small")
    data = pd.DataFrame({"T": temperatures} | {f"found, {name}": v for name, v in series.items()})
    for label, factor in bounds.items():
        data[f"bound {label}"] = factor * np.abs(temperatures)
    return Figure(
        name="gradient-norms",
        fig=fig,
        alt=(
            "Gradient norm against T from -4 to 4, three V-shaped bounds. The longest binary "
            f"gradients found lie on the lowest, |T|; those of {k} classes on the middle one, "
            f"√2 |T|, far below √{k} |T|."
        ),
        caption="The longest gradients that climbing finds at each T, for |z| = 1, and the bounds.",
        data=data,
    )


def bias_against_bound() -> Figure:
    """Draw the bias of clipped descent against Theorem 1's Δ, with both constants."""
    drawn = pd.DataFrame(clipping_bias.drawn()).query("delta > 0")
    climbed = pd.DataFrame(clipping_bias.climbed_biases())
    with canvas(size=(6.4, 3.6)) as (fig, [ax]):
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
        ax.set(xlabel="Δ = (T − C) |Θ|", ylabel="bias: excess loss at the end")
        ax.legend(fontsize="small", loc="upper left")
    data = pd.concat([drawn, climbed.assign(dimension=np.nan)], ignore_index=True)
    top = float((data["bias"] / data["delta"]).max())
    return Figure(
        name="bias-against-bound",
        fig=fig,
        alt=(
            "Bias against Δ, both logarithmic. Points of descent on random data scatter below two "
            f"parallel lines, 2 Δ and Δ/2. Climbed cases lie close under the lower: {top:.3f} Δ."
        ),
        caption=(
            "Where clipped gradient descent ends: random data, T, C and Θ, and the worst cases "
            "found, with the bounds of the paper's proof and of ours."
        ),
        data=data,
    )


def deltas() -> Figure:
    """Draw δ against ε for one small mechanism: by chance, by PLD and by RDP."""
    case = accountants.CASES[2]
    asked = np.geomspace(1e-1, 1e-4, 10)
    curves = {
        name: np.array([accountants.by(name)(case._replace(delta=d)) for d in asked])
        for name in ("pld", "rdp")
    }
    at = np.linspace(0.05, curves["rdp"].max(), 25)
    drawn, error = np.array([accountants.estimated_delta(case, e) for e in at]).T
    with canvas(size=(5.2, 3.2)) as (fig, [ax]):
        for style, (name, label) in zip(STYLES, (("pld", "PLD"), ("rdp", "RDP")), strict=False):
            ax.plot(curves[name], asked, label=label, **style.line)
        low, high = drawn - 3 * error, drawn + 3 * error
        ax.fill_between(at, low, high, low > 0, color="0.6", label="draws, ± 3 errors")
        ax.set(yscale="log", xlabel="ε", ylabel="δ", ylim=(5e-5, 0.2))
        ax.legend()
    parts = [pd.DataFrame({"by": n, "epsilon": curves[n], "delta": asked}) for n in curves]
    parts += [pd.DataFrame({"by": "draws", "epsilon": at, "delta": drawn, "error": error})]
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
            f"{steps} steps of the sub-sampled Gaussian, q = {q:g}, σ = {sigma:g}. PLD's line lies "
            f"in the band of {accountants.DRAWS:,} draws in each direction, RDP's above it."
        ),
        data=pd.concat(parts),
    )


def convergence_rates() -> Figure:
    """Draw SSE and cross-entropy over steps, on axes that make each one's law a line."""
    steps = 3000
    curves = convergence.curves(steps)
    t = np.arange(1, steps + 1)
    chosen = np.unique(np.geomspace(1, steps, 200).astype(int)) - 1
    with canvas(1, 2, size=(8.4, 3.4), sharey=True) as (fig, axes):
        for style, (name, values) in zip(STYLES, curves.items(), strict=False):
            line = style.line | {"marker": "", "label": name}
            axes[0].plot(t[:300], np.maximum(values[:300], 1e-14), **line)
            axes[1].plot(t, np.maximum(values, 1e-14), **line)
        axes[0].set(yscale="log", xlabel="step t", ylabel="loss", ylim=(1e-12, 10))
        axes[1].set(xscale="log", xlabel="step t, logarithmic")
        axes[0].legend(loc="lower left", fontsize="small")
    return Figure(
        name="convergence-rates",
        fig=fig,
        alt=(
            "Loss against step, twice. SSE with enough features is a straight line where steps are "
            "linear, cross-entropy where they are logarithmic. SSE with too few features flattens "
            f"at {curves['SSE, too few features'][-1]:.2g}."
        ),
        caption=(
            f"Gradient descent on a linear model, {convergence.EXAMPLES} random examples in three "
            f"classes, {convergence.FEATURES} features or {convergence.FEW_FEATURES}."
        ),
        data=pd.DataFrame({"step": t[chosen]} | {k: v[chosen] for k, v in curves.items()}),
    )
