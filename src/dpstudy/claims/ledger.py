"""The ledger: every claim of the papers with the verdict that the stored results give it."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpstudy.claims.claim import Claim
from dpstudy.claims.evidence import Evidence
from dpstudy.claims.rules.rule import Rule
from dpstudy.lab.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Entry:
    """A claim on one dataset ("" for statements) and what its rule makes of it."""

    paper: str
    claim: Claim
    dataset: str
    outcome: Outcome

    @property
    def id(self) -> str:
        """The claim's id, with the dataset where it has several."""
        return f"{self.claim.id}-{self.dataset}" if len(self.claim.rules) > 1 else self.claim.id

    @property
    def rule(self) -> Rule:
        """The rule that decides it."""
        return self.claim.rules[self.dataset]

    @property
    def rule_came_first(self) -> bool | None:
        """Whether the rule is older than all runs that decide the claim; None where none do."""
        if self.outcome.oldest is None:
            return None
        return max(self.claim.ruled, self.rule.changed) < self.outcome.oldest

    def to_dict(self) -> dict[str, Any]:
        """Return all that is known, as JSON has it."""
        claim, outcome = self.claim, self.outcome
        return {
            "id": self.id,
            "paper": self.paper,
            "where": claim.where,
            "says": claim.says,
            "remark": claim.remark,
            "headline": claim.headline,
            "dataset": self.dataset or None,
            "published": [
                {"name": n.name, "value": n.value, "source": [n.source.key, n.source.where]}
                for n in self.rule.numbers
            ],
            "experiments": list(dict.fromkeys(runs.experiment.name for runs in self.rule.sides)),
            "rule": self.rule.kind,
            "ruled": max(claim.ruled, self.rule.changed).isoformat(),
            "rule_came_first": self.rule_came_first,
            "verdict": outcome.verdict,
            "close": outcome.close,
            # JSON has no infinity.
            "ours": {k: v if math.isfinite(v) else None for k, v in outcome.ours.items()},
            "finding": outcome.finding,
            "found": outcome.found,
            "needed": outcome.needed,
        }


# From what stands to what does not; what nothing decides counts least.
_UNTOLD = [Verdict.NOT_YET_RUN, Verdict.NOT_TESTED]
_STANDS = _UNTOLD + [verdict for verdict in Verdict if verdict not in _UNTOLD]


@dataclass(frozen=True)
class Ledger:
    """The claims of some papers, judged on what is stored."""

    entries: tuple[Entry, ...]  # in the order of the papers and of their claims
    damaged: tuple[str, ...]  # see `Evidence`

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many entries have each verdict."""
        verdicts = [entry.outcome.verdict for entry in self.entries]
        return {verdict: verdicts.count(verdict) for verdict in Verdict}

    @property
    def by_claim(self) -> list[tuple[Claim, list[Entry]]]:
        """Each claim with its entries, one a dataset."""
        found: dict[str, tuple[Claim, list[Entry]]] = {}
        for entry in self.entries:
            found.setdefault(entry.claim.id, (entry.claim, []))[1].append(entry)
        return list(found.values())

    @property
    def headlines(self) -> Self:
        """The part about what the papers stand for."""
        return self._part(entry for entry in self.entries if entry.claim.headline)

    @property
    def once(self) -> Self:
        """The part in which one quantity of the same runs counts once, as what stands least."""
        least: dict[Hashable, Entry] = {}
        for entry in self.entries:
            runs = frozenset((one.experiment.name, one.variant) for one in entry.rule.sides)
            key = (entry.paper, entry.dataset, runs, entry.rule.about) if runs else entry.id
            pair = least.get(key, entry), entry
            least[key] = max(pair, key=lambda one: _STANDS.index(one.outcome.verdict))
        return self._part(least.values())

    def of(self, paper: str) -> Self:
        """Return the part about one paper, by its short name."""
        return self._part(entry for entry in self.entries if entry.paper == paper)

    def _part(self, entries: Iterable[Entry]) -> Self:
        return Ledger(tuple(entries), self.damaged)


def judge(claims: Mapping[str, Iterable[Claim]]) -> Ledger:
    """Return the claims, by paper, with their verdicts on what is stored now."""
    evidence = Evidence()
    entries = tuple(
        Entry(paper, claim, dataset, rule.judge(evidence, dataset))
        for paper, of_one in claims.items()
        for claim in of_one
        for dataset, rule in claim.rules.items()
    )
    return Ledger(entries, tuple(evidence.damaged))
