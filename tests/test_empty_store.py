"""Every page with nothing stored: what is not there is said, and nothing ends in a trace."""

import ast

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from test_book import CHAPTERS, ROOT
from test_figures import measured

from dpstudy.lab import readings, store, train


def prepare(experiment, profile, *, dataset=None, seeds=None):
    """As `train.prepare`, with made-up results in place of training."""
    if profile == "smoke":
        for run in experiment.runs("smoke"):
            store.write(store.runs_folder("smoke"), measured(run, 0.9))
    return readings.read(experiment, "smoke" if profile == "smoke" else "full", dataset, seeds)


@pytest.mark.faults
@pytest.mark.parametrize("page", CHAPTERS)
def test_a_page_goes_to_its_end(results, monkeypatch, page):
    monkeypatch.setattr(train, "prepare", prepare)
    monkeypatch.chdir(ROOT / "notebooks")
    namespace, shown = {"__name__": "__main__"}, DisplayFormatter()
    for cell in nbformat.read(ROOT / f"{page}.ipynb", 4).cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or "setup" in tags:
            continue
        if "parameters" in tags:
            cell.source += '\nprofile = "smoke"'
        *lines, last = ast.parse(cell.source).body
        exec(compile(ast.Module(lines, []), cell.id, "exec"), namespace)
        if isinstance(last, ast.Expr):
            shown.format(eval(ast.unparse(last), namespace))
        else:
            exec(compile(ast.Module([last], []), cell.id, "exec"), namespace)
