"""A claim of a paper: what it says, and on each dataset the rule that decides it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dpstudy.claims.rules.rule import Rule, Statement
from dpstudy.propositions.proposition import Proposition

# Where the rule of a claim about no dataset stands: a proposition.
NO_DATASET = ""


@dataclass(frozen=True)
class Claim:
    """One number, ordering or bound that a paper states."""

    id: str  # lower-case words joined by hyphens, unique in the ledger
    where: str  # the place in the paper
    says: str  # in the study's words
    rules: Mapping[str, Rule]  # by dataset; under `NO_DATASET` that of a statement
    ruled: datetime  # when these rules were written, or their numbers last changed
    headline: bool = False  # what the paper's abstract, tables and figures stand for; else a detail
    remark: str = ""  # a footnote: what a reader has to know to read the verdict right


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
