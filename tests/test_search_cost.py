"""What a search costs: stored tables are the accountants', and verdicts follow from them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from results_for_tests import result_of

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.ledger import judge
from dpstudy.lab import readings, store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.verdict import Verdict
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import accounting
from dpstudy.privacy.private_selection import LAWS, Trials
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.search_cost import costs, released
from under_the_clip.search_cost import experiments as board
from under_the_clip.search_cost.published import ON_FEATURES, ON_PIXELS, SEARCHES
from under_the_clip.search_cost.rules import AtTheSameTotal, TimesOne

REPRODUCED, PARTLY, UNDECIDED, NOT_REPRODUCED = list(Verdict)[:4]


# --- the stored tables ----------------------------------------------------------------------------


def test_totals_are_what_the_accountants_say():
    one, noise = costs.of_recipe()
    row = costs.totals().set_index("trials").loc[10]
    for law in ("logarithmic", "geometric"):
        exact = accounting.epsilon(**one._asdict(), noise_multiplier=noise, search=Trials(10, law))
        assert exact <= row[law] < exact + 0.0011
    # Two runs, each with its release: twice the steps, and a release with noise less by √2.
    made = costs.in_all(one, noise, 2)["composed"]
    twice = one._replace(steps=2 * one.steps, release_noise=one.release_noise / math.sqrt(2))
    assert made == pytest.approx(
        accounting.epsilon(**twice._asdict(), noise_multiplier=noise), abs=0.0011
    )


def test_a_total_grows_with_the_trials_from_what_one_run_costs():
    table = costs.totals().set_index("trials")
    assert tuple(table.index) == costs.TRIALS and set(table) == {*LAWS, "composed"}
    assert (table.diff().iloc[1:].stack().dropna() > 0).all()
    assert table.loc[1, ["logarithmic", "geometric", "composed"]].to_numpy() == pytest.approx(
        costs.EPSILON, abs=0.002
    )
    few, many = table.loc[2:3], table.loc[5:]
    assert (few["logarithmic"] < few["geometric"]).all()
    assert (many["composed"].dropna() > many["geometric"].loc[:36]).all()
    assert table["composed"].isna().to_numpy().tolist() == [
        trials > costs.MOST_COMPOSED for trials in table.index
    ]


def test_what_a_total_leaves_spends_it():
    table = costs.left().set_index(["trials", "law"])
    assert set(table.index) == {(trials, law) for trials in costs.ASKED for law in costs.CHOSEN}
    one, _ = costs.of_recipe()
    row = table.loc[(10, "logarithmic")]
    of = {**one._asdict(), "noise_multiplier": row["noise"]}
    assert 0.999 * costs.EPSILON < accounting.epsilon(**of, search=Trials(10)) <= costs.EPSILON
    assert row["epsilon"] <= accounting.epsilon(**of) < row["epsilon"] + 0.0011
    for law in costs.CHOSEN:
        assert (table.xs(law, level="law")["epsilon"].diff().iloc[1:] < 0).all()
    assert table.loc[(72, "geometric"), "best tried"] == pytest.approx(0.5, abs=0.01)


def test_published_searches_multiply_to_their_numbers_and_say_where_they_are_printed():
    assert [search.trials.value for search in (ON_PIXELS, ON_FEATURES)] == [
        6 * 4 * 3,
        6 * 4 * 3 * (2 + 3),
    ]
    assert {s.trials.value for s in SEARCHES[2:]} == {4 * 4 * 4 * 5}
    table = costs.published()
    assert len(table) == len(SEARCHES) and table["source"].str.len().min() > 20
    known = table.dropna()
    assert set(known["paper"]) == {"losing less"}
    assert (known["one"] < known["logarithmic"]).all()
    assert (known["logarithmic"] < known["geometric"]).all()


def test_the_published_run_on_features_has_the_three_of_its_authors():
    one, noise = costs.of_published(ON_FEATURES)
    spent = accounting.epsilon(**one._asdict(), noise_multiplier=noise, accountant="rdp-2019")
    assert spent == pytest.approx(3, abs=0.05)


def test_the_stored_file_is_rows_of_rounded_numbers():
    stored = json.loads(costs.STORED.read_text())
    assert set(stored) == {"totals", "left", "published"}
    for row in stored["totals"]:
        numbers = [value for value in row.values() if value is not None]
        assert all(round(value, 3) == value for value in numbers)


# --- the verdicts ---------------------------------------------------------------------------------


def judged(rule, dataset="mnist"):
    claim = Claim("one", "x", "So.", {dataset: rule}, moment("2026-11-20"))
    [one] = judge({"a paper": [claim]}).entries
    return one.outcome


@pytest.mark.parametrize(
    ("log", "geometric", "verdict", "close"),
    [
        (3.5, 4.0, REPRODUCED, False),
        (3.5, 4.1, PARTLY, True),
        (5.0, 8.0, PARTLY, False),
        (5.0, 8.1, NOT_REPRODUCED, True),
    ],
)
def test_moderate_is_at_most_twice_by_the_law_that_costs_more(
    monkeypatch, log, geometric, verdict, close
):
    cost = {"one": 2.0, "logarithmic": log, "geometric": geometric}
    monkeypatch.setattr(costs, "published_cost", lambda _: dict(cost))
    outcome = judged(TimesOne(ON_PIXELS))
    assert (outcome.verdict, outcome.close) == (verdict, close)
    assert outcome.ours["times"] == geometric / 2
    assert "32% of searches" in outcome.finding and "50% of searches" in outcome.finding
    assert outcome.shown.endswith(f"to {geometric / 2:.2f} times")


BASE = Run(epochs=2)
RATES = {"epsilon 3": 1.0, "epsilon 1": 2.0, "epsilon 2": 3.0}
TINY = Experiment(
    "tiny",
    "Three ε",
    {label: (vary(BASE, learning_rate=rate),) for label, rate in RATES.items()},
    {"mnist": 3},
)
LEFT = AtTheSameTotal(ON_PIXELS, *(Runs(TINY, label) for label in RATES), between=(1.0, 2.0))


@pytest.mark.parametrize(
    ("left", "at_1", "at_2", "verdict"),
    [
        # At the geometric mean of 1 and 2 halfway between; the tolerance at 90 % is a point.
        (2**0.5, 0.888, 0.896, REPRODUCED),
        (2**0.5, 0.880, 0.896, PARTLY),
        (2**0.5, 0.860, 0.890, NOT_REPRODUCED),
        (1.0, 0.895, 0.1, REPRODUCED),
        (2.0, 0.1, 0.895, REPRODUCED),
        (0.9, 0.895, 0.895, UNDECIDED),
        (2.1, 0.895, 0.895, UNDECIDED),
    ],
)
def test_accuracy_at_what_is_left_is_read_off_between_two_epsilons(
    results, monkeypatch, left, at_1, at_2, verdict
):
    by_law = {"logarithmic": 2.5, "geometric": left}
    monkeypatch.setattr(costs, "left_by", lambda trials, law: by_law[law])
    for label, accuracy in zip(RATES, (0.9, at_1, at_2), strict=True):
        for seed in range(3):
            run = TINY.variants[label][0].at_seed(seed)
            noise = 1e-4 * (seed - 1)
            store.write(store.runs_folder(), result_of(run, accuracy=accuracy + noise))
    outcome = judged(LEFT)
    assert outcome.verdict == verdict, outcome.finding
    if verdict is not UNDECIDED:
        share = math.log2(left)
        expected = (1 - share) * at_1 + share * at_2 - 0.9
        assert outcome.ours["difference"] == pytest.approx(expected)
        assert np.isclose(outcome.ours["left"], left)


# --- what is released -----------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_what_is_released_is_as_accurate_as_drawing_it_says(law):
    """The same by drawing K, K settings of seven, and the best of them by score."""
    rng, trials = np.random.default_rng(0), Trials(4, law)
    scores, accuracies = rng.permutation(7) / 10, rng.random(7)
    drawn = []
    for _ in range(20_000):
        if count := trials.draw(rng):
            tried = rng.integers(7, size=count)
            drawn.append(accuracies[tried[scores[tried].argmax()]])
    error = np.std(drawn) / math.sqrt(len(drawn))
    assert abs(released.expected(scores, accuracies, trials) - np.mean(drawn)) < 4 * error
    assert released.expected([1.0] * 7, accuracies, trials) == pytest.approx(accuracies.mean())


def test_between_two_epsilons_accuracy_is_linear_in_the_logarithm():
    ends = {1.0: pd.Series([0.5]), 2.0: pd.Series([0.6]), 3.0: pd.Series([0.9])}
    for at, expected in ((1.0, 0.5), (2.0, 0.6), (3.0, 0.9), (2**0.5, 0.55), (6**0.5, 0.75)):
        assert released.read_off(ends, at)[0] == pytest.approx(expected)


def test_the_recipe_loses_more_the_more_trials_are_paid_for(of_the_study):
    reading = readings.read(RECIPE_SEARCH, dataset="cifar-10")
    table = released.at_the_same_total(reading, "cifar-10").set_index(["law", "trials"])
    for law in costs.CHOSEN:
        assert (table.loc[law]["lost"].diff().dropna() < 0).all()
    rule = judged(
        AtTheSameTotal(
            ON_PIXELS,
            *(Runs(RECIPE_SEARCH, f"epsilon {at}") for at in (3, 1, 2)),
            between=(1.0, 2.0),
        ),
        "cifar-10",
    )
    assert rule.ours["difference"] == pytest.approx(table.loc[("geometric", 72), "lost"])


# --- the board to be run --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tanh", "scattering, linear", "recipe, exponent 0.4"])
def test_a_trial_has_the_noise_with_which_its_search_costs_three(method):
    run = board.trial("mnist", method, 1.0)
    assert run.dataset.examples == 50_000
    spent = accounting.epsilon(
        sampling_probability=run.sampling_probability,
        noise_multiplier=run.mechanism.noise_multiplier,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        release_noise=run.dataset.release_noise,
        search=Trials(board.MEAN, board.LAW),
    )
    assert 0.9995 * costs.EPSILON < spent <= costs.EPSILON


def test_the_board_has_each_run_once_and_borrows_from_another_dataset():
    runs = [run for one in board.EXPERIMENTS for run in one.runs()]
    assert len({run.identity for run in runs}) == len(runs) == 2 * 6 * 3 * 2 + 3 * 5
    chosen = RECIPE_SEARCH.chosen()
    best = {d: chosen[d, "best at epsilon 3"].run for d in ("cifar-10", "fashion-mnist")}
    for dataset, source in (("mnist", "cifar-10"), ("cifar-10", "fashion-mnist")):
        run = board.borrowed(dataset)
        assert run.dataset.exponent == best[source].dataset.exponent
        assert run.optimizer.learning_rate == best[source].optimizer.learning_rate
        assert not run.dataset.held_out
