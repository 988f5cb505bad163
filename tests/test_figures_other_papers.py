"""The other three papers' figures show what is stored, and say what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from results_for_tests import figures_in, result_of
from scipy import stats

from dpstudy.lab import readings, records, store
from dpstudy.lab.search import Choice, Search
from dpstudy.page.figure import Figure, Note, Table
from under_the_clip.experiments import find
from under_the_clip.losing_less import diagnostics as inside

losing_less, backprop, tanh_filter = map(
    figures_in, ("03_losing_less", "04_backpropagation_clipping", "05_tanh_filter")
)
B, T, L = "backpropagation-clipping", "tanh-filter", "losing-less"
DRAWN = {
    backprop.table_1: (f"{B}-table-1",),
    backprop.figure_5: (f"{B}-figure-5",),
    backprop.what_is_left_out: (f"{B}-left-out", f"{B}-table-1"),
    backprop.corrected_code: (f"{B}-corrected",),
    backprop.against_flat: (f"{B}-against-flat",),
    backprop.shared_out: (f"{B}-against-flat",),
    tanh_filter.ranges: (f"{T}-figures",),
    tanh_filter.expansions: (f"{T}-figures",),
    tanh_filter.chapter.epsilons: (f"{T}-figures",),
    tanh_filter.chapter.norms: (f"{T}-figures",),
    tanh_filter.what_is_left_out: (f"{T}-left-out", f"{T}-figures"),
    tanh_filter.cifar_10: (f"{T}-cifar-10",),
    tanh_filter.at_equal_epsilon: (f"{T}-at-equal-epsilon",),
    losing_less.figure_3: (f"{L}-figure-3",),
    losing_less.figure_4: (f"{L}-figure-4",),
    losing_less.features_table: (f"{L}-figure-4", f"{L}-linear", f"{L}-statistics"),
    losing_less.section_4_1: (f"{L}-figure-3", f"{L}-not-private"),
    losing_less.chapter.significance: (f"{L}-figure-3",),
    losing_less.norms: (f"{L}-inside",),
    losing_less.clipped: (f"{L}-inside",),
    losing_less.bias_and_curvature: (f"{L}-inside",),
    inside.gradient_norms: (f"{L}-inside",),
    inside.by_layer: (f"{L}-inside",),
    inside.confusion: (f"{L}-inside", f"{L}-not-private"),
    losing_less.parts_of_the_loss: (f"{L}-ablation", f"{L}-figure-3"),
    losing_less.parts_by_epsilon: (f"{L}-ablation", f"{L}-figure-3"),
    losing_less.changed: (f"{L}-other-errors", f"{L}-figure-3"),
    losing_less.by_rate: (f"{L}-equal-effort",),
    losing_less.at_own_rate: (f"{L}-equal-effort",),
}
IN_SHORT = (backprop.chapter.in_short, tanh_filter.chapter.in_short, losing_less.chapter.in_short)
EACH = pytest.mark.parametrize(
    ("draw", "names"), DRAWN.items(), ids=lambda x: getattr(x, "__name__", "")
)
# What measures would have found in an epoch.
MEASURED = {
    "bounded-norms.counts": [0] * 30 + [1000] + [0] * 29,
    "bounded-norms.largest": 2.0,
    "layer-norms.logits": 3.0,
    "layer-norms.last_weights": 4.0,
    "layer-norms.weights": [1.0, 2.0, 3.0, 4.0],
    "layer-norms.hidden": [5.0, 6.0, 7.0],
    "clipping-bias.cosine": 0.9,
    "clipping-bias.counts": [0] * 30 + [600, 400] + [0] * 28,
    "confusion.counts": (10 * np.ones((10, 10), int)).tolist(),
    "smoothness.largest": 5.0,
}


def stored(run, accuracy):
    """A result with what its measures find."""
    result = result_of(run, accuracy=accuracy)
    kinds = {measure.kind for measure in run.measures}
    found = {
        name: [value] * len(result.curve["epoch"])
        for name, value in MEASURED.items()
        if name.partition(".")[0] in kinds
    }
    return replace(result, curve=result.curve | found)


def keep(name):
    """Store all runs of an experiment on its first dataset."""
    experiment = find(name)
    dataset = experiment.datasets[0]
    for best, labels in experiment.groups.items() if isinstance(experiment, Search) else ():
        [run] = [run for run in experiment.variants[labels[0]] if run.dataset.name == dataset]
        experiment.keep(dataset, best, Choice(run, "a test"))
    for number, (_, run) in enumerate(experiment.labelled(dataset=dataset)):
        store.write(store.runs_folder(), stored(run, 0.9 + 0.001 * (number % 7)))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPSTUDY_RESULTS", str(folder))
        for name in sorted({name for names in DRAWN.values() for name in names}):
            keep(name)
    return folder


@EACH
def test_what_is_not_stored_is_not_yet_run_with_its_command(results, draw, names):
    note = draw(*(readings.read(find(name)) for name in names))
    assert note.command == f"dpstudy run {names[0]} --profile full"


@EACH
def test_every_figure_and_table_is_fit_for_a_page(everything, monkeypatch, draw, names):
    monkeypatch.setenv("DPSTUDY_RESULTS", str(everything))
    shown = draw(*(readings.read(find(name)) for name in names))
    shown = getattr(shown, "parts", [shown])[0]
    assert isinstance(shown, Figure | Table)
    assert shown.name.endswith(f"-{find(names[0]).datasets[0]}")
    assert f'download="{shown.name}.csv"' in shown._repr_html_()
    assert "seed" in shown.caption and shown.caption.count(". ") < 4


def test_the_paper_s_tests_are_of_the_seeds_that_both_losses_have(results):
    experiment = find(f"{L}-figure-3")
    gains = [0.003, 0.001, 0.002, 0.004]
    for label, run in experiment.labelled(dataset="mnist"):
        if run.seed < 4 or (run.seed == 4 and label == "cross-entropy"):
            gain = gains[run.seed] if label == "composite" else 0
            accuracy = 0.9 + 0.01 * run.seed + gain
            store.write(store.runs_folder(), stored(run, accuracy))
    table = losing_less.chapter.significance(readings.read(experiment, dataset="mnist"))
    assert "over 4 seeds" in table.caption and "+0.25 points" in table.caption
    p = table.data.set_index("test").p["t-test, paired by seed"]
    assert p == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)


@pytest.mark.parametrize("draw", IN_SHORT, ids=("backprop", "tanh filter", "losing less"))
def test_a_chapter_in_short_needs_its_runs_and_shows_them(results, everything, monkeypatch, draw):
    assert isinstance(draw(), Note)
    monkeypatch.setenv("DPSTUDY_RESULTS", str(everything))
    shown = draw()
    assert isinstance(shown, Figure)
    assert "90." in shown.alt or "points" in shown.alt


def test_what_follows_from_a_choice_is_a_note_until_it_is_trained(results):
    search = find(f"{B}-against-flat")
    _, run = search.labelled(dataset="mnist")[0]
    store.write(store.runs_folder(), stored(run, 0.9))
    assert isinstance(backprop.against_flat(readings.read(search, dataset="mnist")), Table)
    assert isinstance(backprop.shared_out(readings.read(search, dataset="mnist")), Note)


def test_what_measures_cost_is_told_within_a_round(results):
    assert isinstance(inside.cost(), Note)
    folder = records.folder("mechanisms")
    folder.mkdir(parents=True)
    seconds = {"composite": [2.0, 4.0], "composite, measured": [2.2, 4.8]}
    content = {"epoch_seconds": seconds, "provenance": {"device": "one abacus"}}
    records.write(folder / "losing-less-measures.json", "mechanisms", content)
    [row] = inside.cost().data.to_dict("records")
    assert row["seconds an epoch"] == 3.0 and row["measures add"] == pytest.approx(0.15)


def test_times_are_told_beside_flat_clipping(results):
    assert isinstance(backprop.chapter.times(), Note)
    seconds = {"no privacy": [1.0, 1.1], "flat clipping": [3.0, 2.0],
               "backpropagation clipping": [1.5, 2.0]}  # fmt: skip
    folder = records.folder("mechanisms")
    folder.mkdir(parents=True)
    content = {
        "epoch_seconds": {f"{name}, batch 256": of for name, of in seconds.items()},
        "provenance": {"device": "one abacus"},
    }
    records.write(folder / "mnist.json", "mechanisms", content)
    rows = backprop.chapter.times().data.set_index("gradients")
    assert rows["times as fast"].to_dict() == pytest.approx(
        {"no privacy": np.median([3, 2 / 1.1]), "flat clipping": 1, "backpropagation clipping": 1.5}
    )
