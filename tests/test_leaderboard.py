"""The board ranks what data can tell apart, at one true ε; the factorial finds its effects."""

import re
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from results_for_tests import figures_in, result_of, spent_by

from dpstudy.lab import records, store
from dpstudy.lab.readings import read
from dpstudy.lab.search import choose, read_choices
from dpstudy.parts.data.images import DATASETS as DATASETS_IN_WORDS
from dpstudy.parts.run import setting, vary
from dpstudy.privacy import accounting
from dpstudy.recipe import settings
from dpstudy.recipe.on_dataset import settings_of
from dpstudy.recipe.run import recipe, second_edition
from under_the_clip import designs as rates
from under_the_clip.experiments import find
from under_the_clip.leaderboard import board
from under_the_clip.leaderboard import effects as crossed
from under_the_clip.leaderboard import experiments as leaderboard
from under_the_clip.leaderboard import figures as chapter
from under_the_clip.leaderboard.published import (
    DISPUTED,
    NOT_READ,
    OF_METHODS,
    PUBLISHED,
    RUN_AGAIN,
)
from under_the_clip.recipe import cost_figure, rule_figure
from under_the_clip.recipe import figures as recipe_page
from under_the_clip.recipe import rule as recipe_rule
from under_the_clip.recipe import search as recipe_search

page = figures_in("08_leaderboard")
DATASETS = tuple(leaderboard.EPSILONS)
RESULTS = Path(__file__).parents[1] / "results"


def stored_choice(search, dataset, label):
    """What a chapter's search chose, among the results of the study."""
    kept, _ = read_choices(RESULTS / "searches", search)
    [run] = [one.run for one in kept if (one.dataset, one.label) == (dataset, label)]
    return run


@pytest.mark.parametrize("dataset", DATASETS)
def test_methods_have_the_settings_that_their_chapters_found_best(dataset):
    best = stored_choice("tempered-sigmoids-figure-2", dataset, "best")
    assert leaderboard.BEST_TEMPERED[dataset] == best.network.activation
    search, label = "backpropagation-clipping-against-flat", "backpropagation clipping, best"
    inside = stored_choice(search, dataset, label)
    for bound in ("input_bound", "upstream_bound"):
        assert getattr(leaderboard.CLIPS, bound) == setting(inside, bound)


def test_the_noise_of_clips_inside_is_as_much_smaller_as_their_rate_is_larger():
    flat, inside = leaderboard.end_to_end("mnist"), leaderboard.clipped_inside("mnist")
    per_weight = [
        float(jax.tree.leaves(run.mechanism.noise(run.network.shapes()))[0])
        / run.mechanism.noise_over_sensitivity
        for run in (vary(flat, network=inside.network), inside)
    ]
    assert per_weight[0] / per_weight[1] == pytest.approx(leaderboard.LESS_NOISE, rel=0.01)


def test_what_papers_state_is_of_methods_on_the_board():
    on_board = {(dataset, name) for dataset in DATASETS for name in leaderboard.methods(dataset)}
    stated = {pair for pair in OF_METHODS if pair[0] in DATASETS}
    assert stated < on_board and len(stated) == 12
    published = {(one.dataset, one.method) for one in PUBLISHED}
    assert {*NOT_READ, *((one.dataset, one.method) for one in RUN_AGAIN)} < published
    assert set(DISPUTED) < {method for _, method in published}


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_method_spends_the_epsilon_that_it_is_listed_at(dataset):
    for epsilon, run in product(
        leaderboard.EPSILONS[dataset], leaderboard.methods(dataset).values()
    ):
        final = leaderboard.on_all(epsilon, leaderboard.with_rate(run, 2.0))
        assert final.dataset.held_out == 0
        assert setting(final, "learning_rate") == 2 * setting(run, "learning_rate")
        assert 0.9995 * epsilon < spent_by(final) <= epsilon


def test_a_seed_draws_the_recipe_s_images_too():
    for seed in (0, 3):
        run = leaderboard.methods("mnist")[leaderboard.RECIPE].at_seed(seed)
        assert (run.seed, run.dataset.drawn) == (seed, seed)
    tanh = leaderboard.methods("mnist")["tanh"]
    assert tanh.at_seed(3).dataset == tanh.dataset


def test_on_cifar_10_no_network_of_the_chapters_comes_near_the_recipe(of_the_study):
    shown = page.on_cifar_10().data
    assert list(shown["median"]) == sorted(shown["median"], reverse=True)
    assert set(shown.technique) <= set(board.ON_CIFAR_10)
    assert shown.technique[0] == "recipe"
    [linear] = shown[shown.technique == "scattering, linear"]["median"]
    heads = shown[shown.technique.str.startswith("scattering")]
    assert len(heads) == 3 and linear < heads["median"].max() < shown["median"][0] - 0.12
    pixels = shown[~shown.technique.str.startswith(("recipe", "scattering"))]
    assert len(pixels) == 4 and pixels["ε proven"].max() <= 3
    assert pixels["median"].max() < shown["median"][0] - 0.15


def test_methods_that_cannot_be_told_apart_share_a_rank():
    """And one with a wild seed has no smaller rank than a better one."""
    noise = np.array([-0.2, 0.1, 0.3, -0.1, -0.1]) / 100
    first, same, lower, last = (
        pd.Series(value + sign * noise)
        for value, sign in ((0.98, 1), (0.9799, -1), (0.97, 1), (0.95, -1))
    )
    assert board.ranks([last, first, lower, same]) == [4, 1, 3, 1]
    assert board.ranks([first]) == [1]
    wild = pd.Series([0.95, 0.95, 0.951, 0.949, 0.1])
    assert board.ranks([wild, lower, first]) == [2, 2, 1]


def test_the_board_has_a_row_a_method_in_the_order_of_ranks(results):
    search = find("leaderboard-mnist")
    of = {"tanh": 0.98, "relu": 0.96, leaderboard.RECIPE: 0.99}
    for name, accuracy in of.items():
        run = leaderboard.methods("mnist")[name]
        best = leaderboard.with_rate(run, 1.0)
        search.keep("mnist", f"{name}, epsilon 3, best", best, "the test")
        for seed in range(5):
            one = leaderboard.on_all(3.0, best).at_seed(seed)
            result = result_of(one, accuracy=accuracy + seed / 1e4)
            store.write(store.runs_folder(), result)
    [table] = page.board(read(search)).parts
    assert list(table.data.method) == [leaderboard.RECIPE, "tanh", "relu"]
    assert list(table.data["rank"]) == [1, 2, 3] and table.caption.endswith(
        "Runs that diverged: 0."
    )
    stated = [row[table._columns().index("published")] for row in table.shown()]
    assert stated == ["—", "98.0%, ε = 2.93", "96.6%, ε = 2.93"]
    assert table.data.minutes.isna().all()
    figure = chapter.in_short()
    assert "MNIST, ε = 4, tanh: 98.02%" in figure.alt and leaderboard.RECIPE not in figure.alt
    for one in PUBLISHED:
        said = f"{DATASETS_IN_WORDS[one.dataset]}, ε = {one.claimed_epsilon:g}, {one.method}:"
        published = figure.alt.partition("Published: ")[2]
        drawn = one.dataset == "mnist" and one.method not in DISPUTED
        assert (said in published) == drawn
    # Until the second edition is there, over the first.
    assert [row["row"] for row in chapter.behind_the_recipe(read(search), 3.0)] == ["tanh", "relu"]
    second, best = find("recipe-second"), leaderboard.with_rate(second_edition("mnist"), 1.0)
    second.keep("mnist", "best at epsilon 3", best, "the test")
    for label, one in second.labelled(dataset="mnist"):
        if label == "epsilon 3":
            store.write(store.runs_folder(), result_of(one, accuracy=0.995 + one.seed / 1e4))
    behind = chapter.behind_the_recipe(read(search), 3.0)
    assert [row["row"] for row in behind] == [leaderboard.RECIPE, "tanh", "relu"]
    assert [row["points"] for row in behind] == pytest.approx([-0.5, -1.5, -3.5])


def test_what_a_paper_states_is_shown_at_the_nearest_epsilon_alone():
    inside = "clips inside backpropagation, SGD"
    for dataset, method, near in (("mnist", "tanh", 3.0), ("fashion-mnist", inside, 1.0)):
        for epsilon in leaderboard.EPSILONS[dataset]:
            stated = OF_METHODS[dataset, method] if epsilon == near else None
            assert board._published(dataset, method, epsilon) == stated
    assert board._published("mnist", "automatic clipping", 3.0) is None


def test_what_a_method_costs_is_read_from_its_benchmark(results):
    costs = {"minutes": {"tanh": 3.2}, "peak_megabytes": {"tanh": 450.0}}
    path = records.folder("methods") / "mnist.json"
    records.write(path, "methods", {"dataset": "mnist", **costs, "provenance": {}})
    [stored] = records.read_all(path.parent, "methods")[0].values()
    assert board.cost(stored, "tanh") == {"minutes": 3.2, "GB": 0.45}


def invented(gains, pairs=(), noise=0.0):
    """Accuracies of a factorial in which levels gain points, alone and in pairs."""
    draw = np.random.default_rng(0)
    rows = []
    for cell, seed in product(leaderboard.CELLS, range(3)):
        points = 90 + sum(gains.get(level, 0) for level in cell) + seed
        points += sum(gain for both, gain in pairs if set(both) <= set(cell))
        points += noise * draw.normal()
        rows.append(
            dict(zip(crossed.FACTORS, cell, strict=True)) | {"seed": seed, "points": points}
        )
    return pd.DataFrame(rows)


def test_effects_are_what_remedies_gain():
    gains = {"tanh": 2.0, "composite": 1.0, "filter": -3.0}
    found = crossed.effects(invented(gains, noise=0.02)).set_index("remedy")
    for remedy in found.index:
        wanted = gains.get(remedy, 0.0)
        assert found.points[remedy] == pytest.approx(wanted, abs=0.1)
        assert found.low[remedy] < found.points[remedy] < found.high[remedy]


def test_a_factorial_that_lacks_a_cell_or_a_seed_is_not_judged():
    data = invented({"tanh": 2.0})
    assert crossed.is_whole(data)
    for lacking in (data.activation == "tempered", data.index == 0, data.seed > 0, data.seed >= 0):
        assert not crossed.is_whole(data[~lacking])


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


def test_under_one_mechanism_two_factors_are_left():
    pair = ("tanh", "composite")
    data = invented({"tanh": 2.0, "composite": 1.0, "filter": 9.0}, [(pair, -1.0)], noise=0.02)
    found = crossed.under(data, "filter")
    wanted = {"tanh": 1.5, "tempered": 0, "composite": 2 / 3, "tanh × composite": -1}
    for remedy, points in (wanted | {"tempered × composite": 0}).items():
        assert found.loc[remedy, "filter"] == pytest.approx(points, abs=0.1)
    assert len(found) == 5


def test_cells_are_those_of_the_search():
    search = find("factorial")
    assert len(leaderboard.CELLS) == 24 and set(search.then) == set(
        map(leaderboard.label_of, leaderboard.CELLS)
    )
    kinds = {run.network.kind for runs in search.variants.values() for run in runs}
    assert kinds == {"backprop-mnist"}


@pytest.mark.parametrize(
    "search",
    [
        "recipe-search",
        "recipe-parts",
        "recipe-parts-again",
        "recipe-remedies",
        "recipe-second",
        "recipe-second-parts",
        "recipe-third",
        "recipe-sizes",
    ],
)
def test_recipes_are_searched_on_examples_held_out_at_the_epsilon_of_their_label(search):
    for label, runs in find(search).variants.items():
        named = re.match(r"epsilon (\d+), ", label)
        wanted = float(named[1]) if named else 3.0
        for run in runs:
            assert run.dataset.held_out == 10_000
            if run.dataset.leaks:
                assert not run.private
                continue
            whole = vary(run, held_out=0)
            assert 0.999 * wanted < spent_by(whole) <= wanted


def test_each_change_of_the_recipe_changes_what_it_says():
    plain, *parts = recipe_search.parts("fashion-mnist").values()
    same, *remedies = recipe_search.remedies("fashion-mnist", plain).values()
    assert plain == same == recipe("fashion-mnist")
    changed = [*parts, *remedies]
    assert len({run.identity for run in (plain, *changed)}) == 1 + len(changed)


def invented_search(accuracy):
    """Stores the recipe's search, with the accuracy of each dataset, exponent and rate."""
    search = find("recipe-search")
    for exponent, multiple, _ in recipe_search.SETTINGS.values():
        for run in search.variants[recipe_search.label_of(exponent, multiple)]:
            value = accuracy(run.dataset.name, exponent, multiple)
            store.write(store.runs_folder(), result_of(run, accuracy=value))
    return read(search)


def test_settings_of_another_dataset_are_worth_what_they_reach_on_this_one(results):
    best = {"mnist": 0.2, "fashion-mnist": 0.3, "cifar-10": 0.4}

    def accuracy(dataset, exponent, multiple):
        return max(0.0, round(0.9 - abs(exponent - best[dataset]) - 0.1 * abs(multiple - 1), 4))

    reading = invented_search(accuracy)
    table = recipe_page.transferred(reading).data.set_index("trained on")
    assert table.loc["MNIST", "by MNIST"] == 0.9
    assert table.loc["MNIST", "by CIFAR-10"] == pytest.approx(0.7)
    assert table.loc["CIFAR-10", "by Fashion-MNIST"] == pytest.approx(0.8)
    assert "CIFAR-10, 0.6: 70.0%" in recipe_page.whitening(reading).alt


@pytest.mark.parametrize("images", recipe_rule.IMAGES)
@pytest.mark.parametrize("dataset", ["mnist", "cifar-10"])
def test_what_stands_beside_the_search_is_the_rule(monkeypatch, dataset, images):
    run = recipe_rule.by_the_rule(dataset, images)
    # It costs its epsilon: the noise is typed in, and all that is typed in is tested.
    noise = run.mechanism.noise_multiplier
    monkeypatch.setattr(accounting, "noise_multiplier_for", lambda *_, **__: noise)
    examples = run.dataset.examples
    assert examples == images or examples == {"mnist": 50_000, "cifar-10": 40_000}[dataset]
    found = settings.settings_for(3.0, examples=examples, features=1_000)
    typed = settings_of(run)
    assert typed.learning_rate == pytest.approx(found.learning_rate, rel=0.005)
    for name in ("batch", "steps", "delta", "clip_norm", "momentum"):
        assert getattr(typed, name) == getattr(found, name)
    assert typed.release_noise == found.release_noise


def test_the_rule_is_drawn_beside_the_best_of_its_rates(results):
    """Once all rates of a number of images are stored."""
    for images, most in ((200, 0.6), (0, 0.9)):
        for by in recipe_rule.TRIED[: 5 if images else 4]:
            for run in recipe_rule.RECIPE_RULE.variants[recipe_rule.label_of(images, by)]:
                value = most - abs(by - 2) / 100
                store.write(store.runs_folder(), result_of(run, accuracy=round(value, 4)))
    shown = rule_figure.rule(read(recipe_rule.RECIPE_RULE))
    assert [*shown.data.dataset] == ["mnist", "fashion-mnist", "cifar-10"]
    for row in shown.data.itertuples(index=False):
        assert row[1:] == (200, 0.59, 0.6, 2.0)
    assert "MNIST, 200: 59.0% and 60.0%" in shown.alt


def test_a_change_counts_with_its_best_rate_once_all_are_stored(results):
    parts = find("recipe-parts")
    values = {
        "the recipe": (0.88, 0.9, 0.89),
        "no mirror images": (0.84, 0.85, 0.7),
        "clipped at 1": (0.99, 0.99),
    }
    for label, accuracies in values.items():
        for multiple, accuracy in zip(rates.MULTIPLES, accuracies, strict=False):
            [_, run] = parts.variants[f"{label}, rate x {multiple:g}"]
            store.write(store.runs_folder(), result_of(run, accuracy=accuracy))
    assert choose(parts) == 2
    reading = read(parts).on("fashion-mnist")
    [row] = recipe_page.changed(reading).data.itertuples()
    assert (row.change, row.accuracy) == ("no mirror images", 0.85)
    assert row.points == pytest.approx(-5)


def test_the_recipe_stands_beside_what_others_published_at_the_same_epsilon(results):
    search = find("recipe-search")
    [best, *_] = search.variants["exponent 0.4, rate x 1"]
    search.keep("cifar-10", "best at epsilon 3", best, "the test")
    for seed in range(5):
        run = leaderboard.on_all(3.0, best).at_seed(seed)
        store.write(store.runs_folder(), result_of(run, accuracy=0.75 + seed / 1000))
        [row] = recipe_page.reached(first=read(search)).data.itertuples()
        assert row.seeds == seed + 1 and (row.low is None) == (seed == 0)
    assert (row.median, row.published) == (0.752, 0.723) and row.by.endswith("2023, ε = 1")
    # Beside it, that there is more: run again, said to be stated at 2, and of disputed accounting.
    [more] = recipe_page.reached(first=read(search)).data.to_dict("records")
    assert [more[name] for name in ("run again", "not read", "disputed")] == [0.7248, 0.77, 0.7083]
    assert (row.exponent, row.rate) == (0.4, 40)
    assert row.low < row.accuracy < row.high


def test_a_disputed_accuracy_stands_beside_the_highest_that_is_not():
    at_3 = recipe_page._of_others("fashion-mnist", 3.0)
    assert at_3["by"] == "linear scattering, Tramèr & Boneh 2021, ε = 3"
    assert (at_3["published"], at_3["disputed"]) == (0.897, 0.8971)
    at_1 = recipe_page._of_others("fashion-mnist", 1.0)
    assert (at_1["published"], at_1["disputed"]) == (None, 0.8838)
    at_8 = recipe_page._of_others("cifar-10", 8.0)
    assert (at_8["published"], at_8["run again"], at_8["not read"]) == (0.814, 0.787, 0.85)


def test_what_the_recipe_costs_is_read_from_its_benchmark(results):
    assert "python benchmarks/recipe.py" in cost_figure.cost().command
    said = {"dataset": "mnist", "epsilon": 3.0, "test_accuracy": 0.987, "seconds": 480.0}
    content = said | {"peak_megabytes": 3900, "provenance": {"device": "one abacus"}}
    records.write(records.folder("recipes") / "mnist.json", "recipes", content)
    [row] = cost_figure.cost().data.itertuples()
    assert (row.dataset, row.minutes, row.GB, row.on) == ("MNIST", 8.0, 3.9, "one abacus")


def test_accuracy_is_drawn_by_the_minutes_that_so_many_filters_take(results):
    sizes = find("recipe-sizes")
    for label, run in sizes.labelled():
        filters = int(label.removesuffix(" filters").replace(",", ""))
        store.write(
            store.runs_folder(),
            result_of(run, accuracy=0.75 + filters / 100_000 + run.seed / 1_000),
        )
    assert (
        cost_figure.more_filters(read(sizes)).command == "dpstudy run recipe-sizes --profile full"
    )
    provenance = {"device": "one abacus"}
    for filters in (None, 1_200):
        said = {"dataset": "cifar-10", "epsilon": 3.0, "seconds": (filters or 600) * 1.0}
        said |= {"peak_megabytes": 3_600, "provenance": provenance}
        said |= {"filters": filters} if filters else {"test_accuracy": 0.79}
        records.write(records.folder("recipes") / f"{filters}.json", "recipes", said)
    [row] = cost_figure.cost().data.itertuples()
    assert row.accuracy == 0.79
    drawn = cost_figure.more_filters(read(sizes))
    assert drawn.data.groupby("filters").minutes.first().to_dict() == {600: 10.0, 1_200: 20.0}
    assert "600 filters, 10 minutes: 75.7%; 1,200 filters, 20 minutes: 76.3%." in drawn.alt
