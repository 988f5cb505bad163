"""Chapter 4: backpropagation clipping, as published, corrected, and at a true epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.lab import records
from dpstudy.lab.published import Accuracy
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import (
    STYLES,
    Figure,
    Note,
    Style,
    Table,
    canvas,
    legend_below,
    not_yet_run,
)
from dpstudy.page.published import lines_of
from dpstudy.page.quantity import ACCURACY, BATCH, EPOCHS, set_axis
from dpstudy.page.results import CLAIMED_AND_PROVEN, quartiles, results
from dpstudy.page.search import techniques, winners
from dpstudy.parts.data.images import DATASETS
from under_the_clip.backpropagation_clipping.experiments import (
    AGAINST_FLAT,
    ENDS,
    EPSILONS,
    FIGURE_5,
    MECHANISMS,
    SHARES,
    TARGETS,
)
from under_the_clip.backpropagation_clipping.published import ACCURACIES, CORRECTED_CLIPPING

BACKPROP, FLAT = "backpropagation clipping", "flat clipping"
SEARCHED = (
    BATCH,
    EPOCHS,
    Quantity("learning_rate", "learning rate", "rate {:.2g}"),
    Quantity("clip_norm", "clipping norm", "C = {:.2g}"),
    Quantity("input_bound", "input bound", "a = {:.2g}"),
    Quantity("upstream_bound", "upstream bound", "b = {:.2g}"),
)
_CLAIMED, _PROVEN = "epsilon_claimed-zcdp", "epsilon_shuffled-pld"


@dataclass(frozen=True)
class Series:
    """Points of one kind in the chapter's first figure.

    Attributes:
        name: in the legend.
        style: in the figure.
        lines: with their column of epsilon.
    """

    name: str
    style: Style
    lines: tuple[tuple[Variant, str], ...]

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield a row for each line that is stored, at its median over seeds."""
        for line, column in self.lines:
            if (epsilon := line.median(column)) is not None:
                yield {
                    "what": self.name,
                    "run": line.label,
                    "epsilon": epsilon,
                    "accuracy": line.accuracy.median(),
                    "lowest": line.accuracy.min(),
                    "highest": line.accuracy.max(),
                    "seeds": len(line.accuracy),
                }


def series(dataset: str) -> tuple[Series, ...]:
    """Return what the chapter compares on a dataset: claims, what they cost, and flat clipping."""
    of_figure_5, against = (read(one, dataset=dataset) for one in (FIGURE_5, AGAINST_FLAT))
    published = [Variant(of_figure_5, f"claims {epsilon:g}") for epsilon in EPSILONS]

    def at_true_epsilon(name: str) -> tuple[tuple[Variant, str], ...]:
        labels = f"{name}, epsilon 1", f"{name}, best"
        return tuple((Variant(against, label), "epsilon_pld") for label in labels)

    return (
        Series("as published, claimed ε", STYLES[4], tuple((one, _CLAIMED) for one in published)),
        Series("the same runs, proven ε", STYLES[2], tuple((one, _PROVEN) for one in published)),
        Series(f"{BACKPROP}, true ε", STYLES[1], at_true_epsilon(BACKPROP)),
        Series(f"{FLAT}, true ε", STYLES[0], at_true_epsilon(FLAT)),
    )


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: accuracy against epsilon, claimed and true."""
    found = {
        dataset: [(one, list(one.rows())) for one in series(dataset)]
        for dataset in FIGURE_5.datasets
    }
    rows = [row | {"dataset": d} for d, of in found.items() for _, points in of for row in points]
    if not rows:
        return not_yet_run("Accuracy against ε", f"dpstudy run {FIGURE_5.name}")
    with canvas(1, len(found), size=(8.2, 3.9)) as (figure, panels):
        for axes, (dataset, of) in zip(panels, found.items(), strict=True):
            for one, points in of:
                _draw(axes, one, points)
            axes.set_xscale("log")
            axes.set(title=DATASETS[dataset], xlabel="ε")
            set_axis(axes.yaxis, ACCURACY)
        legend_below(figure)
    said = "; ".join(
        f"{DATASETS[row['dataset']]}, {row['what']} {row['epsilon']:.3g}: "
        f"{ACCURACY.show(row['accuracy'])}"
        for row in rows
    )
    return Figure(
        fig=figure,
        name="backpropagation-clipping-in-short",
        caption=(
            "Test accuracy against ε, median and range over seeds. As published, runs claim the ε "
            "on the left and are proven for that on the right. At a true ε each mechanism has the "
            "settings that are best at ε = 3, of searches of one size."
        ),
        alt=f"Points in two panels, ε on a logarithmic axis. {said}.",
        data=pd.DataFrame(rows),
    )


def _draw(axes: Axes, one: Series, points: list[dict[str, object]]) -> None:
    at = pd.DataFrame(points, columns=["epsilon", "accuracy", "lowest", "highest"])
    axes.plot(at.epsilon, at.accuracy, **one.style.line, label=one.name, linewidth=1)
    axes.vlines(at.epsilon, at.lowest, at.highest, color=one.style.color)


@for_each_dataset("Table 1")
def table_1(reading: Reading) -> Table:
    """Return Table 1: without privacy, with clips alone, and with the published noise."""
    labels = "no privacy", "clips without noise", "as published"
    return results(
        lines_of(reading, dict.fromkeys(labels, 0), ACCURACIES, method="{}"),
        "Gains: over the row above. At least: some gradients within the clips give away as much; "
        "with so little noise that is the most that the computation can show.",
        name="backpropagation-clipping-table-1",
        shown="test accuracy at the last epoch, published and ours",
        over=dict(zip(labels[1:], labels, strict=False)),
        spent=CLAIMED_AND_PROVEN,
    )


@for_each_dataset("Figure 5")
def figure_5(reading: Reading) -> Table:
    """Return what the runs behind Figure 5 come to, and what their epsilons are."""
    return results(
        [
            Variant(reading, f"claims {epsilon:g}", f"claims ε = {epsilon:g}")
            for epsilon in EPSILONS
        ],
        name="backpropagation-clipping-figure-5",
        shown="test accuracy of the runs of Figure 5, whose values are not printed",
        spent=CLAIMED_AND_PROVEN,
    )


@for_each_dataset("What the text leaves out")
def left_out(reading: Reading, table_1: Reading) -> Table:
    """Return what other learning rates and initial weights come to."""
    return results(
        [Variant(table_1, "as published"), *(Variant(reading, label) for label in reading.labels)],
        "Gains: over the first row.",
        name="backpropagation-clipping-left-out",
        shown="test accuracy as published, with one thing changed that the text leaves out",
        over=dict.fromkeys(reading.labels, "as published"),
        spent=CLAIMED_AND_PROVEN,
    )


@for_each_dataset("The corrected code")
def corrected(reading: Reading) -> Table:
    """Return what the corrected code comes to, and the same with the noise its aims ask for."""
    theirs = {
        f"aims at {one.target_epsilon:g}": Accuracy(
            one.dataset, "", one.accuracy, one.target_epsilon, replace(one.source, where="its code")
        )
        for one in CORRECTED_CLIPPING
    }
    lines, over = [], {}
    for target in TARGETS:
        aims, spends = f"aims at {target:g}", f"spends {target:g}"
        lines += [Variant(reading, aims, published=theirs[aims]), Variant(reading, spends)]
        over[spends] = aims
    return results(
        lines,
        "Aims at: the noise of the corrected code. Spends: the noise that PLD asks for at that ε. "
        "Gains: of spends over aims.",
        name="backpropagation-clipping-corrected",
        shown="test accuracy of the corrected code",
        over=over,
        spent=CLAIMED_AND_PROVEN,
    )


@for_each_dataset("Against flat clipping")
def against_flat(reading: Reading) -> Table:
    """Return the best settings of either mechanism at a true epsilon of 3, trained again."""
    return winners(
        techniques(reading, dict.fromkeys(MECHANISMS)),
        settings=SEARCHED,
        name="backpropagation-clipping-against-flat",
        shown="the best of 16 settings each at ε = 3, by seed 0, trained again",
        ranges=lambda _: ENDS,
    )


@for_each_dataset("Less ε, and noise shared out otherwise")
def shared_out(reading: Reading) -> Table:
    """Return either mechanism at epsilon 1, and noise that is not shared out equally."""
    best = {name: Variant(reading, f"{name}, best", f"{name}, ε = 3") for name in (FLAT, BACKPROP)}
    at_1 = {
        name: Variant(reading, f"{name}, epsilon 1", f"{name}, ε = 1") for name in (FLAT, BACKPROP)
    }
    over = {of[BACKPROP].name: of[FLAT].name for of in (best, at_1)}
    over |= dict.fromkeys(SHARES, best[BACKPROP].name)
    return results(
        [*best.values(), *at_1.values(), *(Variant(reading, name) for name in SHARES)],
        "Gains: of backpropagation clipping over flat clipping, and of other shares over equal "
        "ones. Shares: ε = 3, at the best settings with equal shares.",
        name="backpropagation-clipping-shared-out",
        shown="test accuracy at a true ε",
        over=over,
    )


def times() -> Table | Note:
    """Return how long an epoch takes without privacy, with flat clipping, and with clips inside."""
    found, _ = records.read_all(records.folder("mechanisms"), "mechanisms")
    if "mnist" not in found:
        return not_yet_run("The times", "python benchmarks/mechanisms.py")
    timed = found["mnist"]
    rows = []
    for name, seconds in timed["epoch_seconds"].items():
        mechanism, _, batch = name.partition(", batch ")
        flat = pd.Series(timed["epoch_seconds"][f"{FLAT}, batch {batch}"])
        rows.append(
            {
                "batch": int(batch),
                "gradients": mechanism,
                **quartiles(pd.Series(seconds)),
                **quartiles(flat / pd.Series(seconds), "faster"),
            }
        )
    data = pd.DataFrame(rows).drop(columns=["seconds_low", "seconds_high"])
    return Table(
        name="backpropagation-clipping-times",
        caption=(
            f"Seconds an epoch of 60,000 examples, median of {len(seconds)} rounds, and how many "
            f"times as fast as flat clipping within a round, median and quartiles. "
            f"{timed['provenance']['device']}."
        ),
        data=data.rename(columns={"seconds": "seconds an epoch", "faster": "times as fast"}),
        formats={"seconds an epoch": "{:.2f}"}
        | dict.fromkeys(("times as fast", "faster_low", "faster_high"), "{:.2f}"),
        merged={"times as fast": "{times as fast} ({faster_low} to {faster_high})"},
    )
