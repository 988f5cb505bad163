"""Whether a search is paid for with a moderate ε, and with how much accuracy at the same total."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from dpstudy.claims.claim import moment
from dpstudy.claims.evidence import Evidence, Runs
from dpstudy.claims.rules.rule import (
    NEAR_LEVEL,
    ONE_LEVEL,
    SAME_LEVEL,
    Rule,
    around,
    summary,
    tolerance,
)
from dpstudy.lab import wording
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, UndecidedError, graded
from dpstudy.lab.wording import epsilon
from dpstudy.privacy.private_selection import Trials
from under_the_clip.search_cost import costs
from under_the_clip.search_cost.published import PublishedSearch
from under_the_clip.search_cost.released import read_off


@dataclass(frozen=True)
class TimesOne(Rule):
    """The ε of the best of as many trials as were tried is at the level of one run's."""

    search: PublishedSearch
    kind: ClassVar[str] = "times-one"
    changed: ClassVar[datetime] = moment("2026-11-29 06:50")
    full: ClassVar[str] = (
        "The proven ε of the best of a random number of trials, in the mean as many as were tried, "
        f"is at most {SAME_LEVEL:g} times the published run's, by the law of that number that "
        "costs more. Close where the other law's verdict is another."
    )
    partial: ClassVar[str] = "At most the square of that factor."

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (self.search.trials,)

    @property
    def stated(self) -> str:
        return f"{self.search.trials} trials"

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        """See `Rule`: nothing stored is asked for."""
        cost, trials = costs.published_cost(self.search), self.search.trials.value
        one = cost.pop("one")
        least, most = min(cost.values()) / one, max(cost.values()) / one
        by_either = [graded(by <= ONE_LEVEL[1], by <= NEAR_LEVEL[1]) for by in (least, most)]
        said = " and ".join(
            f"{epsilon(total)} by the {law} law ({total / one:.2f} times as much, and the best "
            f"setting is tried in {Trials(trials, law).chance_of_trying(1 / trials):.0%} of "
            "searches)"
            for law, total in cost.items()
        )
        return Outcome(
            by_either[1],
            f"No run is needed: one costs ε = {epsilon(one)}, and the best of {trials:g} trials in "
            f"the mean {said}.",
            {"one": one, **cost, "times": most},
            f"{least:.2f} to {most:.2f} times",
            close=by_either[0] is not by_either[1],
        )


@dataclass(frozen=True)
class AtTheSameTotal(Rule):
    """At the same ε in all the best of as many trials as were tried ends as high as one run.

    What one trial reaches is read off between runs at the two nearest ε, linear in log ε.
    """

    search: PublishedSearch
    one: Runs  # at the total
    below: Runs
    above: Runs
    between: tuple[float, float]  # the ε of the two
    kind: ClassVar[str] = "at-the-same-total"
    changed: ClassVar[datetime] = moment("2026-11-29 06:50")
    full: ClassVar[str] = (
        "Where the total ε of one run is that of the best of a random number of trials, in the "
        "mean as many as were tried, one trial loses less than the tolerance of one run's "
        "accuracy: the interval lies above its negative, by the law that costs more."
    )
    partial: ClassVar[str] = "Within twice the tolerance."

    @property
    def numbers(self) -> tuple[Number, ...]:
        return (self.search.trials,)

    @property
    def stated(self) -> str:
        return f"{self.search.trials} trials"

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        one, below, above = (side[0].values(ACCURACY.column) for side in sides)
        trials = self.search.trials.value
        left = {law: costs.left_by(trials, law) for law in costs.CHOSEN}
        least, (low, high) = min(left.values()), self.between
        if not low <= least <= high:
            raise UndecidedError(f"ε = {epsilon(least)} is left, between which none are stored")
        lost = Estimate.difference(read_off({low: below, high: above}, least), one)
        allowed = tolerance(one.mean())
        once, twice = (around(0, of, at_least=True) for of in (allowed, 2 * allowed))
        by_law = " or ".join(f"{epsilon(value)} ({law} law)" for law, value in left.items())
        return Outcome(
            lost.verdict(once, twice),
            f"Of ε = {epsilon(costs.EPSILON)} in all, {trials:g} trials in the mean leave {by_law} "
            f"to each. Read off between {sides[1][0].label} and {sides[2][0].label}, the smaller "
            f"reaches {wording.of_accuracies(lost)} against {sides[0][0].label}, tolerance "
            f"{100 * allowed:.2f}.",
            summary(one) | lost.summary("difference") | {"left": least},
            wording.points(lost.value),
            close=lost.is_close(once, twice),
        )
