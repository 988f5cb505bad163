"""The front page says what the ledger says."""

from dataclasses import replace

import pytest

from dpstudy.chapters.front import what_is_left
from dpstudy.lab.readings import read
from dpstudy.ledger.ledger import Ledger
from dpstudy.ledger.verdict import Verdict
from dpstudy.papers.claims import CLAIMS, ledger
from dpstudy.papers.tanh_filter.experiments import AT_EQUAL_EPSILON


@pytest.fixture
def judged(monkeypatch):
    monkeypatch.delenv("DPSTUDY_RESULTS", raising=False)
    return ledger()


def row(judged, paper):
    data = what_is_left(judged).data
    assert list(data.paper) == list(CLAIMS)
    return data.set_index("paper").loc[paper]


def test_gains_and_counts_are_those_of_the_ledger(judged):
    said = row(judged, "tempered sigmoids")
    gains = {e.dataset: e.outcome.ours for e in judged.entries if e.claim.id == "table-3-gain"}
    for found in filter(None, gains.values()):
        points = f"{100 * found['difference']:+.2f} points ({100 * found['difference_low']:.2f} to"
        assert points.replace("-", "−") in said["what is left"]
    assert ("not re-run yet" in said["what is left"]) == (not all(gains.values()))
    assert "+1.5 points on MNIST" in said.claimed and "+4.6 points on CIFAR-10" in said.claimed
    for verdict, count in judged.of("tempered sigmoids").counts.items():
        assert (f"{count} {verdict}" in said.verdicts) == (count > 0)


@pytest.mark.parametrize(
    ("paper", "claim", "wrong", "right"),
    [
        ("losing less", "gradient-norm-sum", "Eq. 11, adds norms", "Eq. 11, holds"),
        ("tanh filter", "tanh-filter-sensitivity-one", "which is no bound", "which holds"),
        ("backpropagation clipping", "corrected-code-targets", "does not give", "gives the ε"),
    ],
)
def test_a_verdict_that_changes_changes_the_sentence(judged, paper, claim, wrong, right):
    assert wrong in row(judged, paper)["what is left"]
    upheld = tuple(
        replace(e, outcome=replace(e.outcome, verdict=Verdict.REPRODUCED)) if e.id == claim else e
        for e in judged.entries
    )
    said = row(Ledger(upheld, ()), paper)["what is left"]
    assert wrong not in said and right in said


def test_the_filter_made_sound_is_there_once_it_is_stored(judged, monkeypatch, tmp_path):
    said = row(judged, "tanh filter")["what is left"]
    reading = read(AT_EQUAL_EPSILON, dataset="mnist")
    ends = reading.finals.groupby("label").test_accuracy.mean()
    lost = 100 * (ends["filter, then clipped, best"] - ends["flat clipping, best"])
    assert f"at a true ε of 3: −{-lost:.2f} points" in said
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))
    assert "With a clip after it" not in row(judged, "tanh filter")["what is left"]
