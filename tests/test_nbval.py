"""nbval, which is hardly maintained, runs with the pytest of the lock, and finds what differs."""

import os
import runpy
import subprocess
import sys

import nbformat
import pytest
from test_book import ROOT, TOOL

KERNELS = runpy.run_path(str(ROOT / "book/_ext/forked_kernels.py"))


@pytest.fixture
def validated(tmp_path):
    """Run nbval on a notebook of one cell, whose output is stored; return how it ended."""

    def validate(source, held, tags=(TOOL["CHECKED"],)):
        output = nbformat.v4.new_output("stream", name="stdout", text=held)
        cell = nbformat.v4.new_code_cell(
            source, id="one", outputs=[output], execution_count=1, metadata={"tags": list(tags)}
        )
        notebook = nbformat.v4.new_notebook(cells=[cell])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, tmp_path / "one.ipynb")
        command = (sys.executable, "-m", "pytest", "-q", "--nbval-lax", "one.ipynb")
        alone = {"PYTEST_ADDOPTS": "-p no:xdist -p no:cacheprovider"}
        return subprocess.run(
            command, cwd=tmp_path, env=os.environ | alone, capture_output=True, text=True
        )

    return validate


@pytest.mark.parametrize(
    "held, tags, status", [("42\n", None, 0), ("43\n", None, 1), ("43\n", (), 0)]
)
def test_a_tagged_cell_prints_what_is_stored(validated, held, tags, status):
    ended = validated("print(6 * 7)", held, *([] if tags is None else [tags]))
    assert ended.returncode == status, ended.stdout
    assert ("Cell outputs differ" in ended.stdout) == bool(status)


def test_a_cell_that_fails_is_red(validated):
    assert "ZeroDivisionError" in validated("1 / 0", "", ()).stdout


class Fresh:
    """In place of jupyter_client's manager."""

    connection_file = "connection.json"

    def __init__(self, **settings):
        """Take what a manager is given."""

    def format_kernel_cmd(self, extra_arguments=None):
        return ["a fresh kernel"]


class Manager(KERNELS["Forked"], Fresh):
    """As in the book and in nbval."""


def test_a_warm_process_that_fails_is_loud_and_kernels_start_afresh(tmp_path, monkeypatch, capfd):
    (tmp_path / "ipykernel").mkdir()
    (tmp_path / "ipykernel/__init__.py").write_text("raise ImportError('no kernels today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with KERNELS["warm"]():
        assert Manager().format_kernel_cmd() == ["a fresh kernel"], "at once, not in two minutes"
    said = capfd.readouterr().err.splitlines()
    assert "ImportError: no kernels today" in said
    assert said[-1] == "warm_kernels.py ended with 1: kernels were started afresh, and slowly"


def test_while_a_warm_process_is_there_kernels_are_asked_of_it(tmp_path, monkeypatch):
    (tmp_path / "socket").touch()
    monkeypatch.setenv("DPSTUDY_KERNELS", str(tmp_path / "socket"))
    assert Manager().format_kernel_cmd()[4:6] == ["relay", str(tmp_path / "socket")]
