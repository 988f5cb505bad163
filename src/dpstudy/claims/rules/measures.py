"""How the rules compare: the best of several variants, two sides, tolerances and levels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import pandas as pd

from dpstudy.lab import wording
from dpstudy.lab.comparison import Region
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant

SAME_LEVEL = 2.0
# What is called the same accuracy: within a point, or a fifth of the error where that is less.
ONE_POINT, OF_THE_ERROR = 0.01, 0.2
# What is called the same gain: within a third of the published one.
OF_THE_GAIN = 1 / 3
# Since then seeds decide by 95 % intervals, with these tolerances.
BY_INTERVALS = datetime.fromisoformat("2026-11-24T18:03+00:00")

ABOVE: Region = (0.0, math.inf)
ONE_LEVEL: Region = (1 / SAME_LEVEL, SAME_LEVEL)
NEAR_LEVEL: Region = (1 / SAME_LEVEL**2, SAME_LEVEL**2)


def tolerance(accuracy: float) -> float:
    """Return how far from an accuracy another is still the same."""
    return min(ONE_POINT, OF_THE_ERROR * (1 - accuracy))


def around(value: float, allowed: float, *, at_least: bool = False) -> Region:
    """Return the region within a tolerance of a value; all above it too, for what is promised."""
    return value - allowed, math.inf if at_least else value + allowed


def best(variants: Sequence[Variant], quantity: Quantity = ACCURACY) -> Variant:
    """Return the variant with the highest median over seeds of a quantity."""
    if len(variants) == 1:  # What is compared may be no column: one class of a confusion matrix.
        return variants[0]
    return max(variants, key=lambda variant: variant.values(quantity.column).median())


def summary(values: pd.Series, prefix: str = "") -> dict[str, float]:
    """Return the median and the spread of a quantity over seeds, for the ledger."""
    found = {"median": values.median(), "lowest": values.min(), "highest": values.max()}
    return {f"{prefix}{name}": float(value) for name, value in found.items()}


@dataclass(frozen=True)
class Sides:
    """A quantity of the two sides of a comparison, the best of each, by seed and in words."""

    variants: tuple[Variant, Variant]
    first: pd.Series
    second: pd.Series
    said: str

    @classmethod
    def of(cls, sides: Sequence[Sequence[Variant]], quantity: Quantity = ACCURACY) -> Self:
        """Return the two sides of what a rule decides on.

        Raises:
            UndecidedError: the runs did not record it, or one diverged and has none.
        """
        one, other = (best(side, quantity) for side in sides)
        values = quantity.of(one, other)
        said = " and ".join(
            f"{name} {wording.spread(of, quantity)}"
            for name, of in zip(quantity.named(one, other), values, strict=True)
        )
        return cls((one, other), *values, said)

    @property
    def summary(self) -> dict[str, float]:
        """The summaries of both, for the ledger."""
        return summary(self.first, "first_") | summary(self.second, "second_")
