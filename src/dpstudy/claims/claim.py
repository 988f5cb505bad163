"""A claim of a paper: what it says, and on each dataset the rule that decides it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dpstudy.claims.rules.rule import Rule, Statement

if TYPE_CHECKING:
    from dpstudy.propositions.proposition import Proposition

# Where the rule of a claim about no dataset stands: a proposition.
NO_DATASET = ""


@dataclass(frozen=True)
class Claim:
    """One number, ordering or bound that a paper states.

    Attributes:
        id: lower-case words joined by hyphens, unique in the ledger.
        where: the place in the paper.
        says: in the study's words.
        rules: by dataset, what turns stored results into a verdict; under "" that of a statement.
        ruled: when these rules were written, or their numbers last changed.
        headline: whether it is what the paper's abstract, tables and figures stand for; the others
            are details.
        remark: a footnote: what a reader has to know to read the verdict right.
    """

    id: str
    where: str
    says: str
    rules: Mapping[str, Rule]
    ruled: datetime
    headline: bool = False
    remark: str = ""


def moment(text: str) -> datetime:
    """Return a moment as the claims write it, in UTC: "2026-11-24 18:03"."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def stated(name: str, where: str, says: str, rule: Rule, **options: object) -> Claim:
    """Return a claim about no dataset; its rule is as old as the search for it."""
    return Claim(name, where, says, {NO_DATASET: rule}, rule.changed, **options)


def named(claims: Mapping[str, Claim]) -> tuple[Claim, ...]:
    """Return claims that were made with no id, each with the one that it is listed by."""
    return tuple(replace(claim, id=name) for name, claim in claims.items())


def propositions(
    statements: Iterable[Proposition], headlines: Collection[str] = ()
) -> tuple[Claim, ...]:
    """Return a claim for each of some statements that a paper makes."""
    return tuple(
        stated(one.name, one.where, one.says, Statement(one.name), headline=one.name in headlines)
        for one in statements
        if not one.ours
    )
