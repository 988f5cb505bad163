"""The experiments behind a page: how to train each again, how long that takes, what is missing."""

from __future__ import annotations

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import Table
from dpstudy.parts.data.images import DATASETS


def behind(*readings: Reading) -> Table:
    """Return a row an experiment and dataset: what is stored, and what a run takes.

    The caption names files that were left out because they are damaged.
    """
    rows = [_row(reading.on(dataset)) for reading in readings for dataset in _datasets(reading)]
    damaged = dict.fromkeys(line for reading in readings for line in reading.damaged)
    left_out = [f"Left out: {line}." for line in damaged]
    return Table(
        name="behind",
        caption=" ".join(
            [
                "The experiments behind this page. What is missing is trained by: dpstudy run",
                "EXPERIMENT --dataset DATASET. To train all of it yourself, let DPSTUDY_RESULTS",
                "name an empty folder. Minutes: the median of runs that had one CPU core each; the",
                "features that some are trained on take more, once.",
                *left_out,
            ]
        ),
        data=pd.DataFrame(rows),
        formats={"minutes a run": "{:.1f}"},
    )


def _datasets(reading: Reading) -> list[str]:
    runs = [*(result.run for _, result in reading.found), *reading.missing]
    names = [*(run.dataset.name for run in runs), *(name for name, _ in reading.undecided)]
    return list(dict.fromkeys(names))


def _row(reading: Reading) -> dict[str, object]:
    took = [
        result.provenance["wall_seconds"] / 60
        for _, result in reading.found
        if "CPU core " in result.provenance["device"] and result.provenance.get("cohort", 1) == 1
    ]
    return {
        "experiment": reading.experiment.name,
        "what it trains": reading.experiment.title,
        "dataset": DATASETS[reading.dataset],
        "stored": len(reading.found),
        "of": reading.needed,
        "minutes a run": pd.Series(took, dtype=float).median(),
    }
