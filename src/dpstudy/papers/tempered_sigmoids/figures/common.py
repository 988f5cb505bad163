"""What the figures of chapter 2 share: names, styles, and what a caption says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TypeVar

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from dpstudy.lab.readings import CHANCE, Reading
from dpstudy.ledger.published import Accuracy
from dpstudy.ledger.wording import points
from dpstudy.page.figure import STYLES, Figure, Note, Several, Table
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.parts.images import DATASETS
from dpstudy.parts.run import setting

Drawn = TypeVar("Drawn", bound=Figure | Table | Note)

# What becomes of a run that diverged, where accuracies are shown; where norms are, it is left out.
AT_CHANCE = f"at chance ({CHANCE:.0%}) from there on"
LEFT_OUT = "left out from there on"
STYLE = {"relu": STYLES[1], "tanh": STYLES[0]}


def for_each_dataset(draw: Callable[..., Drawn]) -> Callable[..., Drawn | Several]:
    """Have what shows one dataset drawn once for each, where readings of all are given.

    The first is open, the others are folded.

    Where nothing is stored of any dataset, one note says so.
    """

    @wraps(draw)
    def drawn(*readings: Reading) -> Drawn | Several:
        first = readings[0]
        whole = first.dataset is None and first.profile == "full"
        datasets = first.experiment.datasets if whole else ()
        if len(datasets) < 2 or not any(reading.found for reading in readings):
            return draw(*readings)
        shown = [draw(*(reading.on(dataset) for reading in readings)) for dataset in datasets]
        drawn_of = [
            DATASETS[dataset]
            for dataset, one in zip(datasets, shown, strict=True)
            if not isinstance(one, Note)
        ]
        parts = _together(shown)
        notes = [one.title for one in parts if isinstance(one, Note)]
        return Several((*parts,), (*drawn_of, *notes))

    return drawn


def _together(shown: list[Drawn]) -> list[Drawn]:
    """Make one of the notes that say the same, with all their commands."""
    notes = [one for one in shown if isinstance(one, Note)]
    kept = {one.text: one for one in reversed(notes)}
    for note in kept.values():
        commands = [one.command for one in notes if one.text == note.text]
        kept[note.text] = replace(note, command="\n".join(filter(None, commands)))
    figures = [one for one in shown if not isinstance(one, Note)]
    return [*figures, *reversed(kept.values())]


@dataclass(frozen=True)
class Lead:
    """How far one variant's accuracies are above another's.

    Attributes:
        gain: the difference of the medians.
        certain: whether every seed of the first is above every seed of the second.
        behind: whether every seed is below.
        seeds: of the one with fewer.
    """

    gain: float
    certain: bool
    behind: bool
    seeds: int

    @classmethod
    def of(cls, above: pd.Series, below: pd.Series) -> Lead:
        """Compare the last accuracies of two variants, one a seed."""
        apart = above.min() > below.max(), above.max() < below.min()
        return cls(above.median() - below.median(), *apart, min(len(above), len(below)))

    def __str__(self) -> str:
        if self.seeds == 1:
            return f"{points(self.gain)} with one seed"
        where = "the seeds overlap"
        if self.certain or self.behind:
            where = f"every seed {'above' if self.certain else 'below'}"
        return f"{points(self.gain)} in the median, {where}"


def over_seeds(accuracy: pd.Series) -> dict[str, float]:
    """Return the columns of a table that hold some accuracies, one a seed."""
    return {
        "median": accuracy.median(),
        "minimum": accuracy.min(),
        "maximum": accuracy.max(),
        "seeds": len(accuracy),
    }


def dataset_of(reading: Reading) -> str:
    """Return the dataset of a reading's first stored run."""
    return reading.found[0][1].run.dataset.name


def finals_with(reading: Reading, *settings: str) -> pd.DataFrame:
    """Return one row a run: its last epoch, and the given fields of its run; of parts, the kind."""
    runs = [result.run for _, result in reading.found]
    columns = {name: [setting(run, name) for run in runs] for name in settings}
    return reading.finals.assign(
        **{name: [getattr(value, "kind", value) for value in of] for name, of in columns.items()}
    )


def logarithmic(axes: Axes, form: str | Callable[[float, int | None], str] = "{x:g}") -> None:
    """Make the vertical axis logarithmic, with few ticks, shown as `form` says."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(form)
    axes.yaxis.set_minor_formatter(NullFormatter())


def of_test_error(axes: Axes) -> None:
    """Make the vertical axis one of test errors, logarithmic, the best at the top."""
    axes.set_ylabel("test error, best at the top")
    # With the digits that each tick has: within a decade they lie at such as 2.25 %.
    logarithmic(axes, lambda error, _: f"{100 * error:.4g}%")
    axes.invert_yaxis()


def logarithmic_settings(axes: Axes) -> None:
    """Make the horizontal axis, of a setting, logarithmic, with few ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def published_accuracy(dataset: str, method: str) -> Accuracy | None:
    """Return what the paper states for a method on a dataset; None if it states nothing."""
    for value in published.ACCURACIES:
        if (value.dataset, value.method) == (dataset, method):
            return value
    return None


def diverged(dataset: str, *readings: Reading, fate: str = AT_CHANCE) -> str:
    """Say how many runs diverged, and what became of them; nothing if none did."""
    results = [result for reading in readings for _, result in reading.found]
    failed = sum(r.diverged_at is not None for r in results if r.run.dataset.name == dataset)
    return f" Diverged, and {fate}: {failed}." if failed else ""


def until(rows: pd.DataFrame, reading: Reading) -> str:
    """Say that a curve stops early, with the last run behind it; nothing if it does not."""
    reached = rows.epoch.max()
    stops = reached < max(result.run.epochs for _, result in reading.found)
    return f" after epoch {reached:g}, where the last of its runs diverged" if stops else ""


def warnings_of(*readings: Reading) -> Note | None:
    """Return a note that names stored files left out and runs missing; None if there are none."""
    lines = [f"Left out: {line}." for reading in readings for line in reading.damaged]
    # Where nothing at all is stored, what stands in place of each figure says so.
    if any(reading.found for reading in readings):
        lines += [
            f"Not yet run: {reading.lacking} of the {reading.needed} runs of "
            f"{reading.experiment.name} ({reading.command})."
            for reading in readings
            if reading.lacking
        ]
    return Note("Incomplete", " ".join(dict.fromkeys(lines))) if lines else None


def seeds_of(curves: pd.DataFrame) -> str:
    """Count the seeds behind a figure, in words."""
    counts = curves.groupby("label").seed.nunique()
    low, high = counts.min(), counts.max()
    if low != high:
        return f"{low} to {high} seeds"
    return "1 seed" if low == 1 else f"{low} seeds"


def spending_of(reading: Reading) -> str:
    """Say at what delta, and between what datasets, the epsilon of Poisson sampling is stated."""
    delta = reading.found[0][1].run.delta
    return f"ε at δ = {delta:g}, for one example added or removed"
