"""A stored result is the one that was written, whole, or it is named and left out."""

import errno
import importlib.metadata
import itertools
import json
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import time
from dataclasses import replace
from functools import reduce
from operator import getitem
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from results_for_tests import RUN, contents, dpstudy, result_of, rewrite, seeds

from dpstudy import files
from dpstudy.lab import readings, store
from dpstudy.lab.store import DamagedError, StoreError
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.run import Run, vary
from under_the_clip.experiments import find

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
# A curve of one epoch.
LOSSES = {"epoch": [1], "step": [2], "test_accuracy": [0.5]}


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A folder with one stored result, which tests copy and damage."""
    folder = tmp_path_factory.mktemp("intact")
    store.write(folder, result_of())
    return folder / result_of().name


@pytest.fixture
def path(intact, tmp_path):
    """A stored result of one's own."""
    mine = tmp_path / "experiment" / intact.name
    mine.parent.mkdir()
    mine.write_bytes(intact.read_bytes())
    return mine


def assert_left_out(path, reason):
    """`read` and `read_all` both name the file and say why, and neither gives a result."""
    with pytest.raises(DamagedError, match=re.escape(reason)) as caught:
        store.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    found, errors = store.read_all(path.parent)
    assert found == {}
    assert [(error.path, error.reason) for error in errors] == [(path, caught.value.reason)]


WRITTEN = {
    "private": result_of(),
    "all defaults": result_of(Run()),
    "not private": result_of(vary(Run(), mechanism=NoPrivacy())),
    "diverged": result_of(epochs=1),
    "diverged at once": result_of(epochs=0, curve={name: [0] for name in LOSSES}, epsilon={}),
    "no finite loss": result_of(curve=LOSSES | {"test_loss": [None]}, epsilon={}),
    "of many numbers": result_of(
        curve=LOSSES | {"norms.angles": [[[0.5, 2], [None, 1]]]}, epsilon={}
    ),
    "stopped": result_of(stopped="far behind", curve=LOSSES, epsilon={}),
}


@pytest.mark.parametrize("result", WRITTEN.values(), ids=WRITTEN)
def test_a_result_is_read_as_it_was_written(tmp_path, result):
    path = store.write(tmp_path, result)
    assert store.read(path) == result
    assert path == tmp_path / f"{result.run.identity}.json"


@settings(max_examples=30, deadline=None)
@given(
    losses=st.lists(FINITE, min_size=1, max_size=4),
    rate=st.floats(1e-300, 1e300),
    device=st.text(st.characters(codec="utf-8")),
)
def test_every_number_and_text_survives_and_is_written_the_same_again(
    tmp_path_factory, losses, rate, device
):
    folder = tmp_path_factory.getbasetemp() / "round-trip"
    epochs = list(range(len(losses)))
    steps = [epoch * RUN.steps_per_epoch for epoch in epochs]
    accuracies = [0.5 for _ in losses]
    result = result_of(
        vary(RUN, learning_rate=rate),
        curve={"epoch": epochs, "step": steps, "test_accuracy": accuracies, "test_loss": losses},
        epsilon={},
        provenance={"device": device},
    )
    path = store.write(folder, result)
    written = path.read_bytes()
    again = store.read(path)
    assert again == result
    assert store.write(folder, again).read_bytes() == written


def test_a_file_is_a_few_lines_of_small_text(tmp_path):
    """One key a line, so that a change shows in a diff, and small enough for git by the hundred."""
    text = store.write(tmp_path, result_of(Run())).read_text()
    assert len(text) < 8_000
    assert [line.split(":")[0] for line in text.splitlines()[1:-1]] == [
        '"format"', '"run"', '"curve"', '"class_accuracy"', '"diverged_at"', '"stopped"',
        '"epsilon"', '"provenance"', '"checksum"',
    ]  # fmt: skip


def test_provenance_says_where_with_what_and_how_long():
    said = store.provenance(12.3456, "one abacus", dataset_fingerprint="abc")
    assert said["device"] == "one abacus"
    assert said["dataset_fingerprint"] == "abc"
    assert said["wall_seconds"] == 12.3
    assert said["packages"] == {
        name: importlib.metadata.version(name)
        for name in ("jax", "jaxlib", "flax", "optax", "numpy")
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", said["python"])
    assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?|unknown", said["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", said["finished"])
    json.dumps(said, allow_nan=False)


def test_a_file_cut_short_anywhere_is_left_out(intact, path):
    whole = intact.read_bytes()
    # Without its last newline it is still complete.
    for length in [*range(0, len(whole) - 1, 7), len(whole) - 2]:
        path.write_bytes(whole[:length])
        assert_left_out(path, "not intact JSON (cut short or damaged)")


def test_a_file_that_was_read_and_then_altered_is_left_out_whatever_its_time_and_size(path):
    assert store.read(path) is store.read(path)
    was = path.stat()
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.6"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert path.stat().st_size == was.st_size
    assert_left_out(path, "changed after it was stored (its checksum does not match)")


@pytest.mark.parametrize("change", [1, 2, 64, 128])
def test_a_file_with_any_byte_altered_is_left_out_or_says_the_same(intact, path, change):
    """White space between the values may be altered, and nothing else."""
    whole, result = intact.read_bytes(), store.read(intact)
    for position, byte in enumerate(whole):
        path.write_bytes(whole[:position] + bytes([byte ^ change]) + whole[position + 1 :])
        found, errors = store.read_all(path.parent)
        assert ([error.path for error in errors], found) == ([path], {}) or (
            (errors, found) == ([], {RUN.identity: result}) and chr(byte).isspace()
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not intact JSON"),
        ("\udcff\udcfe\0", "not intact JSON"),
        ("\0" * 500, "not intact JSON"),
        ("[" * 100_000, "not intact JSON"),
        ("9" * 5_000, "not a result of this study"),
        ('{"run": {}, "run": {}, "checksum": ""}', "not intact JSON"),
        ("null", "not a result of this study"),
        ("{}", "not a result of this study"),
        ('"run checksum"', "not a result of this study"),
        ('{"name": "left-pad", "version": "1.3.0"}', "not a result of this study"),
        ('{"run": {}, "checksum": ""}', "format None; this version reads 2"),
        ('{"format": 1, "run": {}, "checksum": ""}', "format 1; this version reads 2"),
        ('{"format": 2, "run": {}, "checksum": ""}', "changed after it was stored"),
        ('{"format": 2, "run": {}, "checksum": []}', "changed after it was stored"),
        ('{"format": 2, "run": NaN, "checksum": ""}', "changed after it was stored"),
        ('{"format": 2, "run": 1e999, "checksum": ""}', "changed after it was stored"),
        (f'{{"format": 2, "run": {10**400}, "checksum": ""}}', "changed after it was stored"),
    ],
)
def test_a_foreign_file_is_left_out(path, text, reason):
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert_left_out(path, reason)


def test_what_is_not_a_file_is_left_out(path):
    path.unlink()
    path.mkdir()
    assert_left_out(path, "cannot be read: not a regular file")
    path.rmdir()
    os.mkfifo(path)  # Whoever opens it waits for a writer.
    assert_left_out(path, "cannot be read: not a regular file")
    path.unlink()
    path.symlink_to(path.parent / "gone.json.bak")
    assert_left_out(path, "cannot be read: No such file")


def test_a_renamed_file_is_left_out(path):
    other = path.with_name(f"{replace(RUN, seed=1).identity}.json")
    path.rename(other)
    assert_left_out(other, f"holds the run {RUN.identity}, which its name does not say")


def set_to(value, *keys):
    def change(content):
        reduce(getitem, keys[:-1], content)[keys[-1]] = value

    return change


def without(name, *keys):
    return lambda content: reduce(getitem, keys, content).pop(name)


OTHER = "is not what this version stores there"
CURVE, SAID = "field 'curve.", "field 'provenance."
EMPTY = {name: [] for name in result_of().curve}
NESTED = reduce(lambda inner, _: [inner], range(500), 0.5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_to("mint", "run", "flavour"), "unknown field 'flavour' in a run"),
        (set_to("many", "run", "sampling", "batch"), "batch must be a whole number"),
        (set_to([], "run"), "not a run of this version"),
        (set_to(None, "run"), "not a run of this version"),
        (set_to(1, "run", "seed"), "which its name does not say"),
        (set_to(1, "format"), "format 1"),
        (set_to("mint", "flavour"), "unknown field 'flavour'"),
        (without("curve"), "no field 'curve'"),
        (without("stopped"), "no field 'stopped'"),
        (without("step", "curve"), "no field 'curve.step'"),
        (
            set_to([1e308] * 3, "curve", "test_accuracy"),
            f"{CURVE}test_accuracy[0]' {OTHER}: 1e+308",
        ),
        (set_to([-0.1] * 3, "curve", "test_accuracy"), f"{CURVE}test_accuracy[0]' {OTHER}: -0.1"),
        (set_to([1e39] * 3, "curve", "gradient_norm"), f"{CURVE}gradient_norm[0]' {OTHER}: 1e+39"),
        (set_to([2] * 3, "curve", "clipped_fraction"), f"{CURVE}clipped_fraction[0]' {OTHER}: 2"),
        (set_to([10**400] * 3, "curve", "test_accuracy"), "changed after it was stored"),
        (set_to([1, 3, 4], "curve", "epoch"), f"{CURVE}epoch' {OTHER}: [1, 3, 4]"),
        (set_to([2, 3, 4], "curve", "epoch"), f"{CURVE}epoch' {OTHER}: [2, 3, 4]"),
        (set_to([2, 4, 10**9], "curve", "step"), f"{CURVE}step' {OTHER}: [2, 4, 1000000000]"),
        (lambda content: content["curve"].update(EMPTY), f"{CURVE}epoch' {OTHER}: []"),
        *(
            (set_to([value] * 3, "curve", f"{kind}.{name}"), f"{CURVE}{kind}.{name}[0]' {OTHER}")
            for kind, name in (("bounded-norms", "counts"), ("confusion", "counts"))
            for value in ([], [[]], None, 0, [1, 2], [[0] * 59], [[[0.5]]])
        ),
        (set_to([[-1] * 60] * 3, "curve", "bounded-norms.counts"), "holds what are no counts"),
        (set_to([[None] * 60] * 3, "curve", "bounded-norms.counts"), "holds what are no counts"),
        (set_to([[1.0]] * 3, "curve", "norms.gradient"), f"{CURVE}norms.gradient[0]' {OTHER}"),
        (set_to([[]] * 3, "curve", "norms.angles"), f"{CURVE}norms.angles[0]' {OTHER}: []"),
        (set_to([[[1], 2]] * 3, "curve", "norms.angles"), f"{CURVE}norms.angles[0]' {OTHER}"),
        (set_to([[1], [1, 2], [1]], "curve", "norms.angles"), f"{CURVE}norms.angles[1]' {OTHER}"),
        (set_to([NESTED] * 3, "curve", "norms.angles"), "lists too deep"),
        (set_to([0.9] * 9, "class_accuracy"), f"field 'class_accuracy[0]' {OTHER}: [0.9"),
        (set_to([1.1] * 10, "class_accuracy"), f"field 'class_accuracy[0]' {OTHER}: [1.1"),
        (set_to([0.1, -1.0, 0.3], "epsilon", "pld"), f"field 'epsilon.pld[1]' {OTHER}: -1.0"),
        (set_to(0, "diverged_at"), f"field 'diverged_at' {OTHER}: 0"),
        (set_to(7, "diverged_at"), f"field 'diverged_at' {OTHER}: 7"),
        (set_to("x", "provenance", "finished"), "field 'provenance': Invalid isoformat string"),
        (set_to("2025-01-01", "provenance", "finished"), "field 'provenance': a time without its"),
        (set_to(None, "epsilon"), f"field 'epsilon' {OTHER}: None"),
        (set_to("here", "provenance"), f"field 'provenance' {OTHER}: 'here'"),
        (set_to([0.9], "curve", "test_accuracy"), "differ in length"),
        (set_to([1.0, 2.0], "epsilon", "pld"), "differ in length"),
        (set_to(0.9, "curve", "test_accuracy"), f"{CURVE}test_accuracy' {OTHER}: 0.9"),
        (set_to(["high"] * 3, "curve", "test_accuracy"), f"{CURVE}test_accuracy[0]' {OTHER}: 'hi"),
        (set_to([0.5, None, 0.5], "curve", "test_accuracy"), f"{CURVE}test_accuracy[1]' {OTHER}"),
        (set_to([1.5, 2, 3], "curve", "step"), f"{CURVE}step[0]' {OTHER}: 1.5"),
        (set_to([True, 2, 3], "curve", "epoch"), f"{CURVE}epoch[0]' {OTHER}: True"),
        (set_to([[1.0]] * 3, "curve", "gradient_norm"), f"{CURVE}gradient_norm[0]' {OTHER}: [1.0]"),
        (set_to([[1, "2"]] * 3, "curve", "norms.angles"), f"{CURVE}norms.angles[0]' {OTHER}: [1"),
        (set_to([{}] * 3, "curve", "norms.angles"), f"{CURVE}norms.angles[0]' {OTHER}: {{}}"),
        (set_to({"0": 0.9}, "class_accuracy"), f"field 'class_accuracy' {OTHER}"),
        (set_to([0.9, None], "class_accuracy"), f"field 'class_accuracy[1]' {OTHER}: None"),
        (set_to([1.0, 2.0, 3.0], "epsilon"), f"field 'epsilon' {OTHER}"),
        (set_to(["1", "2", "3"], "epsilon", "pld"), f"field 'epsilon.pld[0]' {OTHER}: '1'"),
        (set_to("early", "diverged_at"), f"field 'diverged_at' {OTHER}: 'early'"),
        (set_to(3, "stopped"), f"field 'stopped' {OTHER}: 3"),
        # A value too long to print is cut short.
        (set_to([8] * 999, "stopped"), f"field 'stopped' {OTHER}: [{'8, ' * 13}…"),
        (set_to(5, "provenance", "device"), f"{SAID}device' {OTHER}: 5"),
        (set_to(["jax"], "provenance", "packages"), f"{SAID}packages' {OTHER}: ['jax']"),
        (set_to(1.2, "provenance", "packages", "jax"), f"{SAID}packages.jax' {OTHER}: 1.2"),
        (set_to("long", "provenance", "wall_seconds"), f"{SAID}wall_seconds' {OTHER}: 'long'"),
        (set_to("a lot", "provenance", "peak_megabytes"), f"{SAID}peak_megabytes' {OTHER}: 'a lo"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_sealed_but_not_a_result_is_left_out(path, change, reason):
    rewrite(path, change)
    assert_left_out(path, reason)


def test_a_damaged_file_is_named_wherever_results_are_read(results):
    experiment = find("tempered-sigmoids-figure-3")
    bad, good = experiment.runs(dataset="mnist", seeds=1)
    paths = [store.write(store.runs_folder(), result_of(run, epochs=3)) for run in (bad, good)]
    rewrite(paths[0], set_to(["high"] * 3, "curve", "test_accuracy"))
    reason = f"field 'curve.test_accuracy[0]' {OTHER}: 'high'"

    reading = readings.read(experiment, dataset="mnist", seeds=1)
    assert [result.run for _, result in reading.found] == [good]
    assert reading.missing == [bad]
    assert reading.damaged == [f"runs/{paths[0].name}: {reason}"]
    assert reading.finals.label.tolist() == ["tanh"]
    assert set(reading.curves.label) == {"tanh"}

    for command in ("claims", "list"):
        done = dpstudy(command)
        assert (done.exit_code, type(done.exception)) == (1, SystemExit)
        assert f"dpstudy: left out: runs/{paths[0].name}: {reason}" in done.stderr


def test_a_node_without_pydantic_reads_results_and_looks_at_their_names_and_lengths(
    path, monkeypatch
):
    """It only trains, and whoever merges its results looks closer."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    again = store.read(path)
    assert store.write(path.parent / "mine", again).read_bytes() == path.read_bytes()
    rewrite(path, set_to(["high"] * 3, "curve", "test_accuracy"))
    assert_left_out(path, f"{CURVE}test_accuracy[0]' {OTHER}")
    rewrite(path, set_to([0.9], "curve", "test_accuracy"))
    assert_left_out(path, "differ in length")
    rewrite(path, without("stopped"))
    assert_left_out(path, "its fields are not those of this version")


def test_the_files_beside_a_damaged_one_are_read(tmp_path):
    paths = [store.write(tmp_path, result_of(run)) for run in seeds(5)]
    paths[1].write_text("{")
    paths[3].write_bytes(paths[2].read_bytes())
    found, errors = store.read_all(tmp_path)
    assert set(found) == {paths[i].stem for i in (0, 2, 4)}
    assert {error.path for error in errors} == {paths[1], paths[3]}


def test_hidden_folders_and_files_hold_no_results(tmp_path):
    shown = store.write(tmp_path, result_of())
    for folder in (".smoke", ".checkpoints", ".ipynb_checkpoints"):
        store.write(tmp_path / folder, result_of(replace(RUN, seed=1)))
    (tmp_path / ".writing-x.json").write_text("{")
    (tmp_path / "readme.txt").write_text("no result")
    assert list(store.stored_files(tmp_path)) == [shown]
    assert store.read_all(tmp_path) == ({RUN.identity: result_of()}, [])
    # The smoke profile's own folder is read when it is the one asked for.
    assert len(store.read_all(tmp_path / ".smoke")[0]) == 1


def test_only_the_runs_that_are_wanted_are_read(tmp_path):
    assert store.read_all(tmp_path / "nowhere") == ({}, [])
    paths = [store.write(tmp_path, result_of(run)) for run in seeds(3)]
    paths[0].write_text("{")
    assert store.read_all(tmp_path, [paths[1].stem, "0" * 16]) == (
        {paths[1].stem: result_of(replace(RUN, seed=1))},
        [],
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_or_could_not_be_read_again_never_gets_in(tmp_path, value):
    fields = {
        "curve": LOSSES | {"test_loss": [value]},
        "class_accuracy": [value],
        "epsilon": {"pld": [0.1, value, 0.3]},
        "provenance": {"machine": {"load": [value]}},
    }
    for name, field in fields.items():
        with pytest.raises(StoreError, match=r"a value is not a finite number|not JSON compliant"):
            store.write(tmp_path, result_of(**{"epsilon": {}, name: field}))
    with pytest.raises(StoreError, match="differ in length"):
        store.write(tmp_path, result_of(epsilon={"pld": [0.1]}))
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO, KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("before", [True, False], ids=["over an old file", "a new file"])
def test_what_stops_a_write_leaves_everything_as_it_was(tmp_path, monkeypatch, call, error, before):
    if before:
        store.write(tmp_path, result_of(accuracy=0.5))
    was, full = contents(tmp_path), isinstance(error, int)
    raised = OSError(error, os.strerror(error)) if full else error
    monkeypatch.setattr(f"dpstudy.lab.store.os.{call}", mock.Mock(side_effect=raised))
    with pytest.raises(StoreError if full else KeyboardInterrupt) as caught:
        store.write(tmp_path, result_of())
    if full:
        message = f"could not store {tmp_path / result_of().name}: {os.strerror(error)}"
        assert str(caught.value) == message
    assert contents(tmp_path) == was


def test_a_write_that_the_system_stops_halfway_leaves_everything_as_it_was(tmp_path):
    """For real: the system refuses to let a file grow beyond 100 bytes."""
    store.write(tmp_path, result_of(accuracy=0.5))
    was = contents(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"could not store .*: File too large"):
            store.write(tmp_path, result_of())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(tmp_path) == was


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError, match=r"could not store .*taken"):
        store.write(tmp_path / "taken", result_of())


def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    """Else a power cut could leave a name without its content."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def call(*args, name=name, real=real):
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(f"dpstudy.lab.store.os.{name}", call)
    store.write(tmp_path, result_of())
    assert calls[:2] == ["fsync", "replace"]


def test_of_two_that_store_one_run_at_once_the_second_is_told_and_replaces_nothing(
    tmp_path, monkeypatch
):
    first = store.write(tmp_path, result_of(), replace=False)
    was = contents(tmp_path)
    for system in (os.link, mock.Mock(side_effect=OSError(errno.EPERM, "no second name here"))):
        monkeypatch.setattr(os, "link", system)
        with pytest.raises(FileExistsError):
            store.write(tmp_path, result_of(accuracy=0.5), replace=False)
        assert contents(tmp_path) == was
    other = store.write(tmp_path, result_of(replace(RUN, seed=1)), replace=False)
    assert set(contents(tmp_path)) == {first.name, other.name}


def test_what_a_killed_process_was_writing_is_removed_and_what_a_running_one_writes_is_not(
    tmp_path,
):
    left, old = tmp_path / f".writing-{'0' * 32}", (time.time() - 60,) * 2
    (tmp_path / ".writing-x.json").write_text("somebody else's")
    left.write_bytes(b"a part")
    store.check_writable(tmp_path)
    assert left.exists(), "it may be about to get its name"
    os.utime(left, old)
    with files.written_whole(tmp_path / "whole") as stream:
        [mine] = set(tmp_path.glob(".writing-*")) - {left, tmp_path / ".writing-x.json"}
        os.utime(mine, old)
        store.check_writable(tmp_path)
        stream.write(b"all")
    assert contents(tmp_path) == {".writing-x.json": b"somebody else's", "whole": b"all"}


def test_what_a_killed_process_was_writing_to_the_cache_is_removed_by_the_next(tmp_path):
    left = tmp_path / f".writing-{'0' * 32}"
    left.write_bytes(b"a gigabyte")
    os.utime(left, (0, 0))
    with files.kept_in_cache(tmp_path / "features") as stream:
        stream.write(b"all")
    assert contents(tmp_path) == {"features": b"all"}


def write_for_ever(folder, writing):
    """Over and over the same four files, large enough that a write takes a while."""
    for count in itertools.count(1):
        run, epochs = Run(seed=count % 4, epochs=20_000), list(range(20_000))
        curve = {"epoch": epochs, "step": [epoch * run.steps_per_epoch for epoch in epochs]}
        curve |= {"test_accuracy": [0.5] * 20_000, "test_loss": [count] * 20_000}
        store.write(
            folder, store.Result(run, curve, [0.5] * 10, epsilon={"pld": curve["test_loss"]})
        )
        writing.set()


def test_killing_the_writer_at_any_moment_leaves_no_partial_file(tmp_path):
    chance, system = random.Random(0), multiprocessing.get_context("fork")
    for _ in range(3):
        writing = system.Event()
        writer = system.Process(target=write_for_ever, args=(tmp_path, writing))
        writer.start()
        assert writing.wait(60)
        time.sleep(chance.uniform(0, 0.05))
        writer.kill()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        found, errors = store.read_all(tmp_path)
        assert errors == []
        assert 1 <= len(found) <= 4
        for result in found.values():
            assert len(set(result.curve["test_loss"])) == 1, "two writes in one file"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it")
def test_what_was_held_and_given_back_before_does_not_count(monkeypatch, tmp_path):
    store.forget_peak()
    before = store.peak_megabytes()
    np.ones(40_000_000).sum()
    with_array = store.peak_megabytes()
    store.forget_peak()
    assert 250 < with_array - before < 400
    assert with_array - store.peak_megabytes() > 250
    monkeypatch.setattr(store, "_PROCESS", tmp_path)
    assert store.peak_megabytes() is None, "elsewhere nothing is known"
