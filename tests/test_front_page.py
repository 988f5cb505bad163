"""The front page says what the ledger says."""

from dataclasses import replace

import pytest
from prose import (
    CIFAR,
    DATASETS,
    MNIST,
    judged,
    percent,
    reading,
    said_by,
    study_ledger,
    variant,
)
from results_for_tests import figures_in

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.verdict import Verdict
from under_the_clip.claims import CLAIMS
from under_the_clip.recipe.cost_figure import cost
from under_the_clip.recipe.third_edition import edition_on
from under_the_clip.verdicts import what_is_left

WIDE = "filter, then clipped, k = 1"

pytestmark = pytest.mark.usefixtures("of_the_study")


def row(ledger, paper):
    data = what_is_left(ledger).data
    assert list(data.paper) == list(CLAIMS)
    return data.set_index("paper").loc[paper]


def test_gains_are_those_of_the_ledger():
    said = row(study_ledger(), "tempered sigmoids")
    gains = [judged(f"table-3-gain-{dataset}").ours for dataset in DATASETS]
    for found in filter(None, gains):
        points = f"{100 * found['difference']:+.2f} points ({100 * found['difference_low']:.2f} to"
        assert points.replace("-", "−") in said["what is left"]
    assert ("not run on" in said["what is left"]) == (not all(gains))
    assert "+1.5 points on MNIST" in said.claimed and "+4.6 points on CIFAR-10" in said.claimed


@pytest.mark.parametrize(
    ("paper", "claim", "before", "after"),
    [
        ("losing less", "gradient-norm-sum", "Eq. 11, is false", "Eq. 11, holds"),
        ("tanh filter", "tanh-filter-sensitivity-one", "which is no bound", "which holds"),
        ("backpropagation clipping", "corrected-code-targets", "does not give", "gives the ε"),
        ("backpropagation clipping", "privacy-of-the-run", "code holds;", "code is not proven;"),
    ],
)
def test_a_verdict_that_changes_changes_the_sentence(paper, claim, before, after):
    turned = dict.fromkeys(Verdict, Verdict.REPRODUCED) | {Verdict.REPRODUCED: Verdict.REFUTED}
    assert before in row(study_ledger(), paper)["what is left"]
    upheld = tuple(
        replace(e, outcome=replace(e.outcome, verdict=turned[e.outcome.verdict]))
        if e.id == claim
        else e
        for e in study_ledger().entries
    )
    said = row(Ledger(upheld, ()), paper)["what is left"]
    assert before not in said and after in said


def test_the_readme_has_what_the_recipe_reaches():
    readme = said_by("README.md")
    recipe = percent(variant(edition_on(CIFAR).name, CIFAR, "epsilon 3").accuracy.median(), 1)
    readme(f"with {recipe} %, the median of five seeds")
    [took] = cost().data.to_dict("records")
    ends = percent(took["accuracy"], 1)
    readme(f"{round(took['minutes'])} minutes of two CPU cores, and has {ends} %.")


def test_less_than_half_of_the_rules_are_older_than_their_runs():
    younger, decided = figures_in("10_claims").rules_and_runs(study_ledger())
    assert 0.25 < younger / decided < 0.5


def test_the_filter_made_sound_is_there_once_it_is_stored(monkeypatch, tmp_path):
    said = row(study_ledger(), "tanh filter")["what is left"]
    flat, clipped, wide = (
        finals[(finals.label == label) & (finals.seed > 0)].test_accuracy.mean()
        for name, label in (
            ("at-equal-epsilon", "flat clipping, best"),
            ("at-equal-epsilon", "filter, then clipped, best"),
            ("expanded", WIDE),
        )
        for finals in [reading(f"tanh-filter-{name}", MNIST).finals]
    )
    assert f"at a true ε of 3 on MNIST: +{percent(wide - flat)} points" in said
    assert f"its own search chose, 0.001: −{percent(flat - clipped)} points" in said
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))
    assert "With a clip after it" not in row(study_ledger(), "tanh filter")["what is left"]
