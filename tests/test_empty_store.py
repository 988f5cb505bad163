"""Every page with nothing stored: what is not there is said, and nothing ends in a trace."""

import ast

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from results_for_tests import result_of
from test_book import CHAPTERS, ROOT
from test_figures import measured

from dpstudy.lab import readings, store, train
from dpstudy.lab.store import with_epsilon
from dpstudy.lab.variant import Variant
from dpstudy.page import results as results_page
from dpstudy.page.figure import Note
from dpstudy.page.panels import leads
from dpstudy.parts.run import Run, vary


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


def test_gains_of_which_none_or_only_published_ones_are_there_are_a_note():
    for rows in ([], [{"dataset": "mnist", "comparison": "published", "points": 0.01}]):
        assert isinstance(results_page.gains_table(rows, "none-yet"), Note)


def test_leads_of_two_seeds_have_no_interval_and_are_drawn():
    run = vary(Run(), epochs=4)
    found = [
        (label, with_epsilon(result_of(run.at_seed(seed), accuracy=0.8 + seed / 100 + more)))
        for label, more in (("first", 0), ("second", 0.05))
        for seed in range(2)
    ]
    reading = readings.Reading(None, "full", "mnist", found, [], [])
    pair = Variant(reading, "first"), Variant(reading, "second")
    figure = leads({"mnist": pair}, name="leads", caption="Leads.")
    assert figure.data.points.iloc[-1] == pytest.approx(5)
    assert figure.data.low.isna().all()
