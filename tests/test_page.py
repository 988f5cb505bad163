"""The blocks that pages are composed of, on results that were never trained."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from results_for_tests import result_of
from scipy import stats

from dpstudy.lab.experiment import Experiment
from dpstudy.lab.published import Accuracy, Source
from dpstudy.lab.readings import Reading
from dpstudy.lab.search import Search
from dpstudy.lab.store import CHANCE
from dpstudy.lab.variant import Variant
from dpstudy.page.curves import curves
from dpstudy.page.datasets import behind, for_each_dataset
from dpstudy.page.figure import MISSING, STYLES, Note
from dpstudy.page.panels import panels
from dpstudy.page.quantity import ACCURACY, CLIPPED, GRADIENT_NORM, LEARNING_RATE, Quantity
from dpstudy.page.results import caption, gains_of, results
from dpstudy.page.search import against, techniques, winners
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.networks.network import LinearHead
from dpstudy.parts.run import Run, vary
from under_the_clip.tempered_sigmoids.figures import Mark, by_class, classes, spreads, sweep

STUDY = Experiment(
    name="a-study",
    title="Two variants on two datasets",
    variants={
        "old": (Run(epochs=5), Run(Images("fashion-mnist"), epochs=5)),
        "new": (vary(Run(epochs=5), learning_rate=2.0),),
    },
    seeds={"mnist": 3, "fashion-mnist": 3},
)
STATED = Accuracy("mnist", "DP-SGD, new", 0.97, 2.5, Source("a2020paper", "Table 1"))
OLD, NEW = [0.951, 0.955, 0.953], [0.961, 0.968, 0.964]
LABELS = {"name": "a-figure", "shown": "test accuracy"}


def reading(accuracies, experiment=STUDY, dataset="mnist", **fields):
    """What would be stored of variants, with a last accuracy by label and seed."""
    found = [
        (label, result_of(replace(run, seed=seed), accuracy=accuracy, **fields))
        for label, of_seeds in accuracies.items()
        for run in experiment.variants[label]
        if run.dataset.name == dataset
        for seed, accuracy in enumerate(of_seeds)
    ]
    asked = tuple((one.run.dataset.name, label) for label, one in found)
    return Reading(experiment, "full", None, found, [], [], wanted=asked)


def both(*readings):
    return replace(readings[0], found=[pair for one in readings for pair in one.found])


def lines(one=None, published=STATED):
    one = one or reading({"old": OLD, "new": NEW})
    return [Variant(one, "old", style=1), Variant(one, "new", "ours", 0, published)]


def drawn(figure, label, panel=0):
    """The coordinates of what has a label in a panel."""
    [line] = [one for one in figure.fig.axes[panel].get_lines() if one.get_label() == label]
    return line


@for_each_dataset("The accuracy")
def accuracy(one, other=None):
    assert other is None or {result.run.dataset for _, result in other.found} <= {
        result.run.dataset for _, result in one.found
    }
    return results([Variant(one, "old")], name="accuracy", shown="test accuracy")


def test_the_first_dataset_is_open_and_the_others_are_folded():
    mnist, fashion = (reading({"old": OLD}, dataset=name) for name in STUDY.datasets)
    shown = accuracy(both(mnist, fashion), both(mnist, fashion))
    assert [one.name for one in shown.parts] == ["accuracy-mnist", "accuracy-fashion-mnist"]
    html = shown._repr_html_()
    assert html.count("<details>") == 1 and "<summary>Fashion-MNIST</summary>" in html
    assert html.index('id="accuracy-mnist"') < html.index("<details>")
    assert accuracy(both(mnist, fashion).on("mnist")).name == "accuracy-mnist"


def test_what_is_not_run_is_said_once_with_its_command():
    fashion = reading({"old": OLD}, dataset="fashion-mnist")
    table, note = accuracy(fashion).parts
    assert table.name == "accuracy-fashion-mnist" and note.title == "Not yet run"
    assert note.command == "dpstudy run a-study --profile full --dataset mnist"
    nothing = accuracy(reading({}))
    assert nothing.command == "dpstudy run a-study --profile full"
    three = replace(STUDY, seeds=dict.fromkeys(("mnist", "fashion-mnist", "cifar-10"), 1))
    _, merged = accuracy(replace(fashion, experiment=three)).parts
    assert [line.split()[-1] for line in merged.command.splitlines()] == ["mnist", "cifar-10"]
    draw = for_each_dataset("It", stored=lambda one: len(one.found) > 3)(accuracy.__wrapped__)
    assert isinstance(draw(reading({"old": OLD})), Note)
    failed = for_each_dataset("It")(lambda one: Note("", "It diverged."))
    assert failed(fashion.on("fashion-mnist")).title == "It"


def test_the_runs_behind_a_page_are_named_with_what_is_missing_and_damaged():
    whole = reading({"old": OLD})
    partly = replace(whole, missing=[Run()], damaged=["runs/one.json: cut short"])
    table = behind(
        partly, replace(reading({}), missing=[Run()] * 2, wanted=(("mnist", "old"),) * 2)
    )
    assert [row[2:5] for row in table.shown()] == [["MNIST", "3", "4"], ["MNIST", "0", "2"]]
    assert table.data["hours left"].isna().all(), "none had a core of its own"
    assert table.caption.endswith(" Left out: runs/one.json: cut short.")


def test_a_run_takes_what_the_median_of_those_on_a_core_of_their_own_took():
    devices = "1 x CPU core (AMD EPYC)", "1 x CPU core (AMD EPYC)", "1 x NVIDIA H200 (gpu)"
    whole, seconds = reading({"old": OLD}), (60.0, 180.0, 3.0)
    took = [
        (label, replace(one, provenance=one.provenance | {"device": device, "wall_seconds": of}))
        for (label, one), device, of in zip(whole.found, devices, seconds, strict=True)
    ]
    whole = replace(whole, found=took)
    assert behind(whole).shown()[0][-2:] == ["2.0", MISSING]
    # Of another experiment, a run for twice as long on the same images, and one that is not chosen.
    longer = replace(took[0][1].run, epochs=2 * took[0][1].run.epochs)
    lacks = replace(reading({}), missing=[longer], undecided=(("mnist", "old"),))
    lacks = replace(lacks, wanted=(("mnist", "new"), ("mnist", "old")))
    *_, hours = behind(whole, lacks).data["hours left"]
    assert hours == pytest.approx(2 * 4 / 60)
    apart = replace(lacks, missing=[replace(longer, network=LinearHead())])
    assert behind(whole, apart).data["hours left"].isna().all(), "none is like it"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(1, 1, "one seed each"), (3, 3, "median and range over 3 seeds"), (2, 3, "over 2 to 3 seeds")],
)
def test_a_caption_says_dataset_and_seeds(old, new, words):
    runs = reading({"old": OLD[:old], "new": NEW[:new]}).finals
    said = caption("norms", runs, "", "More.")
    assert said.startswith("MNIST: norms, ") and said.endswith(f"{words}. More.")


def test_a_caption_says_what_became_of_runs():
    stopped = reading({"new": [0.3]}, epochs=2, stopped="too slow", diverged_at=None)
    failed = reading({"old": [0.3, 0.3]}, epochs=2)
    said = caption("accuracy", both(failed, stopped).finals)
    assert said.endswith(
        "Diverged, and at chance (10%) from there on: 2. Given up on their way: 1."
    )


def test_curves_are_medians_and_ranges_over_seeds():
    figure = curves(lines(), ACCURACY, **LABELS)
    last = figure.data[figure.data.epoch == 5].set_index("line")
    columns = ["median", "minimum", "maximum", "seeds", "epsilon_pld"]
    assert last.loc["old", columns].tolist() == [0.953, 0.951, 0.955, 3, 0.5]
    rows = figure.data[figure.data.line == "old"]
    assert drawn(figure, "old").get_xydata().tolist() == [
        [x, y] for x, y in zip(rows.epoch, rows["median"], strict=True)
    ]
    assert "old from 91.3% to 95.3% (95.1% to 95.5%)" in figure.alt
    result = result_of(Run(epochs=5))
    curve = result.curve | {"gradient_norm": [2.0, 9.0, 4.0, 3.0, 1.0]}
    one = replace(reading({}), found=[("old", replace(result, curve=curve))])
    assert "old from 2 over 9 in epoch 2 to 1" in curves(lines(one), GRADIENT_NORM, **LABELS).alt


@pytest.mark.parametrize("accuracy", [0.5, 0.97, 0.999])
def test_published_accuracies_are_stars_in_the_picture_wherever_ours_are(accuracy):
    both_lines = lines(published=replace(STATED, accuracy=accuracy))
    figure = panels({"mnist": both_lines}, name="it", caption="It.")
    assert drawn(figure, "ours, published").get_xydata().tolist() == [[2.5, accuracy]]
    low, high = figure.fig.axes[0].get_ylim()
    assert low < 0.964 < high and low < accuracy < high <= 1
    # In grey, the mark in a star says whose it is.
    inner = [line for line in figure.fig.axes[0].get_lines() if line.get_color() == "white"]
    assert [line.get_marker() for line in inner] == [STYLES[0].marker]
    plain = curves(both_lines, ACCURACY, **LABELS)
    assert not [line for line in plain.fig.axes[0].get_lines() if line.get_color() == "white"]


def test_what_diverged_is_at_chance_or_left_out():
    one = both(reading({"old": [0.9, 0.9]}, epochs=2), reading({"new": NEW}))
    one = both(one, replace(one, found=[("old", result_of(Run(epochs=5, seed=2)))]))
    figure = curves(lines(one), ACCURACY, **LABELS)
    last = figure.data[(figure.data.line == "old") & (figure.data.epoch == 5)].iloc[0]
    assert (last["median"], last.maximum, last.epsilon_pld) == (CHANCE, 0.9, 0.5)
    assert "Diverged, and at chance (10%) from there on: 2." in figure.caption
    norms = curves(lines(one), GRADIENT_NORM, CLIPPED, **LABELS)
    left = norms.data[(norms.data.line == "old") & (norms.data.epoch == 5)]
    assert left.seeds.tolist() == [1, 1] and "left out from there on: 2" in norms.caption
    assert len(norms.fig.axes) == 2 and norms.fig.axes[0].get_yscale() == "log"
    early = curves(lines(reading({"old": [0.9]}, epochs=2)), GRADIENT_NORM, **LABELS)
    assert "after epoch 2, the last that any of its runs finished" in early.alt
    nothing = curves(lines(reading({"old": [0.9]}, epochs=0)), GRADIENT_NORM, **LABELS)
    assert isinstance(nothing, Note) and "diverged" in nothing.text


def shown(table, technique):
    columns = table._repr_mimebundle_()["text/plain"].splitlines()[0].split(" | ")
    row = next(row for row in table.shown() if row[0] == technique)
    cells = (cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row)
    return dict(zip(columns, cells, strict=True))


def test_a_table_has_what_is_published_and_ours_and_the_gain_with_its_interval():
    table = results(lines(), over={"ours": "old"}, settings=(LEARNING_RATE,), **LABELS)
    row = table.data.set_index("technique").loc["ours"]
    ours = ["published", "median", "minimum", "maximum", "seeds", "published ε", "ε proven"]
    assert row[ours].tolist() == [0.97, 0.964, 0.961, 0.968, 3, 2.5, 0.5]
    assert row[["ε (RDP 2019)", "learning rate"]].tolist() == [1.0, 2.0]
    found = stats.ttest_rel(NEW, OLD).confidence_interval()
    assert row[["points", "low", "high"]].tolist() == pytest.approx(
        [np.mean(NEW) - np.mean(OLD), found.low, found.high]
    )
    cells = shown(table, "ours")
    assert cells["published"] == "97.0%, Table 1" and cells["ours"] == "96.40% (96.10 to 96.80)"
    gained = [shown(table, name)["mean gain, points"] for name in ("ours", "old")]
    assert gained == [f"+1.13 (+{100 * found.low:.2f} to +{100 * found.high:.2f})", MISSING]


def test_the_seeds_that_both_have_are_paired_and_two_seeds_have_no_interval():
    more = [*OLD, 0.956]
    one = both(reading({"old": more}), reading({"new": NEW}))
    row = results(lines(one), over={"ours": "old"}, **LABELS).data.iloc[1]
    paired = stats.ttest_rel(NEW, more[: len(NEW)]).confidence_interval()
    assert row[["low", "high"]].tolist() == pytest.approx([paired.low, paired.high])
    [gained] = gains_of("mnist", None, {"over the new": lines(one)[::-1]})
    assert gained["seeds"] == len(NEW)  # and not all of the old one's
    one = both(reading({"old": OLD}), reading({"new": NEW[:2]}))
    assert [row["seeds"] for row in gains_of("mnist", None, {"": lines(one)})] == [2]
    table = results(lines(one), over={"ours": "old"}, **LABELS)
    mean = 100 * (np.mean(NEW[:2]) - np.mean(OLD))
    assert shown(table, "ours")["mean gain, points"] == f"{mean:+.2f}"


def test_what_is_not_stored_has_dashes_beside_what_is_published():
    table = results(lines(reading({"old": OLD})), over={"ours": "old"}, **LABELS)
    cells = shown(table, "ours")
    assert (cells["published"], cells["ours"], cells["seeds"]) == ("97.0%, Table 1", MISSING, "0")
    # No gain is there, and no column for it; with nothing published, no row.
    assert "mean gain, points" not in cells
    alone = results(lines(reading({"old": OLD}), None), **LABELS)
    assert alone.data.technique.tolist() == ["old"] and "published" not in alone.data


def test_the_epsilons_of_shuffled_batches_are_in_columns_of_their_own_meaning():
    spent = {"claimed-rdp-2019": [2.9] * 5, "shuffled-pld": [21.0] * 5}
    one = reading({"old": OLD}, epsilon=spent | {"shuffled-at-least": [8.569] * 5})
    cells = shown(results(lines(one), **LABELS), "old")
    shown_of = {name: cells[f"ε {name}"] for name in ("(RDP 2019)", "at least", "proven")}
    assert list(shown_of.values()) == ["2.90", "8.56", "21.00"]


POINTS = pd.DataFrame(
    {
        "label": list("abcd"),
        "c": [0.1, 1.0, 10.0, 5.0],
        "k": [1.0, 2.0, np.nan, 3.0],
        "test_accuracy": [0.9, 0.98, 0.5, 0.97],
        "best": [False, True, False, False],
    }
)
OVER = Quantity("c", "clip c", log=True), Quantity("k", "factor k")


def test_a_sweep_shows_every_setting_with_the_best_and_what_it_is_compared_with():
    mark = Mark("theirs", {"c": 0.5})
    figure = sweep(POINTS, OVER[0], name="s", caption="A sweep.", levels=lines(), marks=[mark])
    assert drawn(figure, "the best tenth").get_xydata().tolist() == [[1.0, pytest.approx(0.02)]]
    assert len(drawn(figure, "a setting").get_xdata()) == 3
    assert drawn(figure, "theirs").get_xdata() == [0.5, 0.5]
    assert drawn(figure, "ours").get_ydata()[0] == pytest.approx(1 - 0.964)
    axes = figure.fig.axes[0]
    assert axes.yaxis_inverted() and (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "test errors from 2.0% to 50.0%. The best 1 have clip c from 1 to 1" in figure.alt
    assert "ours, test errors from 3.2% to 3.9%" in figure.alt
    assert figure.data.label.tolist() == list("bdac")


def test_a_sweep_leaves_out_what_was_not_measured():
    figure = sweep(POINTS, *OVER, name="s", caption="A sweep.", levels=lines(reading({})))
    assert figure.data.label.tolist() == list("bda") and len(figure.fig.axes) == 2
    nothing = sweep(POINTS.assign(k=np.nan), *OVER, name="s", caption="A sweep.")
    assert isinstance(nothing, Note)


RATES = (0.5, 1.0, 2.0)
SEARCH = Search(
    name="a-search",
    title="Three rates",
    variants={f"new, {rate:g}": (vary(Run(epochs=5), learning_rate=rate),) for rate in RATES},
    seeds={"mnist": 1},
    groups={"new, best": tuple(f"new, {rate:g}" for rate in RATES), "other, best": ("other",)},
)


def searched(accuracies, again=(), rate=2.0, **fields):
    """A search with accuracies by rate, and those of the chosen rate with seeds 1, 2, ..."""
    one = reading({f"new, {at:g}": [found] for at, found in accuracies.items()}, SEARCH, **fields)
    run = vary(Run(epochs=5), learning_rate=rate)
    later = [
        ("new, best", result_of(replace(run, seed=seed), accuracy=found))
        for seed, found in enumerate(again, start=1)
    ]
    return replace(one, found=one.found + later)


def won(one, at=None):
    found = techniques(one, {"new": STATED}, at)
    options = {"ranges": lambda run: {"learning_rate": (RATES[0], RATES[-1])}, **LABELS}
    table = winners(found, settings=(LEARNING_RATE,), **options)
    return table, against(found, LEARNING_RATE, **LABELS)


def test_the_winner_is_shown_with_its_setting_and_with_other_seeds():
    one = searched({0.5: 0.9, 1.0: 0.95, 2.0: 0.96}, again=(0.955, 0.951))
    table, figure = won(one, {"new": 1.5})
    [row] = table.data.to_dict("records")
    assert (row["seed 0"], row["tried"], row["learning rate"]) == (0.96, 3, 2.0)
    assert (row["median"], row["seeds"]) == (pytest.approx(0.953), 2)
    assert row["at an edge"] == "learning rate"
    cells = shown(table, "new")
    assert (cells["chosen by"], cells["best setting"]) == ("96.00%, best of 3", "2")
    assert drawn(figure, "new").get_xydata().tolist() == [[0.5, 0.9], [1.0, 0.95], [2.0, 0.96]]
    assert drawn(figure, "new, published").get_xydata().tolist() == [[1.5, 0.97]]
    dashes = [line for line in figure.fig.axes[0].get_lines() if line.get_marker() == "_"]
    assert dashes[0].get_xydata().tolist() == [[2.0, 0.955], [2.0, 0.951]]
    assert "best 96.0% at 2, with other seeds 95.3% (95.1% to 95.5%), published" in figure.alt
    assert "1 to 2 seeds. Short strokes: the best with other seeds." in figure.caption


def test_before_a_choice_the_best_so_far_stands_there():
    table, figure = won(searched({0.5: 0.9, 1.0: 0.95}))
    [row] = table.data.to_dict("records")
    assert [row[of] for of in ("seed 0", "seeds", "at an edge")] == [0.95, 0, "none"]
    assert drawn(figure, "new, published").get_ydata() == [0.97, 0.97]
    table, figure = won(searched({0.5: 0.9, 1.0: 0.9}, epochs=0))
    assert table.data["seed 0"].item() == CHANCE and "there on: 2." in figure.caption


def test_what_was_given_up_is_hollow_and_never_the_best():
    one = searched({0.5: 0.9})
    early = searched({2.0: 0.99}, epochs=2, diverged_at=None, stopped="ten points behind")
    table, figure = won(both(one, early))
    assert table.data["learning rate"].tolist() == [0.5]
    given_up = drawn(figure, "new, given up")
    assert given_up.get_markerfacecolor() == "white"
    assert given_up.get_xydata().tolist() == [[2.0, 0.99]]
    assert drawn(figure, "new").get_xdata().tolist() == [0.5]
    assert "Given up on their way: 1." in figure.caption


def test_a_best_whose_own_run_is_lost_keeps_its_place_without_an_accuracy():
    table, figure = won(searched({0.5: 0.9}, again=(0.955,)))
    [row] = table.data.to_dict("records")
    assert row["learning rate"] == 2.0 and row["seed 0"] is None
    assert "new: best at 2, with other seeds 95.5%" in figure.alt


def test_classes_are_shown_with_their_spread():
    rng = np.random.default_rng(0)
    one = reading({"old": OLD, "new": NEW})
    found = [
        (label, replace(result, class_accuracy=list(0.9 + 0.1 * rng.random(10))))
        for label, result in one.found
    ]
    failed = replace(result_of(Run(epochs=5, seed=7), epochs=2), class_accuracy=[CHANCE] * 10)
    one = replace(one, found=[*found, ("old", failed)])
    figure = classes(lines(one), **LABELS)
    table = {
        name: np.array([one.class_accuracy for label, one in found if label == name])
        for name in ("old", "new")
    }
    row = figure.data[(figure.data.label == "old") & (figure.data["class"] == 3)].iloc[0]
    assert (row["median"], row["count"]) == (np.median(table["old"][:, 3]), 3)
    spread = {name: np.median(of.std(axis=1)) for name, of in table.items()}
    assert f"old {spread['old']:.4f}, ours {spread['new']:.4f}" in figure.caption
    assert "Diverged, and left out: 1." in figure.caption
    assert spreads(by_class(lines(one)[0])).tolist() == pytest.approx(table["old"].std(axis=1))
    worst = np.median(table["old"], axis=0).argmin()
    assert f"old is worst on {worst}" in figure.alt
    assert isinstance(classes(lines(reading({"old": [0.9]}, epochs=1)), **LABELS), Note)
