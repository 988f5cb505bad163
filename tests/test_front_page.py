"""The front page says what the ledger says."""

from dataclasses import replace
from pathlib import Path

import pytest
from prose import study_ledger

from dpstudy.claims.ledger import Ledger
from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Verdict
from dpstudy.lab.wording import rounded_down
from under_the_clip.backpropagation_clipping.published import CORRECTED_CLIPPING
from under_the_clip.claims import CLAIMS
from under_the_clip.experiments import find
from under_the_clip.introduction.figures import what_is_left
from under_the_clip.ledger import figures as page
from under_the_clip.recipe.figures import cost
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.tanh_filter.experiments import AT_EQUAL_EPSILON, EXPANDED

ROOT = Path(__file__).parents[1]
WIDE = "filter, then clipped, k = 1"


@pytest.fixture(scope="module")
def judged():
    return study_ledger()


def row(judged, paper):
    data = what_is_left(judged).data
    assert list(data.paper) == list(CLAIMS)
    return data.set_index("paper").loc[paper]


def test_gains_are_those_of_the_ledger(judged):
    said = row(judged, "tempered sigmoids")
    gains = {e.dataset: e.outcome.ours for e in judged.entries if e.claim.id == "table-3-gain"}
    for found in filter(None, gains.values()):
        points = f"{100 * found['difference']:+.2f} points ({100 * found['difference_low']:.2f} to"
        assert points.replace("-", "−") in said["what is left"]
    assert ("not run on" in said["what is left"]) == (not all(gains.values()))
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
def test_a_verdict_that_changes_changes_the_sentence(judged, paper, claim, before, after):
    turned = dict.fromkeys(Verdict, Verdict.REPRODUCED) | {Verdict.REPRODUCED: Verdict.REFUTED}
    assert before in row(judged, paper)["what is left"]
    upheld = tuple(
        replace(e, outcome=replace(e.outcome, verdict=turned[e.outcome.verdict]))
        if e.id == claim
        else e
        for e in judged.entries
    )
    said = row(Ledger(upheld, ()), paper)["what is left"]
    assert before not in said and after in said


def test_the_answer_is_what_the_ledger_finds(judged):
    found = {entry.id: entry.outcome for entry in judged.entries}

    def gain(name):
        ours = found[name].ours
        return ours["difference_low"], ours["difference_high"]

    text = " ".join((ROOT / "book" / "introduction.md").read_text().split())
    assert "A bounded activation helps on MNIST. On Fashion-MNIST it gains" in text
    tuned, shared = (
        100 * found[f"{name}-fashion-mnist"].ours["difference"]
        for name in ("table-3-gain", "above-relu-shared")
    )
    assert f"it gains {tuned:.1f} to {shared:.1f} points, the less the more is tuned" in text
    assert "On CIFAR-10, in its paper's network, it loses." in text
    assert gain("above-relu-mnist")[0] > 0.01 and gain("above-relu-cifar-10")[1] < 0
    assert 0 < gain("above-relu-fashion-mnist")[0] < gain("above-relu-fashion-mnist")[1] < 0.01
    assert (
        "Its loss helps early in training. At the end, with tanh and each loss at its own" in text
    )
    own = found["losing-less-better-at-equal-effort-fashion-mnist"].ours["difference"]
    assert f"it gains nothing on MNIST and {100 * own:.1f} points on Fashion-MNIST, at a" in text
    assert "turns to cross-entropy, helps on MNIST and Fashion-MNIST." in text
    for dataset in ("mnist", "fashion-mnist"):
        turn, plain = (
            Variant(read(experiment, dataset=dataset), label)
            for experiment, label in (
                (find("losing-less-ablation"), "squared error and cross-entropy"),
                (find("losing-less-equal-effort"), "cross-entropy, tanh"),
            )
        )
        assert Estimate.difference(turn.accuracy, plain.accuracy).low > 0
    recipe = Variant(read(RECIPE_SEARCH, dataset="cifar-10"), "epsilon 3").accuracy.median()
    relu = found["above-relu-cifar-10"].ours["second_median"]
    pixels = Variant(read(find("losing-less-figure-3"), dataset="cifar-10"), "composite")
    assert f"it has {100 * recipe:.1f} % on CIFAR-10 at ε = 3, the median of five" in text
    said = f"{100 * pixels.accuracy.median():.1f} % at {pixels.median('epsilon_pld'):.2f}"
    assert f"have {said} and {100 * relu:.1f} % at 7.53." in text
    [took] = cost().data.to_dict("records")
    timed = f"{took['minutes']:.1f} minutes of two CPU cores, and has {100 * took['accuracy']:.1f}"
    assert f"A run that was timed took {timed} %." in text
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"with {100 * recipe:.1f} %, the median of five seeds" in readme
    assert f"eleven minutes of two CPU cores, and has {100 * took['accuracy']:.1f} %." in readme
    assert round(took["minutes"]) == 11
    younger, decided = page.rules_and_runs(judged)
    assert "Of the verdicts that rest on runs, less than half have a rule that is older" in text
    assert 0.25 < younger / decided < 0.5
    assert gain("losing-less-early-cifar-10")[0] > 0
    low, high = gain("losing-less-better-cifar-10")
    assert low < 0 < high
    for dataset in ("mnist", "fashion-mnist"):
        assert gain(f"losing-less-early-{dataset}")[0] > 0
        low, high = gain(f"losing-less-better-{dataset}")
        assert -0.002 < low < 0 < high < 0.0025
        own = gain(f"losing-less-better-at-equal-effort-{dataset}")
        assert (own[0] > 0) == (dataset == "fashion-mnist")
        assert found[f"backprop-epsilon-{dataset}"].verdict is Verdict.REFUTED
    assert text.count("wrong by orders of magnitude") == 2
    assert found["tanh-filter-sensitivity-one"].verdict is Verdict.REFUTED
    assert "it gains half a point over flat clipping on MNIST at ε = 3, nothing at 1, and" in text
    assert gain("backprop-better-at-1-mnist")[0] < 0
    assert (
        "as wide as the paper has it, it comes to flat clipping, and where tanh bends more it"
        in text
    )
    assert gain("backprop-better-mnist")[0] > 0 > gain("backprop-better-fashion-mnist")[1]
    assert found["backprop-better-mnist"].ours["difference"] == pytest.approx(0.005, abs=0.001)
    by_sgd = [
        Estimate.difference(
            *(
                Variant(
                    read(find("factorial"), dataset=of), f"relu / cross-entropy / {side}"
                ).accuracy
                for side in ("inside", "flat")
            )
        )
        for of in ("fashion-mnist", "mnist")
    ]
    lost, gained = -100 * by_sgd[0].value, 100 * by_sgd[1].value
    said = f"the clips lose {lost:.1f} points on Fashion-MNIST and gain {gained:.1f} on MNIST:"
    assert said in text and by_sgd[0].high < 0 < by_sgd[1].low
    lost = -found["backprop-better-fashion-mnist"].ours["difference"]
    assert lost == pytest.approx(0.03, abs=0.005)


def test_what_the_broken_claims_cost():
    text = " ".join((ROOT / "book" / "introduction.md").read_text().split())
    audits, _ = records.read_all(ROOT / "results" / "audits", "audits")

    def shown(name):
        return rounded_down(audits[name]["lower_bound"])

    published = audits["backpropagation-clipping-mnist-claims-0.07"]
    leak = shown("backpropagation-clipping-mnist-claims-0.07")
    proven = round(published["proven"], -1)
    trained = shown("backpropagation-clipping-mnist-claims-0.07-trained-weights")
    assert trained == leak
    said = (
        f"An attack shows at least {leak}, at trained weights as at searched ones, about the most "
        f"that its {published['trials']:,}"
    )
    assert f"{said} trials can show; no more than {proven:,.0f} is proven. Its code" in text
    assert "It claims ε = 0.07 on MNIST." in text
    [code] = [one for one in CORRECTED_CLIPPING if one.target_epsilon == 3]
    second = "backpropagation-clipping-corrected-aims-at-3"
    said = (
        f"aims at 3: an attack shows at least {shown(second)} at weights that were searched for "
        f"it, and {shown(f'{second}-trained-weights')} at trained ones; {code.epsilon():.1f} is "
        "proven if its"
    )
    assert said in text
    assert f"and {code.epsilon(2.0):.0f} as it is." in text
    claimed, proven = (audits["tanh-filter"][of] for of in ("claimed", "proven"))
    assert f"its accounting gives {claimed:.2f} for 60 epochs. An attack with as many" in text
    assert audits["tanh-filter"]["trials"] == published["trials"]
    assert shown("tanh-filter") == shown("tanh-filter-drawn-weights")
    here = "here too, at weights as drawn and at searched ones"
    said = f"at least {shown('tanh-filter')} {here}; no more than {round(proven, -4):,.0f} is"
    assert said in text


def test_the_filter_made_sound_is_there_once_it_is_stored(judged, monkeypatch, tmp_path):
    said = row(judged, "tanh filter")["what is left"]
    searched, wider = (read(one, dataset="mnist") for one in (AT_EQUAL_EPSILON, EXPANDED))
    ends = searched.finals[searched.finals.seed > 0].groupby("label").test_accuracy.mean()
    wide = wider.finals[(wider.finals.label == WIDE) & (wider.finals.seed > 0)].test_accuracy.mean()
    flat = ends["flat clipping, best"]
    gained, lost = 100 * (wide - flat), 100 * (ends["filter, then clipped, best"] - flat)
    assert f"at a true ε of 3 on MNIST: +{gained:.2f} points" in said
    assert f"its own search chose, 0.001: −{-lost:.2f} points" in said
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path))
    assert "With a clip after it" not in row(judged, "tanh filter")["what is left"]
