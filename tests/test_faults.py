"""What comes from outside and is wrong, by kind and in numbers: see `make faults`.

Each kind has its quick cases beside what it is about; here is what takes processes and minutes.
"""

import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from results_for_tests import contents, dpstudy, environment, result_of, seeds
from test_recipe import tiny

from dpstudy.errors import UserError
from dpstudy.lab import store, transfer
from dpstudy.parts.run import Run, vary_as_written
from dpstudy.recipe import model as models

pytestmark = pytest.mark.faults
FORK = multiprocessing.get_context("fork")
CHANCE = random.Random(0)


def save_for_ever(folder, saving, what):
    """Save one file after the other, until killed."""
    model = tiny()
    for number in range(1_000_000):
        if what == "model":
            model.save(folder / f"{number}.npz")
        else:
            transfer.export(folder.parent / "results", folder / f"{number}.tar.gz")
        saving.set()


@pytest.mark.parametrize("after", [CHANCE.uniform(0, 0.1) for _ in range(12)])
@pytest.mark.parametrize("what", ["model", "archive"])
def test_killed_while_it_saves_a_file_is_whole_or_not_there(tmp_path, what, after):
    for run in seeds(20):
        store.write(tmp_path / "results/runs", result_of(run))
    folder, saving = tmp_path / "saved", FORK.Event()
    folder.mkdir()
    writer = FORK.Process(target=save_for_ever, args=(folder, saving, what))
    writer.start()
    assert saving.wait(60)
    time.sleep(after)
    writer.kill()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    saved = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for path in sorted(saved, key=os.path.getmtime)[-3:]:
        if what == "model":
            assert models.load(path).at_mean.shape == (11,)
        else:
            merged = transfer.merge(tmp_path / f"from {path.name}", path)
            assert (merged.added, merged.refused) == (20, [])


def store_at(start, folder, accuracy, told):
    """Store a result at a moment, and tell whether it was the first."""
    while time.time() < start:
        pass
    try:
        store.write(folder, result_of(accuracy=accuracy), replace=False)
        told.put(accuracy)
    except FileExistsError:
        told.put(None)


@pytest.mark.parametrize("number", range(12))
def test_of_four_processes_that_store_one_run_at_once_one_does(tmp_path, number):
    told, start = FORK.Queue(), time.time() + 0.3
    ends = [0.1 * at for at in range(1, 5)]
    writers = [FORK.Process(target=store_at, args=(start, tmp_path, end, told)) for end in ends]
    for writer in writers:
        writer.start()
    [first] = [one for one in (told.get(timeout=60) for _ in writers) if one is not None]
    for writer in writers:
        writer.join()
    [path] = tmp_path.iterdir()
    assert store.read(path).curve["test_accuracy"][-1] == pytest.approx(first)


TERMINALS = [
    *({"TERM": name} for name in ("", "dumb", "linux", "no-such-terminal", "xterm-256color")),
    *({"COLUMNS": width} for width in ("", "0", "1", "-5", "wide", "7", "100000", "1e9")),
    *({"LC_ALL": name} for name in ("C", "POSIX", "no_SUCH.locale", "tr_TR.UTF-8")),
    *({"PYTHONIOENCODING": name} for name in ("ascii", "latin-1", "utf-16")),
    {"NO_COLOR": "1", "FORCE_COLOR": "1", "LINES": "0"},
    {"PYTHONUTF8": "0", "LANG": "C"},
]


@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
@pytest.mark.parametrize("arguments, status", [(["run", "-h"], 0), (["bogüs"], 2)])
def test_every_terminal_is_told(terminal, arguments, status):
    command = [sys.executable, "-m", "under_the_clip.cli", *arguments]
    done = subprocess.run(command, env=environment() | terminal, capture_output=True, timeout=100)
    said = done.stderr.replace(b"\0", b"")
    assert (done.returncode, b"Traceback" in said) == (status, False), said
    assert done.stdout if status == 0 else said


ODD = [
    *("nan", "inf", "-inf", "-0", "0", "1e308", "1e309", "-1e308", "5e-324", "1e-400", "0x10"),
    *("1_000", "１２", "١", "", " ", "1,5", "1/2", "--", "9" * 400, "1" + "0" * 5000, "1e", "٫5"),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd[:12]))
@pytest.mark.parametrize(
    "option", ["noise", "examples", "batch", "epochs", "steps", "delta", "search"]
)
def test_an_odd_number_is_answered_or_refused_in_a_line(option, odd):
    given = {"noise": "1.23", "examples": "60000", "batch": "512", "epochs": "1"}
    if option == "steps":
        del given["epochs"]
    done = dpstudy(
        "epsilon", *(f"--{name}={value}" for name, value in (given | {option: odd}).items())
    )
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code in (0, 2)
    if done.exit_code == 2:
        *_, line = done.stderr.splitlines()
        assert line.startswith("dpstudy: ")


@pytest.mark.parametrize("odd", [*ODD, "null", "[]", "{}", "true", '"1"', "[" * 5000])
@pytest.mark.parametrize(
    "field", ["learning_rate", "noise_multiplier", "epochs", "seed", "delta", "activation"]
)
def test_an_odd_field_is_a_run_or_refused_in_a_line(field, odd):
    try:
        run = vary_as_written(Run(), {field: odd})
    except UserError as error:
        assert "\n" not in str(error)
        return
    assert Run.from_dict(run.to_dict()).identity == run.identity
    value = getattr(run, field, 1.0)
    assert isinstance(value, str) or not isinstance(value, float) or math.isfinite(value)


def _pipe(path):
    os.mkfifo(path)


def _loop(path):
    path.symlink_to(path)


def _forbidden(path):
    path.mkdir()
    path.chmod(0)


PLACES = {
    "a file": lambda path: path.write_text("results"),
    "a pipe": _pipe,
    "a link to itself": _loop,
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nothing"),
    "a device": lambda path: path.symlink_to("/dev/full"),
    "nobody's": _forbidden,
    "empty": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("made", PLACES)
@pytest.mark.parametrize("at", ["", "runs", f"runs/{result_of().name}"])
@pytest.mark.parametrize("arguments", [("results", "verify"), ("list",)], ids=lambda of: of[0])
def test_results_at_an_odd_place_are_counted_or_a_line_says_why(results, made, at, arguments):
    place = results / at
    place.parent.mkdir(parents=True, exist_ok=True)
    PLACES[made](place)
    was = contents(results.parent) if made not in ("a pipe", "a device") else None
    done = dpstudy(*arguments)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code in (0, 1, 2)
    if was is not None:
        assert contents(results.parent) == was, "it changes nothing"
