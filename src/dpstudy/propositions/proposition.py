"""What a proposition is here: something that can fail, the rule by which it is judged, its record.

A proposition is written as its check: a function of its name, whose docstring it is.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dpstudy.gradients import devices
from dpstudy.lab import records
from dpstudy.progress import tqdm
from dpstudy.propositions.search import Found

Verdict = Literal["holds", "holds, loose", "misprint", "corrected", "refuted"]
VERDICTS: tuple[str, ...] = get_args(Verdict)

# The kind of record that outcomes are stored as.
KIND = "theorems"
# A bound is loose where no search brings the two sides' ratio to this.
LOOSE_BELOW = 0.95
# How far rounding in double precision may carry one side past the other, relative to it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Outcome:
    """What looking for a counterexample came to."""

    # The largest violation found, in the proposition's own terms: how far its left side exceeds its
    # right side; where something is to exist, how far the best witness falls short of being one.
    worst: float
    looked: str  # how hard, in words
    finding: str  # one sentence with the numbers found
    tightness: float | None = None  # the largest ratio of the two sides, where it makes sense
    corrected: float | None = None  # the largest violation of the corrected form, if there is one
    tolerance: float = ROUNDING  # what rounding, or a stated error of measurement, accounts for

    @property
    def verdict(self) -> Verdict:
        """Without a violation it holds, and is loose if the ratio stayed below `LOOSE_BELOW`.

        With one it is refuted, or corrected if the same search finds none in a corrected form.

        >>> Outcome(-0.1, "100 cases", "The left side is up to 0.9.", tightness=0.9).verdict
        'holds, loose'
        """
        if not self.worst <= self.tolerance:
            mended = self.corrected is not None and self.corrected <= self.tolerance
            return "corrected" if mended else "refuted"
        loose = self.tightness is not None and self.tightness < LOOSE_BELOW
        return "holds, loose" if loose else "holds"


def judge(
    *searches: Found,
    finding: str,
    bound: float | None = None,
    looked: str = "{}",
    corrected: float | None = None,
    tolerance: float = ROUNDING,
) -> Outcome:
    """Return the outcome of searches for a left side above the right one, each in another space.

    The first one's own words go into `looked` for "{}". The ratio of the sides is held to `bound`;
    without one, their difference is judged.
    """
    ratio = max(found.ratio for found in searches)
    return Outcome(
        worst=max(found.worst for found in searches) if bound is None else ratio - bound,
        looked=looked.format(searches[0].looked),
        finding=finding,
        tightness=ratio / (1.0 if bound is None else bound),
        corrected=corrected,
        tolerance=tolerance,
    )


@dataclass(frozen=True)
class Proposition:
    """One proposition of a paper, and the search that could refute it."""

    name: str  # lower-case words joined by hyphens
    paper: str  # a key of book/references.bib
    where: str  # its place in that paper
    says: str  # the proposition in our words
    refuted_by: str
    # Without arguments always the same search, with the same result; with some that of a variant,
    # which the proposition does not make.
    check: Callable[..., Outcome]
    instead: str | None = None  # what holds where it does not, if the check looks into that as well
    ours: bool = False  # made by no paper: sharpened or extended here, or about what it leaves out
    misprint: bool = False  # a slip of the pen, which the paper itself does not build on

    def verdict(self, outcome: Outcome) -> Verdict:
        """Return what the outcome of its check makes of it."""
        slip = self.misprint and outcome.verdict == "corrected"
        return "misprint" if slip else outcome.verdict


def proposition(
    paper: str, where: str, *, refuted_by: str, **more: Any
) -> Callable[[Callable[..., Outcome]], Proposition]:
    """Make a `Proposition` of its check, named as that, saying what its docstring begins with."""

    def of(check: Callable[..., Outcome]) -> Proposition:
        name = check.__name__.replace("_", "-")
        says = " ".join(inspect.getdoc(check).split("\n\n")[0].split())
        return Proposition(name, paper, where, says, refuted_by, check, **more)

    return of


def run(propositions: Iterable[Proposition]) -> Iterator[tuple[Proposition, Outcome, float]]:
    """Check one proposition after the other, with a bar; yield its outcome and its seconds."""
    devices.backend()
    with tqdm(list(propositions), unit="statement", dynamic_ncols=True) as bar:
        for one in bar:
            bar.set_description(one.name)
            started = time.monotonic()
            outcome = one.check()
            yield one, outcome, time.monotonic() - started


def content(one: Proposition, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain values, by name."""
    return {
        "statement": one.name,
        "verdict": one.verdict(outcome),
        "worst": float(outcome.worst),
        "tightness": None if outcome.tightness is None else float(outcome.tightness),
        "looked": outcome.looked,
        "finding": outcome.finding,
    }


def keep(one: Proposition, outcome: Outcome, seconds: float) -> Path:
    """Store an outcome in place of an earlier one; return the file, or raise StoreError."""
    provenance = records.provenance(seconds, "scipy", "dp-accounting")
    path = records.folder(KIND) / f"{one.name}.json"
    records.write(path, KIND, content(one, outcome) | {"provenance": provenance})
    return path
