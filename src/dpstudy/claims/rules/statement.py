"""The rule for bounds and propositions: what the search for counterexamples found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from dpstudy.claims.evidence import Evidence
from dpstudy.claims.rules.rule import Rule, not_yet_run
from dpstudy.lab.verdict import Outcome, Verdict

_FAILED = ("refuted", "corrected")
_VERDICTS = {
    "misprint": Verdict.MISPRINT,
    "holds": Verdict.REPRODUCED,
    "holds, loose": Verdict.REPRODUCED,
    **dict.fromkeys(_FAILED, Verdict.REFUTED),
}


@dataclass(frozen=True)
class Statement(Rule):
    """A stated bound or proposition, searched for counterexamples.

    Attributes:
        name: of the stored outcome.
    """

    name: str
    kind: ClassVar[str] = "statement"
    changed: ClassVar[datetime] = datetime.fromisoformat("2026-11-28T14:30+00:00")
    full: ClassVar[str] = (
        "A search found no counterexample, or there is a proof. Otherwise the statement is "
        "refuted; a misprint, where what is printed is a slip of the pen and the paper goes on as "
        "if the corrected form stood there."
    )

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        stored = evidence.statement(self.name)
        if stored is None:
            lacks = f"Not yet run: no outcome of the check {self.name} is stored."
            return not_yet_run(lacks, found=0, needed=1)
        outcome = stored.get("verdict")
        if outcome not in _VERDICTS:
            lacks = f"Not decided: the stored outcome {outcome!r} is unknown."
            return not_yet_run(lacks, found=1, needed=1)
        ours = {k: stored[k] for k in ("worst", "tightness") if stored.get(k) is not None}
        said = " ".join(str(stored.get(key, "")) for key in ("finding", "looked")).strip()
        found = f"The statement is {outcome}" if outcome in _FAILED else f"It {outcome}"
        found = "It is a misprint" if outcome == "misprint" else found
        return Outcome(_VERDICTS[outcome], f"{found}. {said}".strip(), ours, outcome, 1, 1)
