"""The rules for one variant: what its runs spent, and what it reaches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from dpstudy.claims.evidence import Evidence, Runs
from dpstudy.claims.rules.rule import BY_INTERVALS, Rule, around, best, summary, tolerance
from dpstudy.lab import wording
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, UndecidedError, Verdict, graded
from dpstudy.lab.wording import epsilon, rounded_down

_PROVEN = ("pld", "shuffled-pld")
# A paper's own claim first, where runs carry one.
_OF_ITS_TIME = ("claimed-zcdp", "claimed-gdp", "claimed-rdp-2019", "rdp-2019")
_AT_LEAST = "shuffled-at-least"
_PROOF = {
    "poisson": "(Poisson sampling) ε = {} is proven",
    "shuffled": "(shuffled batches) ε = {} is proven, and that for one example blanked, not "
    "added or removed",
}


@dataclass(frozen=True)
class Spent(Rule):
    """What a run spent, proven for the sampling it performed, is at most the quoted ε."""

    published: Number
    runs: Runs
    audit: str = ""  # the name of one of the same mechanism
    kind: ClassVar[str] = "spent"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-25T22:20+00:00")
    full: ClassVar[str] = (
        "The proven ε of the runs, for the sampling they performed, is at most the quoted one, "
        "rounded to as many digits. Refuted where an audit shows more than is quoted."
    )

    @property
    def about(self) -> str:
        return "epsilon"

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        """See `Rule`: what an audit shows is beyond doubt, whatever can be proven."""
        outcome = super().judge(evidence, dataset)
        audited = evidence.record("audits", self.audit)
        if not outcome.ours or audited is None or audited["lower_bound"] <= self.published.value:
            return outcome
        shown = audited["lower_bound"]
        return replace(
            outcome,
            verdict=Verdict.REFUTED,
            finding=f"{outcome.finding} An audit shows at least {rounded_down(shown)}.",
            ours=outcome.ours | {"audited": shown},
        )

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        trained = best(sides[0])
        proven, old = trained.epsilon(*_PROVEN), trained.epsilon(*_OF_ITS_TIME)
        if proven is None or old is None:
            raise UndecidedError(f"no epsilon is stored for {trained.label}")
        proof = _PROOF[trained.run.sampling.kind].format(epsilon(proven))
        ours = {"proven": proven, "of_its_time": old}
        if (least := trained.epsilon(_AT_LEAST)) is not None:
            proof += (
                f", and from clipping, noise and shuffling alone less than {rounded_down(least)} "
                "cannot be proven"
            )
            ours["at_least"] = least
        return Outcome(
            graded(round(proven, self.published.decimals) <= self.published.value, False),
            f"For the runs of {trained.label} {proof}; the accounting of the paper's time says "
            f"{epsilon(old)}.",
            ours,
            f"ε {epsilon(proven)}",
        )


def require_enough_spent(trained: Variant, quoted: Number) -> None:
    """Raise UndecidedError where a number may not be reached for want of epsilon.

    By the accounting of the paper's time the runs spent less than is quoted.
    """
    old = trained.epsilon(*_OF_ITS_TIME)
    if old is None or round(old, quoted.decimals) < quoted.value:
        spent = "nothing" if old is None else f"ε = {epsilon(old)}"
        raise UndecidedError(
            f"the runs of {trained.label} spent {spent} by the accounting of the paper's time, "
            f"less than the {quoted} that the number is published for"
        )


def require_no_more_spent(trained: Variant, quoted: Number) -> None:
    """Raise UndecidedError where more epsilon than is quoted is proven to be spent, or unknown."""
    proven = trained.epsilon(*_PROVEN)
    if proven is None or round(proven, quoted.decimals) > quoted.value:
        spent = "an unknown ε" if proven is None else f"ε = {epsilon(proven)}"
        raise UndecidedError(
            f"the runs of {trained.label} spent {spent}, proven, more than the {quoted} that the "
            "number is published for"
        )


def spent(trained: Variant) -> str:
    """Say what the runs of a variant spent, as an appendix to a sentence; nothing if unknown."""
    proven, old = trained.epsilon(*_PROVEN), trained.epsilon(*_OF_ITS_TIME)
    if proven is None or old is None:
        return ""
    return f"; ε = {epsilon(proven)} proven, {epsilon(old)} by the accounting of the paper's time"


@dataclass(frozen=True)
class Value(Rule):
    """A variant's mean test accuracy over seeds, at its end or earlier, is the published one."""

    published: Number
    runs: Runs  # the best of several
    epsilon: Number | None = None  # at which it is published
    at_least: bool = False  # of what is promised to be reached: more is agreement too
    quantity: Quantity = ACCURACY  # or that within an epsilon, which then is not asked for again
    kind: ClassVar[str] = "value"
    changed: ClassVar[datetime] = BY_INTERVALS
    full: ClassVar[str] = (
        "The interval lies within the tolerance of the published accuracy; where the paper "
        "promises to reach it, more is agreement too."
    )
    partial: ClassVar[str] = "Within twice the tolerance."

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
    """The published accuracy is the largest of several runs, as further seeds would have it."""

    published: Number
    runs: Runs
    of: int = 5  # as many as the paper has
    at_least: bool = False  # as in `Value`
    quantity: Quantity = ACCURACY  # at the end or within an epsilon
    kind: ClassVar[str] = "largest"
    changed: ClassVar[datetime] = datetime(2026, 11, 26, 22, 10, tzinfo=UTC)
    full: ClassVar[str] = (
        "The interval of the largest of as many runs as the paper has, expected of normal seeds, "
        "lies within the tolerance of the published accuracy; where the paper promises to reach "
        "it, more is agreement too."
    )
    partial: ClassVar[str] = "Within twice the tolerance."

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
