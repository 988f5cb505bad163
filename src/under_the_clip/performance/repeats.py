"""Runs that were trained twice, on two machines: how far rounding alone takes a run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpstudy.lab import store
from dpstudy.lab.store import Result
from dpstudy.page.figure import Note, Table
from dpstudy.parts.data.images import DATASETS


def repeats() -> Table | Note:
    """Return how far apart the two trainings of each run that was trained twice are."""
    again, _ = store.read_all(store.results_folder() / "repeats")
    first, _ = store.read_all(store.runs_folder(), again)
    rows = [_row(first[name], again[name]) for name in sorted(again) if name in first]
    if not rows:
        return Note("Repeats", "No run is stored twice.")
    data = pd.DataFrame(rows).sort_values(["dataset", "private", "seed"], ignore_index=True)
    most = 100 * data["most apart"].max()
    return Table(
        name="repeats",
        caption=(
            f"{len(data)} runs trained twice, from the same seed: test accuracy at the last epoch, "
            f"and the most that the two differ after any epoch. At most {most:.2f} points."
        ),
        data=data,
        formats={
            "first": "{:.2%}",
            "again": "{:.2%}",
            "most apart": lambda apart: f"{100 * apart:.2f} points",
        },
    )


def _row(first: Result, again: Result) -> dict[str, object]:
    curves = (np.array(one.curve["test_accuracy"]) for one in (first, again))
    run = first.run
    return {
        "dataset": DATASETS[run.dataset.name],
        "private": "yes" if run.private else "no",
        "seed": run.seed,
        "first": first.curve["test_accuracy"][-1],
        "again": again.curve["test_accuracy"][-1],
        "most apart": float(np.max(np.abs(np.subtract(*curves)))),
        "machines": " and ".join(dict.fromkeys(one.provenance["device"] for one in (first, again))),
    }
