"""The sweep over the family: which triplets (s, T, o) are best, and by more than a seed (Figure 2).

A sweep has one seed a triplet; tanh and the paper's own triplet are trained with
several, and show what a seed alone changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from dpstudy.lab.blind_choice import as_near
from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.papers.tempered_sigmoids.experiments import TRIPLET
from dpstudy.papers.tempered_sigmoids.figures.common import (
    STYLE,
    dataset_of,
    diverged,
    finals_with,
    for_each_dataset,
    of_test_error,
    seeds_of,
)
from dpstudy.parts.images import DATASETS

# Of the gradients before clipping, in the last epoch.
NORMS = ("gradient_norm", "clipped_fraction")
NAMES = ("scale s", "inverse temperature T", "offset o")
# "best" is the winner among the triplets, trained again.
REPEATED = ("tanh", "published", "best")
DRAWS = 4_000
CHANCE = "by chance"


@dataclass(frozen=True)
class Sweep:
    """What is stored of a sweep on one dataset.

    Attributes:
        triplets: one row a triplet: s, T, o under their names in a run, `test_accuracy`, and what
            `NORMS` names.
        repeated: one row a run of the triplets with several seeds.
        share: of the triplets that count as best.
    """

    triplets: pd.DataFrame
    repeated: pd.DataFrame
    share: float

    @classmethod
    def of(cls, reading: Reading) -> Sweep:
        """Take a reading apart; where triplets have several seeds, their medians."""
        finals = finals_with(reading, *TRIPLET)
        finals.loc[finals.diverged, list(NORMS)] = math.nan  # At chance, and after no last step.
        several = finals.label.isin(REPEATED)
        # In the order of the design, so that of equals the ledger takes the same.
        triplets = finals[~several].groupby([*TRIPLET, "label"], as_index=False, sort=False)
        share = published.NUMBERS["share of best triplets"].value
        return cls(triplets[["test_accuracy", *NORMS]].median(), finals[several], share)

    @property
    def count(self) -> int:
        """How many triplets are best."""
        return math.ceil(self.share * len(self.triplets))

    @cached_property
    def best(self) -> pd.DataFrame:
        """The best triplets, best first."""
        return self.triplets.nlargest(self.count, "test_accuracy")

    @property
    def drawn(self) -> pd.DataFrame:
        """The triplets with their test error, and whether they are among the best."""
        best = self.triplets.label.isin(self.best.label)
        return self.triplets.assign(best=best, error=1 - self.triplets.test_accuracy)

    def rank_with_errors(self, column: str) -> float:
        """Return Spearman's correlation of a column with the error, without what diverged.

        NaN where either is the same for all.
        """
        lived = self.drawn.dropna(subset=column)
        if lived[column].nunique() < 2 or lived.error.nunique() < 2:
            return math.nan
        return float(stats.spearmanr(lived[column], lived.error).statistic)

    @property
    def noise(self) -> float:
        """Standard deviation of the accuracy over seeds, pooled; NaN without repeated seeds."""
        groups = self.repeated.groupby("label").test_accuracy
        freedom = (groups.size() - 1).sum()
        return (
            math.sqrt((groups.var() * (groups.size() - 1)).sum() / freedom) if freedom else np.nan
        )

    @property
    def again(self) -> pd.Series:
        """Accuracies of the best triplet, trained again; empty until it is."""
        return self.repeated[self.repeated.label == "best"].test_accuracy

    @property
    def rivals(self) -> int:
        """How many other triplets come within two seeds' standard deviations of the best.

        Of its median with other seeds, where they are stored: it was chosen by one.
        """
        others = self.triplets.test_accuracy.drop(self.best.index[0])
        height = self.again.median() if len(self.again) else self.triplets.test_accuracy.max()
        return int((others >= height - 2 * self.noise).sum())

    def under_noise(self) -> np.ndarray:
        """Return roughly what the best triplets average to with other seeds: draws x 3.

        A seed's noise is added to accuracies that have one in them already.
        """
        rng = np.random.default_rng(0)
        accuracy = self.triplets.test_accuracy.to_numpy()
        drawn = accuracy + self.noise * rng.standard_normal((DRAWS, len(accuracy)))
        best = np.argsort(-drawn, axis=1)[:, : self.count]
        return self.triplets[list(TRIPLET)].to_numpy()[best].mean(axis=1)

    def by_chance(self, centre: Sequence[float] | None = None) -> float | None:
        """Return how often as many triplets, chosen blindly, lie as near to a centre.

        None of one alone, which is no tenth of a sweep yet.
        """
        if self.count < 2:
            return None
        settings, chosen = self.triplets[list(TRIPLET)].to_numpy(), self.best.index.to_numpy()
        return as_near(settings, chosen, None if centre is None else np.array(centre))


def swept(reading: Reading) -> bool:
    """Return whether any triplet of the sweep is stored, beside those with several seeds."""
    return any(label not in REPEATED for label, _ in reading.found)


@for_each_dataset
def family_sweep(reading: Reading, relu: Reading) -> Figure | Note:
    """Draw the accuracy of every triplet over s, T and o (Figure 2).

    Args:
        reading: of the sweep.
        relu: of Figure 3, for the baseline.
    """
    if not swept(reading):
        return not_yet_run("The sweep over (s, T, o)", reading.command)
    dataset, sweep = dataset_of(reading), Sweep.of(reading)
    baseline = _baseline(relu, dataset)
    data = sweep.drawn.sort_values("test_accuracy", ascending=False, ignore_index=True)
    with canvas(1, 3, size=(9.6, 3.8), sharey=True) as (figure, panels):
        for axis, axes in enumerate(panels):
            _draw_axis(axes, data, axis, dataset)
            _draw_lines(axes, sweep, baseline)
            axes.set(xlabel=NAMES[axis])
        of_test_error(panels[0])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    means = _shown(sweep.best[list(TRIPLET)].mean())
    accuracy = data.test_accuracy
    tried = reading.finals[~reading.finals.label.isin(REPEATED)]
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-figure-2-{dataset}",
        caption=(
            f"Test error of {len(data)} tempered sigmoids on {DATASETS[dataset]} under DP-SGD, "
            f"over scale, inverse temperature and offset; {seeds_of(tried)} each, computed on "
            f"{reading.devices}. "
            f"The best {sweep.count} average (s, T, o) = {means}.{diverged(dataset, reading)}"
        ),
        alt=(
            f"Three panels of {len(data)} points each: test error from {1 - accuracy.max():.1%} to "
            f"{1 - accuracy.min():.1%} over s, T and o. The best {sweep.count} average {means}, "
            f"and spread over s from {_reach(sweep, 0)}, T from {_reach(sweep, 1)} and o from "
            f"{_reach(sweep, 2)}.{_lines_said(sweep, baseline)}"
        ),
        data=data,
    )


def draw_triplets(axes: Axes, data: pd.DataFrame, name: str) -> None:
    """Draw the errors of a sweep's triplets over a column, the best tenth as diamonds."""
    others, best = data[~data.best], data[data.best]
    axes.plot(others[name], others.error, "o", mfc="none", mec="0.45", label="a triplet")
    axes.plot(best[name], best.error, "D", color=STYLES[0].color, label="the best tenth")


def _draw_axis(axes: Axes, data: pd.DataFrame, axis: int, dataset: str) -> None:
    name = TRIPLET[axis]
    draw_triplets(axes, data, name)
    mean = data[data.best][name].mean()
    axes.axvline(mean, color=STYLES[0].color, label="mean of the best tenth")
    theirs = published.BEST_TRIPLETS.get(dataset)
    if theirs is not None:
        options = {"color": "black", "linestyle": STYLES[1].dash, "label": "published mean"}
        axes.axvline(theirs[axis], **options)


def _draw_lines(axes: Axes, sweep: Sweep, baseline: pd.Series) -> None:
    runs = sweep.repeated[sweep.repeated.label == "tanh"]
    if len(runs):
        tanh = 1 - runs.test_accuracy
        span = {"facecolor": STYLES[3].color, "alpha": 0.5, "label": f"tanh, {seeds_of(runs)}"}
        axes.axhspan(tanh.min(), tanh.max(), **span)
    if len(baseline):
        style = STYLE["relu"]
        axes.axhline(1 - baseline.median(), color=style.color, ls=style.dash, label="relu, median")


def _reach(sweep: Sweep, axis: int) -> str:
    values = sweep.best[TRIPLET[axis]]
    return f"{values.min():.2f} to {values.max():.2f}"


def _lines_said(sweep: Sweep, baseline: pd.Series) -> str:
    tanh = 1 - sweep.repeated[sweep.repeated.label == "tanh"].test_accuracy
    said = f" A band for tanh: {tanh.min():.1%} to {tanh.max():.1%}." if len(tanh) else ""
    return said + (f" A line for relu: {1 - baseline.median():.1%}." if len(baseline) else "")


def _baseline(relu: Reading, dataset: str) -> pd.Series:
    finals = relu.finals
    if finals.empty:
        return pd.Series(dtype=float)
    return finals[(finals.label == "relu") & (finals.dataset == dataset)].test_accuracy


@for_each_dataset
def cluster(reading: Reading) -> Table | Note:
    """Return what the best triplets average to, how far seeds move that, and whether by chance."""
    if not swept(reading):
        return not_yet_run("The average of the best triplets", reading.command)
    dataset, sweep = dataset_of(reading), Sweep.of(reading)
    ours = _row("best tenth, ours", sweep.best[list(TRIPLET)].mean(), sweep.best)
    rows = [ours | {CHANCE: sweep.by_chance()}]
    if dataset in published.BEST_TRIPLETS:
        theirs = published.BEST_TRIPLETS[dataset]
        chance = {CHANCE: sweep.by_chance(theirs)}
        rows.insert(0, _row("best tenth, published", theirs) | chance)
    interval = ""
    if not math.isnan(sweep.noise):
        rows += _interval("ours, seeds drawn again", sweep.under_noise())
        interval = ", with the middle 95 % of what it would be, roughly, with other seeds"
    for label, runs in sweep.repeated.groupby("label", sort=False):
        triplet = runs[list(TRIPLET)].iloc[0]
        chance = {CHANCE: sweep.by_chance(triplet) if label == "tanh" else None}
        rows.append(_row(f"{label}, {seeds_of(runs)}", triplet, runs) | chance)
    return Table(
        name=f"tempered-sigmoids-cluster-{dataset}",
        caption=(
            f"The best {sweep.count} of {len(sweep.triplets)} triplets on {DATASETS[dataset]}, by "
            f"their average{interval}. By chance: how often as many triplets, chosen blindly, lie "
            "as near as ours do to the triplet of the row, or in our row to each other."
            f"{_noise_said(sweep)} Computed on {reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "s": "{:.2f}",
            "T": "{:.2f}",
            "o": "{:.2f}",
            "median accuracy": "{:.2%}",
            CHANCE: "{:.1%}",
        },
    )


def _noise_said(sweep: Sweep) -> str:
    if math.isnan(sweep.noise):
        return ""
    height = ", trained again" if len(sweep.again) else ""
    return (
        f" A seed alone has a standard deviation of {100 * sweep.noise:.2f} points. "
        f"{sweep.rivals} of the other {len(sweep.triplets) - 1} triplets come within two of those "
        f"of the best one{height}."
    )


def _row(
    name: str, triplet: Sequence[float] | pd.Series, runs: pd.DataFrame | None = None
) -> dict[str, object]:
    accuracy = None if runs is None else runs.test_accuracy.median()
    return {"triplets": name, **dict(zip("sTo", triplet, strict=True)), "median accuracy": accuracy}


def _interval(name: str, drawn: np.ndarray) -> list[dict[str, object]]:
    low, high = np.percentile(drawn, (2.5, 97.5), axis=0)
    return [_row(f"{name}, from", low), _row(f"{name}, to", high)]


def _shown(triplet: Sequence[float] | pd.Series) -> str:
    return f"({', '.join(f'{value:.2f}' for value in triplet)})"
