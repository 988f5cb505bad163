"""nbval, which is hardly maintained, runs with the pytest of the lock, and finds what differs."""

import os
import subprocess
import sys

import nbformat
import pytest
from test_book import TOOL


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
