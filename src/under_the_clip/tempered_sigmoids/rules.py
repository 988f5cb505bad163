"""Rules for what a sweep or a search finds: where its best lie, and how many they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import numpy as np
from scipy import stats

from dpstudy.claims.claim import moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Rule
from dpstudy.claims.rules.rule import BY_INTERVALS, SAME_LEVEL, best, tolerance
from dpstudy.lab.comparison import next_seed
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, UndecidedError, Verdict, graded
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids.triplets import average_as_near

# What chance alone brings in no more than this share of cases, it brings rarely; up to the second
# share nobody can tell: another seed might take it to either side of the first.
_RARELY, _PERHAPS = 0.05, 0.2
# Settings are printed to three digits, and grids made from them too: a share of their ratio.
_ROUNDED = 0.01


def _median(variant: Variant) -> float:
    return float(variant.values(ACCURACY.column).median())


def _by_chance(chance: float, verdict: Verdict) -> Verdict:
    """Return the verdict where chance is rare; else that it falls, or that nobody can tell."""
    if chance <= _RARELY:
        return verdict
    return Verdict.UNDECIDED if chance <= _PERHAPS else Verdict.NOT_REPRODUCED


def _tops(accuracies: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the best so many, once for each that may have the last place."""
    order = np.argsort(-accuracies, kind="stable")
    last = [one for one in order[count - 1 :] if accuracies[one] == accuracies[order[count - 1]]]
    return [np.append(order[: count - 1], one) for one in last]


def _shown(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:.2f}' for value in values)})"


@dataclass(frozen=True)
class Cluster(Rule):
    """The best share of a sweep has the published settings on average."""

    published: tuple[Number, ...]
    share: Number
    sweep: Runs
    settings: tuple[str, ...]
    kind: ClassVar[str] = "cluster"
    changed: ClassVar[datetime] = moment("2026-11-28 14:30")
    full: ClassVar[str] = (
        "The average settings of the best variants of a sweep lie within one standard deviation "
        "of the published ones, the deviation being that among the best; and nearer to them than "
        "the average of as many variants chosen blindly mostly is (95 % of choices). Where "
        "variants tie for the last place, whichever of them has it."
    )
    partial: ClassVar[str] = (
        "Within two, and the same of blind choice. Undecided where blind choice averages as near "
        "in up to 20 % of choices."
    )

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (*self.published, self.share)

    @property
    def stated(self) -> str:
        return _shown([number.value for number in self.published])

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        [sweep] = sides
        count = math.ceil(self.share.value * len(sweep))
        if count < 2:
            raise UndecidedError(f"{self.share.value:.0%} of {len(sweep)} variants is one variant")
        tops = _tops(np.array([_median(variant) for variant in sweep]), count)
        every = np.array([[setting(v.run, name) for name in self.settings] for v in sweep])
        target = np.array([number.value for number in self.published])
        chances = [average_as_near(every, top, target) for top in tops]
        chance, top = max(chances), tops[0]
        means, spreads = every[top].mean(axis=0), every[top].std(axis=0, ddof=1)
        away = np.abs(means - target)
        verdict = graded(bool((away <= spreads).all()), bool((away <= 2 * spreads).all()))
        if verdict is not Verdict.NOT_REPRODUCED:
            verdict = _by_chance(chance, verdict)
        return Outcome(
            verdict,
            f"The best {count} of {len(sweep)} variants average {_shown(means)}, with standard "
            f"deviations {_shown(spreads)}. Chosen blindly, as many average as near to "
            f"{self.stated} in {' or '.join(f'{one:.1%}' for one in chances)} of choices"
            f"{', by which of those that tie has the last place' * (len(tops) > 1)}.",
            {**dict(zip(self.settings, map(float, means), strict=True)), "chance": chance},
            _shown(means),
        )


@dataclass(frozen=True)
class Share(Rule):
    """At least the published share of a sweep is above a variant, the best of several."""

    published: Number
    sweep: Runs
    base: Runs
    kind: ClassVar[str] = "share"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "At least the published share of a sweep is above where, with 95 % confidence, one more "
        "seed of a variant would end."
    )
    partial: ClassVar[str] = "More than one of the sweep is."

    @property
    def stated(self) -> str:
        return f"{self.published.value:.0%} or more"

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        sweep, base = sides[0], best(sides[1])
        height = next_seed(base.values(ACCURACY.column))
        count = sum(_median(variant) > height for variant in sweep)
        share = count / len(sweep)
        return Outcome(
            graded(share >= self.published.value, count > 1),
            f"{count} of {len(sweep)} variants are above {height:.2%}, where one more seed of "
            f"{base.label} would end at most.",
            {"share": share, "variants": len(sweep)},
            f"{share:.0%}",
        )


@dataclass(frozen=True)
class Ranks(Rule):
    """A quantity of a sweep's variants at the last epoch rises with a setting."""

    sweep: Runs
    setting: str
    quantity: Quantity
    kind: ClassVar[str] = "ranks"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "Over the variants of a sweep, Spearman's rank correlation of a quantity with a setting is "
        "positive, and chance alone would bring as much in at most 5 % of sweeps; undecided up to "
        "20 %."
    )

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        sweep = [variant for variant in sides[0] if not variant.finals.diverged.any()]
        if len(sweep) < 3:
            raise UndecidedError(f"{len(sweep)} variants have no order to speak of")
        settings = [setting(variant.run, self.setting) for variant in sweep]
        medians = [variant.values(self.quantity.column).median() for variant in sweep]
        found = stats.spearmanr(settings, medians, alternative="greater")
        return Outcome(
            _by_chance(float(found.pvalue), Verdict.REPRODUCED),
            f"Over {len(sweep)} variants, the rank correlation of {self.setting.replace('_', ' ')} "
            f"and {self.quantity.label} is {found.statistic:.2f}; chance alone brings as much in "
            f"{found.pvalue:.2g} of sweeps.",
            {"correlation": float(found.statistic), "chance": float(found.pvalue)},
            f"rank correlation {found.statistic:.2f}",
        )


@dataclass(frozen=True)
class BestRate(Rule):
    """The best learning rate of a search is at the published level."""

    published: Number
    search: Runs
    kind: ClassVar[str] = "best-rate"
    changed: ClassVar[datetime] = moment("2026-11-22 02:15")
    full: ClassVar[str] = (
        f"The best variant of a search has the published rate within a factor of {SAME_LEVEL:g}, "
        f"to the {_ROUNDED:.0%} that rates are printed to."
    )
    partial: ClassVar[str] = "Within the square of the factor."

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        [search] = sides
        chosen, accuracies = best(search), [_median(variant) for variant in search]
        ours = float(setting(chosen.run, "learning_rate"))
        rivals = sum(max(accuracies) - one <= tolerance(max(accuracies)) for one in accuracies)
        times = ours / self.published.value
        away, edge = abs(math.log(times)), math.log(SAME_LEVEL)
        return Outcome(
            graded(away <= edge + _ROUNDED, away <= 2 * edge + _ROUNDED),
            f"The best of {len(search)} variants, {chosen.label}, has a rate of {ours:.3g}, "
            f"{times:.2g} times the published {self.published}; {rivals - 1} more are within the "
            "tolerance of its accuracy.",
            {"learning_rate": ours},
            f"{ours:.3g}",
        )


@dataclass(frozen=True)
class RatesApart(Rule):
    """The best learning rates of two searches differ."""

    published: tuple[Number, Number]
    first: Runs
    second: Runs
    kind: ClassVar[str] = "rates-apart"
    changed: ClassVar[datetime] = moment("2026-11-22 05:45")
    full: ClassVar[str] = (
        f"The best rates of two searches differ by a factor of {SAME_LEVEL:g} or more, to the "
        f"{_ROUNDED:.0%} that rates are printed to."
    )

    @property
    def stated(self) -> str:
        return f"{self.published[0].value / self.published[1].value:.2g} times"

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        chosen = [best(side) for side in sides]
        first, second = (float(setting(variant.run, "learning_rate")) for variant in chosen)
        return Outcome(
            graded(max(first / second, second / first) * (1 + _ROUNDED) >= SAME_LEVEL, False),
            f"The best rate is {first:.3g} in {chosen[0].label} and {second:.3g} in "
            f"{chosen[1].label}, {first / second:.2g} times as large.",
            {"one": first, "other": second},
            f"{first:.3g} and {second:.3g}",
        )
