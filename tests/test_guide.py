"""The guide says what is stored, names tests that exist, and its example runs."""

import ast
import re
import runpy
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from prose import study_ledger
from results_for_tests import figures_in
from scipy import stats

from dpstudy.lab import readings
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.variant import Variant
from dpstudy.page.results import gain
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import vary
from dpstudy.recipe.run import recipe_at
from under_the_clip.designs import noise_multiplier
from under_the_clip.experiments import find
from under_the_clip.explorer import rows
from under_the_clip.leaderboard.published import PUBLISHED, RUN_AGAIN
from under_the_clip.losing_less.published import END_TO_END
from under_the_clip.recipe import figures as recipe_page
from under_the_clip.tempered_sigmoids.experiments import SEARCH_BUDGET

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "notebooks" / "guide.py").read_text()
SCRIPT = ROOT / "book" / "first_private_run.py"
NAMED = re.findall(r"`tests/(test_\w+\.py)`:\s*(?:# +)?`(test_\w+)`", PAGE)


guide = figures_in("guide")
pytestmark = pytest.mark.usefixtures("of_the_study")


@cache
def stored():
    return rows.settings()


@cache
def line(name, dataset, label):
    return Variant(readings.read(find(name), dataset=dataset), label)


def above(name, dataset, better, other):
    """Return the ends of the interval of what one variant gains over another."""
    found = gain(line(name, dataset, better), line(name, dataset, other))
    return found["low"], found["high"]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_is_named_exists(file, name):
    tree = ast.parse((ROOT / "tests" / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_mistake_has_its_test():
    assert PAGE.count("`test_") == len(NAMED)
    mistakes = PAGE.partition("## Six mistakes to")[2].partition("# And report")[0]
    items = re.split(r"^# \d\. ", mistakes, flags=re.MULTILINE)[1:]
    assert len(items) == 6
    assert all(item.count("`test_") == 1 for item in items)


def test_starting_points_are_the_best_of_what_is_stored():
    data = guide.starting_points(stored()).data
    shown, found = {name: dataset for dataset, name in DATASETS.items()}, stored()
    assert len(data) == len(rows.WANTED) * data.dataset.nunique()
    for row in data.to_dict("records"):
        about = row["wanted ε"]
        fit = [
            one
            for one in found
            if one.run.dataset.name == shown[row["dataset"]]
            and one.run.dataset.held_out == 0
            and len(one.runs) >= 3
            and one.proven is not None
            and 0.75 * about <= one.proven <= 1.1 * about
        ]
        if not fit:
            assert row["method"] == "no stored run" and pd.isna(row["mean"])
            continue
        accuracies = max((list(one.accuracy) for one in fit), key=np.mean)
        half = stats.sem(accuracies) * stats.t.ppf(0.975, len(accuracies) - 1)
        assert row["mean"] == pytest.approx(np.mean(accuracies))
        assert row["high"] - row["mean"] == pytest.approx(half)
        assert row["seeds"] == len(accuracies)


def test_fewer_seeds_are_named_where_they_are_ahead():
    note = guide.ahead_with_fewer_seeds(stored())
    said, found = "" if note is None else note.text, stored()
    for row in guide.starting_points(stored()).data.to_dict("records"):
        name = next(key for key, shown in DATASETS.items() if shown == row["dataset"])
        any_number = rows.best(found, name, row["wanted ε"], seeds=1)
        sure = 0 if pd.isna(row["mean"]) else row["mean"]
        ahead = any_number is not None and any_number.accuracy.mean() > sure + 0.01
        begins = f"{row['dataset']}, about {row['wanted ε']:g}: "
        assert any(part.startswith(begins) for part in said.split("; ")) == ahead


def test_gains_are_those_of_the_ledger():
    said = guide.choices(study_ledger()).data.set_index("choice")["points of accuracy gained"]
    low, high = above(
        "tempered-sigmoids-table-3-search", "mnist", "tanh, private, best", "relu, private, best"
    )
    assert f"({100 * low:.2f} to {100 * high:.2f}) on MNIST" in said["tanh in place of relu"]


def test_the_recipe_s_command_sets_what_its_rows_list_but_the_exponent():
    ours = [one for one in stored() if one.experiment == "recipe-search"]
    for dataset in ("mnist", "fashion-mnist", "cifar-10"):
        best = rows.best(ours, dataset, 3.0).run
        assert recipe_at(dataset, 3.0, best.seed).dataset.exponent == 0.4
        command = vary(recipe_at(dataset, 3.0, best.seed), exponent=best.dataset.exponent)
        assert vary(command, noise_multiplier=best.mechanism.noise_multiplier) == best


def test_the_recipe_s_command_takes_a_rate_in_proportion_to_epsilon(monkeypatch):
    # To find the noise takes seconds, and the rate does not depend on it.
    monkeypatch.setattr("dpstudy.privacy.accounting.noise_multiplier_for", lambda *_, **__: 1.0)
    ours = [one for one in stored() if one.experiment == "recipe-search"]
    for dataset, epsilon in product(("mnist", "fashion-mnist", "cifar-10"), (1.0, 3.0, 8.0)):
        rate = recipe_at(dataset, epsilon).optimizer.learning_rate
        assert f"{rate / epsilon:.1f}" == "13.3"
        twice = dataset == "mnist" and epsilon == 8
        best = rows.best(ours, dataset, epsilon).run.optimizer.learning_rate
        assert rate == pytest.approx((1 + twice) * best, rel=1e-3)


def test_settings_borrowed_from_clothes_cost_photographs_little():
    held_out = recipe_page.transferred(readings.read(find("recipe-search"))).data
    worth = held_out.set_index("trained on").loc["CIFAR-10"]
    lost = 100 * (worth["by CIFAR-10"] - worth["by Fashion-MNIST"])
    page = " ".join(PAGE.replace("\n#", " ").split())
    assert f"found best on Fashion-MNIST, CIFAR-10 loses {lost:.2f} points." in page


def test_how_to_choose():
    search = "tempered-sigmoids-table-3-search", "tanh, private, best", "relu, private, best"
    assert above(search[0], "mnist", *search[1:])[0] > 0
    [cifar] = [entry for entry in study_ledger().entries if entry.id == "table-3-gain-cifar-10"]
    assert cifar.outcome.ours["difference_high"] < 0
    rates = "tempered-sigmoids-cifar-10-rates"
    at_3 = [line(rates, "cifar-10", f"{name}, epsilon 3").accuracy for name in ("relu", "tanh")]
    there = line("losing-less-figure-3", "cifar-10", "cross-entropy")
    said = (
        "with {:.1f} and {:.1f} % at ε = 3, and tanh on the network of "
        '"Losing less" has {:.1f} % at'
    )
    said = said.format(*(100 * one.median() for one in (*at_3, there.accuracy)))
    page = " ".join(PAGE.replace("\n#", " ").split())
    said = said.replace("ε = 3, and", "ε = 3, two seeds each, and")
    assert {len(one) for one in at_3} == {2}
    assert f"{said} {there.median('epsilon_pld'):.2f}." in page
    of_each = ("cifar-10", "fashion-mnist", "mnist")
    reached = [rows.best(stored(), of, 3.0).accuracy for of in of_each]
    [took] = recipe_page.cost().data.to_dict("records")
    assert took["dataset"] == "CIFAR-10"
    assert (
        f"timed took {took['minutes']:.1f} minutes of two CPU cores and {took['GB']:.1f} GB, and "
        f"has {100 * took['accuracy']:.1f} %." in page
    )
    deep, again = (
        max(one.accuracy for one in of if (one.dataset, one.claimed_epsilon) == ("cifar-10", 8))
        for of in (PUBLISHED, RUN_AGAIN)
    )
    at_8 = rows.best(stored(), "cifar-10", 8.0).accuracy.mean()
    assert f"CIFAR-10: {100 * deep:.1f} % are published" in page and again < at_8 < deep
    assert f"and {100 * again:.1f} % where others ran it again" in page
    assert f"{{cite}}`bao2024reliable`; the recipe has {100 * at_8:.1f} %." in page
    said = "it has {:.1f} % on CIFAR-10, {:.1f} % on Fashion-MNIST and {:.1f} % on MNIST, means of"
    assert {len(one) for one in reached} == {5}
    assert said.format(*(100 * one.mean() for one in reached)) in page
    on_pixels = [one for one in stored() if isinstance(one.run.dataset, Images)]
    for dataset, ahead in (("cifar-10", 0.02), ("fashion-mnist", 0.02), ("mnist", 0.005)):
        best = rows.best(stored(), dataset, 3.0)
        assert best.experiment == "recipe-search"
        pixels = rows.best(on_pixels, dataset, 3.0, seeds=1)
        assert best.accuracy.mean() > pixels.accuracy.mean() + ahead
    at = f"{100 * pixels.accuracy.mean():.1f} % at ε = {pixels.proven:.2f}"
    assert f"the best of these has {at}, where it has {100 * best.accuracy.mean():.1f}." in page
    at_one = gain(
        *(line("tempered-sigmoids-figure-3", "fashion-mnist", n) for n in ("tanh", "relu"))
    )
    at_own = gain(*(line(search[0], "fashion-mnist", name) for name in search[1:]))
    leads = "[tanh](02_tempered_sigmoids.ipynb) leads relu by"
    assert (
        f"{leads} {100 * at_one['points']:.1f} points on Fashion-MNIST in our runs, after" in page
    )
    assert f"the same search for both by {100 * at_own['points']:.1f}." in page
    of_five = (
        line("losing-less-equal-effort", "fashion-mnist", f"cross-entropy, {name}")
        for name in ("tanh", "relu")
    )
    leads = [f"{100 * of['points']:.1f}" for of in (at_own, gain(*of_five), at_one)]
    said = (
        "On Fashion-MNIST tanh leads by {} points after a search of 24 settings each, by {} after "
        "one of five rates each, and by {} at one setting for both:"
    )
    assert said.format(*leads) in page
    assert SEARCH_BUDGET["private"] == 24
    less = []
    for stated in END_TO_END:
        own = noise_multiplier(3.0, stated.examples, stated.batch, stated.epochs)
        less.append(100 * (1 - own / stated.noise_multiplier))
    assert (
        f'{min(less):.0f} to {max(less):.0f} % less noise than "Losing less" has for the ε of 3'
        in page
    )
    clips = "backpropagation clipping, epsilon 1", "flat clipping, epsilon 1"
    against = "backpropagation-clipping-against-flat"
    assert above(against, "mnist", *clips)[0] < 0
    best = [name.replace("epsilon 1", "best") for name in clips]
    for dataset, points in (("mnist", 0.005), ("fashion-mnist", -0.03)):
        found = gain(*(line(against, dataset, name) for name in best))
        assert found["points"] == pytest.approx(points, abs=0.004)
    by_sgd = [
        100
        * gain(
            *(
                line("factorial", of, f"relu / cross-entropy / {side}")
                for side in ("inside", "flat")
            )
        )["points"]
        for of in ("mnist", "fashion-mnist")
    ]
    said = "with SGD for both it is {:.1f} and {:.1f} points, after half the epochs."
    assert said.format(*by_sgd) in page
    losses = "composite", "cross-entropy"
    for dataset in ("mnist", "fashion-mnist"):
        low, high = above("losing-less-figure-3", dataset, *losses)
        assert low < 0 < high < 0.003
    low, high = above("losing-less-equal-effort", "mnist", *(f"{loss}, tanh" for loss in losses))
    assert low < 0 < high
    own = (line("losing-less-equal-effort", "fashion-mnist", f"{loss}, tanh") for loss in losses)
    found = gain(*own)
    assert found["low"] > 0
    page = " ".join(PAGE.replace("\n#", " ").split())
    assert f"On Fashion-MNIST it gains {100 * found['points']:.2f} points at a rate" in page
    turns = [
        gain(
            line("losing-less-ablation", dataset, "squared error and cross-entropy"),
            line("losing-less-equal-effort", dataset, "cross-entropy, tanh"),
        )
        for dataset in ("mnist", "fashion-mnist")
    ]
    assert all(one["low"] > 0 for one in turns)
    said = "ends {:.2f} points on MNIST and {:.2f} on Fashion-MNIST above cross-entropy at the best"
    assert said.format(*(100 * one["points"] for one in turns)) in page
    heads = [
        gain(*(line("losing-less-linear", dataset, loss) for loss in losses))
        for dataset in ("mnist", "fashion-mnist")
    ]
    said = "On linear heads it gains {:.2f} points on MNIST, loses {:.2f} points on Fashion"
    assert said.format(*(abs(100 * one["points"]) for one in heads)) in page
    assert heads[0]["low"] > 0 > heads[1]["high"]
    linear = (line("losing-less-linear", "cifar-10", loss).accuracy for loss in losses)
    assert Estimate.difference(*linear).high < 0
    filtered = gain(
        *(
            line("tanh-filter-at-equal-epsilon", "mnist", f"{one}, best")
            for one in ("filter, then clipped", "flat clipping")
        )
    )
    assert filtered["points"] == pytest.approx(-0.005, abs=0.001) and filtered["high"] < 0
    layers = line("tempered-sigmoids-layer-wise", "mnist", "layer-wise, best")
    shared = line("tempered-sigmoids-layer-wise", "mnist", "shared, best")
    assert layers.accuracy.mean() < shared.accuracy.mean()
    for dataset in ("mnist", "fashion-mnist"):
        of_family = (line("tempered-sigmoids-figure-2", dataset, n) for n in ("best", "tanh"))
        found, tanh = (one.accuracy.mean() for one in of_family)
        assert found < tanh


def test_the_example_is_shown_whole_short_and_runs(tmp_path, monkeypatch, capsys):
    assert f"{{literalinclude}} ../book/{SCRIPT.name}\n# :language: python\n# ```" in PAGE
    assert len(SCRIPT.read_text().splitlines()) <= 30
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    found = re.findall(r"(\w+): test accuracy (\d\.\d+) at epsilon 3\.00", capsys.readouterr().out)
    accuracies = {name: float(accuracy) for name, accuracy in found}
    assert accuracies["tanh"] > accuracies["relu"] > 0.8
