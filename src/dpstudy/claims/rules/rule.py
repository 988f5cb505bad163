"""What every rule is, how rules compare, and those that look at no runs."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import ClassVar, Self, TypeVar

import pandas as pd

from dpstudy.claims.evidence import Evidence, Runs, needed, oldest, stored
from dpstudy.lab import wording
from dpstudy.lab.comparison import Region
from dpstudy.lab.published import Number
from dpstudy.lab.quantity import ACCURACY, Quantity
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome, UndecidedError, Verdict

SAME_LEVEL = 2.0
# What is called the same accuracy: within a point, or a fifth of the error where that is less.
ONE_POINT, OF_THE_ERROR = 0.01, 0.2
# What is called the same gain: within a third of the published one.
OF_THE_GAIN = 1 / 3
# Since then seeds decide by 95 % intervals, with these tolerances.
BY_INTERVALS = datetime.fromisoformat("2026-11-24T18:03+00:00")

ABOVE: Region = (0.0, math.inf)
ONE_LEVEL: Region = (1 / SAME_LEVEL, SAME_LEVEL)
NEAR_LEVEL: Region = (1 / SAME_LEVEL**2, SAME_LEVEL**2)


def tolerance(accuracy: float) -> float:
    """Return how far from an accuracy another is still the same."""
    return min(ONE_POINT, OF_THE_ERROR * (1 - accuracy))


def around(value: float, allowed: float, *, at_least: bool = False) -> Region:
    """Return the region within a tolerance of a value; all above it too, for what is promised."""
    return value - allowed, math.inf if at_least else value + allowed


def best(variants: Sequence[Variant], quantity: Quantity = ACCURACY) -> Variant:
    """Return the variant with the highest median over seeds of a quantity."""
    if len(variants) == 1:  # What is compared may be no column: one class of a confusion matrix.
        return variants[0]
    return max(variants, key=lambda variant: variant.values(quantity.column).median())


def summary(values: pd.Series, prefix: str = "") -> dict[str, float]:
    """Return the median and the spread of a quantity over seeds, for the ledger."""
    found = {"median": values.median(), "lowest": values.min(), "highest": values.max()}
    return {f"{prefix}{name}": float(value) for name, value in found.items()}


@dataclass(frozen=True)
class Sides:
    """A quantity of the two sides of a comparison, the best of each, by seed and in words."""

    variants: tuple[Variant, Variant]
    first: pd.Series
    second: pd.Series
    said: str

    @classmethod
    def of(cls, sides: Sequence[Sequence[Variant]], quantity: Quantity = ACCURACY) -> Self:
        """Return both sides; UndecidedError where runs did not record it, or one diverged."""
        one, other = (best(side, quantity) for side in sides)
        values = quantity.of(one, other)
        said = " and ".join(
            f"{name} {wording.spread(of, quantity)}"
            for name, of in zip(quantity.named(one, other), values, strict=True)
        )
        return cls((one, other), *values, said)

    @property
    def summary(self) -> dict[str, float]:
        """The summaries of both, for the ledger."""
        return summary(self.first, "first_") | summary(self.second, "second_")


@dataclass(frozen=True)
class Rule:
    """What all rules share: they look at all seeds of the runs that they name, or at none."""

    kind: ClassVar[str]
    # When what it asks for was last changed in code; `tests/test_rules.py` holds it.
    changed: ClassVar[datetime]
    # In words, when a claim is upheld, and when in part.
    full: ClassVar[str]
    partial: ClassVar[str] = "Never."

    @property
    def sides(self) -> tuple[Runs, ...]:
        """The runs that the rule looks at, in the order in which `decide` gets them."""
        values = (getattr(self, item.name) for item in fields(self))
        return tuple(value for value in values if isinstance(value, Runs))

    @property
    def about(self) -> str:
        """Which column of the runs it looks at; a rule without a quantity looks at accuracy."""
        return getattr(self, "quantity", ACCURACY).column

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The published numbers that the rule compares with."""
        published = getattr(self, "published", ())
        return published if isinstance(published, tuple) else (published,)

    @property
    def stated(self) -> str:
        """What is published, as it stands in a table; empty if nothing is."""
        return " and ".join(map(str, self.numbers))

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        """Return the verdict, or that it is not yet run, with how many runs are there."""
        sides = [evidence.variants(runs, dataset) for runs in self.sides]
        named = [one for side in sides for one in side]
        counts = {"found": stored(named), "needed": needed(named) if all(sides) else 0}
        lacks = [evidence.lacks(runs, dataset) for runs in self.sides]
        if any(lacks):
            lacking = [one for side, lack in zip(sides, lacks, strict=True) if lack for one in side]
            count = [f"{stored(lacking)} of {needed(lacking)} runs stored"] if lacking else []
            said = "; ".join([*count, *filter(None, dict.fromkeys(lacks))])
            return Outcome(Verdict.NOT_YET_RUN, f"Not yet run: {said}.", **counts)
        try:
            outcome = self.decide(*sides)
        except UndecidedError as error:
            outcome = Outcome(Verdict.UNDECIDED, f"Not decided: {error}.")
        return replace(outcome, oldest=oldest(named), **counts)

    def decide(self, *sides: Sequence[Variant]) -> Outcome:
        """Return the outcome on complete runs, or raise UndecidedError where they test nothing."""
        raise NotImplementedError


@dataclass(frozen=True)
class Untested(Rule):
    """No run of this study can decide the claim, for a reason."""

    reason: str
    published: tuple[Number, ...] = ()
    kind: ClassVar[str] = "untested"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-21T23:12+00:00")
    full: ClassVar[str] = "Never: no run of this study can decide it; the claim says why."

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        return Outcome(Verdict.NOT_TESTED, f"Not tested: {self.reason}.")


@dataclass(frozen=True)
class Unsupported(Rule):
    """Runs look at the claim, and for a reason cannot support a verdict, whatever they show."""

    rule: Rule
    reason: str
    kind: ClassVar[str] = "unsupported"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-28T14:30+00:00")
    full: ClassVar[str] = "Never: what was run cannot support a verdict; the finding says why."

    @property
    def sides(self) -> tuple[Runs, ...]:
        return self.rule.sides

    @property
    def numbers(self) -> tuple[Number, ...]:
        return self.rule.numbers

    @property
    def stated(self) -> str:
        return self.rule.stated

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        """See `Rule`: what the runs show stands in the finding."""
        outcome = self.rule.judge(evidence, dataset)
        if outcome.verdict is Verdict.NOT_YET_RUN:
            return outcome
        finding = f"Not decided: {self.reason}. {outcome.finding}"
        return replace(outcome, verdict=Verdict.UNDECIDED, finding=finding, close=False)


About = TypeVar("About")
# From a dataset to what a rule is about there: runs, or a published number.
OnDataset = Callable[[str], About]


def on(
    datasets: Iterable[str], rule: Callable[..., Rule], *about: object, **options: object
) -> dict[str, Rule]:
    """Return by dataset a rule of a class, about what that takes.

    Functions among it, alone or in tuples, give it from the dataset.
    """

    def there(about: object) -> object:
        if isinstance(about, tuple):
            return tuple(map(there, about))
        return about(dataset) if callable(about) else about

    rules = {}
    for dataset in datasets:
        named = {name: there(one) for name, one in options.items()}
        rules[dataset] = rule(*map(there, about), **named)
    return rules


# What a stored outcome of a search is to the ledger, and in a sentence.
_VERDICTS = {
    "misprint": (Verdict.MISPRINT, "It is a misprint"),
    "holds": (Verdict.REPRODUCED, "It holds"),
    "holds, loose": (Verdict.REPRODUCED, "It holds, loose"),
    "corrected": (Verdict.REFUTED, "The statement is corrected"),
    "refuted": (Verdict.REFUTED, "The statement is refuted"),
}


@dataclass(frozen=True)
class Statement(Rule):
    """A stated bound or proposition, searched for counterexamples under its name."""

    name: str
    kind: ClassVar[str] = "statement"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-28T14:30+00:00")
    full: ClassVar[str] = (
        "A search found no counterexample, or there is a proof. Otherwise the statement is "
        "refuted; a misprint, where what is printed is a slip of the pen and the paper goes on as "
        "if the corrected form stood there."
    )

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        stored = evidence.record("theorems", self.name)
        if stored is None:
            lacks = f"Not yet run: no outcome of the check {self.name} is stored."
            return Outcome(Verdict.NOT_YET_RUN, lacks, needed=1)
        outcome = stored.get("verdict")
        if outcome not in _VERDICTS:
            lacks = f"Not decided: the stored outcome {outcome!r} is unknown."
            return Outcome(Verdict.NOT_YET_RUN, lacks, found=1, needed=1)
        ours = {k: stored[k] for k in ("worst", "tightness") if stored.get(k) is not None}
        said = " ".join(str(stored.get(key, "")) for key in ("finding", "looked")).strip()
        verdict, found = _VERDICTS[outcome]
        return Outcome(verdict, f"{found}. {said}".strip(), ours, outcome, 1, 1)
