"""The rules for a published accuracy: that of a run, and the largest of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules.measures import BY_INTERVALS, around, best, summary, tolerance
from dpstudy.claims.rules.rule import Rule
from dpstudy.claims.rules.spending import require_enough_spent, require_no_more_spent, spent
from dpstudy.lab import wording
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Value(Rule):
    """A variant's mean test accuracy over seeds, at its end or earlier, is the published one.

    Attributes:
        published: the accuracy.
        runs: whose; the best of several.
        epsilon: at which it is published; None without privacy.
        at_least: for what a paper promises to reach: more than published is agreement too.
        quantity: the test accuracy, or that within an epsilon, which then is not asked for again.
    """

    published: Number
    runs: Runs
    epsilon: Number | None = None
    at_least: bool = False
    quantity: Quantity = ACCURACY
    kind: ClassVar[str] = "value"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval lies within the tolerance of the published accuracy; where the paper "
        "promises to reach it, more is agreement too."
    )
    partial: ClassVar[str] = "Within twice the tolerance."

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (self.published,)

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        trained = best(sides[0], self.quantity)
        values, _ = self.quantity.of(trained, trained)
        allowed = tolerance(self.published.value)
        error = Estimate.mean(values).moved(by=self.published.value)
        once, twice = (around(0, of, at_least=self.at_least) for of in (allowed, 2 * allowed))
        verdict = error.verdict(once, twice)
        if self.epsilon is not None:
            if error.low <= -allowed or (error.value <= allowed and not self.at_least):
                require_enough_spent(trained, self.epsilon)
            if verdict != Verdict.NOT_REPRODUCED or error.value > 0:
                require_no_more_spent(trained, self.epsilon)
        return Outcome(
            verdict,
            f"Median {self.quantity.label} of {trained.label} "
            f"{wording.spread(values, self.quantity)}: "
            f"{wording.of_accuracies(error)} against {self.published}, tolerance "
            f"{100 * allowed:.2f}{spent(trained) if self.quantity == ACCURACY else ''}.",
            summary(values) | error.summary("difference"),
            f"{values.median():.2%}",
            close=error.is_close(once, twice),
        )


@dataclass(frozen=True)
class Largest(Rule):
    """The published accuracy is the largest of several runs, as many further seeds would have it.

    Attributes:
        published: the accuracy.
        runs: whose.
        of: how many runs the paper has.
        at_least: for what a paper promises to reach: more than published is agreement too.
        quantity: the test accuracy, at the end or within an epsilon.
    """

    published: Number
    runs: Runs
    of: int = 5
    at_least: bool = False
    quantity: Quantity = ACCURACY
    kind: ClassVar[str] = "largest"
    changed: ClassVar[datetime] = datetime(2026, 11, 26, 22, 10, tzinfo=UTC)
    full: ClassVar[str] = (
        "The interval of the largest of as many runs as the paper has, expected of normal seeds, "
        "lies within the tolerance of the published accuracy; where the paper promises to reach "
        "it, more is agreement too."
    )
    partial: ClassVar[str] = "Within twice the tolerance."

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (self.published,)

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        [[trained]] = sides
        values, _ = self.quantity.of(trained, trained)
        allowed = tolerance(self.published.value)
        error = Estimate.largest(values, self.of).moved(by=self.published.value)
        once, twice = (around(0, of, at_least=self.at_least) for of in (allowed, 2 * allowed))
        return Outcome(
            error.verdict(once, twice),
            f"Largest {self.quantity.label} of {trained.label} {values.max():.2%} of "
            f"{wording.seeds(values)}; of {self.of} it is expected "
            f"{wording.of_accuracies(error)} from {self.published}, tolerance "
            f"{100 * allowed:.2f}.",
            summary(values) | error.summary("difference"),
            f"{values.max():.2%}",
            close=error.is_close(once, twice),
        )
