"""nbval runs each notebook, its kernel a fork; the book's test builds its pages from what is left.

A cell tagged `nbval-check-output` must print what its notebook holds.
"""

import contextlib
import runpy
import shutil
from pathlib import Path

import nbformat
import nbval.kernel
from jupyter_cache import get_cache

ROOT = Path(__file__).parents[1]
KERNELS = runpy.run_path(str(ROOT / "book/_ext/forked_kernels.py"))
EXECUTED = ROOT / "_build/executed"


class Manager(KERNELS["Forked"], nbval.kernel.KernelManager):
    """Has a notebook's kernel forked."""


def pytest_configure(config):
    """Start the process that all kernels are forked from."""
    if not config.option.nbval_lax:
        return
    nbval.kernel.KernelManager = Manager
    if not hasattr(config, "workerinput"):
        running = contextlib.ExitStack()
        running.enter_context(KERNELS["warm"]())
        config.add_cleanup(running.close)
        shutil.rmtree(EXECUTED, ignore_errors=True)
        EXECUTED.mkdir(parents=True)


def pytest_runtest_teardown(item, nextitem):
    """Keep a notebook with its outputs, once it was run to its end."""
    if not hasattr(item, "test_outputs"):
        return
    item.cell.outputs, item.cell.execution_count = (
        item.test_outputs or [],
        item.cell_num + 1,
    )
    if nextitem is None or nextitem.parent is not item.parent:
        nbformat.write(item.parent.nb, EXECUTED / item.path.name)


def pytest_sessionfinish(session):
    """Put what was executed where Sphinx looks for it."""
    if session.config.option.nbval_lax and not hasattr(
        session.config, "workerinput"
    ):
        cache = get_cache(EXECUTED / "cache")
        for path in EXECUTED.glob("*.ipynb"):
            cache.cache_notebook_file(path, check_validity=False)
