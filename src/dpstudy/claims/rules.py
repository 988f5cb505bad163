"""The rules that turn stored results into verdicts: few, general, each with its tolerance.

The tolerances come from what is measured, not from what came out:

- An accuracy is a share of `TEST_IMAGES` images. Two accuracies that differ by less than two
  binomial standard errors say nothing about which network is better on new images: within that of
  the published accuracy, ours agrees with it. Within twice that, or where our seeds lie on both
  sides of the published value, it agrees partly.
- For any other quantity no paper states a spread. Values within `SAME_LEVEL` of each other, a
  factor of two either way, are at one level; within its square, partly.
- One variant is above another if its lowest seed is above the other's highest; partly, if only
  the medians are in that order.
- A number published for some epsilon is upheld only by runs whose proven epsilon is at most the
  published one, and falls only to runs that spent at least the published one by the accounting of
  its time. Runs that spent less and fall short, or more and succeed, decide nothing.

All accuracies are those of the last epoch. Where a pattern names several variants, the best is the
one with the highest median over seeds: a search, as in the papers, whose choice is not paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any, ClassVar, NewType

import numpy as np
import pandas as pd

from dpstudy.claims import wording
from dpstudy.claims.evidence import Evidence, Selector, Side, Trained
from dpstudy.claims.verdict import Outcome, UndecidedError, Verdict, graded
from dpstudy.claims.wording import ACCURACY, Quantity
from dpstudy.published import Number

# The name of a field of `Run`.
Field = NewType("Field", str)

TEST_IMAGES = 10_000
SAME_LEVEL = 2.0

_PROVEN = ("pld", "shuffled-pld")
_OF_ITS_TIME = ("rdp-2019", "claimed-rdp-2019")
_PROOF = {
    "poisson": "(Poisson sampling) ε = {:.3g} is proven",
    "shuffled": "(shuffled batches) no more is proven than ε = {:.3g}, and that for one example "
    "blanked, not added or removed",
}


def tolerance(*accuracies: float) -> float:
    """Return two binomial standard errors of an accuracy, or of the difference of two."""
    return 2 * math.sqrt(sum(p * (1 - p) for p in accuracies) / TEST_IMAGES)


@dataclass(frozen=True)
class Rule:
    """What all rules share: they look at selectors' runs, all seeds or none."""

    kind: ClassVar[str]
    numbers: ClassVar[tuple[int, ...]]

    @property
    def takes(self) -> tuple[int, ...]:
        """How many published numbers the rule may be given."""
        return self.numbers

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """The runs that the rule looks at, in the order in which `decide` gets them."""
        values = (getattr(self, item.name) for item in fields(self))
        return tuple(value for value in values if isinstance(value, Selector))

    def judge(
        self,
        evidence: Evidence,
        published: tuple[Number, ...],
        experiment: str | None,
        dataset: str | None,
    ) -> Outcome:
        """Return the verdict, or that it is not yet run, with how many runs are there."""
        sides = [evidence.side(selector, experiment, dataset) for selector in self.selectors]
        known = all(side.needed for side in sides)
        counts = {
            "found": sum(side.found for side in sides),
            "needed": sum(side.needed for side in sides) if known else 0,
        }
        lacking = [side for side in sides if not side.variants]
        if lacking:
            return _not_yet_run(_lack(lacking), **counts)
        try:
            outcome = self.decide(published, *(side.variants for side in sides))
        except UndecidedError as error:
            return _not_yet_run(f"Not decided: {error}.", **counts)
        return Outcome(outcome.verdict, outcome.finding, outcome.ours, outcome.shown, **counts)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """Return the outcome on complete runs.

        Raises:
            UndecidedError: they do not test the claim.
        """
        raise NotImplementedError

    def show(self, published: tuple[Number, ...]) -> str:
        """Return the published numbers as they stand in a table."""
        return " and ".join(map(str, published))


def _not_yet_run(finding: str, *, found: int, needed: int) -> Outcome:
    return Outcome(Verdict.NOT_YET_RUN, finding, found=found, needed=needed)


def _lack(lacking: list[Side]) -> str:
    needed = sum(side.needed for side in lacking)
    count = [f"{sum(side.found for side in lacking)} of {needed} runs stored"] if needed else []
    return f"Not yet run: {'; '.join([*count, *dict.fromkeys(side.lacks for side in lacking)])}."


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
        if self.epsilon is not None:
            short = error < -allowed
            if short or (error <= allowed and not self.at_least):
                _require_enough_spent(variant, self.epsilon)
            if not short:
                _require_no_more_spent(variant, self.epsilon)
        agrees = abs(error) <= allowed or (self.at_least and error > 0)
        near = abs(error) <= 2 * allowed or values.min() <= number.value <= values.max()
        return Outcome(
            graded(agrees, near),
            f"{wording.measured(values, self.quantity)}{wording.chosen(sides[0], variant)}: "
            f"{wording.points(error)} against {number}, tolerance {100 * allowed:.2f}"
            f"{_spent(variant)}.",
            _numbers(values),
            f"{values.median():.2%}",
        )

    def _level(self, number: Number, values: pd.Series) -> Outcome:
        ratio = values.median() / number.value
        return Outcome(
            _same_level(ratio),
            f"{wording.measured(values, self.quantity)}, {ratio:.2g} times the published {number}.",
            _numbers(values),
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
                _require_enough_spent(variant, self.epsilon)
                _require_no_more_spent(variant, self.epsilon)
        better, worse = (variant.values(ACCURACY) for variant in (above, below))
        ours, stated = better.median() - worse.median(), published[0].value - published[1].value
        allowed = tolerance(*(number.value for number in published))
        agrees = abs(ours - stated) <= allowed or (self.at_least and ours > stated)
        return Outcome(
            graded(agrees, ours * stated > 0),
            f"{wording.between(above, below, ACCURACY)}: {wording.points(ours)} against "
            f"{wording.points(stated)}, tolerance {100 * allowed:.2f}.",
            {"difference": float(ours), **_both(better, worse)},
            wording.points(ours),
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        digits = max(number.decimals for number in published) - 2
        return wording.points(published[0].value - published[1].value, max(1, digits))


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
        "Every seed of one variant is above every seed of the other; where the paper "
        "denies it, the median is not above, an accuracy not by more than the tolerance."
    )
    partial: ClassVar[str] = (
        "The medians alone are in that order; where the paper denies it, no more than they are."
    )
    numbers: ClassVar[tuple[int, ...]] = (0, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        above, below = (best(side, self.quantity) for side in sides)
        higher, lower = (variant.values(self.quantity) for variant in (above, below))
        apart, medians = higher.min() > lower.max(), higher.median() > lower.median()
        allowed = tolerance(higher.median(), lower.median()) if self.quantity == ACCURACY else 0.0
        beyond = higher.median() - lower.median() > allowed
        verdict = graded(not beyond, not apart) if self.denied else graded(apart, medians)
        if apart:
            words = "every seed of the first is above every seed of the second"
        elif medians:
            words = "the first is above by its median alone"
        else:
            words = "the first is not above"
        return Outcome(
            verdict,
            f"{wording.between(above, below, self.quantity)}: {words}.",
            _both(higher, lower),
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
        [above], [below] = (_only(side) for side in sides)
        larger, smaller = (variant.values(self.quantity) for variant in (above, below))
        ratio = _ratio(larger, smaller, self.quantity)
        return Outcome(
            graded(ratio >= self._factor(published), larger.min() > smaller.max()),
            f"{wording.between(above, below, self.quantity)}: {ratio:.2g} times as large, against "
            f"{self.show(published)}.",
            {"factor": ratio, **_both(larger, smaller)},
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
        ours = _both(first, second)
        shown = wording.against(first, second, self.quantity)
        if self.quantity == ACCURACY:
            apart = first.median() - second.median()
            allowed = tolerance(first.median(), second.median())
            verdict = graded(abs(apart) <= allowed, abs(apart) <= 2 * allowed)
            said += f": {wording.points(apart)}, tolerance {100 * allowed:.2f}."
        else:
            ratio = _ratio(first, second, self.quantity)
            verdict = _same_level(ratio)
            said += f": {ratio:.2g} times as large."
        return Outcome(verdict, said, ours, shown)


@dataclass(frozen=True)
class AtEpsilon(Rule):
    """What a run spent, proven for the sampling it performed, is at most the quoted epsilon.

    Attributes:
        variant: whose runs.
    """

    variant: Selector
    kind: ClassVar[str] = "at-epsilon"
    full: ClassVar[str] = (
        "The proven ε of the runs, for the sampling they performed, is at most the quoted one."
    )
    partial: ClassVar[str] = f"It is within a factor of {SAME_LEVEL:g}."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [quoted], [variant] = published, _only(sides[0])
        spent, old = variant.epsilon(*_PROVEN), variant.epsilon(*_OF_ITS_TIME)
        if spent is None or old is None:
            raise UndecidedError(f"no epsilon is stored for {variant.label}")
        holds = round(spent, quoted.decimals) <= quoted.value
        return Outcome(
            graded(holds, spent <= SAME_LEVEL * quoted.value),
            f"For the runs of {variant.label} {_PROOF[variant.run.sampling].format(spent)}; the "
            f"accounting of the paper's time says {old:.3g}.",
            {"proven": spent, "of_its_time": old},
            f"{spent:.3g}",
        )


@dataclass(frozen=True)
class Cluster(Rule):
    """The best share of a sweep has the published settings on average.

    The last published number is the share.

    Attributes:
        variants: the sweep.
        settings: fields of the run, in the order of the published averages.
    """

    variants: Selector
    settings: tuple[Field, ...]
    kind: ClassVar[str] = "cluster"
    full: ClassVar[str] = (
        "The average settings of the best variants of a sweep lie within one standard deviation "
        "of the published ones, the deviation being that among the best; and at least one of "
        "these averages is one that as many variants chosen blindly would rarely have (5 %)."
    )
    partial: ClassVar[str] = "Within two, and the same of blind choice."

    @property
    def takes(self) -> tuple[int, ...]:
        """See `Rule`."""
        return (len(self.settings) + 1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [sweep], (*averages, share) = sides, published
        ranked = sorted(sweep, key=lambda v: v.values(ACCURACY).median(), reverse=True)
        top = ranked[: math.ceil(share.value * len(ranked))]
        if len(top) < 2:
            raise UndecidedError(f"{share.value:.0%} of {len(sweep)} variants is one variant")
        every = np.array([[getattr(v.run, name) for name in self.settings] for v in ranked])
        means, spreads = every[: len(top)].mean(axis=0), every[: len(top)].std(axis=0, ddof=1)
        away = np.abs(means - [number.value for number in averages])
        chosen = bool((np.abs(means - every.mean(axis=0)) > _blindly(every, len(top))).any())
        near, nearer = bool((away <= 2 * spreads).all()), bool((away <= spreads).all())
        shown = self._triplet(means)
        return Outcome(
            graded(chosen and nearer, chosen and near),
            f"The best {len(top)} of {len(sweep)} variants average {shown}, with standard "
            f"deviations {self._triplet(spreads)}; {wording.seeds(top[0].values(ACCURACY))} each. "
            f"Chosen blindly, as many would {'rarely' if chosen else 'often'} be as far from the "
            f"average of all, {self._triplet(every.mean(axis=0))}.",
            dict(zip(self.settings, map(float, means), strict=True)),
            shown,
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return self._triplet([number.value for number in published[:-1]])

    def _triplet(self, values: Any) -> str:
        return f"({', '.join(f'{value:.2f}' for value in values)})"


def _blindly(settings: np.ndarray, count: int) -> np.ndarray:
    """Return how far an average of `count` of the rows, drawn blindly, is from that of all.

    The distance that, by the normal approximation, 95 % of draws keep within in every column.
    """
    rows, columns = settings.shape
    deviation = settings.std(axis=0, ddof=1) * math.sqrt(1 / count - 1 / rows)
    return deviation * NormalDist().inv_cdf(1 - 0.05 / (2 * columns))


@dataclass(frozen=True)
class Share(Rule):
    """At least the published share of a sweep is above a variant, seed for seed.

    Attributes:
        above: the sweep.
        below: the variant; the best of several.
    """

    above: Selector
    below: Selector
    kind: ClassVar[str] = "share"
    full: ClassVar[str] = (
        "At least the published share of a sweep is above a variant, seed for seed."
    )
    partial: ClassVar[str] = "More than one of the sweep is."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        sweep, base = sides[0], best(sides[1], ACCURACY)
        highest = base.values(ACCURACY).max()
        count = sum(variant.values(ACCURACY).min() > highest for variant in sweep)
        share = count / len(sweep)
        return Outcome(
            graded(share >= published[0].value, count > 1),
            f"{count} of {len(sweep)} variants have their lowest seed above the highest of "
            f"{base.label}, {highest:.2%}.",
            {"share": share, "variants": len(sweep)},
            f"{share:.0%}",
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return f"{published[0].value:.0%} or more"


@dataclass(frozen=True)
class Setting(Rule):
    """The best variant of a search has a setting at the published level.

    Attributes:
        variants: the search.
        setting: a field of the run.
    """

    variants: Selector
    setting: Field
    kind: ClassVar[str] = "setting"
    full: ClassVar[str] = (
        f"The best variant of a search has the published setting within a factor of {SAME_LEVEL:g}."
    )
    partial: ClassVar[str] = "Within the square of the factor."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [number], chosen = published, best(sides[0], ACCURACY)
        if len(sides[0]) < 2:
            raise UndecidedError(f"{chosen.label} alone is not a search")
        ours = float(getattr(chosen.run, self.setting))
        words = self.setting.replace("_", " ")
        return Outcome(
            _same_level(ours / number.value),
            f"The best of {len(sides[0])} variants, {chosen.label}, has {words} {ours:.3g}, "
            f"{ours / number.value:.2g} times the published {number}.",
            {self.setting: ours},
            f"{ours:.3g}",
        )


@dataclass(frozen=True)
class Apart(Rule):
    """The best variants of two searches differ in a setting.

    Attributes:
        one: the first search.
        other: the second.
        setting: a field of the run.
    """

    one: Selector
    other: Selector
    setting: Field
    kind: ClassVar[str] = "apart"
    full: ClassVar[str] = (
        f"The best variants of two searches differ in a setting by a factor of {SAME_LEVEL:g} or "
        "more."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        chosen = [best(side, ACCURACY) for side in sides]
        first, second = (float(getattr(variant.run, self.setting)) for variant in chosen)
        words = self.setting.replace("_", " ")
        return Outcome(
            graded(max(first / second, second / first) >= SAME_LEVEL, False),
            f"The best {words} is {first:.3g} in {chosen[0].label} and {second:.3g} in "
            f"{chosen[1].label}, {first / second:.2g} times as large.",
            {"one": first, "other": second},
            f"{first:.3g} and {second:.3g}",
        )


@dataclass(frozen=True)
class Statement(Rule):
    """A stated bound or proposition, searched for counterexamples.

    Attributes:
        statement: name of the stored outcome.
    """

    statement: str
    kind: ClassVar[str] = "statement"
    full: ClassVar[str] = (
        "A search found no counterexample, or there is a proof. Otherwise the statement is refuted."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def judge(
        self,
        evidence: Evidence,
        published: tuple[Number, ...],
        experiment: str | None,
        dataset: str | None,
    ) -> Outcome:
        """See `Rule`."""
        stored = evidence.statement(self.statement)
        if stored is None:
            return _not_yet_run(
                f"Not yet run: no outcome of the check {self.statement} is stored.",
                found=0,
                needed=1,
            )
        outcome = stored.get("verdict")
        if outcome not in _STATEMENTS:
            return _not_yet_run(
                f"Not decided: the stored outcome {outcome!r} is unknown.", found=1, needed=1
            )
        ours = {k: stored[k] for k in ("worst", "tightness") if stored.get(k) is not None}
        said = " ".join(str(stored.get(key, "")) for key in ("finding", "looked")).strip()
        found = f"The statement is {outcome}" if outcome in _FAILED else f"It {outcome}"
        return Outcome(_STATEMENTS[outcome], f"{found}. {said}".strip(), ours, outcome, 1, 1)


_FAILED = ("refuted", "corrected")
_STATEMENTS = {
    "holds": Verdict.REPRODUCED,
    "holds, loose": Verdict.REPRODUCED,
    **dict.fromkeys(_FAILED, Verdict.REFUTED),
}

KINDS: dict[str, type[Rule]] = {
    rule.kind: rule
    for rule in (
        Value,
        Gap,
        Ordering,
        Throughout,
        Factor,
        Comparable,
        AtEpsilon,
        Cluster,
        Share,
        Setting,
        Apart,
        Statement,
    )
}


def best(variants: Sequence[Trained], quantity: Quantity) -> Trained:
    """Return the variant with the highest median over seeds of a quantity."""
    return max(variants, key=lambda variant: variant.values(quantity).median())


def _only(variants: Sequence[Trained]) -> Sequence[Trained]:
    if len(variants) > 1:
        labels = ", ".join(variant.label for variant in variants)
        raise UndecidedError(f"the rule takes one variant, and got {labels}")
    return variants


def _require_enough_spent(variant: Trained, quoted: Number) -> None:
    old = variant.epsilon(*_OF_ITS_TIME)
    if old is None or round(old, quoted.decimals) < quoted.value:
        spent = "nothing" if old is None else f"ε = {old:.3g}"
        raise UndecidedError(
            f"the runs of {variant.label} spent {spent} by the accounting of the paper's time, "
            f"less than the {quoted} that the number is published for"
        )


def _require_no_more_spent(variant: Trained, quoted: Number) -> None:
    proven = variant.epsilon(*_PROVEN)
    if proven is None or round(proven, quoted.decimals) > quoted.value:
        spent = "an unknown ε" if proven is None else f"ε = {proven:.3g}"
        raise UndecidedError(
            f"the runs of {variant.label} spent {spent}, proven, more than the {quoted} that the "
            "number is published for"
        )


def _ratio(first: pd.Series, second: pd.Series, quantity: Quantity) -> float:
    if min(first.median(), second.median()) <= 0:
        # Runs without clipping store norms of 0 unless asked to measure them.
        raise UndecidedError(f"a stored {quantity} is 0: it was not measured")
    return float(first.median() / second.median())


def _same_level(ratio: float) -> Verdict:
    away = abs(math.log(ratio)) if ratio > 0 else math.inf
    return graded(away <= math.log(SAME_LEVEL), away <= 2 * math.log(SAME_LEVEL))


def _spent(variant: Trained) -> str:
    proven, old = variant.epsilon(*_PROVEN), variant.epsilon(*_OF_ITS_TIME)
    if proven is None or old is None:
        return ""
    return f"; ε = {proven:.3g} proven, {old:.3g} by the accounting of the paper's time"


def _numbers(values: pd.Series) -> dict[str, float]:
    found = {"median": values.median(), "lowest": values.min(), "highest": values.max()}
    return {name: float(value) for name, value in found.items()}


def _both(first: pd.Series, second: pd.Series) -> dict[str, float]:
    named = {"first": first, "second": second}
    return {
        f"{which}_{name}": value
        for which, values in named.items()
        for name, value in _numbers(values).items()
    }
