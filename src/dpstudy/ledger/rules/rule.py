"""What every rule is: a look at selectors' runs, and an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NewType

from dpstudy.ledger.evidence import Evidence, Selector, Side, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.verdict import Outcome, UndecidedError, Verdict

# The name of a field of `Run`.
Field = NewType("Field", str)


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
            return not_yet_run(_lack(lacking), **counts)
        try:
            outcome = self.decide(published, *(side.variants for side in sides))
        except UndecidedError as error:
            return not_yet_run(f"Not decided: {error}.", **counts)
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


def not_yet_run(finding: str, *, found: int, needed: int) -> Outcome:
    """Return the outcome of a claim that nothing stored decides, and why."""
    return Outcome(Verdict.NOT_YET_RUN, finding, found=found, needed=needed)


def _lack(lacking: list[Side]) -> str:
    needed = sum(side.needed for side in lacking)
    count = [f"{sum(side.found for side in lacking)} of {needed} runs stored"] if needed else []
    return f"Not yet run: {'; '.join([*count, *dict.fromkeys(side.lacks for side in lacking)])}."
