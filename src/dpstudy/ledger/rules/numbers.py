"""Rules for published numbers: a variant's own, and the difference of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from dpstudy.ledger import wording
from dpstudy.ledger.estimate import Estimate
from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import (
    OF_THE_GAIN,
    SAME_LEVEL,
    around,
    best,
    level,
    summaries,
    summary,
    tolerance,
)
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.rules.spending import require_enough_spent, require_no_more_spent, spent
from dpstudy.ledger.verdict import Outcome, Verdict
from dpstudy.ledger.wording import ACCURACY, Quantity


@dataclass(frozen=True)
class Value(Rule):
    """A variant's mean over seeds is the published number.

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
        "The 95 % interval over seeds lies within the tolerance of the published accuracy: a "
        f"point, or a fifth of the error where that is less. Other quantities: within a factor of "
        f"{SAME_LEVEL:g}. Where the paper promises to reach an accuracy, more is agreement too."
    )
    partial: ClassVar[str] = "Within twice the tolerance; within the square of the factor."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [number], variant = published, best(sides[0], self.quantity)
        values = variant.values(self.quantity)
        if self.quantity != ACCURACY:
            return self._level(number, values)
        allowed = tolerance(number.value)
        estimate = Estimate.mean(values)
        error = estimate.moved(by=number.value)
        once, twice = (around(0, of, at_least=self.at_least) for of in (allowed, 2 * allowed))
        verdict = error.verdict(once, twice)
        if self.epsilon is not None:
            short = error.low <= -allowed
            if short or (error.value <= allowed and not self.at_least):
                require_enough_spent(variant, self.epsilon)
            if verdict != Verdict.NOT_REPRODUCED or error.value > 0:
                require_no_more_spent(variant, self.epsilon)
        return Outcome(
            verdict,
            f"{wording.measured(values, self.quantity)}{wording.chosen(sides[0], variant)}: "
            f"{wording.of_accuracies(error)} against {number}, tolerance {100 * allowed:.2f}"
            f"{spent(variant)}.",
            summary(values) | error.summary("difference"),
            f"{values.median():.2%}",
        )

    def _level(self, number: Number, values: pd.Series) -> Outcome:
        estimate = Estimate.ratio(values, pd.Series(number.value, values.index))
        return Outcome(
            level(estimate),
            f"{wording.measured(values, self.quantity)}, {wording.of_times(estimate)} the "
            f"published {number}.",
            summary(values) | estimate.summary("times"),
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
        "The 95 % interval of the difference, paired by seed, lies within a third of the published "
        "one; where the paper promises an improvement, more is agreement too."
    )
    partial: ClassVar[str] = "The whole interval has the published sign."
    numbers: ClassVar[tuple[int, ...]] = (2,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, ACCURACY) for side in sides)
        for variant in (above, below) if self.epsilon is not None else ():
            if variant.run.private:
                require_enough_spent(variant, self.epsilon)
                require_no_more_spent(variant, self.epsilon)
        better, worse = (variant.values(ACCURACY) for variant in (above, below))
        ours = Estimate.difference(better, worse)
        stated = published[0].value - published[1].value
        allowed = OF_THE_GAIN * stated
        return Outcome(
            ours.verdict(around(stated, allowed, at_least=self.at_least), (0.0, math.inf)),
            f"{wording.between(above, below, ACCURACY)}: {wording.of_accuracies(ours)} against "
            f"{wording.points(stated)}, tolerance {100 * allowed:.2f}.",
            ours.summary("difference") | summaries(better, worse),
            wording.points(ours.value),
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        digits = max(number.decimals for number in published) - 2
        return wording.points(published[0].value - published[1].value, max(1, digits))
