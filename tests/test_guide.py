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
from dpstudy.lab.variant import Variant
from dpstudy.page.results import gain
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import vary
from dpstudy.recipe.run import recipe_at
from under_the_clip.experiments import find
from under_the_clip.explorer import rows

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
    for part in ("## Six mistakes to", "Fine print: the tests that keep"):
        said = PAGE.partition(part)[2].partition("# And report")[0].partition("# The last")[0]
        assert re.findall(r"^# (\d)\. ", said, flags=re.MULTILINE) == list("123456")


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
            and len(one.results) >= 3
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


def test_the_recipe_s_command_sets_what_its_rows_list_but_the_exponent(monkeypatch):
    # To find the noise takes seconds; theirs is put in its place below.
    monkeypatch.setattr("dpstudy.privacy.accounting.noise_multiplier_for", lambda *_, **__: 1.0)
    ours = [one for one in stored() if one.experiment == "recipe-search"]
    for dataset in ("mnist", "fashion-mnist"):
        best = rows.best(ours, dataset, 3.0).run
        assert recipe_at(dataset, 3.0, best.seed).dataset.exponent == 0.4
        command = vary(recipe_at(dataset, 3.0, best.seed), exponent=best.dataset.exponent)
        assert vary(command, noise_multiplier=best.mechanism.noise_multiplier) == best
    third = [one for one in stored() if one.experiment == "recipe-third"]
    for epsilon in (1.0, 3.0, 8.0):
        best = rows.best(third, "cifar-10", epsilon).run
        command = recipe_at("cifar-10", epsilon, best.seed)
        assert vary(command, noise_multiplier=best.mechanism.noise_multiplier) == best


def test_the_recipe_s_command_takes_a_rate_in_proportion_to_epsilon(monkeypatch):
    # To find the noise takes seconds, and the rate does not depend on it.
    monkeypatch.setattr("dpstudy.privacy.accounting.noise_multiplier_for", lambda *_, **__: 1.0)
    ours = [one for one in stored() if one.experiment == "recipe-search"]
    for dataset, epsilon in product(("mnist", "fashion-mnist"), (1.0, 3.0, 8.0)):
        rate = recipe_at(dataset, epsilon).optimizer.learning_rate
        assert f"{rate / epsilon:.1f}" == "13.3"
        twice = dataset == "mnist" and epsilon == 8
        best = rows.best(ours, dataset, epsilon).run.optimizer.learning_rate
        assert rate == pytest.approx((1 + twice) * best, rel=1e-3)


def test_the_example_is_shown_whole_and_short():
    assert f"{{literalinclude}} ../book/{SCRIPT.name}\n# :language: python\n# ```" in PAGE
    assert len(SCRIPT.read_text().splitlines()) <= 30


@pytest.mark.smoke
def test_the_example_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    found = re.findall(r"(\w+): test accuracy (\d\.\d+) at epsilon 3\.00", capsys.readouterr().out)
    accuracies = {name: float(accuracy) for name, accuracy in found}
    assert accuracies["tanh"] > accuracies["relu"] > 0.8
