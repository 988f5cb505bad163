"""The front page says what the ledger says."""

from dataclasses import replace

import pytest
from prose import (
    CIFAR,
    DATASETS,
    MNIST,
    SMALL,
    inside_and_flat,
    judged,
    lead,
    open_,
    over,
    percent,
    prose_of,
    reading,
    said_by,
    study_ledger,
    variant,
)
from results_for_tests import figures_in

from dpstudy.claims.ledger import Ledger
from dpstudy.lab import records
from dpstudy.lab.verdict import Verdict
from dpstudy.lab.wording import rounded_down
from under_the_clip.backpropagation_clipping.published import CORRECTED_CLIPPING
from under_the_clip.claims import CLAIMS
from under_the_clip.recipe.figures import cost
from under_the_clip.verdicts import what_is_left

PAGE = "book/introduction.md"
says = said_by(PAGE)
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


def test_what_tempered_sigmoids_gain():
    says("A bounded activation helps on MNIST. On Fashion-MNIST it gains {} to {} points, the less "
         "the more is tuned", *(percent(lead(f"{name}-fashion-mnist").value, 1)
                                for name in ("table-3-gain", "above-relu-shared")))  # fmt: skip
    says("On CIFAR-10, in its paper's network, it loses.")
    mnist, fashion, cifar = (lead(f"above-relu-{dataset}") for dataset in DATASETS)
    assert mnist.low > 0.01 and cifar.high < 0 < fashion.low < fashion.high < 0.01


def test_what_losing_less_gains():
    says("Its loss helps early in training. At the end, with tanh and each loss at its own")
    own = [lead(f"losing-less-better-at-equal-effort-{dataset}") for dataset in SMALL]
    says(f"it gains nothing on MNIST and {percent(own[1].value, 1)} points on Fashion-MNIST, at a")
    assert own[0].low <= 0 < own[1].low
    says("turns to cross-entropy, helps on MNIST and Fashion-MNIST.")
    for dataset in SMALL:
        turn = variant("losing-less-ablation", dataset, "squared error and cross-entropy")
        plain = variant("losing-less-equal-effort", dataset, "cross-entropy, tanh")
        assert over(turn, plain).low > 0
        at_the_end = lead(f"losing-less-better-{dataset}")
        assert -0.002 < at_the_end.low < 0 < at_the_end.high < 0.0025
    assert open_(lead("losing-less-better-cifar-10"))
    assert all(lead(f"losing-less-early-{dataset}").low > 0 for dataset in DATASETS)


def test_what_the_recipe_reaches():
    recipe = percent(variant("recipe-search", CIFAR, "epsilon 3").accuracy.median(), 1)
    says(f"it has {recipe} % on CIFAR-10 at ε = 3, the median of five")
    pixels = variant("losing-less-figure-3", CIFAR, "composite")
    says("have {} % at {:.2f} and {} % at 7.53.",
         percent(pixels.accuracy.median(), 1), pixels.median("epsilon_pld"),
         percent(judged("above-relu-cifar-10").ours["second_median"], 1))  # fmt: skip
    [took] = cost().data.to_dict("records")
    ends = percent(took["accuracy"], 1)
    says(f"A run that was timed took {took['minutes']:.1f} minutes of two CPU cores, and has "
         f"{ends} %.")  # fmt: skip
    readme = said_by("README.md")
    readme(f"with {recipe} %, the median of five seeds")
    readme(f"eleven minutes of two CPU cores, and has {ends} %.")
    assert round(took["minutes"]) == 11


def test_how_many_rules_are_older_than_their_runs():
    younger, decided = figures_in("10_claims").rules_and_runs(study_ledger())
    says("Of the verdicts that rest on runs, less than half have a rule that is older")
    assert 0.25 < younger / decided < 0.5


def test_what_clips_inside_and_the_filter_gain():
    assert prose_of(PAGE).count("wrong by orders of magnitude") == 2
    refuted = *(f"backprop-epsilon-{dataset}" for dataset in SMALL), "tanh-filter-sensitivity-one"
    assert {judged(claim).verdict for claim in refuted} == {Verdict.REFUTED}
    says("it gains half a point over flat clipping on MNIST at ε = 3, nothing at 1, and")
    mnist, fashion = (lead(f"backprop-better-{dataset}") for dataset in SMALL)
    assert mnist.low > 0 > fashion.high and lead("backprop-better-at-1-mnist").low < 0
    assert mnist.value == pytest.approx(0.005, abs=0.001)
    assert fashion.value == pytest.approx(-0.03, abs=0.005)
    gained, lost = (over(*inside_and_flat(dataset)) for dataset in SMALL)
    says(f"the clips lose {percent(-lost.value, 1)} points on Fashion-MNIST and gain "
         f"{percent(gained.value, 1)} on MNIST:")  # fmt: skip
    assert lost.high < 0 < gained.low
    says("as wide as the paper has it, it comes to flat clipping, and where tanh bends more it")


def test_what_the_broken_claims_cost():
    audits, _ = records.read_all(records.folder("audits"), "audits")

    def shown(name):
        return rounded_down(audits[name]["lower_bound"])

    name = "backpropagation-clipping-mnist-claims-0.07"
    published, leak = audits[name], shown(name)
    assert shown(f"{name}-trained-weights") == leak
    says("It claims ε = 0.07 on MNIST.")
    says(f"An attack shows at least {leak}, at trained weights as at searched ones, about the most "
         f"that its {published['trials']:,} trials can show; no more than "
         f"{round(published['proven'], -1):,.0f} is proven. Its code")  # fmt: skip
    [code] = [one for one in CORRECTED_CLIPPING if one.target_epsilon == 3]
    second = "backpropagation-clipping-corrected-aims-at-3"
    says(f"aims at 3: an attack shows at least {shown(second)} at weights that were searched for "
         f"it, and {shown(f'{second}-trained-weights')} at trained ones; {code.epsilon():.1f} is "
         "proven if its")  # fmt: skip
    says(f"and {code.epsilon(2.0):.0f} as it is.")
    claimed, proven = (audits["tanh-filter"][of] for of in ("claimed", "proven"))
    says(f"its accounting gives {claimed:.2f} for 60 epochs. An attack with as many")
    assert audits["tanh-filter"]["trials"] == published["trials"]
    assert shown("tanh-filter") == shown("tanh-filter-drawn-weights")
    says(f"at least {shown('tanh-filter')} here too, at weights as drawn and at searched ones; no "
         f"more than {round(proven, -4):,.0f} is")  # fmt: skip


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
