"""The board ranks what data can tell apart, at one true ε; the factorial finds its effects."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from results_for_tests import result_of

from dpstudy.chapters.leaderboard import board, crossed
from dpstudy.lab import choices, store
from dpstudy.lab.readings import read
from dpstudy.papers import find
from dpstudy.papers.across import factorial, leaderboard
from dpstudy.papers.across.published import PUBLISHED
from dpstudy.parts.images import DATASETS as DATASETS_IN_WORDS
from dpstudy.parts.run import setting
from dpstudy.privacy import accounting

DATASETS = tuple(leaderboard.EPSILONS)
RESULTS = Path(__file__).parents[1] / "results"


def stored_choice(search, dataset, label):
    """What a chapter's search chose, among the results of the study."""
    kept, _ = choices.read_all(RESULTS / "searches", search)
    [run] = [one.choice.run for one in kept if (one.dataset, one.label) == (dataset, label)]
    return run


@pytest.mark.parametrize("dataset", DATASETS)
def test_methods_have_the_settings_that_their_chapters_found_best(dataset):
    best = stored_choice("tempered-sigmoids-figure-2", dataset, "best")
    assert leaderboard.BEST_TEMPERED[dataset] == best.network.activation
    inside = stored_choice(
        "backpropagation-clipping-against-flat", dataset, "backpropagation clipping, best"
    )
    for bound in ("input_bound", "upstream_bound"):
        assert getattr(leaderboard.CLIPS, bound) == setting(inside, bound)
    filtered = stored_choice("tanh-filter-at-equal-epsilon", "mnist", "filter, then clipped, best")
    assert leaderboard.FILTER.active_range == pytest.approx(
        setting(filtered, "active_range"), rel=0.05
    )


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_method_spends_the_epsilon_that_it_is_listed_at(dataset):
    for epsilon, run in product(
        leaderboard.EPSILONS[dataset], leaderboard.methods(dataset).values()
    ):
        final = leaderboard.on_all(epsilon, leaderboard.with_rate(run, 2.0))
        assert final.dataset.held_out == 0
        assert setting(final, "learning_rate") == 2 * setting(run, "learning_rate")
        spent = accounting.epsilon(
            sampling_probability=final.sampling_probability,
            noise_multiplier=final.mechanism.noise_over_sensitivity,
            steps=final.epochs * final.steps_per_epoch,
            delta=final.delta,
        )
        assert 0.9995 * epsilon < spent <= epsilon


def test_a_seed_draws_the_recipe_s_images_too():
    for seed in (0, 3):
        run = leaderboard.methods("mnist")["recipe"].at_seed(seed)
        assert (run.seed, run.dataset.drawn) == (seed, seed)
    tanh = leaderboard.methods("mnist")["tanh"]
    assert tanh.at_seed(3).dataset == tanh.dataset


def test_methods_that_cannot_be_told_apart_share_a_rank():
    noise = np.array([-0.2, 0.1, 0.3, -0.1, -0.1]) / 100
    first, same, lower, last = (
        pd.Series(value + sign * noise)
        for value, sign in ((0.98, 1), (0.9799, -1), (0.97, 1), (0.95, -1))
    )
    assert board.ranks([last, first, lower, same]) == [4, 1, 3, 1]


def test_the_board_has_a_row_a_method_in_the_order_of_ranks(results):
    search = find("leaderboard-mnist")
    of = {"tanh": 0.98, "relu": 0.96, "recipe": 0.99}
    for name, accuracy in of.items():
        run = leaderboard.methods("mnist")[name]
        best = leaderboard.with_rate(run, 1.0)
        search.keep("mnist", f"{name}, best", choices.Choice(best, "the test"))
        for seed in range(5):
            one = leaderboard.on_all(3.0, best).at_seed(seed)
            result = result_of(one, accuracy=accuracy + seed / 1e4)
            store.write(store.runs_folder(), result)
    [table] = board.board(read(search)).parts
    assert list(table.data.method) == ["recipe", "tanh", "relu"]
    assert list(table.data["rank"]) == [1, 2, 3]
    figure = board.in_short()
    assert "MNIST, ε = 3, recipe: 99.02%" in figure.alt
    for one in PUBLISHED:
        said = f"{DATASETS_IN_WORDS[one.dataset]}, ε = {one.claimed_epsilon:g}, {one.method}"
        assert (f"Published: {said}" in figure.alt) == (one.dataset == "mnist")


def invented(gains, pairs=(), noise=0.0):
    """Accuracies of a factorial in which levels gain points, alone and in pairs."""
    draw = np.random.default_rng(0)
    rows = []
    for cell, seed in product(factorial.CELLS, range(3)):
        points = 90 + sum(gains.get(level, 0) for level in cell) + seed
        points += sum(gain for both, gain in pairs if set(both) <= set(cell))
        points += noise * draw.normal()
        rows.append(
            dict(zip(crossed.FACTORS, cell, strict=True)) | {"seed": seed, "points": points}
        )
    return pd.DataFrame(rows)


def test_the_mixed_model_finds_what_remedies_gain():
    gains = {"tanh": 2.0, "composite": 1.0, "filter": -3.0}
    found = crossed.effects(invented(gains, noise=0.02)).set_index("remedy")
    for remedy in found.index:
        wanted = gains.get(remedy, 0.0)
        assert found.points[remedy] == pytest.approx(wanted, abs=0.1)
        assert found.low[remedy] < found.points[remedy] < found.high[remedy]


def test_a_remedy_that_is_the_other_one_twice_shows_as_their_pair():
    gains = {"tanh": 2.0, "composite": 2.0}
    data = invented(gains, [(("tanh", "composite"), -2.0)], noise=0.05)
    found = crossed.effects(data).set_index("remedy")
    assert found.points["tanh × composite"] == pytest.approx(-2.0, abs=0.1)
    assert found.high["tanh × composite"] < 0 < found.low["tanh"]
    # A main effect is a mean over the other factors: half of the cells have the composite loss.
    means = data.groupby(["activation", "loss"]).points.mean().unstack()
    by_hand = (means.loc["tanh"] - means.loc["relu"]).mean()
    assert found.points["tanh"] == pytest.approx(by_hand, abs=1e-6)


def test_cells_are_those_of_the_search():
    search = find("factorial")
    assert len(factorial.CELLS) == 24 and set(search.then) == set(
        map(factorial.label_of, factorial.CELLS)
    )
    kinds = {run.network.kind for runs in search.variants.values() for run in runs}
    assert kinds == {"backprop-mnist"}
