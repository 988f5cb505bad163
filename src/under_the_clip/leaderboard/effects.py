"""The factorial: what each remedy gains on its own, and whether two gain more or less together."""

import warnings
from collections.abc import Mapping
from functools import reduce
from itertools import combinations, product
from operator import mul
from typing import TypeAlias

import pandas as pd
from scipy import stats

from dpstudy.lab.comparison import CONFIDENCE
from dpstudy.lab.readings import Reading
from dpstudy.lab.verdict import UndecidedError
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

    A linear mixed model with the factors, what they do in twos and all together, and seeds as the
    random effect, by statsmodels. Levels are coded so that a factor's effect is its mean over the
    other factors' levels, and a pair's the difference that the second makes to the first's,
    likewise. The intervals of all effects hold together with 95 % confidence (Bonferroni).

    The `data` are of `cells`, each with the same seeds, and differ in `factors`. UndecidedError
    where the model could not be fitted.
    """
    from statsmodels.formula.api import mixedlm

    design = _design(data, factors)
    named = {f"x{number}": name for number, name in enumerate(design)}
    table = design.set_axis(list(named), axis=1).assign(points=data.points, seed=data.seed)
    with warnings.catch_warnings():
        # Of three seeds the variance between them may come out as 0, where gradients end.
        warnings.simplefilter("ignore")
        model = mixedlm(f"points ~ {' + '.join(named)}", table, groups="seed")
        fit = model.fit(method="powell")
    if not fit.converged:
        raise UndecidedError("the mixed model did not converge")
    # By Student's t: the model's own intervals are normal.
    left = len(table) - table.seed.nunique() - len(named)
    wide = stats.t.isf((1 - CONFIDENCE) / len(named) / 2, left)
    low, high = (fit.params + sign * wide * fit.bse for sign in (-1, 1))
    found = pd.DataFrame({"points": fit.params, "low": low, "high": high}).loc[list(named)]
    return found.rename(named).rename_axis("remedy").reset_index()


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
