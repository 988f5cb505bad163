"""Make each notebook from its percent script, with outputs only in the cells that a test compares.

The script is what is written and reviewed. A first cell, of the notebook alone, fetches the package
where it is not installed, as in Colab. Run this (`make notebooks`) after changing a script, the
version, or the repository's address.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
CHECKED = "check-output"
SETUP = "setup"


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


def repository() -> str:
    """Return the repository's address, empty until it has one."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    return config["sphinx"]["config"]["html_theme_options"]["repository_url"].rstrip("/")


def without_setup(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the cells that a notebook shares with its script."""
    return [cell for cell in notebook.cells if SETUP not in cell.metadata.get("tags", [])]


def refresh(script: Path) -> None:
    """Write the notebook beside `script`, executing it if it has cells to compare."""
    notebook = jupytext.read(script)
    notebook.cells = without_setup(notebook)
    for number, cell in enumerate(notebook.cells):
        # Random ids would change in every diff.
        cell["id"] = f"cell-{number:02d}"
    notebook.cells.insert(0, setup_cell(repository()))
    checked = [cell for cell in notebook.cells if CHECKED in cell.metadata.get("tags", [])]
    if checked:
        NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": script.parent}}
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
