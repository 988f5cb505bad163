"""nbval, which is hardly maintained, runs with the pytest of the lock, and finds what differs."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import nbformat
from test_book import ROOT, TOOL

KERNELS = runpy.run_path(str(ROOT / "book/_ext/forked_kernels.py"))


# A cell, what is stored of it, its tags, and what nbval says of it.
CELLS = [
    ("print(6 * 7)", "42\n", [TOOL["CHECKED"]], "PASSED"),
    ("print(6 * 7)", "43\n", [TOOL["CHECKED"]], "FAILED"),
    ("print(6 * 7)", "43\n", [], "PASSED"),
    ("1 / 0", "", [], "FAILED"),
]


def test_a_tagged_cell_prints_what_is_stored_and_one_that_fails_is_red(tmp_path):
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    for number, (source, held, tags, _) in enumerate(CELLS):
        stored = [nbformat.v4.new_output("stream", name="stdout", text=held)]
        made = {"id": f"cell-{number}", "outputs": stored, "metadata": {"tags": tags}}
        notebook.cells.append(nbformat.v4.new_code_cell(source, execution_count=1, **made))
    nbformat.write(notebook, tmp_path / "one.ipynb")
    command = (sys.executable, "-m", "pytest", "-v", "--nbval-lax", "one.ipynb")
    alone = {"PYTEST_ADDOPTS": "-p no:xdist -p no:cacheprovider"}
    ended = subprocess.run(
        command, cwd=tmp_path, env=os.environ | alone, capture_output=True, text=True
    ).stdout
    assert re.findall(r"::Cell \d+ (\w+)", ended)[: len(CELLS)] == [said for *_, said in CELLS]
    assert "Cell outputs differ" in ended and "ZeroDivisionError" in ended


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


def test_what_was_compiled_is_kept_but_not_half_of_it(tmp_path):
    jax.jit(lambda x: 3 * x)(1.0)
    compiled = next(Path(jax.config.jax_compilation_cache_dir).glob("*-cache")).read_bytes()
    (tmp_path / "whole-cache").write_bytes(compiled)
    (tmp_path / "half-cache").write_bytes(compiled[: len(compiled) // 2])
    (tmp_path / "begun-cache").touch()
    KERNELS["clear_of_broken"](tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["whole-cache"]
