"""What a caption says: what is shown, over how many seeds, and what became of runs that failed.

What holds of every figure, such as what its epsilon is true for, is said in "How to read".
"""

from __future__ import annotations

import pandas as pd

from dpstudy.lab.store import CHANCE
from dpstudy.parts.data.images import DATASETS

# What becomes of a run that diverged: where accuracies are shown, and where norms are.
AT_CHANCE = f"at chance ({CHANCE:.0%}) from there on"
LEFT_OUT = "left out from there on"


def caption(
    shown: str,
    runs: pd.DataFrame,
    *more: str,
    fate: str = AT_CHANCE,
    over: str = "median and range over",
    seeds: str = "",
) -> str:
    """Return the caption of what shows some runs.

    Args:
        shown: what is shown, from a small letter on: the dataset comes before it, seeds after.
        runs: one row a run on one dataset, as in `Reading.finals`.
        more: sentences to add; empty ones are none.
        fate: what became of runs that diverged.
        over: what is shown of several seeds.
        seeds: how many, in words, where only some of the runs are shown.
    """
    seeds = seeds or seeds_of(runs)
    on = DATASETS[runs.dataset.iloc[0]]
    of = ", one seed each" if seeds == "1 seed" else f", {over} {seeds}"
    said = [f"{on}: {shown}{of}.", *more]
    said += [f"Diverged, and {fate}: {count}." for count in [int(runs.diverged.sum())] if count]
    said += [f"Given up on their way: {count}." for count in [int(runs.stopped.sum())] if count]
    return " ".join(filter(None, said))


def seeds_of(runs: pd.DataFrame) -> str:
    """Count the seeds behind each label, in words."""
    counts = runs.groupby("label").seed.nunique()
    low, high = counts.min(), counts.max()
    if low != high:
        return f"{low} to {high} seeds"
    return "1 seed" if low == 1 else f"{low} seeds"
