"""Rules for one variant against another: above it, throughout, sooner, by a factor, or alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpstudy.ledger import wording
from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import (
    SAME_LEVEL,
    best,
    only,
    ratio_of,
    same_level,
    summaries,
    tolerance,
)
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.verdict import Outcome, graded
from dpstudy.ledger.wording import ACCURACY, Quantity


@dataclass(frozen=True)
class Ordering(Rule):
    """One variant is above another, seed for seed.

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
        "Every seed of one variant is above every seed of the other; where the paper denies it, "
        "the seeds overlap and the median is not above, an accuracy not by more than the tolerance."
    )
    partial: ClassVar[str] = (
        "The medians alone are in that order; where the paper denies it, the seeds overlap or the "
        "median is not above."
    )
    numbers: ClassVar[tuple[int, ...]] = (0, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, self.quantity) for side in sides)
        higher, lower = (variant.values(self.quantity) for variant in (above, below))
        apart, medians = higher.min() > lower.max(), higher.median() > lower.median()
        allowed = tolerance(higher.median(), lower.median()) if self.quantity == ACCURACY else 0.0
        beyond = higher.median() - lower.median() > allowed
        verdict = graded(apart, medians)
        if self.denied:
            verdict = graded(not beyond and not apart, not beyond or not apart)
        if apart:
            words = "every seed of the first is above every seed of the second"
        elif medians:
            words = "the first is above by its median alone"
        else:
            words = "the first is not above"
        return Outcome(
            verdict,
            f"{wording.between(above, below, self.quantity)}: {words}.",
            summaries(higher, lower),
            wording.against(higher, lower, self.quantity),
        )


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
    full: ClassVar[str] = "The median of one variant is above that of the other in every epoch."
    partial: ClassVar[str] = "It is so in every epoch of the second half."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, ACCURACY) for side in sides)
        ahead = above.medians(ACCURACY) > below.medians(ACCURACY)
        half = len(ahead) // 2
        where = "" if ahead.all() else f", last behind in epoch {ahead[~ahead].index.max()}"
        return Outcome(
            graded(ahead.all(), ahead.iloc[half:].all()),
            f"The median of {above.label} is above that of {below.label} in {ahead.sum()} of "
            f"{len(ahead)} epochs{where}; {wording.seeds(above.values(ACCURACY))}.",
            {"epochs_above": int(ahead.sum()), "epochs": len(ahead)},
            f"{ahead.sum()} of {len(ahead)} epochs",
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
        "Every seed of one variant takes fewer epochs than every seed of the other to the median "
        "accuracy at which that other ends."
    )
    partial: ClassVar[str] = "The median over seeds does."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        faster, slower = (best(side, ACCURACY) for side in sides)
        level = slower.values(ACCURACY).median()
        first, second = (variant.epochs_to(ACCURACY, level) for variant in (faster, slower))
        shown = [f"{epochs.median():g}" for epochs in (first, second)]
        return Outcome(
            graded(first.max() < second.min(), first.median() < second.median()),
            f"To the {wording.show(level, ACCURACY)} at which {slower.label} ends, "
            f"{faster.label} takes {shown[0]} epochs by its median ({first.min()} to "
            f"{first.max()}) and {slower.label} {shown[1]} ({second.min()} to {second.max()}); "
            f"{wording.seeds(first)}.",
            summaries(first, second),
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
        "In every seed the quantity is higher after the last epoch than the first."
    )
    partial: ClassVar[str] = "The median over seeds is."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [variant] = only(sides[0])
        first, last = variant.values(self.quantity, epoch="first"), variant.values(self.quantity)
        higher = last.to_numpy() > first.to_numpy()
        shown = [wording.show(values.median(), self.quantity) for values in (first, last)]
        return Outcome(
            graded(bool(higher.all()), bool(last.median() > first.median())),
            f"Median {wording.QUANTITIES[self.quantity]} of {variant.label} {shown[0]} after the "
            f"first epoch and {shown[1]} after the last; higher then in {higher.sum()} of "
            f"{wording.seeds(last)}.",
            summaries(first, last),
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
    full: ClassVar[str] = "The ratio of the medians is at least the published one."
    partial: ClassVar[str] = "Every seed of one variant is above every seed of the other."
    numbers: ClassVar[tuple[int, ...]] = (1, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [above], [below] = (only(side) for side in sides)
        larger, smaller = (variant.values(self.quantity) for variant in (above, below))
        ratio = ratio_of(larger, smaller, self.quantity)
        return Outcome(
            graded(ratio >= self._factor(published), larger.min() > smaller.max()),
            f"{wording.between(above, below, self.quantity)}: {ratio:.2g} times as large, against "
            f"{self.show(published)}.",
            {"factor": ratio, **summaries(larger, smaller)},
            f"{ratio:.2g} times",
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
        "Accuracies: the medians differ by less than the tolerance. Other quantities: "
        f"they are within a factor of {SAME_LEVEL:g}."
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
            apart = first.median() - second.median()
            allowed = tolerance(first.median(), second.median())
            verdict = graded(abs(apart) <= allowed, abs(apart) <= 2 * allowed)
            said += f": {wording.points(apart)}, tolerance {100 * allowed:.2f}{_apart(one, other)}."
        else:
            ratio = ratio_of(first, second, self.quantity)
            verdict = same_level(ratio)
            said += f": {ratio:.2g} times as large."
        return Outcome(verdict, said, ours, shown)


def _apart(*variants: Trained) -> str:
    """Say which of two variants has the better accuracy with every seed; nothing if neither."""
    worse, better = sorted(variants, key=lambda variant: variant.values(ACCURACY).min())
    if better.values(ACCURACY).min() <= worse.values(ACCURACY).max():
        return ""
    return f", though every seed of {better.label} is above every one of {worse.label}"
