"""What the ledger says of a claim, and on what grounds."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """What stored results make of a claim; only a rule may give one."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    UNDECIDED = "undecided"
    NOT_REPRODUCED = "not reproduced"
    REFUTED = "refuted"
    MISPRINT = "misprint"
    NOT_YET_RUN = "not yet run"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Outcome:
    """A verdict with what it rests on."""

    verdict: Verdict  # computed by the claim's rule
    # One sentence: what was measured, over how many seeds, or why there is no verdict yet.
    finding: str
    ours: dict[str, float] = field(default_factory=dict)  # by name, unrounded
    shown: str = ""  # in a table's column for ours
    found: int = 0  # runs, or stored outcomes, that the rule needs and that are stored
    needed: int = 0  # all that it needs; 0 where that is not known
    oldest: datetime | None = None  # when the first of the runs that decide it ended
    # Whether one seed, redrawn, would turn the verdict, or another way that the rule allows.
    close: bool = False

    @property
    def short(self) -> str:
        """The verdict, whether it is close, and how many runs there are where some are missing."""
        if self.verdict is Verdict.NOT_YET_RUN and self.found < self.needed:
            return f"{self.verdict} ({self.found} of {self.needed})"
        return f"{self.verdict}, close" if self.close else str(self.verdict)


class UndecidedError(Exception):
    """What is stored cannot decide the claim; the message says why."""


def graded(full: bool, partial: bool) -> Verdict:
    """Return reproduced, else partly, else not reproduced."""
    if full:
        return Verdict.REPRODUCED
    return Verdict.PARTLY if partial else Verdict.NOT_REPRODUCED
