"""Chapter 2 shows what is stored: its numbers, their spread and origin, and what is not there."""

import re
from dataclasses import replace

import numpy as np
import pytest
from results_for_tests import DEVICE, result_of

from dpstudy.errors import UserError
from dpstudy.lab import readings, store
from dpstudy.lab.readings import CHANCE
from dpstudy.page.figure import MISSING, Figure, Note, Table
from dpstudy.papers import find
from dpstudy.papers.tempered_sigmoids import figures as chapter
from dpstudy.parts.activation import TANH, Relu

FIGURE_3 = find("tempered-sigmoids-figure-3")
TABLE_3 = find("tempered-sigmoids-table-3-not-private")
ACCURACIES = {"relu": (0.961, 0.955, 0.964), "tanh": (0.981, 0.979, 0.982)}


def keep(experiment=FIGURE_3, dataset="mnist", accuracies=ACCURACIES, **fields):
    """Store results that were never trained, with a last accuracy by variant and seed."""
    for label, of_seeds in accuracies.items():
        for run in experiment.runs(dataset=dataset, seeds=len(of_seeds)):
            if run.network.activation == {"relu": Relu(), "tanh": TANH}[label]:
                result = result_of(run, accuracy=of_seeds[run.seed], **fields)
                store.write(store.runs_folder(), result)


def read(experiment=FIGURE_3, dataset="mnist", seeds=3):
    return readings.read(experiment, dataset=dataset, seeds=seeds)


def drawn(figure):
    """The axes of a figure, and what its first legend names."""
    axes = figure.fig.axes
    return axes, [text.get_text() for text in axes[0].get_legend().get_texts()]


def stars(figure):
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in figure.fig.axes[0].get_lines()
        if line.get_marker() == "*"
    ]


FIGURES = pytest.mark.parametrize(
    "draw", [chapter.accuracy_against_epsilon, chapter.gradient_norms]
)


# --- what every figure says of itself ------------------------------------------------------------


@FIGURES
def test_a_figure_says_how_many_seeds_and_what_device(results, draw):
    keep()
    figure = draw(read())
    assert isinstance(figure, Figure)
    assert "over 3 seeds" in figure.caption
    assert f"computed on {DEVICE}" in figure.caption
    assert "MNIST" in figure.caption


@FIGURES
@pytest.mark.parametrize(
    ("relu", "tanh", "words"), [(1, 1, "1 seed,"), (3, 3, "3 seeds,"), (3, 2, "2 to 3 seeds,")]
)
def test_the_number_of_seeds_is_the_one_that_is_stored(results, draw, relu, tanh, words):
    keep(accuracies={"relu": ACCURACIES["relu"][:relu], "tanh": ACCURACIES["tanh"][:tanh]})
    assert f"over {words}" in draw(read()).caption


@FIGURES
def test_a_figure_has_a_text_alternative_in_its_html(results, draw):
    keep()
    figure = draw(read())
    alt = re.search(r'<img [^>]*alt="([^"]+)"', figure._repr_html_())
    assert alt and len(alt[1]) > 40
    assert "relu" in figure.alt and "tanh" in figure.alt


@FIGURES
def test_a_figure_s_numbers_are_there_to_download(results, draw):
    keep()
    figure = draw(read())
    assert f'download="{figure.name}.csv"' in figure._repr_html_()
    assert len(figure.csv.splitlines()) == 1 + len(figure.data) == 81


@FIGURES
def test_what_is_not_stored_is_not_yet_run_with_the_command(results, draw):
    note = draw(read(seeds=None))
    assert isinstance(note, Note)
    assert note.title == "Not yet run"
    assert note.command == "dpstudy run tempered-sigmoids-figure-3 --profile full --dataset mnist"
    assert note.command in note._repr_html_()


@FIGURES
def test_the_same_results_draw_the_same_page(results, draw):
    keep()
    assert draw(read())._repr_html_() == draw(read())._repr_html_()


@FIGURES
def test_a_figure_is_drawn_for_each_dataset(results, draw):
    keep()
    keep(dataset="fashion-mnist")
    shown = draw(readings.read(FIGURE_3))
    mnist, fashion, cifar = shown.parts
    for figure, dataset in ((mnist, "mnist"), (fashion, "fashion-mnist")):
        assert set(figure.data.dataset) == {dataset}
        assert figure.name.endswith(f"-{dataset}")
        assert f'id="{figure.name}"' in shown._repr_html_()
    assert cifar.command == f"dpstudy run {FIGURE_3.name} --profile full --dataset cifar-10"
    assert draw(read(dataset="fashion-mnist")).name == fashion.name


@FIGURES
def test_what_several_datasets_lack_is_said_once(results, draw):
    keep(dataset="fashion-mnist")
    figure, note = draw(readings.read(FIGURE_3)).parts
    assert figure.name.endswith("-fashion-mnist")
    command = f"dpstudy run {FIGURE_3.name} --profile full --dataset"
    assert note.command == f"{command} mnist\n{command} cifar-10"


@FIGURES
def test_one_variant_alone_is_drawn(results, draw):
    keep(accuracies={"tanh": (0.98,)})
    figure = draw(read())
    assert set(figure.data.label) == {"tanh"}
    # What is published of relu stands there all the same.
    assert "relu" not in figure.alt.split("Stars")[0]


@FIGURES
def test_runs_that_diverged_at_different_epochs_are_drawn(results, draw):
    keep(accuracies={"relu": (0.9,)}, epochs=5)
    keep(accuracies={"tanh": (0.9,)}, epochs=7)
    assert isinstance(draw(read()), Figure)


def test_a_curve_that_stops_early_is_said_to(results):
    keep(accuracies={"relu": (0.9, 0.9)}, epochs=5)
    keep(accuracies={"tanh": (0.9,)})
    alt = chapter.accuracy_against_epsilon(read()).alt
    relu, tanh = alt.split("Stars")[0].split("; ")
    assert "after epoch 5, where the last of its runs diverged" in relu
    assert "after epoch" not in tanh


@FIGURES
def test_runs_that_all_diverged_at_once_leave_a_note(results, draw):
    keep(epochs=0)
    note = draw(read())
    assert isinstance(note, Note)
    assert "diverged" in note.text


# --- accuracy against epsilon --------------------------------------------------------------------


@pytest.mark.parametrize("accuracy", [0.5, 0.981])
def test_the_published_accuracies_are_in_the_picture_wherever_ours_are(results, accuracy):
    keep(accuracies={"relu": (accuracy - 0.01,), "tanh": (accuracy,)})
    figure = chapter.accuracy_against_epsilon(read(seeds=1))
    low, high = figure.fig.axes[0].get_ylim()
    shown = [value for _, value in stars(figure)]
    assert len(shown) == 2
    assert all(low < value < high for value in (*shown, accuracy))


def test_medians_and_extremes_are_those_computed_by_hand(results):
    keep()
    data = chapter.accuracy_against_epsilon(read()).data
    assert len(data) == 2 * 40
    last = data[data.epoch == 40].set_index("label")
    assert last.loc["relu", ["median", "min", "max"]].tolist() == [0.961, 0.955, 0.964]
    assert last.loc["tanh", ["median", "min", "max"]].tolist() == [0.981, 0.979, 0.982]
    assert last.seeds.tolist() == [3, 3]
    assert last.epsilon_pld.tolist() == [4.0, 4.0]
    assert last["epsilon_rdp-2019"].tolist() == [8.0, 8.0]
    first = data[data.epoch == 1].set_index("label")
    assert first.loc["tanh", "median"] == pytest.approx(0.981 - 0.39)


def test_the_curves_drawn_are_the_data_s(results):
    keep()
    figure = chapter.accuracy_against_epsilon(read())
    (axes,), names = drawn(figure)
    assert names[:2] == ["relu", "tanh"]
    for line, label in zip(axes.get_lines(), names, strict=False):
        rows = figure.data[figure.data.label == label]
        if len(rows):
            assert np.array_equal(line.get_xdata(), rows.epsilon_pld)
            assert np.array_equal(line.get_ydata(), rows["median"])
    assert axes.get_xlabel() == "ε spent (PLD)"
    assert axes.get_ylabel() == "test accuracy"


def test_a_stored_result_that_changes_moves_the_figure(results):
    keep()
    before = chapter.accuracy_against_epsilon(read())
    keep(accuracies={"tanh": (0.99, 0.99, 0.99)})
    after = chapter.accuracy_against_epsilon(read())
    changed = (before.data != after.data).any(axis=1)
    assert set(after.data[changed].label) == {"tanh"}
    assert after.data["median"].max() == 0.99
    assert after.svg != before.svg
    assert after.alt != before.alt


@pytest.mark.parametrize(
    ("dataset", "published"),
    [
        ("mnist", [(2.93, 0.966), (2.93, 0.980)]),
        ("fashion-mnist", [(2.7, 0.819), (2.7, 0.855)]),
        ("cifar-10", [(7.53, 0.616), (7.53, 0.6384)]),
    ],
)
def test_published_values_are_stars_at_the_published_epsilon(results, dataset, published):
    keep(dataset=dataset)
    figure = chapter.accuracy_against_epsilon(read(dataset=dataset))
    assert stars(figure) == published
    assert "Stars: published" in figure.caption
    assert len([name for name in drawn(figure)[1] if "published" in name]) == 2


def test_tiny_runs_are_not_compared_with_published_values(results):
    for run in FIGURE_3.runs("smoke"):
        store.write(store.runs_folder("smoke"), result_of(run))
    figure = chapter.accuracy_against_epsilon(readings.read(FIGURE_3, "smoke", "mnist"))
    assert stars(figure) == []
    assert "Stars" not in figure.caption
    assert "MNIST-5k" in figure.caption


def test_delta_and_the_meaning_of_epsilon_are_said(results):
    keep()
    caption = chapter.accuracy_against_epsilon(read()).caption
    assert "δ = 1e-05" in caption
    assert "Poisson sampling as performed" in caption


def test_seeds_that_diverged_count_as_chance_and_are_said(results):
    keep(accuracies={"relu": (0.9, 0.9, 0.9)}, epochs=10)
    keep(accuracies={"relu": (0.96,), "tanh": (0.98, 0.98, 0.98)})
    figure = chapter.accuracy_against_epsilon(read())
    last = figure.data[figure.data.epoch == 40].set_index("label")
    assert last.loc["relu", ["median", "min", "max", "seeds"]].tolist() == [CHANCE, CHANCE, 0.96, 3]
    assert last.loc["relu", "epsilon_pld"] == 4.0
    assert "Diverged, and at chance (10%) from there on: 2." in figure.caption
    keep()
    assert "iverged" not in chapter.accuracy_against_epsilon(read()).caption


def test_the_text_alternative_says_where_each_curve_ends(results):
    keep()
    ends = {
        label: f"from {min(values):.1%} to {max(values):.1%}"
        for label, values in ACCURACIES.items()
    }
    assert chapter.accuracy_against_epsilon(read()).alt == (
        "2 curves on MNIST: "
        f"relu ends at a median of 96.1% at epsilon 4.00, its seeds {ends['relu']}; "
        f"tanh ends at a median of 98.1% at epsilon 4.00, its seeds {ends['tanh']}. "
        "tanh is as high as relu at its end from epoch 38, at epsilon 3.80. "
        "Stars, published: relu 96.6% at epsilon 2.93; tanh 98.0% at epsilon 2.93."
    )


def test_what_tanh_never_reaches_it_is_not_said_to_reach(results):
    keep(accuracies={"relu": ACCURACIES["tanh"], "tanh": ACCURACIES["relu"]})
    assert "as high as" not in chapter.accuracy_against_epsilon(read()).alt


def test_the_lead_without_privacy_stands_beside_the_one_with_it(results):
    keep()
    alone = chapter.table_3(read(), read(TABLE_3)).caption
    assert "tanh against relu: with privacy +2.00 points in the median, every seed above." in alone
    keep(TABLE_3, accuracies={"relu": (0.99, 0.98), "tanh": (0.985, 0.975)})
    both = chapter.table_3(read(), read(TABLE_3)).caption
    assert "tanh against relu: without privacy −0.50 points in the median, the seeds over" in both
    keep(TABLE_3, accuracies={"relu": (0.98,), "tanh": (0.99,)})
    one = chapter.table_3(read(), read(TABLE_3, seeds=1)).caption
    assert "tanh against relu: without privacy +1.00 points with one seed;" in one


# --- gradients before clipping -------------------------------------------------------------------


def test_gradient_norms_are_medians_over_seeds(results):
    for run in FIGURE_3.runs(dataset="mnist", seeds=3):
        norms = [float(1 + run.seed + epoch) for epoch in range(run.epochs)]
        result = result_of(run)
        curve = result.curve | {"gradient_norm": norms}
        store.write(store.runs_folder(), replace(result, curve=curve))
    figure = chapter.gradient_norms(read())
    tanh = figure.data[figure.data.label == "tanh"]
    assert tanh.gradient_norm.tolist() == [2.0 + epoch for epoch in range(40)]
    assert set(tanh.clipped_fraction) == {0.5}
    assert "relu goes from 2 to 41; tanh goes from 2 to 41" in figure.alt
    assert "no ε covers it" in figure.caption


# --- Table 3 -------------------------------------------------------------------------------------


def rows(table):
    return table.data.set_index("technique")


def test_the_table_s_numbers_are_those_computed_by_hand(results):
    keep()
    keep(TABLE_3, accuracies={"relu": (0.991, 0.989), "tanh": (0.990, 0.988)})
    table = rows(chapter.table_3(read(), read(TABLE_3)))
    ours = ["median", "minimum", "maximum", "seeds"]
    assert table.loc["DP-SGD, tanh", ours].tolist() == [0.981, 0.979, 0.982, 3]
    assert table.loc["DP-SGD, relu", ours].tolist() == [0.961, 0.955, 0.964, 3]
    assert table.loc["SGD, relu", ours].tolist() == [pytest.approx(0.990), 0.989, 0.991, 2]
    assert table.loc["SGD, tanh", ours].tolist() == [pytest.approx(0.989), 0.988, 0.990, 2]
    spent = ["ε (RDP 2019)", "ε (PLD)"]
    assert table.loc["DP-SGD, tanh", spent].tolist() == [8.0, 4.0]
    assert table.loc[["SGD, relu", "SGD, tanh"], spent].isna().all(axis=None)


def test_published_values_stand_beside_ours(results):
    keep()
    table = rows(chapter.table_3(read(), read(TABLE_3)))
    assert table.loc["SGD, relu", "published"] == 0.990
    assert table.loc["DP-SGD, relu", ["published", "published ε"]].tolist() == [0.966, 2.93]
    assert table.loc["DP-SGD, tanh", ["published", "published ε"]].tolist() == [0.980, 2.93]


def test_what_is_not_stored_is_a_dash_not_a_number(results):
    keep(accuracies={"tanh": (0.98,)})
    table = chapter.table_3(read(), read(TABLE_3))
    shown = {row[0]: row[1:] for row in table.shown()}
    assert shown["DP-SGD, tanh"][:2] == ["98.0%", "text on Figure 3"]
    assert shown["DP-SGD, tanh"][2:6] == ["98.00%", "98.00%", "98.00%", "1"]
    assert shown["DP-SGD, relu"] == [
        "96.6%",
        "Table 3",
        MISSING,
        MISSING,
        MISSING,
        "0",
        "2.93",
        *[MISSING] * 2,
    ]
    assert shown["SGD, relu"] == ["99.0%", "Table 3", *[MISSING] * 3, "0", *[MISSING] * 3]


def test_a_table_of_nothing_is_not_yet_run_with_both_commands(results):
    note = chapter.table_3(read(seeds=None), read(TABLE_3, seeds=None))
    assert isinstance(note, Note)
    assert note.command == (
        "dpstudy run tempered-sigmoids-figure-3 --profile full --dataset mnist && "
        "dpstudy run tempered-sigmoids-table-3-not-private --profile full --dataset mnist"
    )


def test_the_table_says_dataset_and_names_each_device_once(results):
    keep()
    keep(TABLE_3, accuracies={"relu": (0.9,)})
    keep(TABLE_3, accuracies={"tanh": (0.9,)}, provenance={"device": "a slide rule"})
    table = chapter.table_3(read(), read(TABLE_3))
    assert isinstance(table, Table)
    assert f"Computed on a slide rule, {DEVICE}." in table.caption
    assert "MNIST at the last epoch" in table.caption


def test_a_diverged_run_is_in_the_table_as_chance(results):
    keep(accuracies={"relu": (0.9,)}, epochs=3)
    table = chapter.table_3(read(), read(TABLE_3))
    assert rows(table).loc["DP-SGD, relu", "median"] == CHANCE
    assert "at chance (10%) from there on: 1." in table.caption


def test_a_table_of_tiny_runs_names_no_published_value(results):
    for run in FIGURE_3.runs("smoke"):
        store.write(store.runs_folder("smoke"), result_of(run))
    private = readings.read(FIGURE_3, "smoke", "mnist")
    table = chapter.table_3(private, readings.read(TABLE_3, "smoke", "mnist"))
    assert table.data.published.isna().all()
    assert table.name == "tempered-sigmoids-table-3-mnist-5k"
    assert "MNIST-5k" in table.caption


def test_datasets_are_not_mixed_in_one_row(results):
    keep()
    keep(dataset="fashion-mnist", accuracies={"tanh": (0.1, 0.1, 0.1)})
    tables = chapter.table_3(readings.read(FIGURE_3), readings.read(TABLE_3)).parts
    found = [rows(one).loc["DP-SGD, tanh", ["median", "seeds"]].tolist() for one in tables[:2]]
    assert found == [[0.981, 3], [0.1, 3]]


# --- what is incomplete --------------------------------------------------------------------------


def test_a_complete_page_has_no_warning(results):
    keep()
    keep(TABLE_3)
    assert chapter.warnings_of(read(), read(TABLE_3)) is None


def test_a_page_without_any_result_needs_no_warning_beside_its_notes(results):
    assert chapter.warnings_of(read(), read(TABLE_3)) is None


def test_damaged_files_are_named_on_the_page(results):
    keep()
    keep(TABLE_3)
    path = store.runs_folder() / f"{read().found[0][1].run.identity}.json"
    path.write_text("{")
    note = chapter.warnings_of(read(), read(TABLE_3))
    assert f"Left out: runs/{path.name}: not intact JSON" in note.text
    assert "Not yet run: 1 of the 6 runs of tempered-sigmoids-figure-3" in note.text
    assert str(results) not in note._repr_html_()


def test_missing_runs_are_named_with_their_command(results):
    keep(accuracies={"relu": (0.96,), "tanh": (0.98,)})
    note = chapter.warnings_of(read(), read(TABLE_3, seeds=None))
    assert note.title == "Incomplete"
    assert "Not yet run: 4 of the 6 runs of tempered-sigmoids-figure-3" in note.text
    # Nothing at all is stored of this one, and its rows of the table are dashes.
    assert (
        "Not yet run: 6 of the 6 runs of tempered-sigmoids-table-3-not-private (dpstudy run "
        "tempered-sigmoids-table-3-not-private --profile full --dataset mnist)." in note.text
    )


# --- what needs no results -----------------------------------------------------------------------


def test_the_family_is_drawn_from_its_formula():
    figure = chapter.family()
    x = figure.data.x.to_numpy(dtype=float)
    for s, t, o in chapter.FAMILY:
        y = s / (1 + np.exp(-t * x)) - o
        assert np.allclose(figure.data[f"s={s:g}, T={t:g}, o={o:g}"], y, atol=1e-6)
    assert np.array_equal(figure.data.relu, np.maximum(figure.data.x, 0))
    assert len(figure.fig.axes[0].get_lines()) == len(chapter.FAMILY) + 1
    assert f"{len(chapter.FAMILY)} tempered sigmoids and relu" in figure.alt


def test_any_member_of_the_family_can_be_drawn():
    figure = chapter.family(((9.0, 1.0, 5.0),))
    assert list(figure.data.columns) == ["x", "s=9, T=1, o=5", "relu"]
    low, high = figure.fig.axes[0].get_ylim()
    assert low < -5 and high > 4
    assert len(chapter.family(chapter.FAMILY * 2 + ((1.0, 1.0, 0.0),)).data.columns) == 8


def test_tanh_is_the_member_2_2_1():
    assert chapter.distance_from_tanh() < 1e-6


def test_the_settings_shown_are_those_of_the_runs():
    for dataset in FIGURE_3.datasets:
        one, every = (chapter.settings(name).data.set_index("setting") for name in (dataset, None))
        [name] = one.columns
        shown = one[name]
        assert every[name].tolist() == shown.tolist()
        for run in FIGURE_3.runs(dataset=dataset):
            assert shown["noise multiplier σ"] == run.mechanism.noise_multiplier
            assert shown["clipping norm C"] == run.mechanism.clip_norm
            assert shown["expected batch size"] == run.sampling.batch
            assert shown["learning rate"] == run.optimizer.learning_rate
            assert (shown["epochs"], shown["momentum"]) == (run.epochs, run.optimizer.momentum)


def test_settings_of_an_unknown_dataset_are_one_line():
    with pytest.raises(UserError, match="unknown dataset 'mars'; one of: mnist, fashion-mnist"):
        chapter.settings("mars")
