"""What the best triplets of a sweep have in common: their value and their slope at 0 (Figure 2).

The paper averages the best triplets, which says where they are only if they are bunched. On MNIST
ours are not: they are far apart in s, T and o, and alike as functions around 0. That was seen
after the sweep on MNIST; the other datasets test it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from dpstudy.lab.blind_choice import as_near
from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.papers.tempered_sigmoids.experiments import TRIPLET, TRIPLETS
from dpstudy.papers.tempered_sigmoids.figures.common import (
    dataset_of,
    diverged,
    for_each_dataset,
    logarithmic_settings,
    of_test_error,
)
from dpstudy.papers.tempered_sigmoids.figures.sweep import Sweep, draw_triplets, swept
from dpstudy.parts.activation import TANH
from dpstudy.parts.images import DATASETS

# Where it was seen that the best share slope and value, and below what chance others confirm it.
SEEN_ON, UNLIKELY = "mnist", 0.05
NAMES = SLOPE, VALUE = "slope at 0", "value at 0"


class AtZero(NamedTuple):
    """A tempered sigmoid around 0."""

    slope: float
    value: float

    @classmethod
    def of(cls, triplet: tuple[float, ...]) -> AtZero:
        """Return s T / 4 and s / 2 - o."""
        scale, inverse_temperature, offset = triplet
        return cls(scale * inverse_temperature / 4, scale / 2 - offset)


@for_each_dataset
def around_zero(reading: Reading) -> Figure | Note:
    """Draw the accuracy of every triplet over its slope and its value at 0."""
    if not swept(reading):
        return not_yet_run("What the best triplets have in common", reading.command)
    dataset, sweep = dataset_of(reading), Sweep.of(reading)
    shapes = [AtZero.of(triplet) for triplet in sweep.triplets[list(TRIPLET)].to_numpy()]
    data = sweep.drawn.assign(**dict(zip(NAMES, zip(*shapes, strict=True), strict=True)))
    with canvas(1, 2, size=(8.0, 3.6), sharey=True) as (figure, panels):
        for axes, name in zip(panels, NAMES, strict=True):
            draw_triplets(axes, data, name)
            axes.set_xlabel(name)
        _draw_lines(panels, dataset)
        logarithmic_settings(panels[0])
        of_test_error(panels[0])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    said = _said(sweep, data, dataset)
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-at-zero-{dataset}",
        caption=(
            f"Test error of {len(data)} tempered sigmoids on {DATASETS[dataset]} under DP-SGD, "
            f"over their slope sT/4 and their value s/2 - o at 0. {said} Computed on "
            f"{reading.devices}.{diverged(dataset, reading)}"
        ),
        alt=(
            f"Two panels of {len(data)} points each, test error over slope and value at 0, with "
            f"lines at tanh's 1 and 0{_published_said(dataset)}. {said}"
        ),
        data=data.sort_values("test_accuracy", ascending=False, ignore_index=True),
    )


def _draw_lines(panels: Sequence[Axes], dataset: str) -> None:
    """Draw tanh, and the paper's average triplet, into the panels of slope and value."""
    for axes, number in zip(panels, AtZero.of(astuple(TANH)), strict=True):
        axes.axvline(number, color="0.3", ls=":", label="tanh")
    if dataset in published.BEST_TRIPLETS:
        theirs = AtZero.of(published.BEST_TRIPLETS[dataset])
        for axes, number in zip(panels, theirs, strict=True):
            axes.axvline(number, color="black", ls=STYLES[1].dash, label="published mean")


def _published_said(dataset: str) -> str:
    if dataset not in published.BEST_TRIPLETS:
        return ""
    slope, value = AtZero.of(published.BEST_TRIPLETS[dataset])
    return f" and at the published mean's {slope:.2f} and {value:.2f}"


def _said(sweep: Sweep, data: pd.DataFrame, dataset: str) -> str:
    """Say where the best are, by what chance, and by what errors are ranked."""
    best = data[data.best]
    said = (
        f"The best {sweep.count} have slopes of {best[SLOPE].min():.2f} to {best[SLOPE].max():.2f} "
        f"and values of {best[VALUE].min():.2f} to {best[VALUE].max():.2f}"
    )
    # One alone is no tenth of a sweep yet, and equals have no ranks.
    if sweep.count < 2 or data.error.nunique() == 1:
        return f"{said}."
    shapes = np.column_stack([np.log(data[SLOPE]), data[VALUE]])
    target = np.array([np.log(AtZero.of(astuple(TANH)).slope), AtZero.of(astuple(TANH)).value])
    chance = as_near(shapes, best.index.to_numpy(), target)
    near = _rank_correlation(shapes, target, data.error)
    settings = _rank_correlation(
        data[list(TRIPLET)].to_numpy(), np.array(astuple(TANH)), data.error
    )
    return (
        f"{said}; as many chosen blindly are as near to tanh's 1 and 0 in {_percent(chance)} of "
        f"choices. Errors rank with the distance from there by Spearman's {near:.2f}, with the "
        f"distance from tanh's (s, T, o) by {settings:.2f}."
        f"{_test(dataset, len(data), chance < UNLIKELY and near > settings)}"
    )


def _test(dataset: str, triplets: int, holds: bool) -> str:
    """Say whether what was seen on one dataset holds on another; nothing before all is run."""
    if dataset == SEEN_ON or triplets < len(TRIPLETS):
        return ""
    return f" What was seen on {DATASETS[SEEN_ON]} {'holds' if holds else 'does not hold'} here."


def _rank_correlation(points: np.ndarray, centre: np.ndarray, errors: pd.Series) -> float:
    """Return Spearman's correlation of errors with the distance, in deviations of the sweep."""
    distance = (((points - centre) / points.std(axis=0)) ** 2).sum(axis=1)
    return float(stats.spearmanr(distance, errors).statistic)


def _percent(chance: float) -> str:
    return f"{chance:.1%}" if chance >= 0.001 else "less than 0.1%"
