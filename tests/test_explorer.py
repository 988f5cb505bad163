"""The explorer's rows are the stored results, and its page loads nothing from elsewhere."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import vl_convert
from results_for_tests import result_of

from dpstudy.lab import store
from dpstudy.page.figure import Note
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.networks.activation import LayerWise, Relu, Tempered
from dpstudy.parts.part import KINDS
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import recipe, second_edition, whitened
from under_the_clip.experiments import CHAPTER_OF, EXPERIMENTS, find
from under_the_clip.explorer import page, rows, words
from under_the_clip.losing_less.loss import Composite, Huber

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.fixture(scope="module")
def explorer():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DPSTUDY_RESULTS", raising=False)
        rows.audited.cache_clear()
        return page.explorer()


@pytest.fixture(scope="module")
def html(explorer):
    return explorer._repr_html_()


def stored(name, label, dataset):
    """What the files say, without a reading: accuracies and epsilons of the last epoch."""
    runs = [run for of, run in find(name).labelled() if of == label and run.dataset.name == dataset]
    paths = [store.results_folder() / "runs" / f"{run.identity}.json" for run in runs]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


S, B = "tempered-sigmoids", "backpropagation-clipping"


@pytest.mark.parametrize(
    ("name", "label", "dataset", "claimed", "proven"),
    [
        (f"{S}-figure-3", "tanh", "mnist", "rdp-2019", "pld"),
        (f"{S}-table-3-not-private", "relu", "mnist", None, None),
        (f"{S}-shuffled", "tanh", "fashion-mnist", "claimed-rdp-2019", "shuffled-pld"),
        (f"{B}-table-1", "as published", "mnist", "claimed-zcdp", "shuffled-pld"),
        (f"{B}-corrected", "aims at 3", "mnist", "claimed-gdp", "pld"),
        (f"{B}-corrected", "spends 3", "mnist", None, "pld"),
    ],
)
def test_a_row_is_what_the_files_say(explorer, name, label, dataset, claimed, proven):
    data, shown = explorer.data, DATASETS[dataset]
    same = (data.experiment == name) & (data.variant == label) & (data.dataset == shown)
    [row] = data[same].to_dict("records")
    files = stored(name, label, dataset)
    accuracy = [file["curve"]["test_accuracy"][-1] for file in files]
    assert row["seeds"] == len(files) > 1
    found = [row["median"], row["min"], row["max"]]
    assert found == pytest.approx([np.median(accuracy), min(accuracy), max(accuracy)])
    for column, accountant in (("claimed", claimed), ("proven", proven)):
        spent = {file["epsilon"][accountant][-1] for file in files} if accountant else {None}
        assert {row[column] if pd.notna(row[column]) else None} == spent


def test_an_audit_stands_beside_the_very_run_that_it_is_of(explorer):
    data = explorer.data.set_index(["experiment", "variant", "dataset"]).audited
    folder = store.results_folder() / "audits"
    for key, audit in {
        (f"{S}-figure-3", "tanh", "MNIST"): "flat-clipping",
        (f"{S}-shuffled", "tanh", "MNIST"): "shuffled-proof",
        (f"{B}-table-1", "as published", "MNIST"): f"{B}-mnist-claims-0.07",
        (f"{B}-table-1", "as published", "Fashion-MNIST"): f"{B}-fashion-mnist-claims-0.87",
    }.items():
        assert data[key] == json.loads((folder / f"{audit}.json").read_text())["lower_bound"]
    assert pd.isna(data[f"{S}-figure-3", "relu", "MNIST"])


def test_every_experiment_with_a_whole_run_is_there(explorer):
    files = {path.stem for path in store.runs_folder().glob("*.json")}
    have = [name for name, of in EXPERIMENTS.items() if {r.identity for r in of.runs()} & files]
    assert set(explorer.data.experiment) == set(have)


def test_what_is_stored_later_joins_and_runs_without_a_last_epoch_do_not(results):
    experiment = find("losing-less-figure-3")
    assert rows.settings() == []
    run = experiment.runs()[0]
    ends = {0: {"accuracy": 0.9}, 1: {"accuracy": 0.8, "epochs": 3}, 2: {"stopped": "far behind"}}
    for seed, fields in ends.items():
        store.write(store.runs_folder(), result_of(replace(run, seed=seed), **fields))
    [setting] = rows.settings()
    assert setting.experiment == experiment.name
    # The second diverged: it counts as a guess.
    assert setting.accuracy.to_dict() == {0: 0.9, 1: 0.1}
    row = setting.row()
    assert (row["paper"], row["method"], row["seeds"]) == ("losing less", "flat clipping, tanh", 2)


def test_the_data_is_one_file_of_less_than_a_megabyte(explorer):
    assert len(explorer.csv.encode()) < 1_000_000
    back = pd.read_csv(io.StringIO(explorer.csv))
    assert len(back) == len(explorer.data)
    columns = ["dataset", "experiment", "variant", "method", "network", "settings", "link"]
    assert back[columns].notna().all(axis=None)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_link_leads_to_a_heading_of_its_chapter(name):
    chapter = CHAPTER_OF[name]
    lines = (NOTEBOOKS / f"{chapter.notebook}.py").read_text().splitlines()
    headings = {line.lstrip("# ") for line in lines if re.match(r"# #+ ", line)}
    assert chapter.section(name) in headings


class _Loads(HTMLParser):
    """What a page has the browser load."""

    def __init__(self):
        super().__init__()
        self.found, self.rows, self.links = [], 0, []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.found += [given["src"]] if "src" in given else []
        self.found += [given["href"]] if tag == "link" else []
        self.rows += tag == "tr"
        self.links += [given["href"]] if tag == "a" else []


def test_the_page_loads_nothing_and_has_every_row_without_a_script(explorer, html):
    page_of = _Loads()
    page_of.feed(html)
    assert page_of.found == []
    datasets = explorer.data.dataset.nunique()
    assert page_of.rows == len(explorer.data) + datasets
    assert page_of.links[: len(explorer.data)].count("") == 0
    assert explorer.data.link.str.fullmatch(r"\d\db?_\w+\.html#[a-z0-9-]+").all()
    assert html.count("<details>") == datasets + 1 and "<noscript>" in html
    assert not re.search(r"@import|url\(\s*['\"]?http", html)


def test_the_chart_has_its_data_and_native_controls(explorer):
    spec = page.chart(explorer.data).to_dict()
    assert list(spec["datasets"].values()) == [explorer.csv]
    assert '"url"' not in json.dumps(spec)
    numbers = {*rows.EPSILONS, "seeds", "median", "min", "max"}
    assert spec["data"]["format"]["parse"] == dict.fromkeys(numbers, "number")
    bound = {one["name"]: one["bind"]["input"] for one in spec["params"]}
    assert bound == {
        **dict.fromkeys(("which_dataset", "which_epsilon", "which_most", "which_seeds"), "radio"),
        **dict.fromkeys(("which_paper", "which_method", "which_network"), "select"),
    }
    assert spec["width"] == "container"


def test_runs_in_words():
    run = vary(Run(), activation=Tempered(3.0, 1.0, 0.5), width=2.0)
    assert words.method(run) == "flat clipping, tempered sigmoid"
    assert words.settings(run) == (
        "Poisson batches of 512, 40 epochs, SGD rate 0.5 momentum 0.9, C 0.1, σ 1.23, s 3, T 1, "
        "o 0.5, filters x 2"
    )
    assert words.method(vary(Run(), loss=Composite())) == "flat clipping, tanh, composite loss"
    assert words.settings(vary(Run(), loss=Huber(0.5))).endswith("σ 1.23, bound 0.5")
    layers = vary(Run(), activation=LayerWise((Relu(), Tempered(1.0, 2.0, 0.5))))
    assert words.settings(layers).endswith("layers () / (s 1, T 2, o 0.5)")


def test_of_the_recipe_what_its_command_does_not_set_is_said():
    run = recipe("cifar-10")
    said = f"C 0.25, σ {run.mechanism.noise_multiplier:.4g}, exponent 0.4"
    assert words.settings(run).endswith(said)
    assert words.settings(vary(run, components=10)).endswith(", components 10, exponent 0.4")


def test_the_recipe_goes_by_its_name(explorer):
    run = recipe("cifar-10")
    other = Run().network
    assert words.method(run) == words.method(vary(run, exponent=0.5)) == "the recipe"
    assert words.method(vary(run, components=10)) == "the recipe, changed"
    assert words.method(vary(run, loss=Composite())) == "flat clipping, composite loss"
    assert words.method(replace(run, network=other)) == "flat clipping, tanh"
    methods = explorer.data.set_index(["experiment", "variant"]).method
    assert set(methods["recipe-search"]) == {"the recipe"}
    assert set(methods["recipe-slanted"]) == {"the recipe, changed"}
    assert set(methods["recipe-second"]) == {"the recipe, second edition"}
    assert set(methods["recipe-third"]) == {"the recipe, third edition"}
    assert set(methods["recipe-second-before"]) == {"the recipe, second edition, changed"}
    second = whitened(second_edition("fashion-mnist"), 0.2)
    assert words.settings(second).endswith("exponent 0.2")


def drawn(data, **picked):
    """What the chart draws where that is picked: by method colour and shape, and the legend."""
    spec = page.chart(data).to_dict() | {"width": 600}
    for control in spec["params"]:
        control["value"] = picked.get(control["name"].removeprefix("which_"), control["value"])
    svg = vl_convert.vegalite_to_svg(spec)
    marks = re.findall(
        r'aria-label="([^"]*; method: [^"]*)"[^>]* d="(\S+?)"[^>]*fill="(\w+|#\w+)"', svg
    )
    of_each = {re.search("method: ([^;]*)", said)[1]: (shape, fill) for said, shape, fill in marks}
    return of_each, svg


def test_a_method_looks_the_same_whatever_is_picked(explorer):
    everything, legend = drawn(explorer.data)
    assert len(everything) > 20 and "entries" not in legend
    assert "backpropagation clipping, relu</text>" in legend
    for method in ("the recipe", "flat clipping, tanh", "tanh filter, tanh"):
        alone, legend = drawn(explorer.data, method=method)
        assert alone == {method: everything[method]}
        assert "backpropagation clipping, relu</text>" not in legend
    assert len(set(everything.values())) == len(everything)


def test_a_proven_epsilon_is_shown_with_two_decimals_and_rounded_up(explorer):
    _, svg = drawn(explorer.data)
    said = re.findall(r'aria-label="ε: ([\d.]+);[^"]*; proven ε: ([\d.]+);', svg)
    assert len(said) > 20
    for spent, shown in said:
        assert 0 <= float(shown) - float(spent) < 0.01


def test_best_without_privacy_is_of_runs_without_noise(explorer):
    """On CIFAR-10 these have two seeds; a head on private images' features has noise and no ε."""
    noisy = explorer.data[(explorer.data.dataset == "CIFAR-10") & explorer.data.proven.isna()]
    assert (noisy.method == "the recipe, changed").any()
    for seeds, shown in ((3, False), (1, True)):
        _, svg = drawn(explorer.data, dataset="CIFAR-10", seeds=seeds)
        assert ("best without privacy" in svg) == shown


def test_an_accuracy_on_held_out_examples_says_so():
    for edition in (recipe, second_edition):
        run = vary(edition("cifar-10"), held_out=10_000)
        assert "accuracy on held-out examples: 10000" in words.settings(run)


def test_words_are_of_kinds_that_there_are():
    assert set(words.KINDS) <= set(KINDS)


def test_where_nothing_is_stored_it_is_a_note(monkeypatch):
    monkeypatch.setattr(rows, "settings", list)
    assert isinstance(page.explorer(), Note)
