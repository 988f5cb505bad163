"""What shows one dataset, shown for each, and what is stored of the experiments behind a page."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from math import nan
from statistics import fmean, median

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.lab.store import Result
from dpstudy.page.figure import Figure, Note, Several, Table, not_yet_run
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import Run

Shown = Figure | Table | Note
Draw = Callable[..., Shown]


def for_each_dataset(
    title: str, stored: Callable[[Reading], bool] = lambda reading: bool(reading.found)
) -> Callable[[Draw], Callable[..., Shown | Several]]:
    """Have a function of readings of one dataset called for each dataset of the first.

    The name of what it returns is extended by the dataset's; the first is open, the others are
    folded. Where the first reading does not have enough `stored` to draw, a note with its command
    stands, under the title; of several datasets, one note.
    """

    def decorate(draw: Draw) -> Callable[..., Shown | Several]:
        def of_one(*readings: Reading) -> Shown:
            if not stored(readings[0]):
                return not_yet_run(title, readings[0].command)
            shown = draw(*readings)
            if isinstance(shown, Note):
                return replace(shown, title=title)
            return replace(shown, name=f"{shown.name}-{readings[0].dataset_name}")

        @wraps(draw)
        def of_each(*readings: Reading) -> Shown | Several:
            about = readings[0]
            if about.profile == "smoke" or not stored(about):
                return of_one(*readings)
            datasets = about.experiment.datasets if about.dataset is None else (about.dataset,)
            shown = [of_one(*(one.on(dataset) for one in readings)) for dataset in datasets]
            return shown[0] if len(shown) == 1 else _folded(datasets, shown)

        return of_each

    return decorate


def _folded(datasets: tuple[str, ...], shown: list[Shown]) -> Several:
    drawn: dict[str, Shown] = {}
    notes: dict[str, Note] = {}  # of those that say the same one, with all their commands
    for dataset, one in zip(datasets, shown, strict=True):
        if not isinstance(one, Note):
            drawn[DATASETS[dataset]] = one
            continue
        before = notes.get(one.text, replace(one, command=""))
        commands = filter(None, (before.command, one.command))
        notes[one.text] = replace(one, command="\n".join(commands))
    titles = (*drawn, *(note.title for note in notes.values()))
    return Several((*drawn.values(), *notes.values()), titles)


def behind(*readings: Reading) -> Table:
    """Return a row an experiment and dataset: what is stored, and what a run takes.

    The caption names files that were left out because they are damaged.
    """
    pace = _pace(result for reading in readings for _, result in reading.found)
    rows = [
        _row(reading.on(dataset), pace)
        for reading in readings
        for dataset in dict.fromkeys(name for name, _ in reading.wanted)
    ]
    damaged = dict.fromkeys(line for reading in readings for line in reading.damaged)
    caption = (
        "The experiments behind this page. What is missing is trained by: dpstudy run EXPERIMENT "
        "--dataset DATASET. To train all of it yourself, let DPSTUDY_RESULTS name an empty folder. "
        "Minutes: the median of runs that had one CPU core each; the features that some are "
        "trained on take more, once. Hours left, of one core: by what runs of this page took an "
        "example, with the same images and network."
    ) + "".join(f" Left out: {line}." for line in damaged)
    formats = {"minutes a run": "{:.1f}", "hours left": "{:.1f}"}
    return Table(name="behind", caption=caption, data=pd.DataFrame(rows), formats=formats)


def _had_a_core(result: Result) -> bool:
    about = result.provenance
    return "CPU core " in about["device"] and about.get("cohort", 1) == 1


def _alike(run: Run) -> str:
    """Return what decides most how long an example takes."""
    return f"{run.dataset.name} {type(run.network).__name__}"


def _visited(run: Run) -> int:
    return run.epochs * run.dataset.examples


def _pace(results: Iterable[Result]) -> pd.Series:
    """Return the seconds that an example takes a core, the median by what is alike."""
    pace: dict[str, list[float]] = {}
    for one in results:
        if _had_a_core(one) and one.diverged_at is None and one.stopped is None:
            took = one.provenance["wall_seconds"] / _visited(one.run)
            pace.setdefault(_alike(one.run), []).append(took)
    return pd.Series({alike: median(took) for alike, took in pace.items()}, dtype=float)


def _hours_left(reading: Reading, pace: pd.Series) -> float:
    """Return the hours that the missing runs take; NaN where none is missing, or none is alike."""
    asked = [result.run for _, result in reading.found] + reading.missing
    hours = [pace.get(_alike(run), nan) * _visited(run) / 3600 for run in asked]
    # Each that is yet to be chosen takes what those that are chosen do.
    later = len(reading.undecided) * fmean(hours) if reading.undecided and hours else 0.0
    left = sum(hours[len(reading.found) :]) + later
    return left if reading.lacking else nan


def _row(reading: Reading, pace: pd.Series) -> dict[str, object]:
    took = [
        result.provenance["wall_seconds"] / 60 for _, result in reading.found if _had_a_core(result)
    ]
    return {
        "experiment": reading.experiment.name,
        "what it trains": reading.experiment.title,
        "dataset": DATASETS[reading.dataset],
        "stored": len(reading.found),
        "of": reading.needed,
        "minutes a run": pd.Series(took, dtype=float).median(),
        "hours left": _hours_left(reading, pace),
    }
