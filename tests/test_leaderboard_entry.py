"""The entry for the public leaderboard says what the store says, and no more."""

import json
import math

import pytest
import yaml
from results_for_tests import dpstudy, result_of
from test_book import ROOT

from dpstudy.errors import UserError
from dpstudy.lab import store
from under_the_clip.leaderboard import entry
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.recipe.third_edition import RECIPE_THIRD, edition_on

CODE = "https://example.org/code"
FIELDS = ["public_data", "model", "epsilon", "delta", "private_accuracy", "dp_accountant"]


@pytest.fixture
def stored(monkeypatch):
    """The repository's results."""
    monkeypatch.setenv("DPSTUDY_RESULTS", str(ROOT / "results"))


@pytest.mark.parametrize("dataset", RECIPE_SEARCH.datasets)
@pytest.mark.usefixtures("stored")
def test_each_number_is_that_of_the_stored_files(dataset):
    """By the files alone, without what reads them elsewhere."""
    [item] = yaml.safe_load(entry.written(dataset, code=CODE))
    wanted = edition_on(dataset).labelled(dataset=dataset)
    for epsilon, claim in zip((1, 2, 3, 8), item["claims"], strict=True):
        files = [
            json.loads((ROOT / "results/runs" / f"{run.identity}.json").read_text())
            for label, run in wanted
            if label == f"epsilon {epsilon}"
        ]
        assert len(files) == 5 and list(claim) == FIELDS
        accuracies = [100 * one["curve"]["test_accuracy"][-1] for one in files]
        assert claim["private_accuracy"] == f"{math.fsum(accuracies) / 5:.2f}%"
        spent = max(one["epsilon"]["pld"][-1] for one in files)
        assert 0 <= claim["epsilon"] - spent < 0.01
        assert claim["epsilon"] == pytest.approx(epsilon, abs=0.011)
        assert {one["run"].get("delta", 1e-5) for one in files} == {claim["delta"]}
        assert claim["public_data"] == "none" and "PLD" in claim["dp_accountant"]
    assert (item["url"], item["code"], item["venue"]) == (CODE, CODE, "not published")


@pytest.mark.usefixtures("stored")
def test_what_is_not_counted_is_said_with_it():
    text = entry.written("cifar-10", code=CODE)
    for said in (
        "does not count the",
        "10,000 training images held out",
        "seeds 0 to 4",
        "changed",
    ):
        assert said in text


def test_epsilon_is_rounded_up_and_accuracy_is_the_mean_over_seeds(results, monkeypatch):
    label, best = "epsilon 3", "best at epsilon 3"
    chosen = RECIPE_THIRD.variants["exponent 0.4, rate x 1"][0]
    monkeypatch.setattr(entry, "EPSILONS", (3.0,))
    RECIPE_THIRD.keep("cifar-10", best, chosen, "by a test")
    runs = [run for one, run in RECIPE_THIRD.labelled(dataset="cifar-10") if one == label]
    assert len(runs) == 5
    for run, accuracy in zip(runs[:4], (0.70, 0.71, 0.72, 0.73), strict=True):
        store.write(store.runs_folder(), of(run, accuracy, 2.9901))
    with pytest.raises(UserError, match=r"^4 runs of epsilon 3 are stored on cifar-10, of 5: dps"):
        entry.entry("cifar-10", code=CODE)
    store.write(store.runs_folder(), of(runs[4], 0.79, 2.9911))
    [claim] = entry.entry("cifar-10", code=CODE)["claims"]
    assert (claim["private_accuracy"], claim["epsilon"]) == ("73.00%", 3.0)


def of(run, accuracy, epsilon):
    spent = [epsilon] * run.epochs
    result = result_of(run, accuracy=accuracy, epsilon={"pld": spent})
    result.provenance["finished"] = "2026-11-26T00:00:00+00:00"
    return result


@pytest.mark.usefixtures("stored")
def test_the_command_writes_it_once(tmp_path):
    file = tmp_path / "entry.yml"
    done = dpstudy("results", "entry", str(file), "--code", CODE, "--authors", "A. Name")
    assert (done.exit_code, done.stderr) == (0, "")
    [item] = yaml.safe_load(file.read_text())
    assert (item["authors"], item["code"], len(item["claims"])) == ("A. Name", CODE, 4)
    again = dpstudy("results", "entry", str(file), "--code", CODE)
    assert again.exit_code == 2 and "stays as it is" in again.stderr
    assert yaml.safe_load(file.read_text()) == [item]


def test_without_results_it_says_what_is_missing(results, tmp_path):
    done = dpstudy("results", "entry", str(tmp_path / "entry.yml"), "--code", CODE)
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("dpstudy: 0 runs of epsilon 1 are stored on cifar-10, of 5")
    assert not (tmp_path / "entry.yml").exists()
    unknown = dpstudy("results", "entry", "x.yml", "--code", CODE, "--dataset", "cifar10")
    assert unknown.stderr.endswith("no dataset 'cifar10'; the nearest is 'cifar-10'\n")
