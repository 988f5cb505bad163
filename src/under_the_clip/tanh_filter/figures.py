"""Chapter 5: the tanh filter as published, what its runs truly cost, and the filter made sound."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.patches import Circle, Rectangle

from dpstudy.lab import records
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import CLAIMED_AND_PROVEN, SENSITIVITY_1, caption, spread, table_of
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.measure import EDGES
from dpstudy.privacy import accounting
from under_the_clip.published import MNIST_PARAMETERS

_COUNTS, LARGEST = "bounded-norms.counts", "bounded-norms.largest"
# The paper prints no ε. This is what its accounting gives, of the filter as of DP-SGD.
SPENT = {
    SENSITIVITY_1: ("epsilon_claimed-rdp-2019", "epsilon_rdp-2019"),
    "ε proven": CLAIMED_AND_PROVEN["ε proven"],
}


def named(reading: Reading, label: str, style: int = 0) -> Variant:
    """Return a variant under the page's short names: flat clipping, filter, c and k."""
    short = {"DP-SGD": "flat clipping", "range 1": "tanh filter"}
    spelled = label.replace("range ", "c = ").replace("expanded by ", "k = ")
    return Variant(reading, label, short.get(label, spelled), style)


def by_seed(
    groups: Mapping[str, Sequence[Variant]], *, name: str, caption: str, **axes: Any
) -> Figure | Note:
    """Draw accuracies after the last epoch, a row a line and a mark a seed; medians in numbers.

    What else is given goes to `canvas`, for instance `sharex=True`; groups are panels.
    """
    stored = {title: [one for one in of if len(one.results)] for title, of in groups.items()}
    stored = {title: of for title, of in stored.items() if of}
    if not stored:
        [command, *_] = (line.reading.command for of in groups.values() for line in of)
        return not_yet_run(name, command)
    lines = [(title, line) for title, of in stored.items() for line in of]
    heights = [len(of) for of in stored.values()]
    size = 5.6, 0.7 + 0.3 * len(stored) + 0.25 * len(lines)
    with canvas(len(stored), size=size, height_ratios=heights, **axes) as (figure, panels):
        for panel, (title, of) in zip(panels, stored.items(), strict=True):
            for at, line in enumerate(of):
                style = STYLES[line.style]
                mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
                panel.plot(line.accuracy, [at] * len(line.accuracy), alpha=0.6, **mark)
                end = f"{line.accuracy.median():.1%}"
                right = panel.get_yaxis_transform()
                panel.text(1.02, at, end, transform=right, va="center", fontsize="small")
            panel.set_title(title, loc="left", fontsize="medium")
            panel.set_yticks(range(len(of)), [line.name for line in of])
            panel.set_ylim(len(of) - 0.5, -0.5)
            set_axis(panel.xaxis, ACCURACY)
            panel.locator_params(axis="x", nbins=7)
        for panel in panels[:-1]:
            panel.set_xlabel("")
    said = "; ".join(f"{one.name} {ACCURACY.show(one.accuracy.median())}" for _, one in lines)
    data = [{"group": title, "line": one.name} | spread(one.accuracy) for title, one in lines]
    alt = f"A row for each, medians of seeds: {said}."
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=pd.DataFrame(data))


def box() -> Figure:
    """Draw gradients before and after clip and filter, and the lengths that many numbers have."""
    angles = np.arange(8) * np.pi / 4 + 0.3
    before = 2.3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    after = {"flat clipping": before / 2.3, "tanh filter": np.tanh(before)}
    norms, n = np.geomspace(0.1, 1e4, 61), MNIST_PARAMETERS
    spread_out = np.random.default_rng(0).normal(size=n)
    spread_out = norms[:, None] * spread_out / np.linalg.norm(spread_out)
    lengths = {
        "flat clipping": np.minimum(norms, 1),
        "tanh filter": np.linalg.norm(np.tanh(spread_out), axis=1),
    }
    shapes = Circle((0, 0), 1), Rectangle((-1, -1), 2, 2)
    with canvas(1, 3, size=(7.0, 2.7)) as (figure, (*planes, right)):
        for at, (axes, (name, ends)) in enumerate(zip(planes, after.items(), strict=True)):
            shape, style = shapes[at], STYLES[1 - at]
            shape.set(color=style.color, alpha=0.35)
            axes.add_patch(shape)
            axes.add_patch(Circle((0, 0), 1, fill=False, linestyle=":"))
            axes.plot(*before.T, "o", color="0.5", markersize=3)
            for start, end in zip(before, ends, strict=True):
                axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.25"})
            axes.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), aspect="equal", title=name)
            axes.set(xlabel="first number", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
            right.plot(norms, lengths[name], color=style.color, linestyle=style.dash)
        planes[0].set_ylabel("second number")
        right.plot([10, 10], [1, 10], "ko", markersize=4)
        right.text(14, 5, "10 stays 10", fontsize="small")
        right.text(14, 0.5, "10 becomes 1", fontsize="small")
        right.set(xscale="log", yscale="log", xlabel="norm before", ylabel="norm after")
        right.set(title=f"{n:,} numbers", ylim=(0.09, 400))
    return Figure(
        fig=figure,
        name="tanh-filter-box",
        caption="First two: gradients of two numbers, before (dots) and after (arrowheads). Last: "
        "norms where the numbers are spread as a normal distribution's.",
        alt="Flat clipping pulls gradients straight into a disc of radius 1, the filter into a "
        f"square around it whose corners stick out. Of {n:,} numbers clipping leaves a norm of at "
        "most 1; the filter leaves norms below 100 nearly as they are, and bends at 161.",
        data=pd.DataFrame({"norm before": norms, **lengths}),
    )


@for_each_dataset("What each run costs")
def epsilons(reading: Reading) -> Table:
    """Return the epsilons of each run: with sensitivity 1, audited, of the longest norm, proven."""
    lines = [named(reading, label) for label in reading.labels]
    rows = [
        {"technique": line.name, **spread(line.accuracy), **_spent(line)}
        for line in lines
        if len(line.results)
    ]
    return table_of(
        rows,
        "tanh-filter-epsilons",
        caption(
            "test accuracy, and what each run costs",
            finals_of(lines),
            "With sensitivity 1: by the RDP accountant of 2019; the last two by PLD. At least: "
            "shown by an audit. Longest seen: of the filtered gradients of 1,000 training examples "
            "after each epoch; no guarantee.",
        ),
    )


def _spent(line: Variant) -> dict[str, object]:
    with_1, proven = (line.median(*columns) for columns in SPENT.values())
    longest, seen, of = longest_norm(line), None, (line.label, line.reading.dataset_name)
    if longest is not None:
        run = line.run
        seen = accounting.epsilon(
            noise_multiplier=run.mechanism.noise_std / longest,
            sampling_probability=run.sampling_probability,
            steps=run.epochs * run.steps_per_epoch,
            delta=run.delta,
            accountant="pld",
        )
    return {
        SENSITIVITY_1: with_1,
        "ε at least": audited() if of == ("range 1", "mnist") else None,
        "longest norm seen": longest,
        "ε if none is longer": seen,
        "ε proven": proven,
    }


def audited() -> float | None:
    """Return what the audit of the published filter shows at least, if it is stored."""
    found, _ = records.read_all(records.folder("audits"), "audits")
    return found["tanh-filter"]["lower_bound"] if "tanh-filter" in found else None


def longest_norm(line: Variant) -> float | None:
    """Return the longest norm that was seen of a filtered gradient, over epochs and seeds."""
    rows = line.own.curves_from_start
    return float(rows[LARGEST].max()) if LARGEST in rows else None


def norms(*readings: Reading) -> Figure | Note:
    """Draw how long filtered gradients are, before training and at its end, a panel a dataset."""
    lines = [Variant(reading, "range 1") for reading in readings]
    found = [line.results[0] for line in lines if line.results]
    found = [result for result in found if _COUNTS in result.curve]
    if not found:
        return not_yet_run("The norms of filtered gradients", readings[0].command)
    rows, said = [], []
    with canvas(1, len(found), size=(6.0, 2.9), sharey=True) as (figure, panels):
        for axes, result in zip(panels, found, strict=True):
            for at, number, name in ((0, 2, "before training"), (-1, 0, "at its end")):
                counts, style = result.curve[_COUNTS][at], STYLES[number]
                how = {"color": style.color, "linestyle": style.dash, "linewidth": 1.5}
                axes.stairs(counts, EDGES, label=name, **how)
                edges = {"norm from": EDGES[:-1], "norm to": EDGES[1:], "examples": counts}
                of = {"dataset": result.run.dataset.name, "when": name}
                rows.append(pd.DataFrame(edges).assign(**of))
            title = DATASETS[result.run.dataset.name]
            for at, name in ((1, "1"), (result.run.mechanism.sensitivity, "√n")):
                axes.axvline(at, color="0.4", linewidth=1)
                axes.text(0.85 * at, 1500, name, ha="right", fontsize="small")
            axes.set(xscale="log", yscale="log", ylim=(0.8, 3000), title=title)
            axes.set_xlabel("norm of a filtered gradient")
            largest = result.curve[LARGEST]
            said.append(f"{title}, {max(largest):.3g} at most and {largest[-1]:.3g} at the end")
        panels[0].set_ylabel("examples")
        legend_below(figure)
    return Figure(
        fig=figure,
        name="tanh-filter-norms",
        caption="Norms of the filtered gradients of 1,000 training examples, seed 0. Compare the "
        "longest with the lines: 1, which the paper computes with, and √n, which it proves. The "
        "bin on the left holds all shorter ones.",
        alt=f"Histograms over a logarithmic axis. The longest norms: {'; '.join(said)}.",
        data=pd.concat(rows),
    )


def further_seeds(reading: Reading) -> Reading:
    """Return the part of the seeds that had no part in the choice of the settings."""
    return replace(reading, found=[pair for pair in reading.found if pair[1].run.seed])
