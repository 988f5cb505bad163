"""Make each notebook from its percent script, with outputs only in the cells that nbval compares.

The script is what is written and reviewed; run this (`make notebooks`) after changing one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

CHECKED = "nbval-check-output"


def refresh(script: Path) -> None:
    """Write the notebook beside `script`, executing it if it has cells to compare."""
    notebook = jupytext.read(script)
    for number, cell in enumerate(notebook.cells):
        # Random ids would change in every diff.
        cell["id"] = f"cell-{number:02d}"
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
