"""The composite loss and cross-entropy: accuracy, and gradients, layers and classes inside."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.curves import draw_curve
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.quantity import EPOCH, set_axis
from dpstudy.page.results import LEFT_OUT, caption, gains_of, lines_of, quartiles
from dpstudy.parts.data.images import CLASSES, DATASETS
from dpstudy.parts.measure import EDGES
from under_the_clip.losing_less.experiments import EQUAL_EFFORT, FIGURE_3
from under_the_clip.losing_less.published import ACCURACIES, CLASS_ACCURACIES, NUMBERS

CE, COMPOSITE = "cross-entropy", "composite"
STYLE = {CE: 1, COMPOSITE: 0}
INSIDE = STYLE | {"squared error": 2}
TABLE_5 = "settings of Table 5"
OWN = {name: f"own best rate, {name}" for name in ("tanh", "relu")}
both = partial(lines_of, styles=STYLE, accuracies=ACCURACIES)


def all_gains() -> list[dict[str, object]]:
    """Return what the loss gains, published and found, by dataset and comparison."""
    rows = []
    for dataset in FIGURE_3.datasets:
        found = {TABLE_5: both(read(FIGURE_3, dataset=dataset))}
        if dataset in EQUAL_EFFORT.datasets:
            reading = read(EQUAL_EFFORT, dataset=dataset)
            found |= {OWN[name]: both(reading, label=f"{{}}, {name}") for name in OWN}
        published = tuple(NUMBERS.get(f"{dataset}, {loss}") for loss in STYLE)
        rows += gains_of(dataset, published if all(published) else None, found)
    return rows


@for_each_dataset("The paper's tests")
def significance(reading: Reading) -> Table | Note:
    """Return the paper's three tests, and the interval of the difference paired by seed."""
    ce, composite = (line.accuracy for line in both(reading))
    both_have = ce.index.intersection(composite.index)
    ce, composite = ce[both_have], composite[both_have]
    if len(both_have) < 3:
        return Note("The paper's tests", "Three seeds of each loss are needed.")
    # Three datasets are three tests: Bonferroni's correction, in which no order matters.
    gained, of_three = (Estimate.difference(composite, ce, of) for of in (1, 3))
    paired = stats.ttest_rel(composite, ce).pvalue
    rows = [
        ("Shapiro-Wilk, cross-entropy", "Shapiro-Wilk", stats.shapiro(ce).pvalue),
        ("Shapiro-Wilk, composite", "Shapiro-Wilk", stats.shapiro(composite).pvalue),
        ("Levene", "Levene", stats.levene(ce, composite).pvalue),
        ("t-test, two samples", "t-test", stats.ttest_ind(composite, ce).pvalue),
        ("t-test, paired by seed", "", paired),
        ("t-test, paired, for three datasets", "", min(1.0, 3 * paired)),
    ]
    dataset = reading.dataset_name
    data = pd.DataFrame(rows, columns=["test", "published", "p"])
    theirs = (NUMBERS.get(f"{dataset}, {test}") for test in data.published)
    data["published"] = [number and number.value for number in theirs]
    return Table(
        name="losing-less-significance",
        caption=(
            f"{DATASETS[dataset]}: p-values of the paper's tests and of the paired one, over "
            f"{len(ce)} seeds. The gain is {100 * gained.value:+.2f} points (95 % interval "
            f"{100 * gained.low:.2f} to {100 * gained.high:.2f}; "
            f"{100 * of_three.low:.2f} to {100 * of_three.high:.2f} where the intervals of three "
            "datasets hold together)."
        ),
        data=data,
        formats=dict.fromkeys(("published", "p"), "{:.2g}"),
    )


# The epochs of Figures 9 and 15.
EPOCHS = (2, 20)
_NORMS, _CONFUSION = "clipping-bias.counts", "confusion.counts"
_WEIGHTS, _HIDDEN, _LOGITS = "layer-norms.weights", "layer-norms.hidden", "layer-norms.logits"
_COLUMNS = 4


@for_each_dataset("The norms of gradients")
def gradient_norms(reading: Reading) -> Figure | Note:
    """Draw how long gradients are after the first and the last epoch (Figures 1c and 7)."""
    lines = [line for line in lines_of(reading, INSIDE) if _holds(line, _NORMS)]
    if not lines:
        return not_yet_run("The norms of gradients", reading.command)
    epochs = (1, lines[0].setting("epochs"))
    rows = [
        {"line": line, "epoch": epoch, "counts": counts}
        for epoch in epochs
        for line in lines
        if (counts := _summed(line, _NORMS, epoch)) is not None
    ]
    with canvas(1, 2, size=(8.2, 3.3), sharey=True) as (figure, panels):
        for row in rows:
            axes, style = panels[epochs.index(row["epoch"])], STYLES[row["line"].style]
            how = {"color": style.color, "linestyle": style.dash, "linewidth": 1.5}
            share = row["counts"] / row["counts"].sum()
            axes.stairs(share, EDGES, label=row["line"].name, **how)
        for axes, epoch in zip(panels, epochs, strict=True):
            axes.axvline(lines[0].setting("clip_norm"), color="0.4", linewidth=1)
            axes.set(xscale="log", xlabel="norm of a gradient", title=f"after epoch {epoch}")
        panels[0].set_ylabel("share of examples")
        legend_below(figure)
    said = "; ".join(
        f"{row['line'].name} after epoch {row['epoch']} {_median(row['counts']):.2g}"
        for row in rows
    )
    return Figure(
        fig=figure,
        name="losing-less-gradient-norms",
        caption=_caption(
            "norms of the gradients of 1,000 training examples before clipping",
            lines,
            "all of",
            "The vertical line is the norm that they are clipped to.",
        ),
        alt=f"Histograms over a logarithmic axis. Median norms: {said}.",
        data=pd.DataFrame(
            {
                "line": row["line"].name,
                "epoch": row["epoch"],
                "norm from": low,
                "norm to": high,
                "examples": count,
            }
            for row in rows
            for low, high, count in zip(EDGES[:-1], EDGES[1:], row["counts"], strict=True)
        ),
    )


def cost() -> Table | Note:
    """Return what the measures cost, beside the epoch that they watch."""
    found, _ = records.read_all(records.folder("mechanisms"), "mechanisms")
    if "losing-less-measures" not in found:
        return not_yet_run("What the measures cost", "python benchmarks/measures.py")
    timed = found["losing-less-measures"]
    seconds = {name: pd.Series(of) for name, of in timed["epoch_seconds"].items()}
    rows = [
        {
            "loss": name,
            "seconds an epoch": seconds[name].median(),
            **quartiles(seconds[f"{name}, measured"] / seconds[name] - 1, "measures add"),
        }
        for name in seconds
        if f"{name}, measured" in seconds
    ]
    return Table(
        name="losing-less-cost-of-measures",
        caption=(
            f"MNIST: seconds of an epoch, median of {len(seconds[rows[0]['loss']])} rounds, and "
            "what the measures of these figures add to it within a round, median and quartiles. "
            f"{timed['provenance']['device']}."
        ),
        data=pd.DataFrame(rows),
        formats={"seconds an epoch": "{:.2f}"}
        | dict.fromkeys(("measures add", "measures add_low", "measures add_high"), "{:.0%}"),
        merged={"measures add": "{measures add} ({measures add_low} to {measures add_high})"},
    )


@for_each_dataset("Norms layer by layer")
def by_layer(reading: Reading) -> Figure | Note:
    """Draw norms of weights and of pre-activations, a panel a layer (Figures 1, 5 and 6)."""
    lines = [line for line in lines_of(reading, INSIDE) if _holds(line, _WEIGHTS)]
    if not lines:
        return not_yet_run("Norms layer by layer", reading.command)
    data = pd.concat([_of_layers(line) for line in lines], ignore_index=True)
    shown = list(data.groupby(["quantity", "layer"], sort=False))
    rows = -(-len(shown) // _COLUMNS)
    with canvas(rows, _COLUMNS, size=(2.6 * _COLUMNS, 2.3 * rows + 0.5)) as (figure, panels):
        for axes, ((quantity, layer), of_panel) in zip(panels, shown, strict=False):
            for line in lines:
                draw_curve(axes, line, of_panel[of_panel.line == line.name], EPOCH)
            set_axis(axes.xaxis, EPOCH)
            set_axis(axes.yaxis, Quantity("", f"{quantity}, layer {layer}", log=True))
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        legend_below(figure)
    ends = data[data.epoch == data.epoch.max()]
    said = "; ".join(
        f"{quantity}, layer {layer}: "
        + ", ".join(f"{row.line} {row.median:.3g}" for row in of_panel.itertuples())
        for (quantity, layer), of_panel in ends.groupby(["quantity", "layer"], sort=False)
    )
    return Figure(
        fig=figure,
        name="losing-less-by-layer",
        caption=_caption(
            "norms by layer of weights and, of 1,000 training examples, of pre-activations, the "
            "last of which are logits",
            lines,
            "median and range over",
        ),
        alt=f"A panel a layer, curves by epoch. At the end, {said}.",
        data=data,
    )


@for_each_dataset("Which classes are taken for which")
def confusion(reading: Reading, not_private: Reading) -> Figure | Note:
    """Draw confusion matrices after an early and a late epoch (Figures 9 and 15)."""
    private = lines_of(reading, dict.fromkeys((COMPOSITE, CE), 0))
    lines = [*private, Variant(not_private, CE, "not private")]
    lines = [line for line in lines if _holds(line, _CONFUSION)]
    shares = {
        (epoch, line): counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        for epoch in EPOCHS
        for line in lines
        if (counts := _summed(line, _CONFUSION, epoch)) is not None
    }
    if not shares:
        return not_yet_run("Which classes are taken for which", reading.command)
    named = CLASSES[str(reading.dataset_name)]
    epochs = list(dict.fromkeys(epoch for epoch, _ in shares))
    size = 3.2 * len(lines), 3.4 * len(epochs)
    with canvas(len(epochs), len(lines), size=size) as (figure, panels):
        for axes, (epoch, line) in zip(panels, product(epochs, lines), strict=True):
            if (epoch, line) not in shares:
                axes.set_visible(False)
                continue
            _draw_matrix(axes, shares[epoch, line], named)
            axes.set_title(f"{line.name}, epoch {epoch}", fontsize="medium")
    said = "; ".join(
        f"{line.name} after epoch {epoch} {np.diag(share).mean():.1%}, least on "
        f"{named[np.diag(share).argmin()]} with {np.diag(share).min():.0%}"
        for (epoch, line), share in shares.items()
    )
    return Figure(
        fig=figure,
        name="losing-less-confusion",
        caption=_caption(
            "of each class (a row), the share in percent that is taken for each (a column), of "
            "1,000 training examples",
            lines,
            "all of",
            _published(str(reading.dataset_name)),
        ),
        alt=f"Matrices in grey, the darker the larger the share. Right, mean of classes: {said}.",
        data=pd.DataFrame(
            {
                "line": line.name,
                "epoch": epoch,
                "class": named[row],
                "taken for": named[column],
                "share": share[row, column],
            }
            for (epoch, line), share in shares.items()
            for row in range(len(share))
            for column in range(len(share))
        ),
    )


def _draw_matrix(axes: Axes, share: np.ndarray, named: Sequence[str]) -> None:
    axes.imshow(share, cmap="Greys", vmin=0, vmax=1)
    for row, column in np.argwhere(share >= 0.005):
        value = share[row, column]
        color = "white" if value > 0.5 else "black"
        where = {"ha": "center", "va": "center", "fontsize": 6, "color": color}
        axes.text(column, row, f"{100 * value:.0f}", **where)
    upright = 90 if len(named[0]) > 1 else 0
    axes.set_xticks(range(len(named)), named, rotation=upright, fontsize=7)
    axes.set_yticks(range(len(named)), named, fontsize=7)
    axes.grid(visible=False)


def _published(dataset: str) -> str:
    stated = "; ".join(
        f"{one.name} {one.composite:.0%} and {one.cross_entropy:.0%} in epoch {one.epoch}"
        for one in CLASS_ACCURACIES
        if one.dataset == dataset
    )
    return f"Published, with composite loss and cross-entropy: {stated}." if stated else ""


def _caption(shown: str, lines: Sequence[Variant], over: str, *more: str) -> str:
    return caption(shown, finals_of(lines), *more, fate=LEFT_OUT, over=over)


def _holds(line: Variant, column: str) -> bool:
    return any(column in result.curve for result in line.results)


def _summed(line: Variant, column: str, epoch: int) -> np.ndarray | None:
    """Return counts after an epoch, summed over the seeds that finished it; None if none did."""
    found = [
        result.curve[column][result.curve["epoch"].index(epoch)]
        for result in line.results
        if column in result.curve and epoch in result.curve["epoch"]
    ]
    return np.sum(found, axis=0) if found else None


def _median(counts: np.ndarray) -> float:
    at = np.searchsorted(np.cumsum(counts), counts.sum() / 2)
    return float(np.sqrt(EDGES[at] * EDGES[at + 1]))


def _of_layers(line: Variant) -> pd.DataFrame:
    rows = [
        {"quantity": quantity, "layer": layer, "epoch": epoch, "norm": norm}
        for result in line.results
        for at, epoch in enumerate(result.curve["epoch"])
        for quantity, norms in (
            ("weights", np.ravel(result.curve[_WEIGHTS][at])),
            ("pre-activations", [*np.ravel(result.curve[_HIDDEN][at]), result.curve[_LOGITS][at]]),
        )
        for layer, norm in enumerate(norms, start=1)
    ]
    groups = pd.DataFrame(rows).groupby(["quantity", "layer", "epoch"], sort=False).norm
    spread = groups.agg(median="median", minimum="min", maximum="max", seeds="count")
    return spread.reset_index().assign(line=line.name)
