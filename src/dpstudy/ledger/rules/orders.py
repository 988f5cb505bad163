"""Rules for one variant against another: above it, throughout, sooner, by a factor, or alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpstudy.ledger import wording
from dpstudy.ledger.estimate import Estimate
from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import (
    SAME_LEVEL,
    around,
    best,
    level,
    only,
    summaries,
    tolerance,
)
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.verdict import Outcome, Verdict, graded
from dpstudy.ledger.wording import ACCURACY, Quantity


@dataclass(frozen=True)
class Ordering(Rule):
    """One variant is above another.

    Attributes:
        above: the higher one; the best of several.
        below: the lower one; the best of several.
        quantity: of the last epoch.
        denied: the paper says that it is not above.
    """

    above: Selector
    below: Selector
    quantity: Quantity = ACCURACY
    denied: bool = False
    kind: ClassVar[str] = "ordering"
    full: ClassVar[str] = (
        "The 95 % interval of the difference, paired by seed, lies above 0; where the paper denies "
        "it, below the tolerance of an accuracy."
    )
    partial: ClassVar[str] = "Where the paper denies it, below twice the tolerance."
    numbers: ClassVar[tuple[int, ...]] = (0, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, self.quantity) for side in sides)
        higher, lower = (variant.values(self.quantity) for variant in (above, below))
        apart = Estimate.difference(higher, lower)
        verdict = apart.verdict((0.0, math.inf))
        if self.denied:
            allowed = tolerance(lower.mean()) if self.quantity == ACCURACY else 0.0
            verdict = apart.verdict((-math.inf, allowed), (-math.inf, 2 * allowed))
        return Outcome(
            verdict,
            f"{wording.between(above, below, self.quantity)}: {_apart(apart, self.quantity)}.",
            apart.summary("difference") | summaries(higher, lower),
            wording.against(higher, lower, self.quantity),
        )


def _apart(estimate: Estimate, quantity: Quantity) -> str:
    if quantity == ACCURACY:
        return wording.of_accuracies(estimate)
    ends = (wording.show(end, quantity) for end in (estimate.low, estimate.high))
    said = f"apart by {wording.show(estimate.value, quantity)} (95 % interval {' to '.join(ends)}, "
    return f"{said}{estimate.seeds})".replace("-", "−")


@dataclass(frozen=True)
class Throughout(Rule):
    """One variant's median accuracy is above another's in every epoch, whatever epsilon it cost.

    Attributes:
        above: the higher one.
        below: the lower one.
    """

    above: Selector
    below: Selector
    kind: ClassVar[str] = "throughout"
    full: ClassVar[str] = (
        "In every epoch the 95 % interval of the difference, paired by seed, lies above 0."
    )
    partial: ClassVar[str] = "In no epoch does it lie below 0, and at the last it lies above."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, ACCURACY) for side in sides)
        higher, lower = (variant.by_epoch(ACCURACY) for variant in (above, below))
        verdicts = [
            Estimate.difference(higher.loc[epoch], lower.loc[epoch]).verdict((0.0, math.inf))
            for epoch in higher.index.intersection(lower.index)
        ]
        ahead = verdicts.count(Verdict.REPRODUCED)
        behind = verdicts.count(Verdict.NOT_REPRODUCED)
        return Outcome(
            graded(ahead == len(verdicts), not behind and verdicts[-1] is Verdict.REPRODUCED),
            f"{above.label} is above {below.label} in {ahead} of {len(verdicts)} epochs and below "
            f"it in {behind}, by the intervals over {wording.seeds(above.values(ACCURACY))}.",
            {"epochs_above": ahead, "epochs_below": behind, "epochs": len(verdicts)},
            f"{ahead} of {len(verdicts)} epochs",
        )


@dataclass(frozen=True)
class Sooner(Rule):
    """One variant takes fewer epochs than another to the accuracy at which the other ends.

    That accuracy is the other's median. A seed that never reaches it takes one epoch more than
    there are.

    Attributes:
        faster: the one that takes fewer.
        slower: the one whose end both are timed to.
    """

    faster: Selector
    slower: Selector
    kind: ClassVar[str] = "sooner"
    full: ClassVar[str] = (
        "To the median accuracy at which the other ends, one variant takes fewer epochs: the 95 % "
        "interval of the difference, paired by seed, lies above 0."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        faster, slower = (best(side, ACCURACY) for side in sides)
        level = slower.values(ACCURACY).median()
        first, second = (variant.epochs_to(ACCURACY, level) for variant in (faster, slower))
        shown = [f"{epochs.median():g}" for epochs in (first, second)]
        fewer = Estimate.difference(second, first)
        return Outcome(
            fewer.verdict((0.0, math.inf)),
            f"To the {wording.show(level, ACCURACY)} at which {slower.label} ends, "
            f"{faster.label} takes {shown[0]} epochs by its median ({first.min()} to "
            f"{first.max()}) and {slower.label} {shown[1]} ({second.min()} to {second.max()}): "
            f"{fewer.value:.1f} fewer (95 % interval {fewer.low:.1f} to {fewer.high:.1f}, "
            f"{fewer.seeds}).",
            fewer.summary("fewer") | summaries(first, second),
            f"{shown[0]} and {shown[1]} epochs",
        )


@dataclass(frozen=True)
class Rises(Rule):
    """A quantity is higher after the last epoch than after the first.

    Attributes:
        variant: whose.
        quantity: the quantity.
    """

    variant: Selector
    quantity: Quantity
    kind: ClassVar[str] = "rises"
    full: ClassVar[str] = (
        "The 95 % interval of the difference between the last epoch and the first, paired by seed, "
        "lies above 0."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [variant] = only(sides[0])
        first, last = variant.values(self.quantity, epoch="first"), variant.values(self.quantity)
        shown = [wording.show(values.median(), self.quantity) for values in (first, last)]
        rise = Estimate.difference(last, first)
        return Outcome(
            rise.verdict((0.0, math.inf)),
            f"Median {wording.QUANTITIES[self.quantity]} of {variant.label} {shown[0]} after the "
            f"first epoch and {shown[1]} after the last: {_apart(rise, self.quantity)}.",
            rise.summary("rise") | summaries(first, last),
            " to ".join(shown),
        )


@dataclass(frozen=True)
class Factor(Rule):
    """A quantity is larger in one variant than in another by at least the published factor.

    Attributes:
        above: where it is larger.
        below: where it is smaller.
        quantity: of the last epoch.
    """

    above: Selector
    below: Selector
    quantity: Quantity
    kind: ClassVar[str] = "factor"
    full: ClassVar[str] = (
        "The 95 % interval of the ratio, paired by seed, lies above the published one."
    )
    partial: ClassVar[str] = "It lies above 1."
    numbers: ClassVar[tuple[int, ...]] = (1, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [above], [below] = (only(side) for side in sides)
        larger, smaller = (variant.values(self.quantity) for variant in (above, below))
        ratio = Estimate.ratio(larger, smaller)
        return Outcome(
            ratio.verdict((self._factor(published), math.inf), (1.0, math.inf)),
            f"{wording.between(above, below, self.quantity)}: {wording.of_times(ratio)}, against "
            f"{self.show(published)}.",
            ratio.summary("factor") | summaries(larger, smaller),
            f"{ratio.value:.2g} times",
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return f"{self._factor(published):.2g} times"

    def _factor(self, published: tuple[Number, ...]) -> float:
        first, *second = published
        return first.value / second[0].value if second else first.value


@dataclass(frozen=True)
class Comparable(Rule):
    """Two variants are alike: accuracies within the tolerance, other quantities at one level.

    Attributes:
        one: the best of several.
        other: the best of several.
        quantity: of the last epoch.
    """

    one: Selector
    other: Selector
    quantity: Quantity = ACCURACY
    kind: ClassVar[str] = "comparable"
    full: ClassVar[str] = (
        "The 95 % interval of the difference, paired by seed, lies within the tolerance of an "
        f"accuracy. Other quantities: that of the ratio lies within a factor of {SAME_LEVEL:g}."
    )
    partial: ClassVar[str] = "Within twice the tolerance, or the square of the factor."
    numbers: ClassVar[tuple[int, ...]] = (0, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        one, other = (best(side, self.quantity) for side in sides)
        first, second = (variant.values(self.quantity) for variant in (one, other))
        said = wording.between(one, other, self.quantity)
        ours = summaries(first, second)
        shown = wording.against(first, second, self.quantity)
        if self.quantity == ACCURACY:
            apart = Estimate.difference(first, second)
            allowed = tolerance(second.mean())
            verdict = apart.verdict(around(0, allowed), around(0, 2 * allowed))
            said += f": {wording.of_accuracies(apart)}, tolerance {100 * allowed:.2f}."
            return Outcome(verdict, said, apart.summary("difference") | ours, shown)
        ratio = Estimate.ratio(first, second)
        said += f": {wording.of_times(ratio)}."
        return Outcome(level(ratio), said, ratio.summary("times") | ours, shown)
