"""Rules for what a sweep or a search finds: its best share, and the settings of its best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from dpstudy.lab.blind_choice import as_near
from dpstudy.ledger import wording
from dpstudy.ledger.estimate import next_seed
from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import ROUNDED, SAME_LEVEL, best, same_level, tolerance
from dpstudy.ledger.rules.rule import Field, Rule
from dpstudy.ledger.verdict import Outcome, UndecidedError, Verdict, graded
from dpstudy.ledger.wording import ACCURACY, Quantity
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import setting as run_setting

# What chance alone brings in no more than this share of cases, it brings rarely; up to the second
# share nobody can tell: another seed might take it to either side of the first.
_RARELY, _PERHAPS = 0.05, 0.2


def _set_to(variant: Trained, name: str) -> float:
    """Return the setting of that name."""
    try:
        return run_setting(variant.run, name)
    except SpecError as error:
        raise UndecidedError(f"{error}: {variant.label}") from error


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
        "of the published ones, the deviation being that among the best; and the best are nearer "
        "to the published ones than as many variants chosen blindly mostly are (95 % of choices)."
    )
    partial: ClassVar[str] = (
        "Within two, and the same of blind choice. Undecided where blind choice is as near in up "
        "to 20 % of choices."
    )

    @property
    def takes(self) -> tuple[int, ...]:
        """See `Rule`."""
        return (len(self.settings) + 1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [sweep], (*averages, share) = sides, published
        count = math.ceil(share.value * len(sweep))
        if count < 2:
            raise UndecidedError(f"{share.value:.0%} of {len(sweep)} variants is one variant")
        accuracies = np.array([variant.values(ACCURACY).median() for variant in sweep])
        top = np.argsort(-accuracies, kind="stable")[:count]
        every = np.array([[_set_to(v, name) for name in self.settings] for v in sweep])
        means, spreads = every[top].mean(axis=0), every[top].std(axis=0, ddof=1)
        target = np.array([number.value for number in averages])
        chance = as_near(every, top, target)
        chosen, away = chance <= _RARELY, np.abs(means - target)
        near, nearer = bool((away <= 2 * spreads).all()), bool((away <= spreads).all())
        shown = self._triplet(means)
        verdict = graded(chosen and nearer, chosen and near)
        if near and not chosen and chance <= _PERHAPS:
            verdict = Verdict.UNDECIDED
        return Outcome(
            verdict,
            f"The best {count} of {len(sweep)} variants average {shown}, with standard deviations "
            f"{self._triplet(spreads)}; {wording.seeds(sweep[0].values(ACCURACY))} each. Chosen "
            f"blindly, as many lie as near to {self.show(published)} in {chance:.1%} of choices.",
            {**dict(zip(self.settings, map(float, means), strict=True)), "chance": chance},
            shown,
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return self._triplet([number.value for number in published[:-1]])

    def _triplet(self, values: Any) -> str:
        return f"({', '.join(f'{value:.2f}' for value in values)})"


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
        "At least the published share of a sweep is above where, with 95 % confidence, one more "
        "seed of a variant would end."
    )
    partial: ClassVar[str] = "More than one of the sweep is."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        sweep, base = sides[0], best(sides[1], ACCURACY)
        height = next_seed(base.values(ACCURACY))
        count = sum(variant.values(ACCURACY).mean() > height for variant in sweep)
        share = count / len(sweep)
        return Outcome(
            graded(share >= published[0].value, count > 1),
            f"{count} of {len(sweep)} variants are above {height:.2%}, where one more seed of "
            f"{base.label} would end at most.",
            {"share": share, "variants": len(sweep)},
            f"{share:.0%}",
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return f"{published[0].value:.0%} or more"


@dataclass(frozen=True)
class Ranks(Rule):
    """A quantity of a sweep's variants rises with a setting.

    Attributes:
        variants: the sweep; those that diverged have no quantity, and are left out.
        setting: a field of the run.
        quantity: of the last epoch.
    """

    variants: Selector
    setting: Field
    quantity: Quantity
    kind: ClassVar[str] = "ranks"
    full: ClassVar[str] = (
        "Over the variants of a sweep, Spearman's rank correlation of a quantity with a setting is "
        "positive, and chance alone would bring as much in at most 5 % of sweeps; undecided up to "
        "20 %."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        sweep = [variant for variant in sides[0] if not variant.finals.diverged.any()]
        if len(sweep) < 3:
            raise UndecidedError(f"{len(sweep)} variants have no order to speak of")
        settings = [_set_to(variant, self.setting) for variant in sweep]
        medians = [variant.values(self.quantity).median() for variant in sweep]
        found = stats.spearmanr(settings, medians, alternative="greater")
        words = self.setting.replace("_", " ")
        return Outcome(
            Verdict.UNDECIDED
            if _RARELY < found.pvalue <= _PERHAPS
            else graded(found.pvalue <= _RARELY, False),
            f"Over {len(sweep)} variants, the rank correlation of {words} and "
            f"{wording.QUANTITIES[self.quantity]} is {found.statistic:.2f}; chance alone brings as "
            f"much in {found.pvalue:.2g} of sweeps.",
            {"correlation": float(found.statistic), "chance": float(found.pvalue)},
            f"{found.statistic:.2f}",
        )


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
        "The best variant of a search has the published setting within a factor of "
        f"{SAME_LEVEL:g}, to the {ROUNDED:.0%} that settings are printed to."
    )
    partial: ClassVar[str] = "Within the square of the factor."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [number], chosen = published, best(sides[0], ACCURACY)
        if len(sides[0]) < 2:
            raise UndecidedError(f"{chosen.label} alone is not a search")
        ours = float(_set_to(chosen, self.setting))
        words = self.setting.replace("_", " ")
        accuracies = [variant.values(ACCURACY).median() for variant in sides[0]]
        rivals = sum(max(accuracies) - one <= tolerance(max(accuracies)) for one in accuracies)
        return Outcome(
            same_level(ours / number.value, ROUNDED),
            f"The best of {len(sides[0])} variants, {chosen.label}, has {words} {ours:.3g}, "
            f"{ours / number.value:.2g} times the published {number}; {rivals - 1} more are "
            "within the tolerance of its accuracy.",
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
        f"more, to the {ROUNDED:.0%} that settings are printed to."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0, 2)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        chosen = [best(side, ACCURACY) for side in sides]
        first, second = (float(_set_to(variant, self.setting)) for variant in chosen)
        words = self.setting.replace("_", " ")
        return Outcome(
            graded(max(first / second, second / first) * (1 + ROUNDED) >= SAME_LEVEL, False),
            f"The best {words} is {first:.3g} in {chosen[0].label} and {second:.3g} in "
            f"{chosen[1].label}, {first / second:.2g} times as large.",
            {"one": first, "other": second},
            f"{first:.3g} and {second:.3g}",
        )

    def show(self, published: tuple[Number, ...]) -> str:
        """See `Rule`."""
        return f"{published[0].value / published[1].value:.2g} times"
