"""The book on paper: every page of it, with names and links that stay apart and lead somewhere."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("print_book", ROOT / "tools/print_book.py")
print_book = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(print_book)

KNOWN = {"notebooks/one", "book/two"}
PAGE = """
<article class="bd-article"><section id="to-do">
<h1>One<a class="headerlink" href="#to-do">#</a></h1>
<details class="hide"><summary>Show</summary><p>a fold</p></details>
<details><summary>MNIST</summary></details>
<details class="measured"><summary>What was measured</summary></details>
<a href="#to-do">here</a> <a href="../book/two.html#to-do">there</a> <a href="https://a.org">far</a>
<figure id="explorer"><script>draw()</script></figure>
</section></article>
"""


@pytest.fixture
def article(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/one.html").write_text(PAGE)
    return print_book.article(tmp_path, "notebooks/one", KNOWN)


def test_every_page_is_printed_in_the_order_of_the_contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    pages = [page for _, of in print_book.parts() for page in of]
    listed = [page["file"] for part in toc["parts"] for page in part["chapters"]]
    assert pages == [toc["root"], *listed]


def test_names_and_links_are_those_of_the_joined_book(article):
    assert article["id"] == "notebooks/one"
    assert article.section["id"] == "notebooks/one/to-do"
    assert [link["href"] for link in article.select("a")] == [
        "#notebooks/one/to-do",
        "#book/two/to-do",
        "https://a.org",
    ]
    assert print_book.moved("../book/two.html", "notebooks/one", KNOWN) == "#book/two"


def test_folds_are_open_and_what_paper_cannot_do_is_left_out(article):
    text = article.get_text()
    assert "a fold" in text and "MNIST" in text and print_book.EXPLORER in text
    assert not article.select("details, script, summary")
    for gone in ("Show", "What was measured", "draw", "#"):
        assert gone not in text


def test_a_section_has_a_line_in_the_contents(article):
    assert list(print_book.contents([("Chapters", [article])])) == [
        "<p>Chapters</p>",
        '<a class="h1" href="#notebooks/one/to-do"><span>One</span>'
        '<span class="number" data-to="notebooks/one/to-do"></span></a>',
    ]


def test_what_is_missing_without_a_browser_is_said():
    done = subprocess.run(
        ["make", "-s", "chromium", "CHROMIUM="], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "Chromium" in done.stderr
