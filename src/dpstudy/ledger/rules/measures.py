"""How the rules compare: the best of several variants, tolerances, levels, medians and spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dpstudy.ledger.estimate import Estimate, Region
from dpstudy.ledger.evidence import Trained
from dpstudy.ledger.verdict import UndecidedError, Verdict, graded
from dpstudy.ledger.wording import Quantity

SAME_LEVEL = 2.0
# Settings are printed to three digits, and grids made from them too: a share of their ratio.
ROUNDED = 0.01
# What is called the same accuracy: within a point, or a fifth of the error where that is less.
ONE_POINT, OF_THE_ERROR = 0.01, 0.2
# What is called the same gain: within a third of the published one.
OF_THE_GAIN = 1 / 3


def tolerance(accuracy: float) -> float:
    """Return how far from an accuracy another is still the same."""
    return min(ONE_POINT, OF_THE_ERROR * (1 - accuracy))


def around(value: float, allowed: float, *, at_least: bool = False) -> Region:
    """Return the region within a tolerance of a value; all above it too, for what is promised."""
    return value - allowed, math.inf if at_least else value + allowed


def same_level(ratio: float, known_to: float = 0.0) -> Verdict:
    """Grade a ratio, known to a share: within `SAME_LEVEL` either way, partly within its square."""
    away = abs(math.log(ratio)) if ratio > 0 else math.inf
    edge = math.log(SAME_LEVEL)
    return graded(away <= edge + known_to, away <= 2 * edge + known_to)


def level(estimate: Estimate) -> Verdict:
    """Grade the estimate of a ratio likewise, by its whole interval."""
    edge = SAME_LEVEL
    return estimate.verdict((1 / edge, edge), (1 / edge**2, edge**2))


def best(variants: Sequence[Trained], quantity: Quantity) -> Trained:
    """Return the variant with the highest median over seeds of a quantity."""
    return max(variants, key=lambda variant: variant.values(quantity).median())


def only(variants: Sequence[Trained]) -> Sequence[Trained]:
    """Return the one variant, as a list.

    Raises:
        UndecidedError: there are several.
    """
    if len(variants) > 1:
        labels = ", ".join(variant.label for variant in variants)
        raise UndecidedError(f"the rule takes one variant, and got {labels}")
    return variants


def summary(values: pd.Series) -> dict[str, float]:
    """Return the median and the spread of a quantity over seeds, for the ledger."""
    found = {"median": values.median(), "lowest": values.min(), "highest": values.max()}
    return {name: float(value) for name, value in found.items()}


def summaries(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Return the summaries of two variants, each number named after its variant."""
    named = {"first": first, "second": second}
    return {
        f"{which}_{name}": value
        for which, values in named.items()
        for name, value in summary(values).items()
    }
