"""How the rules compare: the best of several variants, tolerances, levels, medians and spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dpstudy.ledger.evidence import Trained
from dpstudy.ledger.verdict import UndecidedError, Verdict, graded
from dpstudy.ledger.wording import Quantity

TEST_IMAGES = 10_000
SAME_LEVEL = 2.0
# Settings are printed to three digits, and grids made from them too: a share of their ratio.
ROUNDED = 0.01


def tolerance(*accuracies: float) -> float:
    """Return two binomial standard errors of an accuracy, or of the difference of two."""
    return 2 * math.sqrt(sum(p * (1 - p) for p in accuracies) / TEST_IMAGES)


def same_level(ratio: float, known_to: float = 0.0) -> Verdict:
    """Grade a ratio, known to a share: within `SAME_LEVEL` either way, partly within its square."""
    away = abs(math.log(ratio)) if ratio > 0 else math.inf
    edge = math.log(SAME_LEVEL)
    return graded(away <= edge + known_to, away <= 2 * edge + known_to)


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


def ratio_of(first: pd.Series, second: pd.Series, quantity: Quantity) -> float:
    """Return how many times as large the first median is as the second.

    Raises:
        UndecidedError: one of them is 0, that is, was not measured.
    """
    if min(first.median(), second.median()) <= 0:
        # Runs without clipping store norms of 0 unless asked to measure them.
        raise UndecidedError(f"a stored {quantity} is 0: it was not measured")
    return float(first.median() / second.median())


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
