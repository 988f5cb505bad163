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
from hypothesis import given, settings
from hypothesis import strategies as st
from results_for_tests import RUN, contents, environment, result_of, rewrite, seeds

from dpstudy.lab import store
from dpstudy.lab.store import DamagedError, StoreError
from dpstudy.spec import Run

FINITE = st.floats(allow_nan=False, allow_infinity=False)


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
        result_of(Run(mechanism="none", noise_multiplier=0.0)),
        result_of(epochs=1),
        result_of(epochs=0),
        result_of(curve={"epoch": [1], "test_loss": [None]}, epsilon={}),
    ],
    ids=[
        "private",
        "all defaults",
        "not private",
        "diverged",
        "diverged at once",
        "no finite loss",
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
    result = result_of(
        replace(RUN, learning_rate=rate),
        curve={"epoch": list(range(len(losses))), "test_loss": losses},
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
        '"format"', '"run"', '"curve"', '"class_accuracy"', '"diverged_at"', '"epsilon"',
        '"provenance"', '"checksum"',
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
        ('{"run": {}, "checksum": ""}', "format None; this version reads format 1"),
        ('{"format": 2, "run": {}, "checksum": ""}', "format 2; this version reads format 1"),
        ('{"format": 1, "run": {}, "checksum": ""}', "changed after it was stored"),
        ('{"format": 1, "run": {}, "checksum": []}', "changed after it was stored"),
        ('{"format": 1, "run": NaN, "checksum": ""}', "changed after it was stored"),
        ('{"format": 1, "run": 1e999, "checksum": ""}', "changed after it was stored"),
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
        (_set("run", "batch", to=-1), "batch must be at least 1, got -1"),
        (_set("run", "batch", to="many"), "batch must be a whole number"),
        (_set("run", "dataset", to=["mnist"]), "not a run of this version"),
        (_set("run", to=[]), "not a run of this version"),
        (_set("run", to=None), "not a run of this version"),
        (_set("run", "seed", to=1), "which its name does not say"),
        (_set("format", to=2), "format 2"),
        (_set("flavour", to="mint"), "unknown field 'flavour'"),
        (lambda content: content.pop("curve"), "no field 'curve'"),
        (lambda content: content.pop("provenance"), "no field 'provenance'"),
        (_set("curve", to=[]), "curve is not a table"),
        (_set("epsilon", to=None), "epsilon is not a table"),
        (_set("provenance", to="here"), "provenance is not a table"),
        (_set("curve", "test_accuracy", to=0.9), "is not a list"),
        (_set("curve", "test_accuracy", to=[0.9]), "differ in length"),
        (_set("epsilon", "pld", to=[1.0, 2.0]), "differ in length"),
    ],
)
def test_a_file_that_is_sealed_but_not_a_result_is_left_out(path, change, reason):
    rewrite(path, change)
    assert_left_out(path, reason)


def test_the_files_beside_a_damaged_one_are_read(tmp_path):
    paths = [store.write(tmp_path / "a", result_of(run)) for run in seeds(5)]
    paths[1].write_text("{")
    paths[3].write_bytes(paths[2].read_bytes())
    found, errors = store.read_all(tmp_path)
    assert set(found) == {paths[i].stem for i in (0, 2, 4)}
    assert {error.path for error in errors} == {paths[1], paths[3]}


def test_hidden_folders_and_files_hold_no_results(tmp_path):
    shown = store.write(tmp_path / "a", result_of())
    for folder in (".smoke", "a/.checkpoints", "a/.ipynb_checkpoints"):
        store.write(tmp_path / folder, result_of(replace(RUN, seed=1)))
    (tmp_path / "a" / ".writing-x.json").write_text("{")
    (tmp_path / "a" / "readme.txt").write_text("no result")
    assert list(store.stored_files(tmp_path)) == [shown]
    assert store.read_all(tmp_path) == ({RUN.identity: result_of()}, [])
    # The smoke profile's own folder is read when it is the one asked for.
    assert len(store.read_all(tmp_path / ".smoke")[0]) == 1


def test_no_folder_is_no_results(tmp_path):
    assert store.read_all(tmp_path / "nowhere") == ({}, [])


# --- writing is all or nothing -------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["curve", "class_accuracy", "epsilon", "provenance"])
def test_what_is_not_a_finite_number_never_gets_in(tmp_path, value, where):
    fields = {
        "curve": {"epoch": [1], "test_loss": [value]},
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
@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
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
from dpstudy.spec import Run
from dpstudy.lab.store import Result

count = 0
while True:
    # Over and over the same four files, large enough that a write takes a while.
    count += 1
    column = [count] * 20_000
    run = Run(seed=count % 4)
    store.write(Path(sys.argv[1]), Result(run, {"epoch": column}, [], None, {"pld": column}, {}))
    print(count, flush=True)
"""


def test_killing_the_writer_at_any_moment_leaves_no_partial_file(tmp_path):
    chance = random.Random(0)
    for _ in range(10):
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
