"""The rule for bounds and propositions, which a search for counterexamples tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpstudy.ledger.evidence import Evidence
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.rule import Rule, not_yet_run
from dpstudy.ledger.verdict import Outcome, Verdict

_FAILED = ("refuted", "corrected")
_STATEMENTS = {
    "holds": Verdict.REPRODUCED,
    "holds, loose": Verdict.REPRODUCED,
    **dict.fromkeys(_FAILED, Verdict.REFUTED),
}


@dataclass(frozen=True)
class Statement(Rule):
    """A stated bound or proposition, searched for counterexamples.

    Attributes:
        statement: name of the stored outcome.
    """

    statement: str
    kind: ClassVar[str] = "statement"
    full: ClassVar[str] = (
        "A search found no counterexample, or there is a proof. Otherwise the statement is refuted."
    )
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (0,)

    def judge(
        self,
        evidence: Evidence,
        published: tuple[Number, ...],
        experiment: str | None,
        dataset: str | None,
    ) -> Outcome:
        """See `Rule`."""
        stored = evidence.statement(self.statement)
        if stored is None:
            return not_yet_run(
                f"Not yet run: no outcome of the check {self.statement} is stored.",
                found=0,
                needed=1,
            )
        outcome = stored.get("verdict")
        if outcome not in _STATEMENTS:
            return not_yet_run(
                f"Not decided: the stored outcome {outcome!r} is unknown.", found=1, needed=1
            )
        ours = {k: stored[k] for k in ("worst", "tightness") if stored.get(k) is not None}
        said = " ".join(str(stored.get(key, "")) for key in ("finding", "looked")).strip()
        found = f"The statement is {outcome}" if outcome in _FAILED else f"It {outcome}"
        return Outcome(_STATEMENTS[outcome], f"{found}. {said}".strip(), ours, outcome, 1, 1)
