"""What is missing is trained, once, and stopping at any moment changes no number."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import jax
import numpy as np
import pytest
from results_for_tests import EXPERIMENT, RUN, contents, environment, result_of, seeds
from tqdm import tqdm

from dpstudy import files
from dpstudy.errors import UserError
from dpstudy.gradients import devices
from dpstudy.lab import campaign, checkpoints, store, train
from dpstudy.lab.store import StoreError
from dpstudy.parts.data import images as data
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.optimizer import Adam
from dpstudy.parts.run import vary

# The update overflows: after the first step, and in the third epoch.
DIVERGES_AT_ONCE = vary(RUN, learning_rate=1e25)
DIVERGES_LATE = vary(RUN, learning_rate=7e19)
EPSILON = {"pld": [0.0, 1.0, 2.0, 3.0]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A campaign that ran without a break: seeds 0 and 1, where seed 2 was stored before."""
    folder = tmp_path_factory.mktemp("whole")
    store.write(folder, result_of(seeds(3)[2], accuracy=0.123))
    before, reported = contents(folder), []
    outcome = campaign.train_missing(
        [*seeds(3), *seeds(3)],
        folder,
        finish=lambda result: replace(result, epsilon=EPSILON),
        report=reported.append,
    )
    return SimpleNamespace(
        folder=folder, outcome=outcome, reported=reported, before=before, after=contents(folder)
    )


@pytest.fixture(scope="module")
def undisturbed(whole):
    """The results of seeds 0 and 1, by identity."""
    return stored(whole.folder)


def stored(folder):
    found, errors = store.read_all(folder)
    assert errors == []
    return found


def runs_stored(folder):
    return {result.run for result in stored(folder).values()}


def kept_checkpoints(folder):
    return sorted(folder.rglob("*.npz"))


def assert_same_training(result, other):
    """Every number of the curve is the same, to the last bit."""
    apart = {"epsilon": {}, "provenance": {}}
    assert replace(result, **apart) == replace(other, **apart)


def stop_at(run, epoch):
    """A report that stops a campaign as Ctrl-C would."""

    def report(progress):
        if (progress.run, progress.epoch) == (run, epoch):
            raise KeyboardInterrupt

    return report


BEYOND = r"noise multiplier must be between 0\.001 and 1,000,000 to be accounted for, got "


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"noise_multiplier": 9e-4}, BEYOND + r"0\.0009"),
        ({"noise_multiplier": 2e6}, BEYOND + r"2e\+06"),
        ({"epochs": 5_001}, r"passes over the data must be at most 5,000 to be .* got 5,001"),
    ],
)
def test_what_no_accountant_states_an_epsilon_for_is_refused_before_training(
    tmp_path, monkeypatch, change, line
):
    monkeypatch.setattr(campaign, "train_cohort", None)
    with pytest.raises(UserError, match=f"^{line}$"):
        campaign.train_missing([RUN, vary(RUN, **change)], tmp_path)
    assert contents(tmp_path) == {}


def test_without_privacy_there_is_no_epsilon_to_refuse_a_run_for():
    vary(RUN, mechanism=NoPrivacy(), epochs=5_001).check_accountable()


# --- what is trained -----------------------------------------------------------------------------


def test_a_result_is_a_curve_with_what_was_measured_and_where(undisturbed):
    result = undisturbed[RUN.identity]
    assert result.curve["epoch"] == [0, 1, 2, 3]
    assert result.curve["step"] == [0, 2, 4, 6]
    for name in ("test_accuracy", "clipped_fraction"):
        assert all(0 <= value <= 1 for value in result.curve[name][1:])
    for name in ("test_loss", "train_loss", "gradient_norm"):
        assert all(value > 0 for value in result.curve[name][1:])
    # Nothing was drawn before the first step.
    for name in ("train_loss", "gradient_norm", "clipped_fraction"):
        assert result.curve[name][0] is None
    # MNIST-5k has as many test images of each class.
    mean = sum(result.class_accuracy) / 10
    assert mean == pytest.approx(result.curve["test_accuracy"][-1], abs=1e-6)
    assert result.diverged_at is None
    assert result.provenance["dataset_fingerprint"] == data.load("mnist-5k").fingerprint
    assert result.provenance["wall_seconds"] > 0
    assert 100 < result.provenance["peak_megabytes"] < 20_000
    assert result.provenance["device"] == devices.name()


def test_only_what_is_missing_is_trained_and_once(whole):
    assert (len(whole.outcome.stored), whole.outcome.already, whole.outcome.unfinished) == (2, 1, 0)
    assert whole.after.items() > whole.before.items()
    assert set(whole.after) == {f"{run.identity}.json" for run in seeds(3)}, "or a checkpoint"


def test_a_second_campaign_trains_nothing_and_touches_nothing(whole, monkeypatch):
    monkeypatch.setattr(data, "load", None)
    again = campaign.train_missing(seeds(3), whole.folder)
    assert (again.stored, again.already, again.unfinished) == ([], 3, 0)
    assert contents(whole.folder) == whole.after


def test_every_epoch_is_reported_and_what_was_there_is_counted(whole):
    trained = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert [(p.run.seed, p.epoch) for p in whole.reported] == trained
    assert {p.epochs_total for p in whole.reported} == {9}
    assert [p.epochs_done for p in whole.reported] == [4, 5, 6, 7, 8, 9]
    for progress in whole.reported:
        curve = stored(whole.folder)[progress.run.identity].curve
        assert progress.accuracy == pytest.approx(curve["test_accuracy"][progress.epoch])


def test_a_result_is_finished_before_it_is_stored(whole):
    assert [result.epsilon for result in whole.outcome.stored] == [EPSILON] * 2
    for result in whole.outcome.stored:
        assert stored(whole.folder)[result.run.identity] == result


def test_what_another_process_stored_meanwhile_is_neither_trained_nor_replaced(tmp_path):
    first, second, third = seeds(3)
    work = campaign.Campaign(seeds(3), tmp_path)
    cohorts = work.cohorts(1)
    assert next(cohorts) == [first]
    stored = [store.write(tmp_path, result_of(run, accuracy=0.25)) for run in (first, second)]
    work.settle(result_of(first, accuracy=0.75))
    assert next(cohorts) == [third]
    assert [store.read(path).curve["test_accuracy"][-1] for path in stored] == [0.25, 0.25]
    assert work.outcome() == campaign.CampaignOutcome(already=2, unfinished=1)


def test_an_empty_campaign_is_done(tmp_path):
    assert campaign.train_missing([], tmp_path) == campaign.CampaignOutcome()


# --- divergence ----------------------------------------------------------------------------------


def test_a_diverged_run_is_stored_with_its_step_and_the_others_go_on(tmp_path, undisturbed):
    runs, seen = [DIVERGES_AT_ONCE, DIVERGES_LATE, RUN], []
    outcome = campaign.train_missing(runs, tmp_path, report=seen.append)
    assert (len(outcome.stored), outcome.unfinished) == (3, 0)
    found = stored(tmp_path)
    at_once, late, good = (found[run.identity] for run in runs)
    assert at_once.diverged_at == 1
    assert at_once.curve["epoch"] == [0]
    assert late.curve["epoch"] == [0, 1, 2]
    assert late.diverged_at in (5, 6)
    assert_same_training(good, undisturbed[RUN.identity])
    assert kept_checkpoints(tmp_path) == []
    again = campaign.train_missing(runs, tmp_path)
    assert (again.stored, again.already) == ([], 3)
    # They are done, and nothing is left to wait for.
    assert [p.runs_done for p in seen] == [1, 1, 2, 2, 3]
    assert [p.epochs_done for p in seen] == [4, 5, 7, 8, 9]


# --- stopping and going on -----------------------------------------------------------------------


def test_a_budget_stops_cleanly_and_a_second_call_changes_no_number(tmp_path, undisturbed):
    # Each epoch is made to take longer than the budget.
    outcome = campaign.train_missing(
        seeds(2), tmp_path, budget=0.2, report=lambda progress: time.sleep(0.3)
    )
    assert (outcome.stored, outcome.already, outcome.unfinished) == ([], 0, 2)
    assert stored(tmp_path) == {}
    assert kept_checkpoints(tmp_path)
    seen = []
    outcome = campaign.train_missing(seeds(2), tmp_path, report=seen.append)
    assert (len(outcome.stored), outcome.unfinished) == (2, 0)
    assert kept_checkpoints(tmp_path) == []
    for identity, result in stored(tmp_path).items():
        assert_same_training(result, undisturbed[identity])
    # A display shows the epochs of both sittings.
    assert [p.epochs_done for p in seen] == [1, 2, 3, 4, 5, 6]


DISTURBED = """
import signal, sys, time
from pathlib import Path
# Ctrl-C reaches it even where the tests run in the background of a shell, which ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What a bare GPU node does not have.
for name in "dp_accounting scipy pandas pydantic matplotlib click pooch distributed".split():
    sys.modules[name] = None
from dpstudy.lab import campaign, search, train, transfer
from results_for_tests import seeds

def report(progress):
    print(progress.run.seed, progress.epoch, flush=True)
    if (progress.run.seed, progress.epoch) == wait_at:
        time.sleep(600)

for wait_at in ((0, 2), (1, 2)):
    try:
        campaign.train_missing(seeds(2), Path(sys.argv[1]), report=report)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_a_campaign_interrupted_and_then_killed_gives_the_same_numbers(tmp_path, undisturbed):
    """In a process of its own, which has what training may import and nothing else."""
    first, second = seeds(2)
    signals = {"0 2\n": signal.SIGINT, "1 2\n": signal.SIGKILL}
    process = subprocess.Popen(
        [sys.executable, "-c", DISTURBED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    with process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line in signals:
                process.send_signal(signals.pop(line))
    assert process.returncode == -signal.SIGKILL
    assert "interrupted\n" in said
    assert set(stored(tmp_path)) == {first.identity}
    assert_same_training(stored(tmp_path)[first.identity], undisturbed[first.identity])
    assert len(kept_checkpoints(tmp_path)) == 1
    assert len(campaign.train_missing([first, second], tmp_path).stored) == 1
    assert_same_training(stored(tmp_path)[second.identity], undisturbed[second.identity])
    assert kept_checkpoints(tmp_path) == []


# --- cohorts -------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_cohort_ends_as_its_runs_do_singly_and_so_does_one_that_was_stopped(tmp_path, whole):
    """Trained together the same to rounding; stopped and gone on with, to the last bit."""
    cohort = seeds(2)
    together = campaign.train_missing(cohort, tmp_path / "whole", most=2)
    assert len(together.stored) == 2
    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing(cohort, stopped, most=2, report=stop_at(cohort[1], 2))
    assert len(kept_checkpoints(stopped)) == 1
    campaign.train_missing(cohort, stopped, most=2)
    for result in together.stored:
        single = stored(whole.folder)[result.run.identity]
        assert result.curve["test_loss"] == pytest.approx(single.curve["test_loss"], rel=0.01)
        assert_same_training(stored(stopped)[result.run.identity], result)


def test_a_run_that_diverged_leaves_its_cohort_and_the_rest_goes_on(tmp_path, undisturbed):
    cohort = [RUN, DIVERGES_AT_ONCE]
    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing(cohort, tmp_path, most=2, report=stop_at(RUN, 1))
    assert set(stored(tmp_path)) == {DIVERGES_AT_ONCE.identity}
    assert campaign.next_cohort([RUN], tmp_path) == cohort, "as it was, for the same numbers"
    again = campaign.train_missing(cohort, tmp_path, most=2)
    assert [result.run for result in again.stored] == [RUN]
    assert (again.already, again.unfinished, kept_checkpoints(tmp_path)) == (1, 0, [])
    curve = undisturbed[RUN.identity].curve
    assert again.stored[0].curve["test_loss"] == pytest.approx(curve["test_loss"], rel=0.01)


FIVE_EPOCHS = replace(RUN, epochs=5)
DIVERGED = replace(DIVERGES_LATE, epochs=5)


@pytest.fixture(scope="module")
def stopped_cohort(tmp_path_factory):
    """What Ctrl-C in the fourth of five epochs leaves of two runs, one diverged in the third."""
    folder = tmp_path_factory.mktemp("cohort")
    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing(
            [FIVE_EPOCHS, DIVERGED], folder, most=2, report=stop_at(FIVE_EPOCHS, 4)
        )
    [result] = stored(folder).values()
    assert result.run == DIVERGED
    assert result.curve["epoch"] == [0, 1, 2]
    return folder


@pytest.fixture
def stopped(stopped_cohort, tmp_path):
    """The same, for a test to go on from."""
    return shutil.copytree(stopped_cohort, tmp_path / "stopped")


def test_a_cohort_of_which_a_run_diverged_late_goes_on(stopped):
    path, seen = stopped / f"{DIVERGED.identity}.json", []
    was = path.read_bytes()
    again = campaign.train_missing([FIVE_EPOCHS, DIVERGED], stopped, most=2, report=seen.append)
    assert [result.run for result in again.stored] == [FIVE_EPOCHS]
    assert (again.already, again.unfinished, kept_checkpoints(stopped)) == (1, 0, [])
    assert path.read_bytes() == was
    assert stored(stopped)[FIVE_EPOCHS.identity].curve["epoch"] == [0, 1, 2, 3, 4, 5]
    last = seen[-1]
    assert (last.run, last.epochs_done, last.epochs_total) == (FIVE_EPOCHS, 10, 10)
    assert (last.runs_done, last.runs_running, last.runs_waiting) == (2, 0, 0)


def test_a_run_that_diverged_and_whose_result_was_lost_is_stored_after_all(stopped):
    """As when a worker is killed before its results are back; the checkpoint has what it takes."""
    [result] = stored(stopped).values()
    (stopped / result.name).unlink()
    again = campaign.train_missing([FIVE_EPOCHS, DIVERGED], stopped, most=2)
    assert {result.run for result in again.stored} == {FIVE_EPOCHS, DIVERGED}
    assert (again.already, again.unfinished, kept_checkpoints(stopped)) == (0, 0, [])
    assert_same_training(stored(stopped)[DIVERGED.identity], result)


def test_a_stopped_cohort_goes_on_whole_for_one_of_its_runs(tmp_path):
    mine, other = seeds(2)
    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing([mine, other], tmp_path, most=2, report=stop_at(mine, 1))
    seen = []
    outcome = campaign.train_missing([mine], tmp_path, report=seen.append)
    assert {result.run for result in outcome.stored} == {mine, other} == runs_stored(tmp_path)
    assert (outcome.already, outcome.unfinished, kept_checkpoints(tmp_path)) == (0, 0, [])
    said = [(p.run, p.epochs_done, p.epochs_total) for p in seen]
    assert said == [(mine, 1, 3), (mine, 2, 3), (mine, 3, 3)]


def test_a_checkpoint_is_kept_for_the_runs_that_another_campaign_wants(stopped, monkeypatch):
    (stopped / f"{DIVERGED.identity}.json").unlink()
    # The time is up before the next epoch.
    monkeypatch.setattr(campaign.loop, "train", lambda *_: iter(()))
    outcome = campaign.train_missing([DIVERGED], stopped)
    assert [result.run for result in outcome.stored] == [DIVERGED]
    assert (outcome.unfinished, len(kept_checkpoints(stopped))) == (0, 1)
    outcome = campaign.train_missing([FIVE_EPOCHS], stopped)
    assert (outcome.unfinished, len(kept_checkpoints(stopped))) == (1, 1)


@pytest.mark.usefixtures("begun")
def test_only_runs_that_differ_in_numbers_and_are_not_begun_share_a_cohort(tmp_path):
    first, *fresh = seeds(4)
    other = vary(RUN, activation=Relu())
    waiting = [fresh[0], first, other, *fresh[1:]]
    assert campaign.next_cohort(waiting, tmp_path, 8) == fresh
    assert campaign.next_cohort(waiting, tmp_path, 2) == fresh[:2]
    assert campaign.next_cohort(waiting[1:], tmp_path, 8) == [first]
    assert campaign.next_cohort(waiting, tmp_path) == [fresh[0]], "one at a time on a CPU"


# --- checkpoints ---------------------------------------------------------------------------------

DATA = checkpoints.witness_of(RUN.dataset.load())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """What a campaign leaves that is stopped after the first epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing([RUN], folder, report=stop_at(RUN, 1))
    [path] = kept_checkpoints(folder)
    return path


@pytest.fixture
def begun(checkpoint, tmp_path):
    """The same, for a test to go on from."""
    mine = tmp_path / ".checkpoints" / checkpoint.name
    mine.parent.mkdir()
    mine.write_bytes(checkpoint.read_bytes())
    return mine


def test_a_checkpoint_altered_or_cut_short_anywhere_is_ignored(checkpoint, tmp_path):
    whole = checkpoint.read_bytes()
    path = tmp_path / checkpoint.name
    step = len(whole) // 20
    for position in [*range(0, len(whole), step), 40, len(whole) - 30, len(whole) - 1]:
        path.write_bytes(whole[:position])
        assert checkpoints.load(path, [RUN], DATA).states is None
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 9]) + whole[position + 1 :])
        assert checkpoints.load(path, [RUN], DATA).states is None


def forge(path, **changes):
    """Change a checkpoint's notes, or arrays, and seal it again."""
    with np.load(path) as saved:
        content = dict(saved)
    for name, change in changes.items():
        array = content[name]
        kept = array.dtype.kind == "U"
        changed = change(json.loads(str(array)) if kept else array.copy())
        content[name] = np.array(json.dumps(changed) if kept else changed)
    with path.open("w+b") as stream:
        np.savez(stream, **content)
        files.seal(stream)


def with_last(**changes):
    def change(epochs):
        epochs[0][-1]["row"].update(changes)
        return epochs

    return change


def of_all(value):
    return lambda array: np.full_like(array, value)


FORGED = {
    "another run": {"runs": lambda runs: [runs[0] | {"seed": 7}]},
    "no runs": {"runs": lambda runs: 3},
    "an epoch short": {"epochs": lambda epochs: [epochs[0][:-1]]},
    "an epoch twice": {"epochs": lambda epochs: [[*epochs[0], epochs[0][-1]]]},
    "another epoch": {"epochs": with_last(epoch=2)},
    "another step": {"epochs": with_last(step=3)},
    "no accuracy": {"epochs": with_last(test_accuracy=1e308)},
    "words": {"epochs": with_last(test_loss="low")},
    "no class": {"epochs": lambda epochs: [[one | {"class_accuracy": []} for one in epochs[0]]]},
    "no row": {"epochs": lambda epochs: [[1, 2]]},
    "no epochs": {"epochs": lambda epochs: [[]]},
    "no list": {"epochs": lambda epochs: None},
    "all ended": {"ended": lambda ended: [{"diverged_at": 1, "stopped": None}]},
    "ended somehow": {"ended": lambda ended: [{"speed": 1}]},
    "ended is a number": {"ended": lambda ended: 1},
    "ends of others": {"ended": lambda ended: [None, None]},
    "no microbatch": {"microbatch": lambda size: 0},
    "a microbatch of words": {"microbatch": lambda size: "many"},
    "a time in words": {"seconds": lambda seconds: "long"},
    "a time that is none": {"seconds": lambda seconds: float("nan")},
    "sittings in words": {"sittings": lambda sittings: "two"},
    "sittings of numbers": {"sittings": lambda sittings: [{"commit": 1}]},
    "another dataset": {"data": lambda data: "0"},
    "weights not finite": {"leaf0": of_all(np.nan)},
    "weights of words": {"leaf0": lambda array: array.astype(str)},
    "weights of another type": {"leaf0": lambda array: array.astype(float)},
    "weights of another shape": {"leaf0": lambda array: array[..., :1]},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_a_checkpoint_that_is_sealed_but_of_something_else_is_ignored(begun, changes):
    assert checkpoints.load(begun, [RUN], DATA).states is not None
    forge(begun, **changes)
    assert checkpoints.load(begun, [RUN], DATA) == checkpoints.Checkpoint.fresh([RUN], DATA)


@pytest.mark.parametrize("leaf", [-1, -2, -3], ids=["overflow", "diverged at", "step"])
def test_a_checkpoint_whose_state_is_of_another_moment_is_ignored(begun, leaf):
    with np.load(begun) as saved:
        count = sum(name.startswith("leaf") for name in saved)
    forge(begun, **{f"leaf{count + leaf}": of_all(1)})
    assert checkpoints.load(begun, [RUN], DATA).states is None


# How the parts of a zip begin.
PARTS = (b"\1\2", b"\3\4", b"\5\6")


@pytest.mark.parametrize("content", [b"", b"x", *(b"PK" + part + bytes(90) for part in PARTS)])
def test_a_checkpoint_that_is_sealed_but_no_archive_is_ignored(begun, content):
    begun.write_bytes(content + hashlib.sha256(content).digest())
    assert checkpoints.load(begun, [RUN], DATA).states is None
    assert list(checkpoints.stopped_cohorts(begun.parents[1])) == []


def test_a_checkpoint_that_is_a_pipe_is_ignored(begun):
    begun.unlink()
    os.mkfifo(begun)
    assert checkpoints.load(begun, [RUN], DATA).states is None
    assert list(checkpoints.stopped_cohorts(begun.parents[1])) == []


def test_what_a_kill_between_storing_and_removing_left_is_removed_at_the_next_start(stopped, begun):
    """Of a run and of a cohort; not while a run is missing."""
    mine = stopped / ".checkpoints" / begun.name
    mine.write_bytes(begun.read_bytes())
    part = stopped / ".checkpoints" / f".writing-{'0' * 32}"
    part.write_bytes(b"a part")
    os.utime(part, (0, 0))
    missing = seeds(2)[1]
    campaign.Campaign([missing], stopped)
    assert len(kept_checkpoints(stopped)) == 2 and not part.exists()
    for run in (RUN, FIVE_EPOCHS):
        store.write(stopped, result_of(run))
    campaign.Campaign([missing], stopped)
    assert kept_checkpoints(stopped) == []


def test_two_that_finish_one_run_at_once_store_it_once_and_both_say_so(tmp_path):
    both = [campaign.Campaign([RUN], tmp_path) for _ in range(2)]
    for work, accuracy in zip(both, (0.25, 0.75), strict=True):
        work.settle(result_of(accuracy=accuracy))
    first, second = (work.outcome() for work in both)
    assert (len(first.stored), first.already, first.unfinished) == (1, 0, 0)
    assert second == campaign.CampaignOutcome(already=1)
    assert store.read(tmp_path / result_of().name).curve["test_accuracy"][-1] == 0.25


def test_what_another_stored_while_the_time_ran_out_is_not_called_left(tmp_path):
    work = campaign.Campaign(seeds(2), tmp_path, budget=0)
    store.write(tmp_path, result_of())
    assert work.outcome() == campaign.CampaignOutcome(already=1, unfinished=1)


def test_a_folder_that_cannot_be_written_is_found_before_the_first_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "train_cohort", None)
    full = OSError(errno.EROFS, os.strerror(errno.EROFS))
    monkeypatch.setattr(tempfile, "TemporaryFile", mock.Mock(side_effect=full))
    with pytest.raises(StoreError, match=f"^could not store in {tmp_path}: Read-only file system$"):
        campaign.train_missing([RUN], tmp_path)


def test_a_checkpoint_of_another_shape_or_of_other_examples_is_ignored(checkpoint):
    """Weights learned on the features of one machine are nothing on those of another."""
    given = RUN.dataset.load()
    told = checkpoints.witness_of(replace(given, train_images=given.train_images[::-1]))
    assert told != DATA
    for run, examples in ((replace(RUN, optimizer=Adam()), DATA), (RUN, told)):
        fresh = checkpoints.Checkpoint.fresh([run], examples)
        assert checkpoints.load(checkpoint, [run], examples) == fresh


@pytest.mark.usefixtures("begun")
def test_a_result_names_each_commit_and_device_that_it_was_trained_with(tmp_path, monkeypatch):
    first = store.commit()
    monkeypatch.setattr(store, "commit", lambda: "another")
    [result] = campaign.train_missing([RUN], tmp_path).stored
    sittings = store.read(tmp_path / result.name).provenance["sittings"]
    assert [one["commit"] for one in sittings] == [first, "another"]


def test_a_damaged_checkpoint_costs_time_and_no_number(tmp_path, begun, undisturbed):
    begun.write_bytes(begun.read_bytes()[:-100])
    campaign.train_missing([RUN], tmp_path)
    assert_same_training(stored(tmp_path)[RUN.identity], undisturbed[RUN.identity])
    assert kept_checkpoints(tmp_path) == []


def test_a_result_that_cannot_be_stored_costs_an_epoch_and_no_number(
    tmp_path, monkeypatch, undisturbed
):
    def full(folder, result, replace):
        raise StoreError("could not store it: No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(campaign.store, "write", full)
        with pytest.raises(StoreError, match="No space left"):
            campaign.train_missing([RUN], tmp_path)
    assert stored(tmp_path) == {}
    assert len(kept_checkpoints(tmp_path)) == 1
    campaign.train_missing([RUN], tmp_path)
    assert_same_training(stored(tmp_path)[RUN.identity], undisturbed[RUN.identity])


def failing(message):
    def broken(*_):
        raise jax.errors.JaxRuntimeError(message)
        yield

    return broken


@pytest.mark.parametrize("begun_before", [False, True])
def test_runs_that_memory_does_not_hold_are_one_line(tmp_path, monkeypatch, begun_before):
    cohort = seeds(2)
    kept = checkpoints.path_of(tmp_path, cohort)
    if begun_before:
        kept.parent.mkdir()
        kept.write_bytes(b"")
    monkeypatch.setattr(campaign.loop, "train", failing("RESOURCE_EXHAUSTED: 80 GB wanted"))
    with pytest.raises(UserError, match=r"train 2 runs at once: train fewer \(--cohort\)") as said:
        campaign.train_missing(cohort, tmp_path, most=2)
    assert (str(kept) in str(said.value)) == begun_before


def test_other_errors_of_a_device_are_not_called_a_want_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign.loop, "train", failing("INTERNAL: a bug"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        campaign.train_missing(seeds(1), tmp_path)


# --- the bar: what is left is judged by the epochs of this sitting alone -------------------------


@pytest.fixture
def shown(monkeypatch, results):
    """What the bar shows after each report, of a campaign that reports these epochs as done."""

    def watch(epochs_done, unfinished=0):
        seen, bars = [], []

        class Watched(tqdm):
            def __init__(self, *args, **options):
                super().__init__(*args, **options)
                bars.append(self)

        def train_missing(runs, folder, *, report, **options):
            for number in epochs_done:
                report(campaign.Progress(RUN, 1, 0.5, number, 0, 0, 0, 0))
                seen.append(dict(bars[0].format_dict))
            return campaign.CampaignOutcome(unfinished=unfinished)

        monkeypatch.setattr(train, "tqdm", Watched)
        monkeypatch.setattr(campaign, "train_missing", train_missing)
        train.train_with_bar(EXPERIMENT, seeds(4), "full")
        return seen, bars[0]

    return watch


def test_epochs_stored_or_reached_before_do_not_count_as_speed(shown):
    # 31: after a run of 30. 52: a run went on from its 20th epoch. 52 again: one was repeated.
    # 82: one that diverged at its beginning, and an epoch of another.
    seen, _ = shown([31, 32, 52, 52, 53, 82], unfinished=1)
    assert [now["n"] for now in seen] == [31, 32, 52, 52, 53, 82]
    assert [now["n"] - now["initial"] for now in seen] == [1, 2, 3, 3, 4, 5]
    assert all(now["rate"] is None for now in seen)  # so that tqdm takes the mean since the start


def test_a_bar_ends_full_unless_runs_are_left(shown):
    total = 4 * RUN.epochs
    assert shown([1])[1].n == total
    assert shown([1], unfinished=1)[1].n == 1


KILLED = """
import sys
from pathlib import Path
from dpstudy.lab import campaign
from results_for_tests import seeds
campaign.train_missing(seeds(2), Path(sys.argv[1]), report=lambda p: print("epoch", flush=True))
"""


@pytest.mark.smoke
def test_a_campaign_killed_at_ten_random_moments_loses_nothing(tmp_path, undisturbed):
    """At each kill what is stored is intact, and at the end every number is the undisturbed one."""
    draw, kills = random.Random(0), 0
    while kills < 10:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        with process:
            # Some moments before the first epoch, most within an epoch or while one is stored.
            if draw.random() < 0.8:
                process.stdout.readline()
            time.sleep(draw.expovariate(2))
            process.kill()
        kills += 1
        for identity, result in stored(tmp_path).items():
            assert_same_training(result, undisturbed[identity])
        if len(stored(tmp_path)) == 2:
            for path in tmp_path.rglob("*.json"):
                path.unlink()
    campaign.train_missing(seeds(2), tmp_path)
    for identity, result in undisturbed.items():
        if identity in {run.identity for run in seeds(2)}:
            assert_same_training(stored(tmp_path)[identity], result)
