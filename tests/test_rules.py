"""Each rule gives each of its verdicts, by intervals worked out by hand."""

import ast
import hashlib
import inspect
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from results_for_tests import result_of
from scipy import stats

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.ledger import judge
from dpstudy.claims.rules import (
    Difference,
    Gain,
    Largest,
    Ratio,
    Spent,
    Statement,
    Throughout,
    Unsupported,
    Untested,
    Value,
    on,
)
from dpstudy.claims.rules.rule import tolerance
from dpstudy.lab import quantity, records, store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.quantity import GRADIENT_NORM, Quantity
from dpstudy.lab.verdict import Verdict
from dpstudy.parts.measure import EDGES
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.run import Run, vary
from under_the_clip.backpropagation_clipping.claims import Accounted
from under_the_clip.backpropagation_clipping.published import BACKPROPAGATION_CLIPPING
from under_the_clip.losing_less.claims import PRE_ACTIVATIONS
from under_the_clip.search_cost.rules import AtTheSameTotal, TimesOne
from under_the_clip.tempered_sigmoids import claims as why
from under_the_clip.tempered_sigmoids.claims import EPOCHS
from under_the_clip.tempered_sigmoids.experiments import FIGURE_2, TRIPLETS, triplet_label
from under_the_clip.tempered_sigmoids.published import NUMBERS
from under_the_clip.tempered_sigmoids.rules import BestRate, Cluster, Ranks, RatesApart, Share

ROOT = Path(__file__).parents[1]
REPRODUCED, PARTLY, UNDECIDED, NOT_REPRODUCED = list(Verdict)[:4]
REFUTED, MISPRINT, NOT_YET_RUN, NOT_TESTED = list(Verdict)[4:]

BASE = Run(epochs=4)
SWEEP = {f"s={s}": vary(BASE, scale=float(s)) for s in range(1, 11)}
RATES = {f"rate {rate}": vary(BASE, learning_rate=float(rate)) for rate in range(1, 11)}
VARIANTS = {
    "relu": vary(BASE, activation=Relu()),
    "tanh": BASE,
    "plain": vary(BASE, mechanism=NoPrivacy(), momentum=0.0),
    **SWEEP,
    **RATES,
}
# s = 2 is tanh: the same runs under two names.
TINY = Experiment("tiny", "All rules at once", {k: (v,) for k, v in VARIANTS.items()}, {"mnist": 3})
QUOTED = {"epsilon": {"pld": [2.9] * 4, "rdp": [2.9] * 4, "rdp-2019": [2.95] * 4}}


def of(variant, experiment=TINY):
    return Runs(experiment, variant)


def judged(rule, dataset="mnist"):
    [one] = judge(
        {"a paper": [Claim("one", "Table 0", "So.", {dataset: rule}, moment("2026-11-20"))]}
    ).entries
    return one.outcome


def keep(label, ends, *, column="test_accuracy", experiment=TINY, **fields):
    """Store one result a seed of a variant: a column that is so throughout, or by epoch."""
    run = experiment.variants[label][0]
    for seed, end in enumerate(ends):
        result = result_of(replace(run, seed=seed), **(QUOTED if run.private else {}) | fields)
        if column == "class_accuracy":
            result = replace(result, class_accuracy=end)
        else:
            result.curve[column] = end if isinstance(end, list) else [end] * run.epochs
        store.write(store.runs_folder(), result)


TANH = NUMBERS["mnist, DP-SGD, tanh"]  # 98.0 %: the tolerance is 0.4 points
BOTH = NUMBERS["mnist, DP-SGD, tempered sigmoid"], NUMBERS["mnist, DP-SGD, relu"]  # 1.5, 0.5
GROWTH = (NUMBERS["growth of relu's gradients"],)  # 5
QUOTED_EPSILON = NUMBERS["mnist, epsilon"]  # 2.93
SCALE, SHARE = NUMBERS["mnist, s of the best triplets"], NUMBERS["share of best triplets"]
RATE = NUMBERS["s of tanh"]  # 2

VALUE, PROMISED = Value(TANH, of("tanh")), Value(TANH, of("tanh"), at_least=True)
MOST = Largest(TANH, of("tanh"))
GAIN = Gain(BOTH, of("tanh"), of("relu"))
ABOVE = Difference(of("tanh"), of("relu"))
DENIED = replace(ABOVE, wanted="not above")
REACHES = replace(ABOVE, wanted="not below")
ALIKE = replace(ABOVE, wanted="alike")
LEVEL = Ratio(of("relu"), of("tanh"), GRADIENT_NORM)
TIMES = replace(LEVEL, published=GROWTH)
GROWS = replace(TIMES, at_least=True)
SPENT = Spent(QUOTED_EPSILON, of("tanh"))
MANY = Share(SHARE, of("s=*"), of("relu"))
BEST_RATE = BestRate(RATE, of("rate *"))
APART = RatesApart((RATE, RATE), of("rate *"), of("relu"))  # relu's is 0.5


def both(tanh, relu, **options):
    return {"tanh": tanh, "relu": relu}, options


def norms(relu, tanh):
    return both(tanh, relu, column="gradient_norm")


def spending(proven):
    spent = {"pld": [proven] * 4, "rdp": [proven] * 4, "rdp-2019": [proven + 1] * 4}
    return {"tanh": [0.9] * 3}, {"epsilon": spent}


def peaked(at, kind="s="):
    """A sweep that is best at the two values next to a point; relu has 0.9."""
    each = {f"{kind}{s}": [0.95 - 0.01 * abs(s - at)] * 3 for s in range(1, 11)}
    return {"relu": [0.9] * 3, **each}, {}


FLAT = {"relu": [0.9] * 3, **{f"s={s}": [0.9] * 3 for s in range(1, 11)}}, {}
CASES = [
    (VALUE, both([0.9791, 0.9789, 0.9793], [0.9] * 3), REPRODUCED),
    (VALUE, both([0.9755, 0.9754, 0.9756], [0.9] * 3), PARTLY),
    (VALUE, both([0.97] * 3, [0.9] * 3), NOT_REPRODUCED),
    # Half a point short, and by the interval between 0.1 and 0.9 points.
    (VALUE, both([0.9763, 0.973, 0.975], [0.9] * 3), UNDECIDED),
    (VALUE, both([0.995, 0.994, 0.996], [0.9] * 3), NOT_REPRODUCED),
    (PROMISED, both([0.995, 0.994, 0.996], [0.9] * 3), REPRODUCED),
    (MOST, both([0.9791, 0.9789, 0.9793], [0.9] * 3), REPRODUCED),
    # Five like these are expected to reach 97.4 %, within twice the tolerance.
    (MOST, both([0.9735, 0.97355, 0.97345], [0.9] * 3), PARTLY),
    (MOST, both([0.97] * 3, [0.9] * 3), NOT_REPRODUCED),
    (MOST, both([0.98, 0.975, 0.97], [0.9] * 3), UNDECIDED),
    (GAIN, both([0.98] * 3, [0.9654] * 3), REPRODUCED),
    (GAIN, both([0.98] * 3, [0.9750] * 3), PARTLY),
    (GAIN, both([0.98] * 3, [0.95] * 3), PARTLY),
    (replace(GAIN, at_least=True), both([0.98] * 3, [0.95] * 3), REPRODUCED),
    (GAIN, both([0.98] * 3, [0.981] * 3), NOT_REPRODUCED),
    (GAIN, both([0.98, 0.97, 0.99], [0.975] * 3), UNDECIDED),
    # Both ten points below the 96.6 % that is published: neither has learned.
    (GAIN, both([0.866] * 3, [0.8] * 3), UNDECIDED),
    (GAIN, both([0.867] * 3, [0.8] * 3), PARTLY),
    # The seeds overlap, and each is above its own partner.
    (ABOVE, both([0.98, 0.97, 0.96], [0.97, 0.96, 0.95]), REPRODUCED),
    (ABOVE, both([0.98, 0.97, 0.95], [0.95, 0.94, 0.96]), UNDECIDED),
    (ABOVE, both([0.95] * 3, [0.95] * 3), NOT_REPRODUCED),
    (ABOVE, both([0.9] * 3, [0.95] * 3), NOT_REPRODUCED),
    (replace(ABOVE, trains=TANH), both([0.88] * 3, [0.8] * 3), UNDECIDED),
    (replace(ABOVE, trains=TANH), both([0.89] * 3, [0.8] * 3), REPRODUCED),
    # At 95 % the tolerance is a point.
    (DENIED, both([0.95] * 3, [0.95] * 3), REPRODUCED),
    (DENIED, both([0.955] * 3, [0.95] * 3), REPRODUCED),
    (DENIED, both([0.965] * 3, [0.95] * 3), PARTLY),
    (DENIED, both([0.98] * 3, [0.95] * 3), NOT_REPRODUCED),
    (DENIED, both([0.98, 0.97, 0.95], [0.95, 0.94, 0.96]), UNDECIDED),
    (REACHES, both([0.99] * 3, [0.95] * 3), REPRODUCED),
    (REACHES, both([0.945] * 3, [0.95] * 3), REPRODUCED),
    (REACHES, both([0.935] * 3, [0.95] * 3), PARTLY),
    (REACHES, both([0.92] * 3, [0.95] * 3), NOT_REPRODUCED),
    (REACHES, both([0.98, 0.97, 0.95], [0.95, 0.99, 0.96]), UNDECIDED),
    (ALIKE, both([0.98] * 3, [0.977] * 3), REPRODUCED),
    (ALIKE, both([0.98] * 3, [0.974] * 3), PARTLY),
    (ALIKE, both([0.98] * 3, [0.9] * 3), NOT_REPRODUCED),
    (LEVEL, norms([1.9] * 3, [1] * 3), REPRODUCED),
    (LEVEL, norms([1] * 3, [3.9] * 3), PARTLY),
    (LEVEL, norms([4.1] * 3, [1] * 3), NOT_REPRODUCED),
    # Five times, within a third.
    (TIMES, norms([13.2] * 3, [2] * 3), REPRODUCED),
    (TIMES, norms([6.8] * 3, [2] * 3), REPRODUCED),
    (TIMES, norms([13.6] * 3, [2] * 3), PARTLY),
    (TIMES, norms([6.4] * 3, [2] * 3), PARTLY),
    (TIMES, norms([1] * 3, [2] * 3), NOT_REPRODUCED),
    (GROWS, norms([10.2] * 3, [2] * 3), REPRODUCED),
    (GROWS, norms([9] * 3, [2] * 3), PARTLY),
    (GROWS, norms([2] * 3, [2] * 3), NOT_REPRODUCED),
    (GROWS, norms([9, 3, 11], [2, 4, 3]), UNDECIDED),
    (SPENT, spending(2.934), REPRODUCED),
    (SPENT, spending(2.936), NOT_REPRODUCED),
    (MANY, peaked(5), REPRODUCED),
    (MANY, FLAT, NOT_REPRODUCED),
    (BEST_RATE, peaked(3, "rate "), REPRODUCED),
    (BEST_RATE, peaked(6, "rate "), PARTLY),
    (BEST_RATE, peaked(9, "rate "), NOT_REPRODUCED),
    (replace(APART, second=of("rate 2")), peaked(4, "rate "), REPRODUCED),
    (replace(APART, second=of("rate 2")), peaked(3, "rate "), NOT_REPRODUCED),
]


@pytest.mark.parametrize(("rule", "stored", "verdict"), CASES)
def test_every_rule_gives_each_of_its_verdicts(results, rule, stored, verdict):
    accuracies, options = stored
    for label, values in accuracies.items():
        keep(label, values, **options)
    outcome = judged(rule)
    assert outcome.verdict == verdict, outcome.finding
    assert outcome.finding.endswith(".") and "\n" not in outcome.finding
    assert outcome.found == outcome.needed > 0
    if "neither trains" not in outcome.finding:
        assert outcome.ours and outcome.shown


def wide_sweep(accuracy):
    """Store a sweep of 20 settings with one seed, of which the best tenth is two."""
    runs = {f"s={s}": (vary(BASE, scale=float(s)),) for s in range(1, 21)}
    wide = Experiment(
        "wide", "A wide sweep", {"relu": (VARIANTS["relu"],), **runs}, {"mnist": 1}, {"relu": 2}
    )
    for s in range(1, 21):
        keep(f"s={s}", [accuracy(s)], experiment=wide)
    keep("relu", [0.9, 0.9], experiment=wide)
    return wide


@pytest.mark.parametrize(
    ("best", "setting", "verdict"),
    # The published averages are s = 1.97 and T = 2.27. Two values d apart have a standard deviation
    # of d / √2. Of the 190 pairs of 1 to 20, 9 are a twentieth: no more may average as near.
    [
        ((2, 3), "s", REPRODUCED),
        ((1, 4), "s", REPRODUCED),
        ((1, 5), "s", REPRODUCED),
        ((1, 6), "s", REPRODUCED),
        ((1, 7), "s", UNDECIDED),
        ((1, 13), "s", NOT_REPRODUCED),
        ((1, 2), "T", PARTLY),
        ((3, 4), "s", NOT_REPRODUCED),
        ((10, 11), "s", NOT_REPRODUCED),
    ],
)
def test_a_cluster_is_where_the_best_of_a_sweep_are(results, best, setting, verdict):
    wide = wide_sweep(lambda s: 0.95 if s in best else 0.9)
    average = NUMBERS[f"mnist, {setting} of the best triplets"]
    outcome = judged(Cluster((average,), SHARE, of("s=*", wide), ("scale",)))
    assert outcome.verdict == verdict, outcome.finding
    assert outcome.ours["scale"] == sum(best) / 2


def test_where_variants_tie_for_the_last_place_no_verdict_hangs_on_which_has_it(results):
    """The best is 1. With 2 the average is near the published 1.97, with 20 it is not."""
    wide = wide_sweep(lambda s: {1: 0.96, 2: 0.95, 20: 0.95}.get(s, 0.9))
    average = NUMBERS["mnist, s of the best triplets"]
    outcome = judged(Cluster((average,), SHARE, of("s=*", wide), ("scale",)))
    assert outcome.verdict == NOT_REPRODUCED
    assert re.search(r"in \d.\d% or \d\d.\d% of choices, by which of those that", outcome.finding)


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist", "cifar-10"])
@pytest.mark.parametrize("centre", ["paper", "tanh"])
def test_the_sweep_of_figure_2_can_find_the_cluster_and_can_miss_it(results, dataset, centre):
    """The rule on the sweep as designed: the nearest triplets best, then any seven."""
    stem = f"{dataset}, {{}} of the best triplets" if centre == "paper" else "{} of tanh"
    averages = tuple(NUMBERS[stem.format(name)] for name in "sTo")
    target = np.array([number.value for number in averages])
    triplets = np.array(TRIPLETS)
    nearest = (((triplets - target) / triplets.std(axis=0)) ** 2).sum(axis=1).argsort()
    anywhere = np.random.default_rng(1).permutation(len(triplets))
    settings = ("scale", "inverse_temperature", "offset")
    found = []
    for ranking in (nearest, anywhere):
        for rank, index in enumerate(ranking):
            run = FIGURE_2.variants[triplet_label(TRIPLETS[index])]
            [run] = [one for one in run if one.dataset.name == dataset]
            store.write(store.runs_folder(), result_of(run, accuracy=0.98 - 0.001 * rank))
        found.append(judged(Cluster(averages, SHARE, of("s=*", FIGURE_2), settings), dataset))
    assert [one.verdict for one in found] == [REPRODUCED, NOT_REPRODUCED], found
    assert found[0].ours["chance"] < 0.02 < 0.2 < found[1].ours["chance"]


def test_a_few_of_a_sweep_are_a_part_of_the_share(results):
    wide = wide_sweep(lambda s: 0.95 if s == 7 else 0.9)
    outcome = judged(Share(SHARE, of("s=*", wide), of("relu", wide)))
    # One alone is what the claim denies.
    assert (outcome.verdict, outcome.ours["share"]) == (NOT_REPRODUCED, 0.05)


@pytest.mark.parametrize(
    ("norm", "verdict"),
    [
        (lambda s: s**2, REPRODUCED),
        # By hand: the squares of the differences add up to 132, a rank correlation of 0.2.
        (lambda s: [5, 1, 9, 3, 7, 10, 2, 6, 4, 8][s - 1], NOT_REPRODUCED),
        # 90: 0.45, which chance brings in a tenth of sweeps.
        (lambda s: [5, 1, 2, 3, 7, 10, 9, 6, 4, 8][s - 1], UNDECIDED),
        (lambda s: 1 / s, NOT_REPRODUCED),
    ],
)
def test_ranks_of_a_sweep_that_rise_with_a_setting(results, norm, verdict):
    for s in range(1, 11):
        keep(f"s={s}", [float(norm(s))] * 3, column="gradient_norm")
    rule = Ranks(of("s=*"), "scale", GRADIENT_NORM)
    outcome = judged(rule)
    assert outcome.verdict == verdict, outcome.finding
    expected = stats.spearmanr(range(1, 11), [norm(s) for s in range(1, 11)]).statistic
    assert outcome.ours["correlation"] == pytest.approx(expected)
    # What diverged has no norm, and does not keep the others from being ranked.
    store.write(store.runs_folder(), result_of(replace(SWEEP["s=10"], seed=0), epochs=1))
    assert "Over 9 variants" in judged(rule).finding


def test_the_most_in_training_is_that_of_any_epoch_from_the_first_on(results):
    for label, highest in (("tanh", 9.0), ("relu", 5.0)):
        keep(label, [[highest + seed, 1, 2, 3] for seed in range(3)], column="gradient_norm")
    most = replace(GRADIENT_NORM, sides=quantity.each(quantity.most_in_training))
    outcome = judged(replace(ABOVE, quantity=most))
    assert outcome.verdict == REPRODUCED
    assert (outcome.ours["first_median"], outcome.ours["second_median"]) == (10, 6)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([(1, 2), (1, 2.1), (3, 4)], REPRODUCED),
        ([(1, 2), (1, 1.1), (3, 4)], UNDECIDED),
        ([(2, 1), (5, 4), (4, 3)], NOT_REPRODUCED),
    ],
)
def test_what_rises_since_the_start_is_judged_from_before_the_first_step(results, ends, verdict):
    rule = Difference(of("tanh"), of("tanh"), quantity=why.GRADIENTS_SINCE_START)
    for seed, (first, last) in enumerate(ends):
        result = result_of(replace(BASE, seed=seed), epsilon={"pld": [0.0, 1.0, 2.0, 2.5, 2.9]})
        for column, before in {"epoch": 0, "step": 0, "test_accuracy": 0.1}.items():
            result.curve[column].insert(0, before)
        del result.curve["gradient_norm"], result.curve["clipped_fraction"]
        result.curve["norms.gradient"] = [first, 9, 0.1, 9, last]
        store.write(store.runs_folder(), result)
    outcome = judged(rule)
    assert outcome.verdict == verdict, outcome.finding
    assert "tanh after training" in outcome.finding and "before it" in outcome.finding
    keep("tanh", [1.0] * 3, column="norms.gradient")  # From the first epoch on alone.
    assert "not stored from before training" in judged(rule).finding
    assert judged(rule).verdict == UNDECIDED


@pytest.mark.parametrize(
    ("epochs", "verdict"),
    [
        ([[0.9] * 4] * 3, REPRODUCED),
        ([[0.7, 0.9, 0.9, 0.9], [0.9] * 4, [0.9] * 4], PARTLY),
        # Most of the epochs, or the last, and nowhere behind.
        ([[0.9, 0.9, 0.9, 0.7], [0.9] * 4, [0.9] * 4], PARTLY),
        ([[0.7, 0.7, 0.7, 0.9], [0.9] * 4, [0.9] * 4], PARTLY),
        ([[0.9, 0.9, 0.7, 0.7], [0.9] * 4, [0.9] * 4], NOT_REPRODUCED),
        ([[0.9, 0.7, 0.9, 0.9]] * 3, NOT_REPRODUCED),
    ],
)
def test_throughout_looks_at_every_epoch(results, epochs, verdict):
    keep("relu", [0.8] * 3)
    keep("tanh", epochs)
    outcome = judged(Throughout(of("tanh"), of("relu")))
    assert outcome.verdict == verdict, outcome.finding


def test_a_gain_within_an_epsilon_is_compared_with_that_at_the_end(results):
    """ε = 1 is spent after the second of four epochs; the gain is 0.2 there, and 0.1 at the end."""
    spent = {"pld": [0.5, 1.0, 1.5, 2.5]}
    for label, curve in (("tanh", [0.5, 0.8, 0.8, 0.9]), ("relu", [0.5, 0.6, 0.7, 0.8])):
        rising = [[value + 0.01 * seed for value in curve] for seed in range(3)]
        keep(label, rising, epsilon=spent)
    names = ("{0} over {1} at ε < 1", "at the end")
    gained = Quantity("test_accuracy", "gain", "{:.2%}", quantity.gain_within(1.0), names)
    outcome = judged(replace(ABOVE, quantity=gained))
    assert (outcome.verdict, outcome.shown) == (REPRODUCED, "20.00% and 10.00%")
    assert "gain of tanh over relu at ε < 1 " in outcome.finding
    assert outcome.ours["difference"] == pytest.approx(0.1)


def test_the_spread_of_norms_is_that_of_the_middles_of_their_bins(results):
    """Half of the norms lie in one bin, half in another: half the distance of the middles."""
    low, high = (np.sqrt(EDGES[at] * EDGES[at + 1]) for at in (30, 40))
    for label, second in (("relu", 40), ("tanh", 30)):
        counts = np.zeros(len(EDGES) - 1)
        np.add.at(counts, [30, second], 500)
        keep(label, [[counts.tolist()] * 4] * 3, column="clipping-bias.counts")
    spread = Quantity("clipping-bias.counts", "spread", sides=quantity.spread_of_norms(1))
    outcome = judged(Difference(of("relu"), of("tanh"), quantity=spread))
    assert outcome.verdict == REPRODUCED
    assert outcome.ours["first_median"] == pytest.approx((high - low) / 2)
    assert outcome.ours["second_median"] == 0


# relu's seeds end at 0.8 by their median, and first reach it in epochs 4, 3 and never.
@pytest.mark.parametrize(
    ("accuracies", "took", "verdict"),
    [
        ([[0.9, 0.1, 0.1, 0.1]] * 3, 1, REPRODUCED),
        ([[0.7, 0.8, 0.9, 0.9]] * 3, 2, UNDECIDED),
        ([[0.1, 0.2, 0.7, 0.8], [0.1, 0.2, 0.8, 0.8], [0.7] * 4], 4, NOT_REPRODUCED),
    ],
)
def test_epochs_are_counted_to_where_the_first_ends(results, accuracies, took, verdict):
    keep("relu", [[0.1, 0.2, 0.7, 0.8], [0.1, 0.2, 0.8, 0.82], [0.1, 0.2, 0.3, 0.5]])
    keep("tanh", accuracies)
    outcome = judged(Difference(of("relu"), of("tanh"), quantity=EPOCHS))
    assert outcome.verdict == verdict, outcome.finding
    assert outcome.ours["second_median"] == took
    assert (outcome.ours["first_median"], outcome.ours["first_highest"]) == (4, 5)


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        ("holds", REPRODUCED),
        ("holds, loose", REPRODUCED),
        ("refuted", REFUTED),
        ("corrected", REFUTED),
        ("misprint", MISPRINT),
        ("who knows", NOT_YET_RUN),
        (None, NOT_YET_RUN),
    ],
)
def test_a_statement_has_the_verdict_of_its_stored_outcome(results, stored, verdict):
    if stored is not None:
        content = {"statement": "a-bound", "verdict": stored, "worst": 0.5, "tightness": 0.9}
        content |= {"looked": "Ten cases.", "finding": "Found it.", "provenance": {}}
        records.write(records.folder("theorems") / "a-bound.json", "theorems", content)
    outcome = judged(Statement("a-bound"), "")
    assert outcome.verdict == verdict
    assert (outcome.found, outcome.needed) == (stored is not None, 1)
    assert ("loose" in outcome.finding) == (stored == "holds, loose")


def test_what_no_run_can_decide_says_why(results):
    outcome = judged(Untested("the paper prints no settings", (TANH,)))
    assert (outcome.verdict, outcome.short) == (NOT_TESTED, "not tested")
    assert outcome.finding == "Not tested: the paper prints no settings."


def test_what_runs_cannot_support_is_undecided_and_says_what_they_show(results):
    rule = Unsupported(VALUE, "nobody searched the rate")
    assert judged(rule).verdict == NOT_YET_RUN
    keep("tanh", [0.97] * 3)
    outcome = judged(rule)
    assert outcome.verdict == UNDECIDED and judged(VALUE).verdict == NOT_REPRODUCED
    assert outcome.finding.startswith("Not decided: nobody searched the rate. Median test accuracy")
    assert (rule.sides, rule.numbers, rule.stated) == (VALUE.sides, VALUE.numbers, VALUE.stated)


@pytest.mark.parametrize(
    ("tanh", "verdict", "close"),
    # By hand, with t = 4.303 for three: leads of 1, 1.1 and 1.2 points have an interval from 0.85
    # on. Leads of 0.8, 1 and 1.8 have one that begins below 0, and are not decided at all. Leads
    # of 1, 1.2 and 1.9 begin at 0.19; with 1.9 redrawn at 0.90 it would begin at 0.65, and with 1
    # redrawn at 1.84 at 0.67, with 1.2 redrawn at 0.90 below 0.
    [
        ([0.96, 0.961, 0.962], REPRODUCED, False),
        ([0.958, 0.96, 0.968], UNDECIDED, False),
        ([0.96, 0.962, 0.969], REPRODUCED, True),
    ],
)
def test_a_verdict_that_one_redrawn_seed_would_turn_is_close(results, tanh, verdict, close):
    keep("tanh", tanh)
    keep("relu", [0.95] * 3)
    # What every epoch decides is decided where the last one is.
    for rule in (ABOVE, Throughout(of("tanh"), of("relu")))[: 2 if verdict == REPRODUCED else 1]:
        outcome = judged(rule)
        assert (outcome.verdict, outcome.close) == (verdict, close)
        assert (", close" in outcome.short) == close


def test_settings_alone_are_held_to_what_is_proven_of_them(results):
    """ρ = 1/2 is 1-GDP, whose ε at δ = 1e-5 is 4.38."""
    one = replace(BACKPROPAGATION_CLIPPING[0], batch=1, claimed_epsilon=5.298526)
    assert one.proven_rho == pytest.approx(0.5, rel=1e-6)
    for value, verdict in ((4.4, REPRODUCED), (4.3, NOT_REPRODUCED)):
        outcome = judged(Accounted(replace(QUOTED_EPSILON, value=value), one))
        assert (outcome.verdict, outcome.shown) == (verdict, "ε 4.38")
        assert outcome.found == outcome.needed == 0


def test_the_tolerance_is_a_point_or_a_fifth_of_the_error():
    assert tolerance(0.5) == pytest.approx(0.01)
    assert tolerance(0.95) == pytest.approx(0.01)
    assert tolerance(0.98) == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("accuracy", "proven", "old", "promised", "verdict"),
    [
        (0.98, 2.4, 2.99, False, REPRODUCED),
        (0.98, 2.4, 2.92, False, UNDECIDED),  # spent less: more would have been better
        (0.98, 2.4, 2.92, True, REPRODUCED),  # spent less, and is as good
        (0.98, 3.1, 3.5, True, UNDECIDED),  # spent more
        (0.99, 2.4, 2.92, False, NOT_REPRODUCED),  # spent less, and is better
        (0.96, 2.4, 2.92, True, UNDECIDED),  # spent less: that may be why
        (0.96, 2.4, 2.99, True, NOT_REPRODUCED),
        (0.96, 3.1, 3.5, True, NOT_REPRODUCED),  # spent more, and is worse all the same
        (0.975, 2.4, 3.5, True, PARTLY),  # a little worse
        (0.976, 3.1, 3.5, True, UNDECIDED),  # a little worse, and spent more: not even partly
    ],
)
def test_a_number_is_tested_at_its_epsilon(results, accuracy, proven, old, promised, verdict):
    spent = {"pld": [proven] * 4, "rdp": [proven] * 4, "rdp-2019": [old] * 4}
    keep("tanh", [accuracy] * 3, epsilon=spent)
    outcome = judged(replace(VALUE, epsilon=QUOTED_EPSILON, at_least=promised))
    assert outcome.verdict == verdict, outcome.finding
    assert outcome.found == outcome.needed == 3
    assert ("Not decided" in outcome.finding) == (verdict == UNDECIDED)


@pytest.mark.parametrize(
    ("accountant", "verdict", "shown"),
    [("pld", REPRODUCED, "98.00%"), ("rdp-2019", NOT_REPRODUCED, "93.00%")],
)
def test_a_number_published_at_less_than_the_whole_epsilon_is_tested_there(
    results, accountant, verdict, shown
):
    """By PLD after the third of four epochs, by the paper's accounting after the first."""
    spent = {"pld": [0.5, 1.0, 1.5, 2.5], "rdp-2019": [1.5, 2.5, 3.5, 4.5]}
    keep("tanh", [[0.93, 0.95, 0.98, 0.99]] * 3, epsilon=spent)
    until = quantity.within(2.0, accountant)
    below = Quantity("test_accuracy", "accuracy at ε < 2", "{:.2%}", until)
    outcome = judged(replace(VALUE, quantity=below))
    assert (outcome.verdict, outcome.shown) == (verdict, shown)
    assert "accuracy at ε < 2 of tanh" in outcome.finding and "proven" not in outcome.finding


def test_classes_and_layers_are_compared_by_what_measures_stored(results):
    """Class 1 has 1 of 4 and 3 of 4 examples right after epoch 2; layers are 1 and 3, 2 and 6."""
    for label, right, norms in (("relu", 1, [1.0, 3.0]), ("tanh", 3, [2.0, 6.0])):
        for seed in range(3):
            result = result_of(replace(VARIANTS[label], seed=seed), **QUOTED)
            counts = np.zeros((4, 10, 10), int)
            counts[:2, 0, 0] = counts[2:, 0, 1] = 5
            counts[:, 1, :2] = [4, 0], [4 - right, right], [0, 4], [0, 4]
            result.curve["confusion.counts"] = counts.tolist()
            result.curve["layer-norms.hidden"] = [[9.0, 9.0]] * 3 + [norms]
            store.write(store.runs_folder(), result)
    right = quantity.class_accuracy(1, 2)
    of_class = Quantity("confusion.counts", "accuracy on class 1", "{:.2%}", right)
    outcome = judged(replace(ABOVE, quantity=of_class))
    assert (outcome.verdict, outcome.shown) == (REPRODUCED, "75.00% and 25.00%")
    outcome = judged(replace(ABOVE, quantity=PRE_ACTIVATIONS))
    assert (outcome.verdict, outcome.shown) == (REPRODUCED, "4 and 2")
    outcome = judged(replace(ABOVE, second=of("plain"), quantity=PRE_ACTIVATIONS))
    assert outcome.verdict == NOT_YET_RUN
    keep("plain", [0.9] * 3)
    outcome = judged(replace(ABOVE, second=of("plain"), quantity=PRE_ACTIVATIONS))
    assert outcome.verdict == UNDECIDED and "did not record layer-norms.hidden" in outcome.finding


def test_a_gain_is_tested_at_its_epsilon_and_not_without_privacy(results):
    keep("tanh", [0.98] * 3, epsilon={"pld": [3.1] * 4, "rdp-2019": [3.5] * 4})
    keep("relu", [0.965] * 3)
    keep("plain", [0.965] * 3)
    gain = replace(GAIN, epsilon=QUOTED_EPSILON)
    private = judged(gain)
    assert private.verdict == UNDECIDED and "tanh spent ε = 3.1" in private.finding
    keep("tanh", [0.98] * 3)
    assert judged(gain).verdict == REPRODUCED
    assert judged(replace(gain, second=of("plain"))).verdict == REPRODUCED


def test_shuffled_runs_are_held_to_what_is_proven_for_them(results):
    spent = {"shuffled-pld": [31.0] * 4, "claimed-rdp-2019": [2.9] * 4}
    keep("tanh", [0.9] * 3, epsilon=spent)
    outcome = judged(SPENT)
    assert (outcome.verdict, outcome.ours) == (NOT_REPRODUCED, {"proven": 31.0, "of_its_time": 2.9})
    keep("tanh", [0.9] * 3, epsilon=spent | {"shuffled-at-least": [8.5] * 4})
    assert judged(SPENT).ours == {"proven": 31.0, "of_its_time": 2.9, "at_least": 8.5}
    assert "less than 8.50 cannot be proven" in judged(SPENT).finding


def test_what_an_audit_shows_refutes_an_epsilon_that_is_less(results):
    keep("tanh", [0.9] * 3, epsilon={"pld": [31.0] * 4, "claimed-gdp": [2.9] * 4})
    whole = records.read(ROOT / "results" / "audits" / "tanh-filter.json", "audits")
    for shown, verdict in ((2.9, NOT_REPRODUCED), (8.61, REFUTED)):
        path = records.folder("audits") / "broken.json"
        records.write(path, "audits", whole | {"lower_bound": shown})
        outcome = judged(replace(SPENT, audit="broken"))
        assert outcome.verdict == verdict
        assert ("audited" in outcome.ours) == (verdict == REFUTED)
    assert outcome.finding.endswith("An audit shows at least 8.61.")


def test_an_epsilon_without_bound_is_above_any_that_is_quoted(results):
    keep("tanh", [0.9] * 3, epsilon={"pld": [2.0, 2.0, 2.0, None], "rdp-2019": [2.0] * 4})
    claim = Claim("one", "Table 0", "So.", {"mnist": SPENT}, moment("2026-11-20"))
    [one] = judge({"a paper": [claim]}).entries
    assert one.outcome.verdict == NOT_REPRODUCED
    assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["ours"]["proven"] is None


def test_runs_that_diverged_count_as_chance(results):
    keep("tanh", [0.98, 0.98])
    store.write(store.runs_folder(), result_of(replace(BASE, seed=2), epochs=1))
    assert judged(VALUE).ours["lowest"] == 0.1


def test_what_was_not_measured_decides_nothing(results):
    keep("relu", [0.0] * 3, column="gradient_norm")
    keep("tanh", [1.0] * 3, column="gradient_norm")
    assert judged(GROWS).verdict == UNDECIDED and "a stored value is 0" in judged(GROWS).finding
    unknown = judged(replace(ABOVE, quantity=why.GRADIENTS))
    assert unknown.verdict == UNDECIDED and "did not record norms.gradient" in unknown.finding
    elsewhere = judged(VALUE, "cifar-10")
    assert elsewhere.verdict == NOT_YET_RUN and "tiny has no runs on cifar-10" in elsewhere.finding
    unheard = judged(replace(VALUE, runs=of("swish")))
    assert unheard.verdict == NOT_YET_RUN and "no variant 'swish'" in unheard.finding


def test_a_pattern_is_the_best_of_several(results):
    for s in range(1, 11):
        keep(f"s={s}", [0.98 if s == 4 else 0.9] * 3)
    outcome = judged(replace(VALUE, runs=of("s=*")))
    assert outcome.verdict == REPRODUCED and "of s=4 " in outcome.finding
    assert (outcome.found, outcome.needed) == (30, 30)


def test_the_spread_of_the_classes_is_their_standard_deviation(results):
    keep("relu", [[0.9, 1.0] * 5] * 3, column="class_accuracy")
    keep("tanh", [[0.98, 1.0] * 5] * 3, column="class_accuracy")
    outcome = judged(Difference(of("relu"), of("tanh"), quantity=why.CLASS_SPREAD))
    assert outcome.verdict == REPRODUCED
    assert outcome.ours["first_median"] == pytest.approx(0.05)
    assert outcome.ours["second_median"] == pytest.approx(0.01)


def test_a_rule_is_as_old_as_its_last_change_in_claim_or_code(results):
    written = Value.changed.timestamp()
    for shift, first in ((60, True), (-60, False)):
        finished = datetime.fromtimestamp(written + shift, UTC).isoformat()
        keep("tanh", [0.98] * 3, provenance={"finished": finished})
        for ruled, expected in ((moment("2026-11-20"), first), (moment("2099-01-01"), False)):
            claim = Claim("one", "Table 0", "So.", {"mnist": VALUE}, ruled)
            [entry] = judge({"a paper": [claim]}).entries
            assert entry.rule_came_first is expected
    [entry] = judge(
        {"a paper": [Claim("one", "x", "So.", {"mnist": replace(VALUE, runs=of("relu"))}, ruled)]}
    ).entries
    assert entry.rule_came_first is None


def asks(rule):
    """Return a fingerprint of what a rule decides: its code, without docstrings and wording."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(rule)))
    [body] = [node for node in tree.body if getattr(node, "name", "") == rule.__name__]
    functions = [n for n in body.body if getattr(n, "name", "") in ("judge", "decide")]
    for function in functions:
        function.body = function.body[ast.get_docstring(function) is not None :]
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = ""
    return hashlib.sha256("".join(map(ast.dump, functions)).encode()).hexdigest()[:12]


ASKED = {
    Value: ("2026-11-24T18:03:00+00:00", "f88c42e9af9f"),
    Largest: ("2026-11-26T22:10:00+00:00", "c70fb06bf25a"),
    Difference: ("2026-11-24T18:03:00+00:00", "2e57fcdf9c39"),
    Gain: ("2026-11-24T18:03:00+00:00", "7028df52f6b0"),
    Throughout: ("2026-11-27T15:32:00+00:00", "02284525e883"),
    Ratio: ("2026-11-24T18:03:00+00:00", "14083cdee1aa"),
    Spent: ("2026-11-25T22:20:00+00:00", "b4446ca6700e"),
    Accounted: ("2026-11-27T15:33:00+00:00", "2698ed3a9f82"),
    Statement: ("2026-11-28T14:30:00+00:00", "ba095f3efa80"),
    Cluster: ("2026-11-28T14:30:00+00:00", "9e359b8c4319"),
    Share: ("2026-11-24T18:03:00+00:00", "26b299153cd7"),
    Ranks: ("2026-11-24T18:03:00+00:00", "ad818cf2d0c0"),
    BestRate: ("2026-11-22T02:15:00+00:00", "82cbaeb6bc0d"),
    RatesApart: ("2026-11-22T05:45:00+00:00", "a0aea984b824"),
    TimesOne: ("2026-11-29T06:50:00+00:00", "39d8a54d6779"),
    AtTheSameTotal: ("2026-11-29T06:50:00+00:00", "e6b226b8513a"),
}


@pytest.mark.parametrize("rule", list(ASKED), ids=lambda rule: rule.kind)
def test_a_rule_whose_code_changes_has_a_new_date_unless_it_decides_the_same(rule):
    """Change the date with the code: `changed`. Only what decides alike may keep it."""
    assert (rule.changed.isoformat(), asks(rule)) == ASKED[rule]


def test_a_rule_on_several_datasets_is_about_what_is_there():
    def number(dataset):
        return NUMBERS[f"{dataset}, epsilon"]

    names = ("mnist", "cifar-10")
    assert on(names, Gain, (number, TANH), of, of("relu"), epsilon=number) == {
        name: Gain((number(name), TANH), of(name), of("relu"), number(name)) for name in names
    }
