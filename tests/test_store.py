"""A stored result is the one that was written, whole, or it is named and left out."""

import errno
import importlib.metadata
import json
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from results_for_tests import RUN, contents, environment, result_of, rewrite, seeds

from dpstudy.lab import readings, store
from dpstudy.lab.store import DamagedError, StoreError
from dpstudy.parts.mechanism import NoPrivacy
from dpstudy.parts.run import Run, vary
from under_the_clip.cli import main
from under_the_clip.experiments import find

FINITE = st.floats(allow_nan=False, allow_infinity=False)
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


# --- what is written is what is read -------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        result_of(),
        result_of(Run()),
        result_of(vary(Run(), mechanism=NoPrivacy())),
        result_of(epochs=1),
        result_of(epochs=0),
        result_of(curve=LOSSES | {"test_loss": [None]}, epsilon={}),
        result_of(curve=LOSSES | {"norms.angles": [[0.5, [None, 1]]]}, epsilon={}),
        result_of(stopped="far behind", curve=LOSSES, epsilon={}),
    ],
    ids=[
        "private",
        "all defaults",
        "not private",
        "diverged",
        "diverged at once",
        "no finite loss",
        "a measure of many numbers",
        "stopped",
    ],
)
def test_a_result_is_read_as_it_was_written(tmp_path, result):
    assert store.read(store.write(tmp_path, result)) == result


@settings(max_examples=30, deadline=None)
@given(
    losses=st.lists(FINITE, max_size=4),
    rate=st.floats(1e-300, 1e300),
    device=st.text(st.characters(codec="utf-8")),
)
def test_every_number_and_text_survives_and_is_written_the_same_again(
    tmp_path_factory, losses, rate, device
):
    folder = tmp_path_factory.getbasetemp() / "round-trip"
    epochs = list(range(len(losses)))
    accuracies = [0.5 for _ in losses]
    result = result_of(
        vary(RUN, learning_rate=rate),
        curve={"epoch": epochs, "step": epochs, "test_accuracy": accuracies, "test_loss": losses},
        epsilon={},
        provenance={"device": device},
    )
    path = store.write(folder, result)
    written = path.read_bytes()
    again = store.read(path)
    assert again == result
    assert store.write(folder, again).read_bytes() == written


def test_the_file_is_named_by_the_run_s_identity(tmp_path):
    for run in (*seeds(3), Run()):
        path = store.write(tmp_path, result_of(run))
        assert path == tmp_path / f"{run.identity}.json"
        assert store.read_all(tmp_path)[0][run.identity].run == run
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_is_a_few_lines_of_small_text(tmp_path):
    """One key a line, so that a change shows in a diff, and small enough for git by the hundred."""
    run = Run()
    text = store.write(tmp_path, result_of(run)).read_text()
    assert len(text) < 8_000
    assert [line.split(":")[0] for line in text.splitlines()[1:-1]] == [
        '"format"', '"run"', '"curve"', '"class_accuracy"', '"diverged_at"', '"stopped"',
        '"epsilon"', '"provenance"', '"checksum"',
    ]  # fmt: skip


def test_provenance_says_where_with_what_and_how_long():
    said = store.provenance(wall_seconds=12.3456, fingerprint="abc", device="one abacus")
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


# --- what cannot be trusted ----------------------------------------------------------------------


def test_a_file_cut_short_at_any_byte_is_left_out(intact, path):
    whole = intact.read_bytes()
    # Without its last newline it is still complete.
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        assert_left_out(path, "not intact JSON (cut short or damaged)")


def test_a_file_that_was_read_and_then_altered_is_left_out_whatever_its_time_and_size(path):
    assert store.read(path) is store.read(path)
    was = path.stat()
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.6"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert path.stat().st_size == was.st_size
    assert_left_out(path, "changed after it was stored (its checksum does not match)")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_file_with_any_byte_altered_is_left_out(intact, tmp_path_factory, data):
    whole = bytearray(intact.read_bytes())
    position = data.draw(st.integers(0, len(whole) - 1), label="position")
    whole[position] ^= data.draw(st.integers(1, 255), label="change")
    path = tmp_path_factory.getbasetemp() / "altered" / intact.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(whole)
    found, errors = store.read_all(path.parent)
    if found:
        # White space between the values, or another way to write the same value.
        assert errors == []
        assert found == {RUN.identity: store.read(intact)}
    else:
        assert [error.path for error in errors] == [path]


def test_no_digit_letter_or_bracket_can_be_altered(intact, path):
    whole = intact.read_bytes()
    for position, byte in enumerate(whole):
        if chr(byte).isalnum() or chr(byte) in "[]{},:.-_":
            other = b"7" if byte == ord("3") else b"3"
            path.write_bytes(whole[:position] + other + whole[position + 1 :])
            with pytest.raises(DamagedError):
                store.read(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not intact JSON"),
        ("\0" * 500, "not intact JSON"),
        ("hello", "not intact JSON"),
        ("[" * 100_000, "not intact JSON"),
        ("9" * 5_000, "not intact JSON"),
        ('{"run": {}, "run": {}, "checksum": ""}', "not intact JSON"),
        ("3", "not a result of this study"),
        ("null", "not a result of this study"),
        ("[]", "not a result of this study"),
        ("{}", "not a result of this study"),
        ('"run checksum"', "not a result of this study"),
        ('["run", "checksum"]', "not a result of this study"),
        ('{"name": "left-pad", "version": "1.3.0"}', "not a result of this study"),
        ('{"run": {}, "checksum": ""}', "format None; this version reads 2"),
        ('{"format": 1, "run": {}, "checksum": ""}', "format 1; this version reads 2"),
        ('{"format": 2, "run": {}, "checksum": ""}', "changed after it was stored"),
        ('{"format": 2, "run": {}, "checksum": []}', "changed after it was stored"),
        ('{"format": 2, "run": NaN, "checksum": ""}', "changed after it was stored"),
        ('{"format": 2, "run": 1e999, "checksum": ""}', "changed after it was stored"),
    ],
)
def test_a_foreign_file_is_left_out(path, text, reason):
    path.write_text(text)
    assert_left_out(path, reason)


def test_what_is_not_text_is_left_out(path):
    path.write_bytes(b"\xff\xfe\x00")
    assert_left_out(path, "not intact JSON")


def test_what_is_not_a_file_is_left_out(path):
    path.unlink()
    path.mkdir()
    assert_left_out(path, "cannot be read: Is a directory")
    path.rmdir()
    path.symlink_to(path.parent / "gone.json.bak")
    assert_left_out(path, "cannot be read: No such file")


def test_a_number_edited_by_hand_is_left_out(path):
    path.write_text(path.read_text().replace("0.9,", "0.99,", 1))
    assert_left_out(path, "changed after it was stored (its checksum does not match)")


def test_a_renamed_file_is_left_out(path):
    other = path.with_name(f"{replace(RUN, seed=1).identity}.json")
    path.rename(other)
    assert_left_out(other, f"holds the run {RUN.identity}, which its name does not say")


def _set(*keys, to):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("run", "flavour", to="mint"), "unknown field 'flavour' in a run"),
        (_set("run", "sampling", "batch", to=-1), "batch must be at least 1, got -1"),
        (_set("run", "sampling", "batch", to="many"), "batch must be a whole number"),
        (_set("run", "sampling", "kind", to="tasting"), "unknown sampling 'tasting'; one of: "),
        (_set("run", "dataset", to=["mnist"]), "not a run of this version"),
        (_set("run", to=[]), "not a run of this version"),
        (_set("run", to=None), "not a run of this version"),
        (_set("run", "seed", to=1), "which its name does not say"),
        (_set("format", to=1), "format 1"),
        (_set("flavour", to="mint"), "unknown field 'flavour'"),
        (lambda content: content.pop("curve"), "no field 'curve'"),
        (lambda content: content.pop("provenance"), "no field 'provenance'"),
        (lambda content: content.pop("stopped"), "no field 'stopped'"),
        (_set("curve", to=[]), "curve is not a table"),
        (_set("epsilon", to=None), "epsilon is not a table"),
        (_set("provenance", to="here"), "provenance is not a table"),
        (_set("curve", "test_accuracy", to=0.9), "curve column 'test_accuracy' is not a list"),
        (_set("curve", "test_accuracy", to=[0.9]), "differ in length"),
        (_set("epsilon", "pld", to=[1.0, 2.0]), "differ in length"),
    ],
)
def test_a_file_that_is_sealed_but_not_a_result_is_left_out(path, change, reason):
    rewrite(path, change)
    assert_left_out(path, reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            _set("curve", "test_accuracy", to=["high"] * 3),
            "curve column 'test_accuracy' holds 'high'",
        ),
        (
            _set("curve", "test_accuracy", to=[0.5, None, 0.5]),
            "curve column 'test_accuracy' holds None",
        ),
        (lambda content: content["curve"].pop("step"), "curve has no column 'step'"),
        (_set("curve", "step", to=[1.5, 2, 3]), "curve column 'step' holds 1.5"),
        (_set("curve", "epoch", to=[True, 2, 3]), "curve column 'epoch' holds True"),
        (_set("curve", "gradient_norm", to=[[1.0]] * 3), "curve column 'gradient_norm' holds [1."),
        (_set("curve", "norms.gradient", to=[[1.0, "2"]] * 3), "column 'norms.gradient' holds [1."),
        (_set("curve", "norms.gradient", to=[{}] * 3), "curve column 'norms.gradient' holds {}"),
        (_set("class_accuracy", to={"0": 0.9}), "class_accuracy is not a list"),
        (_set("class_accuracy", to=[0.9, None]), "class_accuracy holds None"),
        (_set("epsilon", to=[1.0, 2.0, 3.0]), "epsilon is not a table"),
        (_set("epsilon", "pld", to=["1", "2", "3"]), "epsilon column 'pld' holds '1'"),
        (_set("epsilon", "pld", to=3.0), "epsilon column 'pld' is not a list"),
        (_set("diverged_at", to="early"), "diverged_at is 'early'"),
        (_set("stopped", to=3), "stopped is 3"),
        (_set("provenance", "device", to=5), "device of its provenance is 5"),
        (_set("provenance", "packages", to=["jax"]), "packages of its provenance is ['jax']"),
        (_set("provenance", "packages", "jax", to=1.2), "jax of its provenance is 1.2"),
        (_set("provenance", "wall_seconds", to="long"), "wall_seconds of its provenance is 'long'"),
        (
            _set("provenance", "peak_megabytes", to="a lot"),
            "peak_megabytes of its provenance is 'a",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_sealed_value_of_another_type_is_named_wherever_results_are_read(results, change, reason):
    experiment = find("tempered-sigmoids-figure-3")
    bad, good = experiment.runs(dataset="mnist", seeds=1)
    paths = [store.write(store.runs_folder(), result_of(run, epochs=3)) for run in (bad, good)]
    rewrite(paths[0], change)
    with pytest.raises(DamagedError, match=re.escape(f"{paths[0]}: ") + ".*" + re.escape(reason)):
        store.read(paths[0])

    done = CliRunner().invoke(main, ["results", "verify"])
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert done.stdout == f"1 results in {results} are intact, 1 are not\n"
    [line] = done.stderr.splitlines()
    assert line.startswith(f"dpstudy: {paths[0]}: ") and reason in line

    reading = readings.read(experiment, dataset="mnist", seeds=1)
    assert [result.run for _, result in reading.found] == [good]
    assert reading.missing == [bad]
    [line] = reading.damaged
    assert line.startswith(f"runs/{paths[0].name}: ") and reason in line
    assert reading.finals.label.tolist() == ["tanh"]
    assert set(reading.curves.label) == {"tanh"}

    done = CliRunner().invoke(main, ["claims"])
    assert (done.exit_code, done.exception) == (0, None)
    assert f"dpstudy: left out: runs/{paths[0].name}: " in done.stderr and reason in done.stderr


def test_a_value_too_long_to_print_is_cut_short(path):
    rewrite(path, _set("stopped", to=list(range(1_000))))
    with pytest.raises(DamagedError) as caught:
        store.read(path)
    assert caught.value.reason == "stopped is [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1…"


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


def test_no_folder_is_no_results(tmp_path):
    assert store.read_all(tmp_path / "nowhere") == ({}, [])


def test_only_the_runs_that_are_wanted_are_read(tmp_path):
    paths = [store.write(tmp_path, result_of(run)) for run in seeds(3)]
    paths[0].write_text("{")
    assert store.read_all(tmp_path, [paths[1].stem, "0" * 16]) == (
        {paths[1].stem: result_of(replace(RUN, seed=1))},
        [],
    )


# --- writing is all or nothing -------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["curve", "class_accuracy", "epsilon", "provenance"])
def test_what_is_not_a_finite_number_never_gets_in(tmp_path, value, where):
    fields = {
        "curve": LOSSES | {"test_loss": [value]},
        "class_accuracy": [value],
        "epsilon": {"pld": [0.1, value, 0.3]},
        "provenance": {"machine": {"load": [value]}},
    }
    result = result_of(**{"epsilon": {}} | {where: fields[where]})
    with pytest.raises(StoreError, match="a value is not a finite number"):
        store.write(tmp_path, result)
    assert contents(tmp_path) == {}


def test_what_could_not_be_read_again_never_gets_in(tmp_path):
    with pytest.raises(StoreError, match="differ in length"):
        store.write(tmp_path, result_of(epsilon={"pld": [0.1]}))
    assert contents(tmp_path) == {}


def _fails(code):
    def call(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("before", [True, False], ids=["over an old file", "a new file"])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, call, code, before):
    if before:
        store.write(tmp_path, result_of(accuracy=0.5))
    was = contents(tmp_path)
    monkeypatch.setattr(f"dpstudy.lab.store.os.{call}", _fails(code))
    with pytest.raises(StoreError) as caught:
        store.write(tmp_path, result_of())
    message = f"could not store {tmp_path / result_of().name}: {os.strerror(code)}"
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


def test_ctrl_c_while_storing_leaves_everything_as_it_was(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpstudy.lab.store.os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write(tmp_path, result_of())
    assert contents(tmp_path) == {}


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


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from dpstudy.lab import store
from dpstudy.parts.run import Run
from dpstudy.lab.store import Result

count = 0
while True:
    # Over and over the same four files, large enough that a write takes a while.
    count += 1
    column = [count] * 20_000
    run = Run(seed=count % 4)
    curve = dict.fromkeys(("epoch", "step", "test_accuracy"), column)
    store.write(Path(sys.argv[1]), Result(run, curve, [], epsilon={"pld": column}))
    print(count, flush=True)
"""


def test_killing_the_writer_at_any_moment_leaves_no_partial_file(tmp_path):
    chance = random.Random(0)
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert writer.stdout.readline() == b"1\n"
        time.sleep(chance.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        found, errors = store.read_all(tmp_path)
        assert errors == []
        assert 1 <= len(found) <= 4
        for result in found.values():
            assert len(set(result.curve["epoch"])) == 1, "two writes in one file"
