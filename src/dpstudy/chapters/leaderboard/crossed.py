"""The factorial: what each remedy gains on its own, and whether two gain more or less together."""

from __future__ import annotations

import warnings
from functools import reduce
from itertools import combinations, product
from operator import mul

import pandas as pd
from scipy import stats

from dpstudy.lab.readings import Reading
from dpstudy.ledger.estimate import CONFIDENCE
from dpstudy.ledger.verdict import UndecidedError
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Note, Table
from dpstudy.page.lines import dataset_of
from dpstudy.papers.across.factorial import ACTIVATIONS, CELLS, LOSSES, MECHANISMS, label_of
from dpstudy.parts.images import DATASETS

FACTORS = {"activation": ACTIVATIONS, "loss": LOSSES, "mechanism": tuple(MECHANISMS)}


def cells(reading: Reading) -> pd.DataFrame:
    """Return one row a run: its factors, its seed and its accuracy in points."""
    of = {label_of(cell): cell for cell in CELLS}
    finals = reading.finals
    rows = finals[finals.label.isin(of)] if len(finals) else finals
    return pd.DataFrame(
        [
            dict(zip(FACTORS, of[row.label], strict=True))
            | {"seed": row.seed, "points": 100 * row.test_accuracy}
            for row in rows.itertuples()
        ]
    )


def is_whole(data: pd.DataFrame) -> bool:
    """Return whether every cell is there, all with the same seeds, two or more."""
    if data.empty:
        return False
    seeds = data.groupby(list(FACTORS)).seed.agg(frozenset)
    return len(seeds) == len(CELLS) and seeds.nunique() == 1 and len(seeds.iloc[0]) > 1


def effects(data: pd.DataFrame) -> pd.DataFrame:
    """Return what each level gains over the first of its factor, and each pair beyond its two.

    A linear mixed model with the factors, what they do in twos and all together, and seeds as the
    random effect, by statsmodels. Levels are coded so that a factor's effect is its mean over the
    other factors' levels, and a pair's the difference that the second makes to the first's,
    likewise. The intervals of all effects hold together with 95 % confidence (Bonferroni).

    Args:
        data: of `cells`, each cell with the same seeds.

    Raises:
        UndecidedError: the model could not be fitted.
    """
    from statsmodels.formula.api import mixedlm

    design = _design(data)
    named = {f"x{number}": name for number, name in enumerate(design)}
    table = design.set_axis(list(named), axis=1).assign(points=data.points, seed=data.seed)
    with warnings.catch_warnings():
        # Of three seeds the variance between them may come out as 0.
        warnings.simplefilter("ignore")
        fit = mixedlm(f"points ~ {' + '.join(named)}", table, groups="seed").fit()
    if not fit.converged:
        raise UndecidedError("the mixed model did not converge")
    # By Student's t: the model's own intervals are normal.
    left = len(table) - table.seed.nunique() - len(named)
    wide = stats.t.isf((1 - CONFIDENCE) / len(named) / 2, left)
    low, high = (fit.params + sign * wide * fit.bse for sign in (-1, 1))
    return pd.DataFrame(
        {
            "remedy": list(named.values()),
            "points": [fit.params[x] for x in named],
            "low": [low[x] for x in named],
            "high": [high[x] for x in named],
        }
    )


def _design(data: pd.DataFrame) -> pd.DataFrame:
    """Return a column for each level but the first of its factor, and for their products."""
    # Apart by one, and with a mean of 0 over the levels: then effects are averages.
    is_level = {
        level: (data[factor] == level).astype(float)
        for factor, levels in FACTORS.items()
        for level in levels[1:]
    }
    columns = {level: column - column.mean() for level, column in is_level.items()}
    combined = (
        levels
        for count in range(1, len(FACTORS) + 1)
        for factors in combinations(FACTORS, count)
        for levels in product(*(FACTORS[factor][1:] for factor in factors))
    )
    return pd.DataFrame(
        {
            " × ".join(levels): reduce(mul, (columns[level] for level in levels))
            for levels in combined
        }
    )


@for_each_dataset("The factorial: alone")
def alone(reading: Reading) -> Table | Note:
    """Return what each remedy gains, as a mean over those that it is crossed with."""
    return _table(
        reading,
        1,
        "points gained over relu, cross-entropy and flat clipping, each a mean over the other "
        "factors",
    )


@for_each_dataset("The factorial: in pairs")
def in_pairs(reading: Reading) -> Table | Note:
    """Return what two remedies gain together beyond the sum of both."""
    return _table(
        reading,
        2,
        "points that two remedies gain together beyond the sum of both. Below 0 they are in part "
        "the same remedy twice, if each of them gains alone",
    )


def _table(reading: Reading, together: int, said: str) -> Table | Note:
    """Return the effects of so many remedies together, once every cell has its seeds."""
    data = cells(reading)
    if not is_whole(data):
        return Note("The factorial", "Not every cell has its seeds yet.")
    try:
        found = effects(data)
    except UndecidedError as error:
        return Note("The factorial", f"No effects: {error}.")
    return Table(
        name=f"factorial-{'alone' if together == 1 else 'pairs'}",
        caption=(
            f"{DATASETS[dataset_of(reading)]}: {said}. The intervals of all effects hold together "
            "with 95 % confidence."
        ),
        data=found[found.remedy.str.count("×") == together - 1],
        formats=dict.fromkeys(("points", "low", "high"), "{:+.2f}"),
        merged={"points": "{points} ({low} to {high})"},
    )
