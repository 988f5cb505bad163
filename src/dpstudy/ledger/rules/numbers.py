"""Rules for published numbers: a variant's own, and the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from dpstudy.ledger import wording
from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import (
    SAME_LEVEL,
    best,
    same_level,
    summaries,
    summary,
    tolerance,
)
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.rules.spending import require_enough_spent, require_no_more_spent, spent
from dpstudy.ledger.verdict import Outcome, graded
from dpstudy.ledger.wording import ACCURACY, Quantity


@dataclass(frozen=True)
class Value(Rule):
    """A variant's median over seeds is the published number.

    Attributes:
        variant: whose; the best of several.
        quantity: of the last epoch.
        epsilon: at which the number is published; None without privacy.
        at_least: for what a paper promises to reach: more than published is agreement too.
    """

    variant: Selector
    quantity: Quantity = ACCURACY
    epsilon: Number | None = None
    at_least: bool = False
    kind: ClassVar[str] = "value"
    full: ClassVar[str] = (
        "The median over seeds is the published number: accuracies within the tolerance, other "
        f"quantities within a factor of {SAME_LEVEL:g}. Where the paper promises to reach an "
        "accuracy, more is agreement too."
    )
    partial: ClassVar[str] = (
        "Within twice the tolerance, or with seeds on both sides of the published number; within "
        "the square of the factor."
    )
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [number], variant = published, best(sides[0], self.quantity)
        values = variant.values(self.quantity)
        if self.quantity != ACCURACY:
            return self._level(number, values)
        error, allowed = values.median() - number.value, tolerance(number.value)
        agrees = abs(error) <= allowed or (self.at_least and error > 0)
        near = abs(error) <= 2 * allowed or values.min() <= number.value <= values.max()
        if self.epsilon is not None:
            short = error < -allowed
            if short or (error <= allowed and not self.at_least):
                require_enough_spent(variant, self.epsilon)
            if not short or near:
                require_no_more_spent(variant, self.epsilon)
        return Outcome(
            graded(agrees, near),
            f"{wording.measured(values, self.quantity)}{wording.chosen(sides[0], variant)}: "
            f"{wording.points(error)} against {number}, tolerance {100 * allowed:.2f}"
            f"{spent(variant)}.",
            summary(values),
            f"{values.median():.2%}",
        )

    def _level(self, number: Number, values: pd.Series) -> Outcome:
        ratio = values.median() / number.value
        return Outcome(
            same_level(ratio),
            f"{wording.measured(values, self.quantity)}, {ratio:.2g} times the published {number}.",
            summary(values),
            f"{values.median():.3g}",
        )


@dataclass(frozen=True)
class Gap(Rule):
    """One variant is better than another by the difference of two published accuracies.

    Attributes:
        above: the better one; the best of several.
        below: the other.
        epsilon: at which both are published; None without privacy.
        at_least: for a promised improvement: more than published is agreement too.
    """

    above: Selector
    below: Selector
    epsilon: Number | None = None
    at_least: bool = False
    kind: ClassVar[str] = "gap"
    full: ClassVar[str] = (
        "The medians differ as the published numbers do, within the tolerance; where the "
        "paper promises an improvement, more is agreement too."
    )
    partial: ClassVar[str] = "The medians differ in the published direction."
    numbers: ClassVar[tuple[int, ...]] = (2,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, ACCURACY) for side in sides)
        for variant in (above, below) if self.epsilon is not None else ():
            if variant.run.private:
                require_enough_spent(variant, self.epsilon)
                require_no_more_spent(variant, self.epsilon)
        better, worse = (variant.values(ACCURACY) for variant in (above, below))
        ours, stated = better.median() - worse.median(), published[0].value - published[1].value
        allowed = tolerance(*(number.value for number in published))
        agrees = abs(ours - stated) <= allowed or (self.at_least and ours > stated)
        return Outcome(
            graded(agrees, ours * stated > 0),
            f"{wording.between(above, below, ACCURACY)}: {wording.points(ours)} against "
            f"{wording.points(stated)}, tolerance {100 * allowed:.2f}.",
            {"difference": float(ours), **summaries(better, worse)},
            wording.points(ours),
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        digits = max(number.decimals for number in published) - 2
        return wording.points(published[0].value - published[1].value, max(1, digits))
