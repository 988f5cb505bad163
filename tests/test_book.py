"""The table of contents, the notebooks and their paired scripts agree."""

import re
import runpy
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import jupytext
import nbformat
import pytest
import yaml

from under_the_clip import claims

ROOT = Path(__file__).parents[1]
RELEASE = (ROOT / ".github/workflows/release.yml").read_text()
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TOOL = runpy.run_path(str(ROOT / "tools/refresh_notebooks.py"))
ROLES = runpy.run_path(str(ROOT / "book/_ext/roles_as_links.py"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"])]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]
KEYS = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE))


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str, list[str]]]:
    """What a pair must share: kind, text and tags of every cell."""
    return [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in notebook.cells]


@cache
def markdown(page: str) -> str:
    """The prose of a page."""
    if page in CHAPTERS:
        notebook = jupytext.read(ROOT / f"{page}.ipynb")
        return ROLES["as_roles"](
            "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        )
    return (ROOT / f"{page}.md").read_text()


def with_repository(address: str) -> SimpleNamespace:
    """What the book's configuration becomes with that address of its repository."""
    config = SimpleNamespace(html_baseurl="", html_theme_options={"repository_url": address})
    runpy.run_path(str(ROOT / "book/_ext/addresses.py"))["buttons"](None, config)
    return config


def test_no_page_names_a_repository_while_none_is_set():
    book = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]
    assert book["html_theme_options"]["repository_url"] == ""
    assert with_repository("") == SimpleNamespace(
        html_baseurl="", html_theme_options={"repository_url": ""}
    )


def test_buttons_and_address_follow_from_the_repository():
    config = with_repository("https://github.com/Someone/study/")
    assert config.html_baseurl == "https://someone.github.io/study/"
    for button in ("use_repository_button", "use_edit_page_button", "use_issues_button"):
        assert config.html_theme_options[button]
    assert config.html_theme_options["launch_buttons"]["colab_url"]


def test_every_page_and_every_notebook_is_in_the_table_of_contents():
    notebooks = {
        f"notebooks/{path.stem}"
        for path in (ROOT / "notebooks").glob("*.ipynb")
        if not path.stem.startswith("out")
    }
    assert notebooks == set(CHAPTERS)
    assert {f"book/{path.stem}" for path in (ROOT / "book").glob("*.md")} == set(PAGES) - notebooks


@pytest.fixture(scope="module")
def claims_judged_once():
    """For all pages: to read all results and to judge all claims takes six seconds."""
    known, judge = {}, claims.judge

    def judged(wanted):
        return known.get(tuple(wanted)) or known.setdefault(tuple(wanted), judge(wanted))

    with mock.patch.object(claims, "judge", judged):
        yield


@pytest.mark.parametrize("page", CHAPTERS)
def test_notebook_and_script_are_one(page, of_the_study, claims_judged_once):
    """Its numbers included, which are read from the stored results once more."""
    notebook, script = jupytext.read(ROOT / f"{page}.ipynb"), TOOL["filled"](ROOT / f"{page}.py")
    assert cells(notebook) == cells(script), "make notebooks"


def test_the_first_cell_does_nothing_where_the_package_is_installed():
    exec(TOOL["setup_cell"]("").source, {})


def test_the_first_cell_says_what_to_do_while_there_are_no_releases(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        exec(TOOL["setup_cell"]("").source, {})


def test_the_first_cell_fetches_what_a_release_has():
    source = TOOL["setup_cell"]("https://github.com/someone/study").source
    release = f"https://github.com/someone/study/releases/download/v{VERSION}"
    assert f"{release}/dpstudy-{VERSION}-py3-none-any.whl" in source
    assert f"{release}/results-{VERSION}.tar.gz" in source
    assert "dist/results-${GITHUB_REF_NAME#v}.tar.gz" in RELEASE


@pytest.mark.parametrize("page", CHAPTERS)
def test_notebook_is_valid_and_papermill_finds_its_profile(page):
    notebook = nbformat.read(ROOT / f"{page}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assert re.search(r"^profile(: str)? = \"stored\"", parameters.source, re.MULTILINE)


@pytest.mark.parametrize("page", CHAPTERS)
def test_no_role_stands_raw_in_a_notebook_opened_elsewhere(page):
    notebook = jupytext.read(ROOT / f"{page}.ipynb")
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert not re.search(r"\{[\w:]+\}`", text), "make notebooks"
    assert ROLES["as_links"](markdown(page)) == text


def test_a_role_is_a_link_elsewhere_and_itself_in_the_book():
    text = "{term}`σ <noise multiplier>` {term}`PLD` {cite:t}`tramer2022debugging` "
    text += "{cite}`abadi2016deep` {doc}`../book/engine` {doc}`DP-SGD <00_dp_sgd>` "
    text += "{doc}`00_dp_sgd` {prf:ref}`the bound <clipping-bias>` {prf:ref}`clipping-bias`"
    assert ROLES["as_links"](text) == (
        "[σ](../book/glossary.md 'term noise multiplier') [PLD](../book/glossary.md 'term PLD') "
        "[Tramèr et al. (2022)](../book/bibliography.md 'cite:t tramer2022debugging') "
        "[(Abadi et al., 2016)](../book/bibliography.md 'cite abadi2016deep') "
        "[Use the engine](../book/engine.md 'doc ../book/engine') "
        "[DP-SGD](00_dp_sgd.ipynb 'doc 00_dp_sgd') "
        "[DP-SGD in twelve lines](00_dp_sgd.ipynb 'doc 00_dp_sgd') "
        "[the bound](06_theorems.ipynb 'prf:ref clipping-bias') "
        "[Proposition clipping-bias](06_theorems.ipynb 'prf:ref clipping-bias')"
    )
    assert ROLES["as_roles"](ROLES["as_links"](text)) == text


EXERCISES = [page for page in CHAPTERS if ":::{exercise}" in markdown(page)]


def test_the_chapters_have_exercises():
    numbered = {page for page in CHAPTERS if re.match(r"notebooks/0\d", page)}
    assert set(EXERCISES) == numbered


@pytest.mark.parametrize("page", EXERCISES)
def test_each_exercise_has_a_solution_with_code_that_is_compared(page):
    cells = jupytext.read(ROOT / f"{page}.ipynb").cells
    asked = re.findall(r":::\{exercise\}.*\n:label: (\S+)", markdown(page))
    solved = []
    for before, cell in pairwise(cells):
        if found := re.search(r":::\{solution-start\} (\S+)\n:class: dropdown", before.source):
            assert "nbval-check-output" in cell.metadata.get("tags", [])
            assert any(output.get("text", "").strip() for output in cell.outputs)
            solved.append(found[1])
    assert len(asked) >= 2
    assert asked == solved


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_is_lost_as_a_comment(page):
    """MyST drops a line that begins with a percent sign, as one does that is broken before it."""
    assert not re.findall(r"^\s*%.*", markdown(page), re.M)


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_folded_output_says_what_it_holds(page):
    for cell in jupytext.read(ROOT / f"{page}.ipynb").cells:
        if "hide-output" in cell.metadata.get("tags", []):
            assert cell.metadata.get("mystnb", {}).get("code_prompt_show"), cell.source


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_links_of_the_repository_lead_somewhere(page):
    """Those of the book's pages, its citations and references are asked of Sphinx."""
    links = re.findall(r"\]\((?!https?://)([^)\s#]+)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
