"""Runs with a field changed on the command line: stored by names of their own, and told at the end.

What a text may say of a field is in `test_run`.
"""

import re

import pytest
from results_for_tests import EXPERIMENT, dpstudy, result_of, small_smoke_runs, spent_by

from dpstudy.errors import UserError
from dpstudy.lab import readings, store
from dpstudy.lab.changed import Changed, changes_of
from dpstudy.lab.wording import rounded_up
from dpstudy.parts.run import vary
from under_the_clip.experiments import EXPERIMENTS, find

TABLE_1 = "backpropagation-clipping-table-1"

pytestmark = pytest.mark.usefixtures("results")


def test_a_change_is_of_every_run_and_of_nothing_else():
    changed = Changed.of(EXPERIMENT, {"clip_norm": "0.5", "epochs": "7"})
    assert changed.runs() == [vary(run, clip_norm=0.5, epochs=7) for run in EXPERIMENT.runs()]
    # Also of what makes a run small.
    assert {run.epochs for run in changed.runs("smoke")} == {7}
    assert Changed.of(EXPERIMENT, {"clip_norm": "0.1"}).runs() == EXPERIMENT.runs()  # as it was


def test_what_others_ask_for_is_never_a_changed_run():
    changed = Changed.of(EXPERIMENT, {"clip_norm": "0.5"})
    before = dpstudy("list", "--json").stdout, dpstudy("claims", "--json").stdout
    for run in changed.runs():
        store.write(store.runs_folder(), result_of(run))
    assert readings.read(EXPERIMENT).found == []
    assert len(readings.read(changed).found) == 2
    assert (dpstudy("list", "--json").stdout, dpstudy("claims", "--json").stdout) == before


def test_runs_trade_places_only_where_they_are_the_same():
    wanted = {run.identity for one in EXPERIMENTS.values() for run in one.runs()}
    for name in ("tempered-sigmoids-figure-3", "losing-less-figure-3", "tanh-filter-figures"):
        changed = Changed.of(find(name), {"delta": "3e-6"})
        assert not {run.identity for run in changed.runs()} & wanted


def test_a_search_s_choices_are_its_own():
    search = find("recipe-search")
    changed = Changed.of(search, {"exponent": "0.45"})
    assert changed.undecided() == [] and changed.pruning().rivals == {}
    assert {run.dataset.exponent for run in changed.runs()} == {0.45}


def test_variants_without_the_field_are_left_out_and_named():
    changed = Changed.of(find(TABLE_1), {"noise_multiplier": "2"})
    assert list(changed.variants) == ["as published"]
    assert changed.left_out == ("clips without noise", "no privacy")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"clipnorm": "1"}, "no run of .* has a field 'clipnorm'; the nearest is 'clip_norm'"),
        ({"x": "1"}, "no run of tiny has a field 'x'; one of: activation, batch, clip_norm, "),
    ],
)
def test_a_field_that_no_run_has_is_refused_with_the_nearest(changes, line):
    with pytest.raises(UserError, match=line):
        Changed.of(EXPERIMENT, changes)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (["clip_norm"], "a change is written FIELD=VALUE, such as clip_norm=0.5, got 'clip_norm'"),
        (["=1"], "a change is written FIELD=VALUE"),
        (["epochs="], "a change is written FIELD=VALUE"),
        (["epochs=1", "epochs=2"], "epochs is set twice, to 1 and to 2"),
    ],
)
def test_a_change_that_is_none_is_refused(written, line):
    with pytest.raises(UserError, match=line):
        changes_of(written)


def test_the_command_trains_them_and_says_what_they_reach_and_spend(monkeypatch):
    small_smoke_runs(monkeypatch)
    done = dpstudy("run", "tiny", "--profile", "smoke", "--seeds", "1", "--set", "clip_norm=0.5")
    assert done.exit_code == 0, done.output
    [run] = Changed.of(EXPERIMENT, {"clip_norm": "0.5"}).runs("smoke", seeds=1)
    stored = store.read(store.runs_folder("smoke") / f"{run.identity}.json")
    assert stored.run == run and run.mechanism.clip_norm == 0.5
    said = re.fullmatch(
        r"  tanh, mnist-5k, seed 0: (.*)%, ε = (.*), (.*)", done.stdout.splitlines()[1]
    )
    assert float(said[1]) == pytest.approx(100 * stored.curve["test_accuracy"][-1], abs=0.005)
    assert said[2] == rounded_up(spent_by(run))
    assert said[3].endswith(stored.name)


def test_what_cannot_be_is_said_before_anything_is_trained(results):
    for arguments, line in (
        (("tempered-sigmoids-figure-3", "--set", "clip_norm=half"), "clip_norm must be a number"),
        (("all", "--set", "clip_norm=1"), "--set changes the runs of experiments that are named"),
        (("--missing", "--set", "clip_norm=1"), "--set changes the runs of experiments"),
    ):
        done = dpstudy("run", *arguments)
        assert done.exit_code == 2 and done.stderr.startswith(f"dpstudy: {line}")
    assert not results.exists() or not any(results.rglob("*.json"))
