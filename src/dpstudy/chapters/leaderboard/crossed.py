"""The factorial: what each remedy gains on its own, and whether two gain more or less together."""

from __future__ import annotations

import warnings

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.ledger.estimate import CONFIDENCE
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


def effects(data: pd.DataFrame) -> pd.DataFrame:
    """Return what each level gains over the first of its factor, and each pair beyond its two.

    A linear mixed model with the factors, their pairs, and seeds as the random effect, by
    statsmodels. Levels are coded so that a factor's effect is its mean over the other factors'
    levels, and a pair's the difference that the second makes to the first's, likewise.

    Args:
        data: of `cells`, each cell with the same seeds.
    """
    from statsmodels.formula.api import mixedlm

    columns = {}
    for factor, (_, *others) in FACTORS.items():
        for level in others:
            # Apart by one, and with a mean of 0 over the levels: then effects are averages.
            is_level = (data[factor] == level).astype(float)
            columns[level] = is_level - is_level.mean()
    design = pd.DataFrame(columns)
    factor_of = {level: factor for factor, levels in FACTORS.items() for level in levels}
    for at, first in enumerate(columns):
        for second in list(columns)[at + 1 :]:
            if factor_of[first] != factor_of[second]:
                design[f"{first} × {second}"] = design[first] * design[second]
    named = {f"x{number}": name for number, name in enumerate(design)}
    table = design.set_axis(list(named), axis=1).assign(points=data.points, seed=data.seed)
    with warnings.catch_warnings():
        # Of three seeds the variance between them may come out as 0.
        warnings.simplefilter("ignore")
        fit = mixedlm(f"points ~ {' + '.join(named)}", table, groups="seed").fit()
    interval = fit.conf_int(1 - CONFIDENCE)
    return pd.DataFrame(
        {
            "remedy": list(named.values()),
            "points": [fit.params[x] for x in named],
            "low": [interval.loc[x, 0] for x in named],
            "high": [interval.loc[x, 1] for x in named],
        }
    )


@for_each_dataset("The factorial: alone")
def alone(reading: Reading) -> Table | Note:
    """Return what each remedy gains, as a mean over those that it is crossed with."""
    return _table(
        reading,
        False,
        "points gained over relu, cross-entropy and flat clipping, each a mean over the other "
        "factors",
    )


@for_each_dataset("The factorial: in pairs")
def in_pairs(reading: Reading) -> Table | Note:
    """Return what two remedies gain together beyond the sum of both."""
    return _table(
        reading,
        True,
        "points that two remedies gain together beyond the sum of both. Below 0 they are in part "
        "the same remedy twice",
    )


def _table(reading: Reading, pairs: bool, said: str) -> Table | Note:
    data = cells(reading)
    if len(data) < 2 * len(CELLS) or data.groupby(list(FACTORS)).seed.nunique().nunique() > 1:
        return Note("The factorial", "Not every cell has its seeds yet.")
    found = effects(data)
    return Table(
        name=f"factorial-{'pairs' if pairs else 'alone'}",
        caption=f"{DATASETS[dataset_of(reading)]}: {said}, with 95 % intervals.",
        data=found[found.remedy.str.contains("×") == pairs],
        formats=dict.fromkeys(("points", "low", "high"), "{:+.2f}"),
        merged={"points": "{points} ({low} to {high})"},
    )
