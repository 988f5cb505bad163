"""What a reader gives a notebook through papermill: one line where it will not do, at once."""

import os
import re

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from papermill.exceptions import PapermillExecutionError
from test_book import CHAPTERS, ROOT, TOOL

from dpstudy.errors import UserError
from dpstudy.lab.experiment import Experiment
from dpstudy.page.parameters import FORMS, check

GIVEN = {"profile": "smoke", "dataset": "mnist", "seeds": 2, "T": 4.0, "gamma": 0, "power": 0.5}
SEEDS = "seeds must be a whole number from 1 to 1000, got "
T = "T must be a number above 0, at most 1e6, got "
PROFILE = "profile must be one of: stored, smoke, full, got "
DATASET = "dataset must be None or one of: mnist, fashion-mnist, cifar-10, mnist-5k, got "


@pytest.mark.parametrize(
    "name, value",
    [
        *(("seeds", None), ("seeds", 1), ("seeds", 1000), ("T", 3), ("T", 0.25)),
        *(("dataset", None), ("dataset", "cifar-10"), ("profile", "stored")),
        *(("gamma", 0), ("gamma", 2.5), ("power", 0), ("power", 1)),
    ],
)
def test_what_will_do_passes(name, value):
    check(GIVEN | {name: value}, *GIVEN)


@pytest.mark.parametrize(
    "name, value, said",
    [
        *(("seeds", value, SEEDS) for value in (2.5, 2.0, "3", [1, 2], 0, -1, 10**9, True, {})),
        *(("T", value, T) for value in ("4,5", 0, -1, 1e300, float("nan"), None, [4.0])),
        *(("gamma", value, "gamma must be a number from 0 to 1000, got ") for value in (-1, "5")),
        *(("power", value, "power must be a number from 0 to 1, got ") for value in (1.5, -0.1)),
        *(("profile", value, PROFILE) for value in ("smoky", None, 1, ["smoke"])),
        *(("dataset", value, DATASET) for value in ("MNIST", 1, ["mnist"], "")),
    ],
)
def test_what_will_not_is_named_in_one_line(name, value, said):
    with pytest.raises(UserError) as raised:
        check(GIVEN | {name: value}, *GIVEN)
    assert str(raised.value) == f"{said}{value!r}"


@pytest.mark.parametrize("seeds", [2.5, "3", 0, 10**9])
def test_an_experiment_asks_the_same(seeds):
    with pytest.raises(UserError, match=SEEDS):
        Experiment("none", "No runs", {}, {}).runs(seeds=seeds)


@pytest.mark.parametrize(
    "name, said", [("sedes", "the nearest is 'seeds'"), ("x", "one of: profile, seeds")]
)
def test_a_parameter_that_there_is_none_of_is_refused(name, said):
    papermill_s = f"# Parameters\n{name} = 1\n"
    with pytest.raises(UserError, match=f"no parameter '{name}'; {said}"):
        check(GIVEN | {"In": ["", papermill_s, "check(globals())"]}, "profile", "seeds")


def test_later_what_else_a_notebook_defines_is_nobody_s_mistake():
    check(GIVEN | {"In": ["", "# Parameters\nsedes = 1\n", "x = 1", "check()"]}, "seeds")


@pytest.mark.parametrize("page", CHAPTERS)
def test_every_notebook_checks_what_it_has(page):
    cells = [cell for cell in nbformat.read(ROOT / f"{page}.ipynb", 4).cells]
    [at] = [at for at, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", [])]
    assert cells[at + 1] == TOOL["check_cell"](cells[at].source)
    defaults = {}
    exec(cells[at].source, defaults)
    assert set(defaults) & set(FORMS)
    exec(cells[at + 1].source, defaults)


@pytest.mark.parametrize(
    ("profile", "names", "lines"),
    [
        ("smoke", ("profile", "seeds"), 1),
        ("stored", ("profile", "seeds"), 0),
        ("smoke", ("profile",), 0),
    ],
)
def test_the_smoke_profile_says_which_figures_are_of_stored_runs(profile, names, lines, capsys):
    check({"profile": profile, "seeds": None}, *names)
    assert capsys.readouterr().out.count("MNIST-5k; all else is of stored runs.\n") == lines


@pytest.mark.parametrize("page", CHAPTERS)
def test_papermill_s_help_shows_a_whole_line_for_each_parameter(page):
    inferred = papermill.inspect_notebook(str(ROOT / f"{page}.ipynb"))
    for name, about in inferred.items():
        assert re.match('"stored", |None for |any |the ', about["help"]), (name, about["help"])


TRAINING = """
from pathlib import Path
from results_for_tests import RUN, seeds
from dpstudy.lab import campaign, train
from dpstudy.lab.experiment import Experiment
def made_up(runs, folder, *, report, **options):
    for number in range(200):
        report(campaign.Progress(RUN, 1, 0.5, number, 0, 0, 0, 0))
    return campaign.CampaignOutcome()
campaign.train_missing = made_up
_ = train.train_with_bar(Experiment("tiny", "", {}, {}), seeds(4), "smoke")
"""


@pytest.mark.smoke
def test_a_bar_is_one_line_of_a_notebook_that_is_not_red(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests"))))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(TRAINING)])
    [line] = NotebookClient(notebook, kernel_name="python3").execute().cells[0].outputs
    assert line.output_type == "display_data"
    assert "tiny: 100%" in line.data["text/plain"]


@pytest.mark.smoke
def test_papermill_shows_the_line(tmp_path):
    source = 'profile = "stored"'
    cells = [nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})]
    notebook = nbformat.v4.new_notebook(cells=[*cells, TOOL["check_cell"](source)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "", "language": "python"}
    nbformat.write(notebook, tmp_path / "one.ipynb")
    with pytest.raises(PapermillExecutionError) as raised:
        papermill.execute_notebook(
            tmp_path / "one.ipynb", tmp_path / "out.ipynb", {"profil": 1}, progress_bar=False
        )
    said = str(raised.value).strip().splitlines()
    assert (
        said[-1] == "UserError: this notebook has no parameter 'profil'; the nearest is 'profile'"
    )
    assert len(said) == 3  # a rule, the cell, and the line
