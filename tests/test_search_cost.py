"""What a search costs: stored tables are the accountants', and verdicts follow from them."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from results_for_tests import figures_in, result_of

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.ledger import judge
from dpstudy.lab import readings, store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.verdict import Verdict
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import accounting
from dpstudy.privacy.private_selection import LAWS, Trials
from under_the_clip import designs
from under_the_clip.experiments import find
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.search_cost import board as shown
from under_the_clip.search_cost import costs, figures, released
from under_the_clip.search_cost import experiments as board
from under_the_clip.search_cost.published import ON_FEATURES, ON_PIXELS, SEARCHES
from under_the_clip.search_cost.rules import AtTheSameTotal, TimesOne

REPRODUCED, PARTLY, UNDECIDED, NOT_REPRODUCED = list(Verdict)[:4]


# --- the stored tables ----------------------------------------------------------------------------


def test_totals_are_what_the_accountants_say():
    one = costs.of_recipe()
    row = costs.totals().set_index("trials").loc[10]
    for law in ("logarithmic", "geometric"):
        exact = accounting.epsilon(**one._asdict(), search=Trials(10, law))
        assert exact <= row[law] < exact + 0.0011
    # Two runs, each with its release: twice the steps, and a release with noise less by √2.
    made = costs.in_all(one, 2)["composed"]
    twice = one._replace(steps=2 * one.steps, release_noise=one.release_noise / math.sqrt(2))
    assert made == pytest.approx(accounting.epsilon(**twice._asdict()), abs=0.0011)


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
    one = costs.of_recipe()
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
    one = costs.of_published(ON_FEATURES)
    spent = accounting.epsilon(**one._asdict(), accountant="rdp-2019")
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


def spent_by(run, **more):
    return accounting.epsilon(
        sampling_probability=run.sampling_probability,
        noise_multiplier=run.mechanism.noise_multiplier,
        steps=run.epochs * run.steps_per_epoch,
        delta=run.delta,
        release_noise=run.dataset.release_noise,
        **more,
    )


@pytest.mark.parametrize(
    ("dataset", "method"),
    [
        *(("mnist", method) for method in ("tanh", "scattering, linear", board.RECIPE)),
        ("cifar-10", board.RECIPE),
    ],
)
def test_a_trial_has_the_noise_with_which_its_search_costs_three(dataset, method):
    run = board.trial(dataset, method, 1.0)
    assert run.dataset.held_out == board.HELD_OUT
    spent = spent_by(run, search=Trials(board.MEAN, board.LAW))
    assert 0.9995 * costs.EPSILON < spent <= costs.EPSILON


def test_the_board_has_each_run_once_and_borrows_from_another_dataset():
    runs = [run for one in board.EXPERIMENTS for run in one.runs()]
    assert len({run.identity for run in runs}) == len(runs) == (2 * 6 + 1) * 3 * 2 + 3 * 2
    chosen = RECIPE_SEARCH.chosen()
    best = {d: chosen[d, "best at epsilon 3"].run for d in ("cifar-10", "fashion-mnist")}
    for dataset, source in (("mnist", "cifar-10"), ("cifar-10", "fashion-mnist")):
        run = board.borrowed(dataset)
        assert run.dataset.exponent == best[source].dataset.exponent
        assert run.optimizer.learning_rate == best[source].optimizer.learning_rate
        assert run.dataset.held_out == board.HELD_OUT
        assert 0.9995 * costs.EPSILON < spent_by(run) <= costs.EPSILON


# --- the chapter ----------------------------------------------------------------------------------


def test_the_code_of_the_chapter_releases_what_the_law_says():
    play = figures_in("07b_search_cost").released
    play.__globals__.update(mean=4, searches=200_000, rng=np.random.default_rng(1))
    above = Trials(4, "geometric").chance_of_trying(np.array([1.0, 0.4, 0.3, 0.0]))
    np.testing.assert_allclose(play([0.6, 0.1, 0.3]), -np.diff(above), atol=0.005)


def test_the_laws_are_drawn_as_trials_are():
    data, rng = figures.laws(10).data, np.random.default_rng(0)
    for law, of in data.groupby("law"):
        drawn = np.array([Trials(10, law).draw(rng) for _ in range(20_000)])
        counted = np.histogram(drawn, [1, 2, 4, 11, 31, math.inf])[0] / len(drawn)
        np.testing.assert_allclose(of["share of searches"], counted, atol=0.015)


def readings_of_board():
    return [readings.read(one) for one in board.EXPERIMENTS]


def test_a_board_without_runs_says_what_they_take(results, monkeypatch):
    empty = readings_of_board()
    note = figures.at_a_total_of_3(*empty)
    assert note.command.splitlines() == [one.command for one in empty]
    assert math.isnan(shown.hours(*empty)) and "hours" not in note.text
    monkeypatch.delenv("DPSTUDY_RESULTS")
    folder = Path(__file__).parents[1] / "results"
    timed = {
        name: json.loads((folder / f"methods/{name}.json").read_text())["minutes"]
        for name in board.PAID.datasets[:2]
    }
    alone = json.loads((folder / "recipes/cifar-10.json").read_text())["seconds"] / 60
    expected = (6 + 2) * 2 * alone + sum(
        6 * sum(of[method] for method in board.METHODS) + 2 * of[board.RECIPE]
        for of in timed.values()
    )
    assert shown.hours(*empty) == pytest.approx(expected / 60)


def test_a_search_that_is_not_counted_is_the_best_of_the_same_rates_on_the_same_images():
    found = dict(shown._uncounted("mnist"))
    assert [*found] == [*board.METHODS]
    [paid] = board.PAID.variants[board.label_of("tanh", 2.0)][:1]
    rates = [
        (one.run.dataset.held_out, one.run.sampling, one.curve["test_accuracy"][-1])
        for label, one in readings.read(find("leaderboard-mnist")).found
        if label in [f"tanh, epsilon 3, rate x {by:g}" for by in (0.5, 1, 2)]
    ]
    assert {of[:2] for of in rates} == {(paid.dataset.held_out, paid.sampling)}
    assert found["tanh"].tolist() == [max(of[-1] for of in rates)]


def test_in_the_smoke_profile_the_board_has_what_was_trained(results):
    for run in {run for one in board.EXPERIMENTS for run in one.runs("smoke")}:
        store.write(store.runs_folder("smoke"), result_of(run, accuracy=0.5))
    smoke = [readings.read(one, profile="smoke") for one in board.EXPERIMENTS]
    assert {*shown.rows(*smoke).dataset} == {"mnist-5k"}
    assert figures.at_a_total_of_3(*smoke)


def test_the_board_fills_itself_as_runs_are_stored(results, monkeypatch):
    """An accuracy a method, rate and seed, and another order where nothing is paid."""

    def accuracy(method, by, seed):
        return 0.9 + 0.01 * board.METHODS.index(method) + 0.001 * by + 1e-4 * seed

    for method in board.METHODS:
        for by in designs.MULTIPLES:
            for run in board.PAID.variants[board.label_of(method, by)]:
                for seed in range(2):
                    of = {"accuracy": accuracy(method, by, seed)}
                    store.write(store.runs_folder(), result_of(run.at_seed(seed), **of))
        if method == board.METHODS[0]:  # Nothing else is stored so far.
            assert {*shown.rows(*readings_of_board()).method} == {method}
    uncounted = [(m, pd.Series([-accuracy(m, 1, 0)])) for m in board.METHODS]
    monkeypatch.setattr(shown, "_uncounted", lambda dataset: uncounted)
    for run in board.BORROWING.runs():
        store.write(store.runs_folder(), result_of(run, accuracy=0.97))
    data = shown.rows(*readings_of_board()).set_index(["dataset", "method", "settings"])
    trials = Trials(board.MEAN, board.LAW)
    by_seed = [
        released.expected(tried, tried, trials)
        for tried in ([accuracy("tanh", by, seed) for by in designs.MULTIPLES] for seed in range(2))
    ]
    row = data.loc[("mnist", "tanh", shown.PAYS)]
    assert row[["minimum", "maximum"]].tolist() == pytest.approx(by_seed)
    assert row.accuracy == pytest.approx(np.mean(by_seed)) and row.seeds == 2
    assert data.loc[("cifar-10", "recipe", shown.BORROWS), "accuracy"] == pytest.approx(0.97)
    drawn = figures.at_a_total_of_3(*readings_of_board())
    assert len(drawn.data) == (2 * 6 + 1) * 2 + 3
    assert "CIFAR-10, recipe, settings borrowed" in drawn.alt
