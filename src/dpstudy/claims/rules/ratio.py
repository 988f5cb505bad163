"""The rule for how many times as large one variant's quantity is as another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import ClassVar

from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules.measures import (
    BY_INTERVALS,
    NEAR_LEVEL,
    OF_THE_GAIN,
    ONE_LEVEL,
    SAME_LEVEL,
    Sides,
    around,
)
from dpstudy.claims.rules.rule import Rule
from dpstudy.lab import wording
from dpstudy.lab.comparison import Estimate, Region
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome


@dataclass(frozen=True)
class Ratio(Rule):
    """A quantity is at one level in two variants, or larger by the published factor.

    Attributes:
        first: where it is larger.
        second: where it is smaller.
        quantity: what is compared.
        published: the factor, or two numbers whose ratio it is; none where both are at one level.
        at_least: whether more than the factor is agreement too.
    """

    first: Runs
    second: Runs
    quantity: Quantity
    published: tuple[Number, ...] = ()
    at_least: bool = False
    kind: ClassVar[str] = "ratio"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval of the ratio lies within a third of the published factor; where the paper "
        "says more than a factor, above it; where it calls both alike, within a factor of "
        f"{SAME_LEVEL:g} either way: no paper prints a spread."
    )
    partial: ClassVar[str] = "It lies above 1; alike: within the square of the factor."

    @property
    def numbers(self) -> tuple[Number, ...]:
        return self.published

    @property
    def stated(self) -> str:
        return f"{self._factor:.2g} times" if self.published else ""

    @property
    def _factor(self) -> float:
        first, *second = self.published
        return first.value / second[0].value if second else first.value

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        found = Sides.of(sides, self.quantity)
        ratio, regions = Estimate.ratio(found.first, found.second), self._regions()
        against = f", against {self.stated}" if self.published else ""
        return Outcome(
            ratio.verdict(*regions),
            f"Median {self.quantity.label} of {found.said}: {wording.of_times(ratio)}{against}.",
            ratio.summary("times") | found.summary,
            f"{ratio.value:.2g} times",
            close=ratio.is_close(*regions),
        )

    def _regions(self) -> tuple[Region, Region]:
        if not self.published:
            return ONE_LEVEL, NEAR_LEVEL
        if self.at_least:
            return (self._factor, inf), (1.0, inf)
        return around(self._factor, OF_THE_GAIN * self._factor), (1.0, inf)
