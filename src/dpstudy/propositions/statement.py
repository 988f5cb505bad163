"""What a statement is here: something that can fail, and the rule by which it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["holds", "holds, loose", "misprint", "corrected", "refuted"]
VERDICTS: tuple[str, ...] = get_args(Verdict)

# A bound is loose where no search brings the two sides' ratio to this.
LOOSE_BELOW = 0.95
# How far rounding in double precision may carry one side past the other, relative to it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Outcome:
    """What looking for a counterexample came to.

    Attributes:
        worst: the largest violation found, in the statement's own terms: how far its left side
            exceeds its right side. Where the statement says that something exists: how far the
            best witness falls short of counting as one.
        looked: how hard was looked, in words.
        finding: one sentence with the numbers found.
        tightness: the largest ratio of the two sides found; None where it makes no sense.
        corrected: the largest violation found of the corrected statement, where one is given.
        tolerance: the violation that rounding, or a stated error of measurement, accounts for.
    """

    worst: float
    looked: str
    finding: str
    tightness: float | None = None
    corrected: float | None = None
    tolerance: float = ROUNDING

    @property
    def verdict(self) -> Verdict:
        """The one rule for all statements.

        Without a violation a statement holds, and is loose if its sides' ratio stayed below
        `LOOSE_BELOW`. With one it is refuted, or corrected if a corrected form is given in which
        the same search finds none.
        """
        if not self.worst <= self.tolerance:
            mended = self.corrected is not None and self.corrected <= self.tolerance
            return "corrected" if mended else "refuted"
        loose = self.tightness is not None and self.tightness < LOOSE_BELOW
        return "holds, loose" if loose else "holds"


@dataclass(frozen=True)
class Statement:
    """One proposition of a paper, and the search that could refute it.

    Attributes:
        name: lower-case words joined by hyphens.
        paper: a key of book/references.bib.
        where: its place in that paper.
        says: the statement in our words.
        refuted_by: what would refute it.
        check: looks for that; always the same search, with the same result.
        instead: what holds where the statement does not, if the check looks into that as well.
        ours: whether no paper makes it: sharpened or extended here, or about what it leaves out.
        misprint: whether it is a slip of the pen, which the paper itself does not build on.
    """

    name: str
    paper: str
    where: str
    says: str
    refuted_by: str
    check: Callable[[], Outcome]
    instead: str | None = None
    ours: bool = False
    misprint: bool = False

    def verdict(self, outcome: Outcome) -> Verdict:
        """Return what the outcome of its check makes of it."""
        slip = self.misprint and outcome.verdict == "corrected"
        return "misprint" if slip else outcome.verdict
