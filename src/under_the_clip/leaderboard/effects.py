"""The factorial: what each remedy gains on its own, and whether two gain more or less together."""

from collections.abc import Mapping
from functools import reduce
from itertools import combinations, product
from operator import mul
from typing import TypeAlias

import numpy as np
import pandas as pd

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from under_the_clip.leaderboard.experiments import ACTIVATIONS, CELLS, LOSSES, MECHANISMS, label_of

Factors: TypeAlias = Mapping[str, tuple[str, ...]]

FACTORS = {"activation": ACTIVATIONS, "loss": LOSSES, "mechanism": tuple(MECHANISMS)}


def cells(reading: Reading) -> pd.DataFrame:
    """Return one row a run: its factors, its seed and its accuracy in points."""
    of = {label_of(cell): cell for cell in CELLS}
    return pd.DataFrame(
        [
            dict(zip(FACTORS, of[row.label], strict=True))
            | {"seed": row.seed, "points": 100 * row.test_accuracy}
            for row in reading.finals.itertuples()
            if row.label in of
        ]
    )


def is_whole(data: pd.DataFrame) -> bool:
    """Return whether every cell is there, all with the same seeds, two or more."""
    if data.empty:
        return False
    seeds = data.groupby(list(FACTORS)).seed.agg(frozenset)
    return len(seeds) == len(CELLS) and seeds.nunique() == 1 and len(seeds.iloc[0]) > 1


def whole(reading: Reading) -> bool:
    """Return whether the factorial of a dataset is stored whole."""
    return is_whole(cells(reading))


def effects(data: pd.DataFrame, factors: Factors = FACTORS) -> pd.DataFrame:
    """Return what each level gains over the first of its factor, and each pair beyond its two.

    A factor's effect is its mean over the other factors' levels, and a pair's the difference that
    the second makes to the first's, likewise. Each seed, which starts and draws alike in all cells,
    gives effects of its own, by least squares, and their spread the interval: cells differ too much
    in theirs to share one variance.

    The `data` are of `cells`, each with the same seeds, and differ in `factors`.
    """
    by_seed = {
        seed: np.linalg.lstsq(_design(of, factors), of.points - of.points.mean())[0]
        for seed, of in data.groupby("seed")
    }
    named = pd.DataFrame(by_seed, index=_design(data, factors).columns)
    found = {name: Estimate.mean(gained) for name, gained in named.iterrows()}
    return pd.DataFrame(
        [
            {"remedy": name, "points": of.value, "low": of.low, "high": of.high}
            for name, of in found.items()
        ]
    )


def _design(data: pd.DataFrame, factors: Factors) -> pd.DataFrame:
    """Return a column for each level but the first of its factor, and for their products."""
    # Apart by one, and with a mean of 0 over the levels: then effects are averages.
    is_level = {
        level: (data[factor] == level).astype(float)
        for factor, levels in factors.items()
        for level in levels[1:]
    }
    columns = {level: column - column.mean() for level, column in is_level.items()}
    combined = (
        levels
        for count in range(1, len(factors) + 1)
        for together in combinations(factors, count)
        for levels in product(*(factors[factor][1:] for factor in together))
    )
    return pd.DataFrame(
        {
            " × ".join(levels): reduce(mul, (columns[level] for level in levels))
            for levels in combined
        }
    )


def under(data: pd.DataFrame, mechanism: str) -> pd.DataFrame:
    """Return the effects under one mechanism, its columns named by it."""
    others = {name: levels for name, levels in FACTORS.items() if name != "mechanism"}
    found = effects(data[data.mechanism == mechanism].reset_index(drop=True), others)
    ends = {"points": mechanism, "low": f"{mechanism}_low", "high": f"{mechanism}_high"}
    return found.set_index("remedy").rename(columns=ends)
