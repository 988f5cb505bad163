"""Chapter 5: the tanh filter as published, what its runs truly cost, and the filter made sound."""

from dataclasses import replace

import numpy as np
import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import CLAIMED_AND_PROVEN, SENSITIVITY_1, caption, spread, table_of
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.measure import EDGES
from dpstudy.privacy import accounting
from under_the_clip.tanh_filter.experiments import AT_EQUAL_EPSILON, EXPANDED, MECHANISMS

_COUNTS, LARGEST = "bounded-norms.counts", "bounded-norms.largest"
# The paper prints no ε. This is what its accounting gives, of the filter as of DP-SGD.
SPENT = {
    SENSITIVITY_1: ("epsilon_claimed-rdp-2019", "epsilon_rdp-2019"),
    "ε proven": CLAIMED_AND_PROVEN["ε proven"],
}


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: the mechanisms at one true epsilon."""
    reading = read(AT_EQUAL_EPSILON, dataset="mnist")
    lines = [Variant(reading, f"{name}, best", name) for name in MECHANISMS]
    wider = further_seeds(read(EXPANDED, dataset="mnist"))
    lines += [Variant(wider, label) for label in EXPANDED.variants]
    lines = [line for line in lines if len(line.results)]
    if not lines:
        return not_yet_run("The comparison at one ε", f"dpstudy run {AT_EQUAL_EPSILON.name}")
    rows = [{"mechanism": line.name} | spread(line.accuracy) for line in lines]
    data = pd.DataFrame(rows)
    with canvas(size=(7.2, 2.8)) as (figure, (axes,)):
        at = -np.arange(len(data))
        axes.hlines(at, data.minimum, data.maximum, color=STYLES[0].color)
        mark = {"color": STYLES[0].color, "marker": STYLES[0].marker, "linestyle": "none"}
        axes.plot(data["median"], at, **mark)
        axes.set_yticks(at, data.mechanism)
        set_axis(axes.xaxis, ACCURACY)
    said = "; ".join(f"{row.mechanism} {ACCURACY.show(row.median)}" for row in data.itertuples())
    return Figure(
        fig=figure,
        name="tanh-filter-in-short",
        caption=caption(
            "test accuracy at a true ε of 3, each at its best of a search",
            finals_of(lines),
            "With k = 1 and 10: at the settings that are best for flat clipping and for the filter "
            "with a clip, whose search ends at k = 1.",
        ),
        alt=f"A row for each mechanism. {said}.",
        data=data,
    )


@for_each_dataset("What each run costs")
def epsilons(reading: Reading) -> Table:
    """Return the epsilons of each run: with sensitivity 1, audited, of the longest norm, proven."""
    lines = [Variant(reading, label) for label in reading.labels]
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


@for_each_dataset("The norms of filtered gradients")
def norms(reading: Reading) -> Figure | Note:
    """Draw how long filtered gradients are, before training, early, and at its end."""
    line = Variant(reading, "range 1")
    if _COUNTS not in (line.results[0].curve if line.results else {}):
        return not_yet_run("The norms of filtered gradients", reading.command)
    result, *_ = line.results
    first, second, *_, last = result.curve["epoch"]
    shown = {first: STYLES[2], second: STYLES[1], last: STYLES[0]}
    data = pd.DataFrame({"norm from": EDGES[:-1], "norm to": EDGES[1:]})
    with canvas(size=(7.2, 3.2)) as (figure, (axes,)):
        for epoch, style in shown.items():
            counts = result.curve[_COUNTS][result.curve["epoch"].index(epoch)]
            data[f"after epoch {epoch}"] = counts
            name = f"after epoch {epoch}" if epoch else "before training"
            how = {"color": style.color, "linestyle": style.dash, "linewidth": 1.5}
            axes.stairs(counts, EDGES, label=name, **how)
        axes.axvline(1, color="0.4", linewidth=1)
        axes.set(xscale="log", xlabel="norm of an example's filtered gradient", ylabel="examples")
        legend_below(figure)
    largest = result.curve[LARGEST]
    return Figure(
        fig=figure,
        name="tanh-filter-norms",
        caption=(
            f"{DATASETS[reading.dataset_name]}, seed 0: norms of the filtered gradients of 1,000 "
            "training examples; the bin on the left holds all that are shorter. The line is the "
            "sensitivity that the paper computes with."
        ),
        alt=(
            f"Histograms over a logarithmic axis. The longest norm is {largest[0]:.3g} before "
            f"training, {max(largest):.3g} at most, and {largest[-1]:.3g} at the end."
        ),
        data=data,
    )


def further_seeds(reading: Reading) -> Reading:
    """Return the part of the seeds that had no part in the choice of the settings."""
    return replace(reading, found=[pair for pair in reading.found if pair[1].run.seed])
