"""Rules for one variant against another: by how much, how many times, alike, throughout."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import ClassVar, Literal

from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules.rule import (
    ABOVE,
    BY_INTERVALS,
    NEAR_LEVEL,
    OF_THE_GAIN,
    ONE_LEVEL,
    SAME_LEVEL,
    Rule,
    Sides,
    around,
    best,
    tolerance,
)
from dpstudy.claims.rules.value import require_enough_spent, require_no_more_spent
from dpstudy.lab import wording
from dpstudy.lab.comparison import Estimate, Region
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, UndecidedError, Verdict, graded

# Further below the published accuracy than this, a network has not learned what it can.
UNTRAINED = 0.1


@dataclass(frozen=True)
class Difference(Rule):
    """One variant against another, seed by seed; each the best of several.

    Where a published accuracy `trains` and the better of the two ends ten points and more below
    it, neither has learned, and which is better says nothing.
    """

    first: Runs
    second: Runs
    wanted: Literal["above", "not above", "not below", "alike"] = "above"
    quantity: Quantity = ACCURACY
    trains: Number | None = None
    kind: ClassVar[str] = "difference"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval of the difference lies above 0; where the paper says that one is not above "
        "the other, below the tolerance, and where it is not below, above its negative; where it "
        f"calls them alike, within it. Undecided where both end {100 * UNTRAINED:.0f} points and "
        "more below what is published: there neither has learned."
    )
    partial: ClassVar[str] = "Not above, not below, or alike: within twice the tolerance."

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        found = Sides.of(sides, self.quantity)
        estimate = Estimate.difference(found.first, found.second)
        if self.trains is not None:
            _require_trained(found, self.trains)
        allowed = tolerance(found.second.mean()) if self.quantity == ACCURACY else 0.0
        regions = {
            "above": (ABOVE, ABOVE),
            "alike": (around(0, allowed), around(0, 2 * allowed)),
            "not above": ((-inf, allowed), (-inf, 2 * allowed)),
            "not below": ((-allowed, inf), (-2 * allowed, inf)),
        }[self.wanted]
        return Outcome(
            estimate.verdict(*regions),
            f"Median {self.quantity.label} of {found.said}: "
            f"{wording.apart(estimate, self.quantity)}.",
            estimate.summary("difference") | found.summary,
            " and ".join(self.quantity.show(of.median()) for of in (found.first, found.second)),
            close=estimate.is_close(*regions),
        )


def _require_trained(found: Sides, published: Number) -> None:
    """Raise UndecidedError where both end ten points and more below what is published."""
    if max(found.first.median(), found.second.median()) <= published.value - UNTRAINED:
        raise UndecidedError(f"neither trains here: {found.said}, where {published} is published")


@dataclass(frozen=True)
class Gain(Rule):
    """One variant is better than another by the difference of two published accuracies."""

    published: tuple[Number, Number]  # the better one first
    first: Runs  # the best of several, as the second
    second: Runs
    epsilon: Number | None = None  # at which both are published
    at_least: bool = False  # of a promised improvement: more than published is agreement too
    kind: ClassVar[str] = "gain"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval of the difference lies within a third of the published one; where the paper "
        "promises an improvement, more is agreement too. Undecided where neither has learned, as "
        "above."
    )
    partial: ClassVar[str] = "The whole interval has the published sign."

    @property
    def stated(self) -> str:
        digits = max(number.decimals for number in self.published) - 2
        return wording.points(self._gain, max(1, digits))

    @property
    def _gain(self) -> float:
        return self.published[0].value - self.published[1].value

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        found = Sides.of(sides)
        for variant in found.variants if self.epsilon is not None else ():
            if variant.run.private:
                require_enough_spent(variant, self.epsilon)
                require_no_more_spent(variant, self.epsilon)
        ours, allowed = Estimate.difference(found.first, found.second), OF_THE_GAIN * self._gain
        _require_trained(found, self.published[1])
        regions = around(self._gain, allowed, at_least=self.at_least), ABOVE
        return Outcome(
            ours.verdict(*regions),
            f"Median test accuracy of {found.said}: {wording.of_accuracies(ours)} against "
            f"{wording.points(self._gain)}, tolerance {100 * allowed:.2f}.",
            ours.summary("difference") | found.summary,
            wording.points(ours.value),
            close=ours.is_close(*regions),
        )


@dataclass(frozen=True)
class Throughout(Rule):
    """One variant's accuracy is above another's in every epoch, whatever ε it cost."""

    first: Runs
    second: Runs
    kind: ClassVar[str] = "throughout"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-27T15:32+00:00")
    full: ClassVar[str] = "In every epoch the interval of the difference lies above 0."
    partial: ClassVar[str] = (
        "In no epoch does it lie below 0, and in most, or at the last, it lies above."
    )

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        one, other = best(sides[0]), best(sides[1])
        first, second = (variant.by_epoch(ACCURACY.column) for variant in (one, other))
        estimates = [
            Estimate.difference(first.loc[epoch], second.loc[epoch])
            for epoch in first.index.intersection(second.index)
        ]
        verdict, ahead, behind = _throughout(estimates)
        # A seed that is redrawn is so in every epoch.
        redrawn = zip(*(estimate.redrawn() for estimate in estimates), strict=True)
        return Outcome(
            verdict,
            f"{one.label} is above {other.label} in {ahead} of {len(estimates)} epochs and below "
            f"it in {behind}, by the intervals over {wording.seeds(first.loc[first.index[-1]])}.",
            {"epochs_above": ahead, "epochs_below": behind, "epochs": len(estimates)},
            f"{ahead} of {len(estimates)} epochs",
            close=any(_throughout(others)[0] is not verdict for others in redrawn),
        )


def _throughout(estimates: Sequence[Estimate]) -> tuple[Verdict, int, int]:
    """Return the verdict on differences by epoch, and how many are above 0 and below."""
    verdicts = [estimate.verdict(ABOVE) for estimate in estimates]
    ahead, behind = map(verdicts.count, (Verdict.REPRODUCED, Verdict.NOT_REPRODUCED))
    most = 2 * ahead > len(verdicts) or verdicts[-1] is Verdict.REPRODUCED
    return graded(ahead == len(verdicts), not behind and most), ahead, behind


@dataclass(frozen=True)
class Ratio(Rule):
    """A quantity is at one level in two variants, or larger by the published factor."""

    first: Runs
    second: Runs
    quantity: Quantity
    published: tuple[Number, ...] = ()  # the factor, or two numbers whose ratio it is
    at_least: bool = False  # whether more than the factor is agreement too
    kind: ClassVar[str] = "ratio"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval of the ratio lies within a third of the published factor; where the paper "
        "says more than a factor, above it; where it calls both alike, within a factor of "
        f"{SAME_LEVEL:g} either way: no paper prints a spread."
    )
    partial: ClassVar[str] = "It lies above 1; alike: within the square of the factor."

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
            f"Median {self.quantity.label} of {found.said}: {ratio.value:.3g} times (95 % interval "
            f"{ratio.low:.3g} to {ratio.high:.3g}, {ratio.seeds}){against}.",
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
