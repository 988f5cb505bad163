"""The ledger on a page: each claim with a verdict a dataset, by a sign that reads in grey."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from dpstudy.claims.claim import Claim
from dpstudy.claims.ledger import Entry, Ledger
from dpstudy.claims.rules import Statement
from dpstudy.lab.verdict import Verdict
from dpstudy.page.figure import STYLES, Captioned, Figure, Shown, canvas
from dpstudy.parts.data.images import DATASETS
from under_the_clip.chapters import Chapter, papers
from under_the_clip.claims import KEYS, ledger

# Full, half and empty: how much of the claim stands. A cross only where it cannot be true.
SIGNS = {
    Verdict.REPRODUCED: "●",
    Verdict.PARTLY: "◐",
    Verdict.UNDECIDED: "◌",
    Verdict.NOT_REPRODUCED: "○",
    Verdict.REFUTED: "✕",
    Verdict.MISPRINT: "✎",
    Verdict.NOT_YET_RUN: "·",
    Verdict.NOT_TESTED: "–",
}
_SMALL = "font-size: 0.9em; opacity: 0.8"
# A row is a claim beside its verdicts; on a phone these go below it.
_ROW = "display: flex; flex-wrap: wrap"
_CLAIM = "flex: 1 1 18em; min-width: 0; font-weight: normal; text-align: left"
_CELL = "flex: 0 1 9.5em; min-width: 7em; border: 0"

# A claim with its entries.
Judged = tuple[Claim, list[Entry]]


@dataclass(frozen=True, kw_only=True)
class ClaimTable(Captioned):
    """Claims with their verdicts, the headlines open and the details folded.

    What was measured stands folded in each row, and remarks are footnotes; the CSV has all.
    """

    headlines: list[Judged]
    details: list[Judged]

    def _repr_html_(self) -> str:
        remarks = [claim.remark for claim, _ in (*self.headlines, *self.details) if claim.remark]
        notes = list(dict.fromkeys(remarks))
        folded = {}
        if notes:
            items = "".join(
                f'<li id="{self.name}-note-{number}">{escape(note)}</li>'
                for number, note in enumerate(notes, start=1)
            )
            folded["Notes"] = f'<ol style="{_SMALL}">{items}</ol>'
        if self.details:
            folded[f"{_count(len(self.details))} in detail"] = self._table(self.details, notes)
        title, shown = ", and ".join(folded), "".join(folded.values())
        below = f"<details><summary>{title}</summary>{shown}</details>" if folded else ""
        return self._wrap(f"{self._table(self.headlines, notes)}\n{below}")

    def _table(self, claims: list[Judged], notes: list[str]) -> str:
        rows = "".join(self._row(claim, entries, notes) for claim, entries in claims)
        return (
            f'<table class="table table-sm" role="table" aria-labelledby="{self.name}-caption" '
            f'style="font-size: 0.8em; display: block"><tbody role="rowgroup" '
            f'style="display: block">\n{rows}</tbody></table>\n'
        )

    def _row(self, claim: Claim, entries: list[Entry], notes: list[str]) -> str:
        mark = ""
        if claim.remark:
            number = notes.index(claim.remark) + 1
            mark = f'<sup><a href="#{self.name}-note-{number}" aria-label="note">{number}</a></sup>'
        found = "".join(f"<li>{_finding(entry)}</li>" for entry in entries)
        return (
            f'<tr role="row" id="claim-{claim.id}" style="{_ROW}">'
            f'<th scope="row" role="rowheader" style="{_CLAIM}">'
            f'{escape(claim.says)}{mark} <span style="{_SMALL}">{escape(claim.where)}.</span>'
            f'<details class="measured" style="{_SMALL}"><summary>What was measured</summary>'
            f"<ul>{found}</ul></details></th>{''.join(map(_cell, entries))}</tr>\n"
        )

    @property
    def plain(self) -> str:
        """A line a verdict."""
        return "\n".join(
            " | ".join((e.id, e.rule.stated, e.outcome.shown, e.outcome.short))
            for _, entries in (*self.headlines, *self.details)
            for e in entries
        )


def _finding(entry: Entry) -> str:
    dataset = f"{DATASETS[entry.dataset]}: " if entry.dataset else ""
    late = " †" if entry.rule_came_first is False else ""
    found = escape(f"{dataset}{entry.outcome.finding}{late}")
    named = f"<code>{escape(entry.id)}</code>"
    if isinstance(entry.rule, Statement):
        named = f'<a href="06_theorems.html#{entry.rule.name}">{named}</a>'
    return f"{found} {named}"


def _cell(entry: Entry) -> str:
    outcome = entry.outcome
    dataset = f"{DATASETS[entry.dataset]}: " if entry.dataset else ""
    shown = escape(outcome.shown) if entry.dataset else ""
    stated = f"published {escape(entry.rule.stated)}" if entry.rule.stated else ""
    numbers = f"{shown} ({stated})" if shown and stated else shown or stated
    return (
        f'<td role="cell" style="{_CELL}"><span aria-hidden="true">{SIGNS[outcome.verdict]}</span> '
        f"{dataset}{escape(outcome.short)}"
        + (f'<br><span style="{_SMALL}">{numbers}</span>' if numbers else "")
        + "</td>"
    )


@dataclass(frozen=True)
class Headed(Shown):
    """Tables of claims, each under its paper's name; in the book with its citation too."""

    tables: Mapping[Chapter, ClaimTable]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        raw = "```{{raw}} html\n{}\n```".format
        shown = [
            part
            for paper, table in self.tables.items()
            for part in (
                raw(_heading(paper)),
                f"{{cite}}`{','.join(paper.cited)}`",
                raw(table._repr_html_()),
            )
        ]
        return super()._repr_mimebundle_() | {"text/markdown": "\n\n".join(shown)}

    def _repr_html_(self) -> str:
        return "\n".join(f"{_heading(of)}\n{t._repr_html_()}" for of, t in self.tables.items())

    @property
    def plain(self) -> str:
        """The tables in text."""
        return "\n\n".join(table.plain for table in self.tables.values())


def _heading(paper: Chapter) -> str:
    return f'<h3 id="{paper.key}">{escape(paper.paper.capitalize())}</h3>'


def every_paper(judged: Ledger) -> Headed:
    """Show the claims of all papers, in the order of the book."""
    return Headed({paper: table(paper.paper, judged) for paper in papers()})


def chapter(key: str) -> ClaimTable:
    """Show the claims of one paper, such as "tempered-sigmoids", for the end of its chapter."""
    return table(KEYS[key], ledger(key))


def table(paper: str, judged: Ledger) -> ClaimTable:
    """Show the claims of one paper, by its short name, in a ledger that has been judged."""
    mine = judged.of(paper)
    headlines, details = (
        [pair for pair in mine.by_claim if pair[0].headline is wanted] for wanted in (True, False)
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in mine.counts.items() if count)
    late = any(entry.rule_came_first is False for entry in mine.entries)
    close = any(entry.outcome.close for entry in mine.entries)
    return ClaimTable(
        name=f"claims-{paper.replace(' ', '-')}",
        caption=(
            f"What {paper} claims, and what the stored results make of it: "
            f"{_count(len(mine.by_claim))}, with a verdict for each dataset: {counts}. Accuracies "
            "are medians over seeds at the last epoch."
            + (" Close: one seed, redrawn, would turn the verdict." if close else "")
            + (" † The rule is younger than one of these runs or more." if late else "")
        ),
        data=pd.DataFrame([_flat(entry) for entry in mine.entries]),
        headlines=headlines,
        details=details,
    )


def by_paper(judged: Ledger) -> Figure:
    """Draw how many verdicts of each kind the headline claims of each paper have.

    Claims on one quantity of the same runs count once, as what stands least of them.
    """
    counted_once = judged.headlines.once
    counts = {one.paper: counted_once.of(one.paper).counts for one in counted_once.entries}
    data = pd.DataFrame(
        {"paper": paper, "verdict": str(verdict), "count": count}
        for paper, counted in counts.items()
        for verdict, count in counted.items()
    )
    whole = ", ".join(f"{n} {verdict}" for verdict, n in counted_once.counts.items() if n)
    with canvas(size=(6.2, 2.6)) as (figure, (axes,)):
        left = np.zeros(len(counts))
        assert not counted_once.counts[Verdict.MISPRINT], "no headline is one, so far"
        shown = [verdict for verdict in Verdict if verdict is not Verdict.MISPRINT]
        for verdict, at in zip(shown, (0, 1, 3, 2, 4, 5, 6), strict=True):
            widths = np.array([counted[verdict] for counted in counts.values()])
            axes.barh(list(counts), widths, left=left, **STYLES[at].area, label=str(verdict))
            left += widths
        axes.invert_yaxis()
        axes.set(xlabel="verdicts, one a claim and dataset")
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    said = "; ".join(
        f"{paper}: {', '.join(f'{n} {verdict}' for verdict, n in counted.items() if n)}"
        for paper, counted in counts.items()
    )
    return Figure(
        fig=figure,
        name="verdicts-by-paper",
        caption=(
            f"Headline claims by verdict: {whole}. Claims on one quantity of the same runs count "
            "once, by the worst verdict; an accuracy and its gain are two."
        ),
        alt=f"A bar for each paper, divided by verdict. {said}.",
        data=data,
    )


def _flat(entry: Entry) -> dict[str, object]:
    content = entry.to_dict()
    numbers, ours = content.pop("published"), content.pop("ours")
    return content | {
        "experiments": "; ".join(content["experiments"]),
        "published": "; ".join(f"{n['name']} = {n['value']}" for n in numbers),
        "ours": "; ".join(f"{name} = {value}" for name, value in ours.items()),
    }


def _count(number: int) -> str:
    return "1 claim" if number == 1 else f"{number} claims"
