"""The board: every method at one true ε, in the order that the data can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.lab import records
from dpstudy.lab.comparison import CONFIDENCE, Estimate
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import (
    STYLES,
    Figure,
    Note,
    Several,
    Table,
    canvas,
    legend_below,
    not_yet_run,
)
from dpstudy.page.results import results
from dpstudy.parts.data.images import DATASETS
from under_the_clip.leaderboard.experiments import EPSILONS, EXPERIMENTS, RECIPE, methods
from under_the_clip.leaderboard.published import DISPUTED, OF_METHODS, PUBLISHED, RUN_AGAIN
from under_the_clip.losing_less.experiments import FIGURE_3, FIGURE_4, ON_FEATURES_LINEAR
from under_the_clip.recipe.search import EPSILONS as SEARCHED
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.tempered_sigmoids.experiments import CIFAR_10_RATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpstudy.lab.published import Accuracy

# What the chapters have of CIFAR-10 at an ε of at most 3, by method.
ON_CIFAR_10 = {
    "recipe": (RECIPE_SEARCH, "epsilon 3"),
    "relu": (CIFAR_10_RATES, "relu, epsilon 3"),
    "tanh": (CIFAR_10_RATES, "tanh, epsilon 3"),
    "tanh, network of losing less": (FIGURE_3, "cross-entropy"),
    "composite loss, network of losing less": (FIGURE_3, "composite"),
    "scattering, convolutions": (FIGURE_4, "cross-entropy"),
    "scattering, convolutions, composite": (FIGURE_4, "composite"),
    "scattering, linear": (ON_FEATURES_LINEAR, "cross-entropy"),
}
# The least seeds that have a place.
_SEEDS = 3
_TICKS = (1, 2, 3, 8)
_THEIR_MARKERS = ("*", "P", "X", "d", "p", "h")


def lines_at(reading: Reading, epsilon: float) -> list[Variant]:
    """Return a line for each method that is stored at an ε."""
    [dataset] = reading.experiment.datasets
    lines = [
        Variant(
            reading,
            f"{name}, epsilon {epsilon:g}",
            name,
            number % len(STYLES),
            _published(dataset, name, epsilon),
        )
        for number, name in enumerate(methods(dataset))
    ]
    return [line for line in lines if len(line.results) >= _SEEDS]


def _published(dataset: str, method: str, epsilon: float) -> Accuracy | None:
    """Return what a method's paper states, where of the board's ε this is nearest to its own."""
    stated = OF_METHODS.get((dataset, method))
    if stated is None:
        return None
    apart = {one: abs(math.log(one / stated.claimed_epsilon)) for one in EPSILONS[dataset]}
    return stated if min(apart, key=apart.__getitem__) == epsilon else None


def ranks(accuracies: Sequence[pd.Series]) -> list[int]:
    """Return the rank of each method: one more than the number of those that are surely better.

    Surely: the interval of the difference of means is above 0, where the intervals of all pairs
    hold together with 95 % confidence, by the test of Games and Howell, whatever the variances.
    But none with a smaller mean has a smaller rank: one with a wild seed may be surely worse than
    none.
    """
    if len(accuracies) < 2:
        return [1] * len(accuracies)
    compared = stats.tukey_hsd(*accuracies, equal_var=False)
    # That is what these p-values say: the intervals themselves take ten times as long.
    surely = (compared.pvalue < 1 - CONFIDENCE) & (compared.statistic > 0)
    surely_below = 1 + surely.sum(axis=0)
    best_first = np.argsort([-accuracy.mean() for accuracy in accuracies], kind="stable")
    found = np.empty(len(accuracies), int)
    found[best_first] = np.maximum.accumulate(surely_below[best_first])
    return found.tolist()


def board(reading: Reading) -> Several | Note:
    """Return a table of the methods at each ε: rank, accuracy with interval, ε, minutes.

    Args:
        reading: of the experiment of one dataset.
    """
    [dataset] = reading.experiment.datasets
    tables = {epsilon: _table(reading, epsilon) for epsilon in EPSILONS[dataset]}
    shown = {epsilon: table for epsilon, table in tables.items() if table is not None}
    if not shown:
        return not_yet_run(f"The leaderboard on {DATASETS[dataset]}", reading.command)
    return Several(tuple(shown.values()), tuple(f"ε = {epsilon:g}" for epsilon in shown))


def _table(reading: Reading, epsilon: float) -> Table | None:
    lines = lines_at(reading, epsilon)
    if not lines:
        return None
    [dataset] = reading.experiment.datasets
    costs = records.read_all(records.folder("methods"), "methods")[0].get(dataset)
    rows = [
        {
            "rank": rank,
            "method": line.name,
            **Estimate.mean(line.accuracy).summary("accuracy"),
            "seeds": len(line.accuracy),
            "true ε": line.median("epsilon_pld"),
            "published": line.published and line.published.accuracy,
            "published ε": line.published and line.published.claimed_epsilon,
            **_cost(costs, line.name),
        }
        for line, rank in zip(lines, ranks([line.accuracy for line in lines]), strict=True)
    ]
    diverged = sum(int(line.finals.diverged.sum()) for line in lines)
    return Table(
        name=f"leaderboard-epsilon-{epsilon:g}",
        caption=(
            f"{DATASETS[dataset]} at a true ε of {epsilon:g}: mean test accuracy over seeds with "
            "its 95 % interval. A method's rank is one more than the number of those whose lead "
            "over it has an interval above 0, wide enough for all pairs together, and no smaller "
            "than that of a method with a larger mean. Published: at the ε that the paper states, "
            "where of this page's this is the nearest. Minutes of one core and memory are of a run "
            "that was timed, without the features, which are computed once. "
            f"Runs that diverged: {diverged}."
        ),
        data=pd.DataFrame(rows).sort_values(["rank", "accuracy"], ascending=[True, False]),
        formats={
            **dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high"), "{:.2%}"),
            "true ε": "{:.2f}",
            "published": "{:.1%}",
            "published ε": "{:g}",
            "minutes": "{:.1f}",
            "GB": "{:.1f}",
        },
        merged={
            "accuracy": "{accuracy} ({accuracy_low} to {accuracy_high})",
            "published": "{published}, ε = {published ε}",
        },
    )


def _cost(costs: dict[str, Any] | None, method: str) -> dict[str, float]:
    """Return what a run of a method takes on one core, NaN where that was not timed."""
    names = ("minutes", "peak_megabytes")
    minutes, memory = (costs[name][method] if costs else math.nan for name in names)
    return {"minutes": minutes, "GB": memory / 1000}


def in_short() -> Figure | Note:
    """Draw accuracy against ε, every method and what others published, a panel a dataset."""
    readings = {one.datasets[0]: read(one) for one in EXPERIMENTS}
    lines = [
        (dataset, line)
        for dataset, reading in readings.items()
        for epsilon in EPSILONS[dataset]
        for line in lines_at(reading, epsilon)
        if line.name != RECIPE  # Its own search has it at each of its ε.
    ]
    search = read(RECIPE_SEARCH)
    for dataset in RECIPE_SEARCH.datasets:
        at_each = (f"epsilon {epsilon:g}" for epsilon in sorted(SEARCHED))
        lines += [(dataset, Variant(search.on(dataset), label, "recipe")) for label in at_each]
    rates = read(CIFAR_10_RATES)
    lines += [("cifar-10", Variant(rates, f"{name}, best", name)) for name in ("relu", "tanh")]
    lines += [("cifar-10", line) for line in _on_cifar_10() if line.name != "recipe"]
    rows = [
        {
            "dataset": dataset,
            "method": line.name,
            "epsilon": line.median("epsilon_pld"),
            "accuracy": line.accuracy.median(),
            "minimum": line.accuracy.min(),
            "maximum": line.accuracy.max(),
            "seeds": len(line.accuracy),
        }
        for dataset, line in lines
        if len(line.results)
    ]
    if not rows:
        commands = "\n".join(reading.command for reading in readings.values())
        return not_yet_run("The leaderboard", commands)
    return _drawn(pd.DataFrame(rows))


def _on_cifar_10() -> list[Variant]:
    lines = [
        Variant(read(experiment, dataset="cifar-10"), label, method)
        for method, (experiment, label) in ON_CIFAR_10.items()
    ]
    found = [line for line in lines if len(line.results)]
    return sorted(found, key=lambda line: -line.accuracy.median())


def on_cifar_10() -> Table | Note:
    """Return what the chapters' runs reach on CIFAR-10 at an ε of at most 3, the best first."""
    return results(
        _on_cifar_10(),
        "The recipe's rate was searched at this ε, those of relu and tanh at 7.53; the others have "
        "their papers' settings.",
        name="leaderboard-cifar-10",
        shown="test accuracy at an ε of at most 3",
    )


def _theirs() -> list[Accuracy]:
    """Return what others published, a star at the name where its ε is disputed."""
    named = [
        replace(one, method=f"{one.method} *") if one.method in DISPUTED else one
        for one in PUBLISHED
    ]
    again = [replace(one, method="run again, Bao & Bindschaedler 2024") for one in RUN_AGAIN]
    return [*named, *again]


def _drawn(data: pd.DataFrame) -> Figure:
    datasets = list(dict.fromkeys(data.dataset))
    theirs = [one for one in _theirs() if one.dataset in datasets]
    with canvas(1, len(datasets), size=(6.9, 5.2)) as (figure, panels):
        for axes, dataset in zip(panels, datasets, strict=True):
            _draw_ours(axes, data, dataset)
            _draw_theirs(axes, theirs, dataset)
            axes.set(xscale="log", xlabel="true ε", title=DATASETS[dataset])
            axes.set_xticks(_TICKS, [f"{one:g}" for one in _TICKS], minor=False)
            axes.set_xticks([], minor=True)
        panels[0].set(ylabel="test accuracy, %")
        legend_below(figure)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, ε = {row.epsilon:.3g}, {row.method}: {row.accuracy:.2%}"
        for row in data.itertuples()
    )
    published = "; ".join(
        f"{DATASETS[one.dataset]}, ε = {one.claimed_epsilon:g}, {one.method}: {one.accuracy:.1%}"
        for one in theirs
    )
    return Figure(
        fig=figure,
        name="leaderboard",
        caption=(
            "Median test accuracy against the true ε, and the range over "
            f"{data.seeds.min()} to {data.seeds.max()} seeds. Black outlines: published, at the ε "
            "that is stated. *: whether that ε holds is disputed."
        ),
        alt=f"Accuracy against ε. {said}. Published: {published}.",
        data=data,
    )


def _draw_ours(axes: Axes, data: pd.DataFrame, dataset: str) -> None:
    for number, name in enumerate(dict.fromkeys(data.method)):
        rows = data[(data.dataset == dataset) & (data.method == name)].sort_values("epsilon")
        style = STYLES[number % len(STYLES)]
        fill = style.color if number < len(STYLES) else "white"
        apart = 100 * np.stack([rows.accuracy - rows.minimum, rows.maximum - rows.accuracy])
        mark = style.line | {"markerfacecolor": fill, "label": name, "yerr": apart}
        axes.errorbar(rows.epsilon, 100 * rows.accuracy, **mark)


def _draw_theirs(axes: Axes, theirs: Sequence[Accuracy], dataset: str) -> None:
    for number, method in enumerate(dict.fromkeys(one.method for one in theirs)):
        found = [one for one in theirs if (one.dataset, one.method) == (dataset, method)]
        axes.plot(
            [one.claimed_epsilon for one in found],
            [100 * one.accuracy for one in found],
            _THEIR_MARKERS[number % len(_THEIR_MARKERS)],
            color="black",
            markerfacecolor="none",  # two of them may lie on each other
            markersize=13 - number,
            label=method,
        )
