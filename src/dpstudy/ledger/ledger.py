"""The ledger: every claim of the papers with the verdict that the stored results give it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpstudy.lab.experiment import Experiment
from dpstudy.ledger.claim import Claim
from dpstudy.ledger.evidence import Evidence
from dpstudy.ledger.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Entry:
    """A claim and what is made of it."""

    claim: Claim
    outcome: Outcome

    @property
    def published(self) -> str:
        """The published numbers, as they stand in a table; empty if there are none."""
        return self.claim.rule.show(self.claim.published) if self.claim.published else ""

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known, as JSON has it."""
        claim, outcome = self.claim, self.outcome
        return {
            "id": claim.id,
            "paper": claim.paper,
            "where": claim.where,
            "says": claim.says,
            "dataset": claim.dataset,
            "published": [
                {
                    "name": number.name,
                    "value": number.value,
                    "source": [number.source.key, number.source.where],
                }
                for number in claim.published
            ],
            "experiment": claim.experiment,
            "rule": claim.rule.kind,
            "rule_after_runs": claim.rule_after_runs,
            "verdict": outcome.verdict,
            # JSON has no infinity.
            "ours": {k: v if math.isfinite(v) else None for k, v in outcome.ours.items()},
            "finding": outcome.finding,
            "found": outcome.found,
            "needed": outcome.needed,
        }


@dataclass(frozen=True)
class Ledger:
    """The claims of some papers, judged on what is stored.

    Attributes:
        entries: in the order of the papers and of their files.
        damaged: one line for each file that cannot be trusted; what it held counts as missing.
    """

    entries: tuple[Entry, ...]
    damaged: tuple[str, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many claims have each verdict."""
        verdicts = [entry.outcome.verdict for entry in self.entries]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    def of(self, paper: str) -> Ledger:
        """Return the part about one paper, by its short name."""
        mine = tuple(entry for entry in self.entries if entry.claim.paper == paper)
        return Ledger(mine, self.damaged)


def judge(claims: Iterable[Claim], experiments: Mapping[str, Experiment]) -> Ledger:
    """Return the claims with their verdicts on what is stored now of these experiments."""
    evidence = Evidence(experiments)
    entries = tuple(
        Entry(claim, claim.rule.judge(evidence, claim.published, claim.experiment, claim.dataset))
        for claim in claims
    )
    return Ledger(entries, tuple(evidence.damaged))
