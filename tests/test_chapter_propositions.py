"""What the chapter on propositions shows is what the searches found."""

import re
from pathlib import Path

from dpstudy.claims.rules import Statement
from dpstudy.lab import records
from dpstudy.page.figure import Note
from dpstudy.propositions.proposition import VERDICTS
from under_the_clip import claims
from under_the_clip.ledger import figures as ledger
from under_the_clip.statements import STATEMENTS
from under_the_clip.theorems import figures as chapter

ROOT = Path(__file__).parents[1]
STORED, DAMAGED = records.read_all(ROOT / "results" / "theorems", "theorems")
BY_NAME = {record["statement"]: record for record in STORED.values()}


def test_every_statement_is_stored():
    assert not DAMAGED and set(BY_NAME) == set(STATEMENTS)


def test_the_five_mistakes_are_as_large_as_what_was_found(of_the_study):
    times = chapter.mistakes().data["times"]
    assert [f"{of:.3g}" for of in times] == ["4.1e+03", "161", "2", "7.83", "5.2e+03"]


def test_the_table_says_of_each_statement_what_became_of_it():
    rows = {row[0]: row for row in chapter.in_short().shown()}
    assert len(rows) == len(chapter.CONSEQUENCES)
    for name, (short, follows) in chapter.CONSEQUENCES.items():
        _, paper, became, for_you = rows[short]
        verdict = BY_NAME[name]["verdict"]
        false = verdict in ("corrected", "refuted")
        assert became.startswith("False." if false else verdict.capitalize())
        assert (STATEMENTS[name].instead or "") in became
        assert for_you == follows and paper in {*chapter.PAPERS.values(), "asked here"}


def test_every_statement_is_in_a_table(monkeypatch):
    monkeypatch.setattr(chapter, "convergence_rates", lambda: None)
    counted, *tables, _ = chapter.all_statements("stored").parts
    assert sum(len(table.data) for table in tables) == len(STATEMENTS)
    assert counted.data[list(VERDICTS)].to_numpy().sum() == len(STATEMENTS)
    assert chapter.all_statements("stored").titles[1:-1] == tuple(counted.data.Paper)


def test_in_the_book_each_statement_is_a_proposition_that_leads_to_its_claim(monkeypatch):
    monkeypatch.setattr(chapter, "convergence_rates", lambda: Note("Rates", "measured"))
    book = chapter.all_statements("stored")._repr_mimebundle_()["text/markdown"]
    assert sorted(re.findall(r"^:label: (\S+)$", book, re.MULTILINE)) == sorted(STATEMENTS)
    made = [claim for of_one in claims.CLAIMS.values() for claim in of_one]
    judged = {claim.id for claim in made if isinstance(claim.rules.get(""), Statement)}
    assert set(re.findall(r"10_claims\.html#claim-([\w-]+)", book)) == judged


def test_the_ledger_leads_back_to_the_statement():
    shown = ledger.table("losing less", claims.ledger("losing-less"))._repr_html_()
    assert 'id="claim-gradient-norm-sum"' in shown
    assert 'href="06_theorems.html#gradient-norm-sum"' in shown
