"""The ledger on a page: each claim with its verdict, in words and by a sign that reads in grey."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape

import pandas as pd

from dpstudy.ledger.claim import Claim
from dpstudy.ledger.ledger import Entry, Ledger
from dpstudy.ledger.rules import KINDS
from dpstudy.ledger.verdict import Verdict
from dpstudy.page.figure import MISSING, Note, Table, _Captioned
from dpstudy.papers.claims import KEYS, ledger

# Full, half and empty: how much of the claim stands. A cross only where it cannot be true.
SIGNS = {
    Verdict.REPRODUCED: "●",
    Verdict.PARTLY: "◐",
    Verdict.UNDECIDED: "◌",
    Verdict.NOT_REPRODUCED: "○",
    Verdict.REFUTED: "✕",
    Verdict.NOT_YET_RUN: "·",
}
_SMALL = "font-size: 0.9em; opacity: 0.8"


@dataclass(frozen=True, kw_only=True)
class ClaimTable(_Captioned):
    """Claims with their verdicts; the CSV has all of them, decided or not.

    Claims that are not yet run stand folded below the others, each with what it lacks; in a chapter
    the others are folded too.

    Attributes:
        name: identifies it on the page and names its CSV.
        caption: whose claims, and how many have which verdict.
        data: one row a claim, unrounded.
        entries: the claims shown.
        findings: whether to say of each claim what was measured, and its id.
    """

    entries: tuple[Entry, ...]
    findings: bool = True

    def _repr_html_(self) -> str:
        decided, waiting = _split(self.entries)
        parts = [self._table(decided)] if decided else []
        if decided and not self.findings:
            summary = f"{_count(len(decided))} decided"
            parts = [f"<details><summary>{summary}</summary>{parts[0]}</details>"]
        if waiting:
            summary = f"{_count(len(waiting))} not yet run"
            parts.append(f"<details><summary>{summary}</summary>{self._table(waiting)}</details>")
        return self._wrap("\n".join(parts))

    def _table(self, entries: list[Entry]) -> str:
        head = "".join(
            f'<th scope="col">{name}</th>' for name in ("Claim", "Published", "Ours", "Verdict")
        )
        return (
            f'<div style="overflow-x: auto" tabindex="0" role="region" '
            f'aria-labelledby="{self.name}-caption">\n'
            '<table class="table table-sm" style="font-size: 0.8em">\n'
            f"<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{''.join(map(self._row, entries))}</tbody></table>\n</div>"
        )

    def _row(self, entry: Entry) -> str:
        claim, outcome = entry.claim, entry.outcome
        sign = f'<span aria-hidden="true">{SIGNS[outcome.verdict]}</span>'
        found = f"{escape(outcome.finding)} <code>{escape(claim.id)}</code>"
        return (
            f'<tr><th scope="row" style="font-weight: normal">{escape(claim.says)} '
            f'<span style="{_SMALL}">{escape(claim.where)}.{_timing(claim)}</span>'
            + (f'<div style="{_SMALL}">{found}</div>' if self.findings else "")
            + f"</th><td>{escape(entry.published or MISSING)}</td>"
            f"<td>{escape(outcome.shown or MISSING)}</td>"
            f'<td style="white-space: nowrap">{sign} {escape(outcome.short)}</td></tr>\n'
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        lines = [
            " | ".join((e.claim.id, e.published, e.outcome.shown, e.outcome.short))
            for e in self.entries
        ]
        return {"text/html": self._repr_html_(), "text/plain": "\n".join(lines)}


def chapter(paper: str) -> ClaimTable:
    """Show the claims of one paper without their findings, for the head of its chapter.

    Args:
        paper: a key such as "tempered-sigmoids".

    Raises:
        UserError: there is no such paper, or an entry of its file is malformed.
    """
    return table(KEYS[paper], ledger(paper), findings=False)


def table(paper: str, judged: Ledger, findings: bool = True) -> ClaimTable:
    """Show the claims of one paper, by its short name, in a ledger that has been judged."""
    mine = judged.of(paper)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in mine.counts.items() if count)
    return ClaimTable(
        name=f"claims-{paper.replace(' ', '-')}",
        caption=(
            f"What {paper} claims, and what the stored results make of it: "
            f"{_count(len(mine.entries))}, {counts}.{_shared(mine)} Accuracies are medians over "
            "seeds at the last epoch. Verdicts are computed; the rules are in the ledger."
        ),
        data=pd.DataFrame([_flat(entry) for entry in mine.entries]),
        entries=mine.entries,
        findings=findings,
    )


def _shared(judged: Ledger) -> str:
    """Say how many verdicts rest on the same runs, where many do."""
    decided = [entry.claim.experiment for entry in _split(judged.entries)[0]]
    shared = Counter(filter(None, decided)).most_common(1)
    if not shared or shared[0][1] == 1:
        return ""
    [(name, count)] = shared
    return (
        f" Verdicts are not independent: {count} of the {len(decided)} that are decided rest on "
        f"the runs of {name}."
    )


def counts(judged: Ledger) -> Table:
    """Count the claims of each paper by verdict."""
    papers = dict.fromkeys(entry.claim.paper for entry in judged.entries)
    rows = [
        {"paper": paper, **{str(v): n for v, n in judged.of(paper).counts.items()}}
        for paper in papers
    ]
    return Table(
        name="claims-by-verdict",
        caption="Claims of each paper by verdict, computed from what is stored now.",
        data=pd.DataFrame(rows),
    )


def rule_kinds() -> Table:
    """List the kinds of rules, with what each asks for."""
    rows = [
        {"rule": kind, "the claim stands if": rule.full, "and in part if": rule.partial}
        for kind, rule in KINDS.items()
    ]
    return Table(
        name="rules-of-the-ledger",
        caption=(
            "The rules. Tolerance of an accuracy: a point, or a fifth of the error where that is "
            "less. Undecided: the interval reaches over the edge of what a rule asks for."
        ),
        data=pd.DataFrame(rows),
    )


def damage(judged: Ledger) -> Note | None:
    """Name the stored files that were left out; None if there are none."""
    return Note("Left out", "; ".join(judged.damaged)) if judged.damaged else None


def _timing(claim: Claim) -> str:
    return " Rule written or mended after the first of its runs." if claim.rule_after_runs else ""


def _split(entries: tuple[Entry, ...]) -> tuple[list[Entry], list[Entry]]:
    waiting = [e for e in entries if e.outcome.verdict is Verdict.NOT_YET_RUN]
    return [e for e in entries if e not in waiting], waiting


def _flat(entry: Entry) -> dict[str, object]:
    content = entry.to_dict()
    numbers = content.pop("published")
    ours = content.pop("ours")
    return content | {
        "published": "; ".join(f"{n['name']} = {n['value']}" for n in numbers),
        "ours": "; ".join(f"{name} = {value}" for name, value in ours.items()),
    }


def _count(number: int) -> str:
    return "1 claim" if number == 1 else f"{number} claims"
