"""What several test files share."""

import contextlib
import gc
import os
import runpy
import tempfile
from pathlib import Path
from unittest import mock

import pytest


def pytest_configure(config):
    """Let the processes that tests start find what this one compiled: compiling takes longest.

    Two devices, so that runs are spread over them everywhere.
    """
    kernels = runpy.run_path(str(Path(__file__).parents[1] / "book/_ext/forked_kernels.py"))
    quickly = contextlib.ExitStack()
    quickly.enter_context(kernels["compiled_quickly"]())
    config.add_cleanup(quickly.close)
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
    # No test depends on what this user's runs have measured.
    cache = tempfile.TemporaryDirectory(prefix="dpstudy-cache-")
    os.environ["XDG_CACHE_HOME"] = cache.name
    config.add_cleanup(cache.cleanup)


def pytest_collection_finish():
    """Spare the collector what stays to the end: modules and tests, a tenth of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


# What takes minutes is begun first, so that no process waits for it at the end. Whoever looks at
# the book's first pages builds it, and it is there when another process comes to the others.
SLOW = (
    *("TestEverySecondPage", "test_workers", "test_auditing", "test_theorems", "test_cli"),
    *("test_synthetic_features", "test_training", "test_recipe", "test_additions", "test_campaign"),
    *("TestThePagesBetween", "test_built_book"),
)


def pytest_collection_modifyitems(items):
    """Put the slow files and classes first, in their order."""

    def place(item):
        scope = item.cls.__name__ if item.cls else item.path.stem
        return SLOW.index(scope) if scope in SLOW else len(SLOW)

    items.sort(key=place)


@pytest.fixture(scope="module")
def compiled_in_haste():
    """For a file that compiles much and computes little."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def few_batches():
    """Put the first canary into two of a run's batches, the first and the last, and not in four."""
    from dpstudy.privacy import canaries

    with mock.patch.object(canaries, "_BATCHES", 2):
        yield


@pytest.fixture(scope="module")
def few_thresholds():
    """A bound holds however many thresholds its guess is chosen from, and each takes time."""
    from dpstudy.privacy import auditing

    with mock.patch.object(auditing, "_THRESHOLDS", 8):
        yield


@pytest.fixture
def losses_rounded(monkeypatch):
    """Round privacy losses to some times the interval; what was composed otherwise is forgotten.

    Bounds hold however coarse the grid, and take as many times less to compute.
    """
    from dpstudy.privacy import accounting

    def round_to(times):
        monkeypatch.setattr(accounting, "_INTERVAL", times * accounting._INTERVAL)
        forget()

    def forget():
        for kept in ("_curve", "_composed", "_one_step", "_calibrate"):
            getattr(accounting, kept).cache_clear()

    yield round_to
    forget()


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty results folder, so that no test touches the study's own."""
    folder = tmp_path / "results"
    monkeypatch.setenv("DPSTUDY_RESULTS", str(folder))
    return folder


@pytest.fixture
def of_the_study(monkeypatch):
    """The study's own stored results, whatever the environment names."""
    monkeypatch.delenv("DPSTUDY_RESULTS", raising=False)


@contextlib.contextmanager
def convolving(direct):
    """Have every convolution that XLA can take directly taken so, or none."""
    from dpstudy.gradients import convolution, devices

    limits = ("DIRECT_FROM", "DIRECT_GRADIENT_MULTIPLE", "DIRECT_GRADIENT_POSITIONS")
    with contextlib.ExitStack() as patched:
        patched.enter_context(mock.patch.object(devices, "core_each", lambda: direct))
        for limit in limits if direct else ():
            patched.enter_context(mock.patch.object(convolution, limit, 1))
        yield
