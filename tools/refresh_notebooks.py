"""Make each notebook from its percent script, with outputs only in the cells that a test compares.

The script is what is written and reviewed. Where its text has `{{ expression }}`, the notebook has
the value, computed with what the script's cells tagged `facts` define: they read stored results,
assert what the sentences mean, and stay out of the notebook. Two cells are of the notebook alone:
the first fetches the package where it is not installed, as in Colab, and one behind the parameters
checks what was given for them. Run this (`make notebooks`) after changing a script, a stored
result, the version, or the repository's address.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
as_links = runpy.run_path(str(ROOT / "book/_ext/roles_as_links.py"))["as_links"]
CHECKED = "nbval-check-output"
SETUP = "setup"
CHECK = "check-parameters"
FACTS = "facts"


def setup_cell(repository: str) -> nbformat.NotebookNode:
    """Return the cell that fetches the package and the stored results where it is not installed.

    Args:
        repository: its address, whose releases have both; without one the cell says what to do.
    """
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    release = f"{repository}/releases/download/v{version}"
    fetch = (
        f"%pip install --quiet {release}/dpstudy-{version}-py3-none-any.whl",
        f"!curl -fsSL {release}/results-{version}.tar.gz | tar -xz",
    )
    mend = "run pip install --editable . in a copy of the repository"
    tell = (f'raise ModuleNotFoundError("dpstudy: {mend}")',)
    lines = (
        "from importlib.util import find_spec",
        "",
        'if not find_spec("dpstudy"):',
        *(f"    {line}" for line in (fetch if repository else tell)),
    )
    metadata = {"tags": ["remove-cell", SETUP]}
    return nbformat.v4.new_code_cell("\n".join(lines), id=SETUP, metadata=metadata)


def check_cell(parameters: str) -> nbformat.NotebookNode:
    """Return the cell that checks what papermill put behind a cell of parameters."""
    names = [line.targets[0].id for line in ast.parse(parameters).body]
    given = ", ".join(("globals()", *(f'"{name}"' for name in names)))
    source = f"from dpstudy.page.parameters import check\n\ncheck({given})"
    return nbformat.v4.new_code_cell(source, id=CHECK, metadata={"tags": ["remove-cell", CHECK]})


def repository() -> str:
    """Return the repository's address, empty until it has one."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    return config["sphinx"]["config"]["html_theme_options"]["repository_url"].rstrip("/")


def filled(script: Path) -> nbformat.NotebookNode:
    """Return the notebook of a script, with the numbers of its sentences filled in.

    Raises:
        AssertionError: a sentence does not mean what is stored.
    """
    notebook, known = jupytext.read(script), {}
    cells, notebook.cells = notebook.cells, []
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if FACTS in tags:
            exec(compile(cell.source, f"{script.name}, facts", "exec"), known)
            continue
        if cell.cell_type == "markdown":
            cell.source = as_links(
                re.sub(
                    r"\{\{ (.+?) \}\}",
                    lambda found: _value(found[1], known),
                    cell.source,
                    flags=re.S,
                )
            )
        notebook.cells.append(cell)
        if "parameters" in tags:
            notebook.cells.append(check_cell(cell.source))
    notebook.cells.insert(0, setup_cell(repository()))
    return notebook


def _value(expression: str, known: dict[str, Any]) -> str:
    return str(eval(f"({expression})", known))


def refresh(script: Path) -> None:
    """Write the notebook beside `script`, executing it if it has cells to compare."""
    notebook = filled(script)
    own = (cell for cell in notebook.cells if cell["id"] not in (SETUP, CHECK))
    for number, cell in enumerate(own):
        # Random ids would change in every diff.
        cell["id"] = f"cell-{number:02d}"
    checked = [cell for cell in notebook.cells if CHECKED in cell.metadata.get("tags", [])]
    if checked:
        # One text of what a cell prints, however quickly it does: or diffs would show the load.
        NotebookClient(
            notebook,
            timeout=600,
            coalesce_streams=True,
            resources={"metadata": {"path": script.parent}},
        ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            if cell not in checked:
                cell.outputs, cell.execution_count = [], None
            else:
                cell.execution_count = 1
                for output in cell.outputs:
                    if "execution_count" in output:
                        output["execution_count"] = 1
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name))
