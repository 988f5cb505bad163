"""Every number that the chapter on propositions says in prose is what the searches found.

They are held to the stored outcomes, whose verdicts the tests of the searches hold to the code.
"""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from prose import prose_of, said_by

from dpstudy.claims.rules import Statement
from dpstudy.lab import records
from dpstudy.page.figure import Note
from dpstudy.propositions.proposition import VERDICTS
from under_the_clip import claims
from under_the_clip.backpropagation_clipping.propositions.sensitivity import BATCH
from under_the_clip.ledger import figures as ledger
from under_the_clip.published import MNIST_PARAMETERS
from under_the_clip.statements import STATEMENTS
from under_the_clip.theorems import figures as chapter

ROOT = Path(__file__).parents[1]
says = said_by("06_theorems")
STORED, DAMAGED = records.read_all(ROOT / "results" / "theorems", "theorems")
BY_NAME = {record["statement"]: record for record in STORED.values()}


def found(name, pattern):
    """The groups of a pattern in the stored finding of a statement."""
    match = re.search(pattern, BY_NAME[name]["finding"])
    assert match, (name, BY_NAME[name]["finding"])
    return match.groups()


def test_how_many_hold_and_how_many_fail():
    assert not DAMAGED and set(BY_NAME) == set(STATEMENTS)
    verdicts = Counter((STATEMENTS[name].ours, one["verdict"]) for name, one in BY_NAME.items())
    theirs, ours = (
        {said: verdicts[whose, said] for said in VERDICTS if verdicts[whose, said]}
        for whose in (False, True)
    )
    hold, ours_hold = (of["holds"] + of["holds, loose"] for of in (theirs, ours))
    fail = sum(theirs.values()) - hold
    says(f"{sum(theirs.values())} statements of the four papers")
    slips = theirs["misprint"]
    says(f"{hold} hold, and {fail} fail as printed or as used, {slips} of these by a slip in print")
    says(f"Of {sum(ours.values())} more, asked here about what the papers leave out, {ours_hold}")
    says(f"{ours_hold} hold. Those that fail have a corrected form that survives")
    assert theirs["refuted"] == 1 and "refuted" not in ours
    assert BY_NAME["corrected-code-targets"]["verdict"] == "refuted"
    says("the search, but for one: what the second correction of the code of backpropagation")


def test_sensitivities():
    root = math.sqrt(MNIST_PARAMETERS)
    says(f"sensitivity is √n, {root:.0f} on the MNIST network, not 1")
    says(f"reaches √n = {root:.0f} in the limit")
    says(f"as soon as its entries are above {math.atanh(1 / root):.4f}")
    [mean] = found("layer-sensitivity-mean-loss", r"up to ([\d.]+) a b")
    says(f"{float(mean):.2f} times was found for batches of {BATCH}")
    says(f"{float(mean):.2f} was found for batches of {BATCH}")
    assert float(mean) <= 2 - 1 / BATCH
    most = max(found("convolution-sensitivity-padding", r"to ([\d.]+), ([\d.]+) of a b"))
    says(f"wrapped around, cost nothing: {most} of $ab$ was found")
    [reflected] = found("convolution-sensitivity-copying", r"to ([\d.]+) \(reflect\)")
    says(f"{float(reflected):.2f} was found for reflection")
    [replaced] = found("parallel-composition-replacing", r"to ([\d.]+) times")
    assert float(replaced) == pytest.approx(4)
    [cut] = found("parallel-composition-cut", r"to ([\d.]+) times")
    assert float(cut) == pytest.approx(4 * (3 - 1) + 1)


def test_from_noise_to_epsilon():
    targets = re.findall(r"([\d.]+) and ([\d.]+\d)", BY_NAME["corrected-code-targets"]["finding"])
    first, second = zip(*targets, strict=True)
    says(f"aims at ε = {first[0]} and costs at least {second[0]}")
    says("Its targets {}, {}, {} and {}".format(*first))
    says("cost at least {}, {}, {} and {}".format(*second))
    mnist, cifar = found(
        "shuffled-as-if-sampled",
        r"MNIST, ε = [\d.]+: ([\d.e-]+) ±.*CIFAR-10, ε = [\d.]+: ([\d.e-]+)",
    )
    says(f"δ is {float(mnist):g} on MNIST and {float(cifar):g} on CIFAR-10; on Fashion-MNIST")
    says(f"batches can have δ = {float(mnist):.1g} on MNIST where the formula states")
    assert (
        "Fashion-MNIST, ε = 3.00: no more can be told"
        in BY_NAME["shuffled-as-if-sampled"]["finding"]
    )
    for name in ("pld", "rdp"):
        *ratios, error = re.findall(r"\d\.\d{3}", BY_NAME[f"{name}-covers-delta"]["finding"])
        assert name == "rdp" or error == "0.020"
        says(f"the drawn δ is {min(ratios)} to {max(ratios)} of")
    two, five = found(
        "group-privacy", r"2 records have δ = ([\d.e-]+) at ε = 6, and 5 .*δ = ([\d.e-]+) at"
    )
    says(f"records δ = {float(two):.6f} at ε = 6, and five δ = {float(five):g} at ε = 15")


def test_gradients():
    factor, weights, inputs = found(
        "gradient-norm-sum", r"A gradient ([\d.]+) times .*\|W\| = ([\d.]+), \|a\| = ([\d.]+)\."
    )
    says(f"A gradient {float(factor):.1f} times the bound of Eq. 11 of losing less was found")
    says(f"= {weights} and $\\lVert a \\rVert$ = {inputs} a gradient is {factor} times the printed")
    longest, bound = found("gradient-norm-multiclass", r"([\d.]+) for 10 classes.*, ([\d.]+)\.$")
    assert float(longest) == pytest.approx(math.sqrt(2), abs=1e-6)
    says(f"is {bound}. The blocks")
    [apart] = found("tanh-equation", r"up to ([\d.]+) away")
    says(f"up to {apart} away")


def test_theorem_1():
    worst, drawn = found("clipping-bias-sharp", r"is ([\d.]+) Δ with two .* ([\d.]+) Δ by gradient")
    says(f"The largest bias found is {worst} Δ, and Δ/2 is enough")
    says(f"Random problems stay at {drawn} Δ or below")
    higher, lower, before, after = found(
        "bias-falls-with-temperature", r"from ([\d.]+) to ([\d.]+), .* from ([\d.]+) to ([\d.]+)\.$"
    )
    says(f"from {before} to {after} when $T$ falls from {higher} to {lower}")
    [share] = found("clipped-field-multiclass", r"adds up to ([\d.]+)% of its length")
    says(f"adds up to {share} % of its length")


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


def test_nothing_is_to_be_looked_at():
    assert "ook at" not in prose_of("06_theorems")
