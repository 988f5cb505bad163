"""The built book: what its notebooks print, and every page as a browser without a network shows it.

The book is built first, by `make book`, which runs every notebook. DPSTUDY_BOOK may name the folder
of one that is built.
"""

import html
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jupytext
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from test_book import CHAPTERS, PAGES, ROOT, TOOL

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
# Each theme at one width: all four take minutes, and colours do not follow from the width.
THEMES = {1280: "light", 390: "dark"}
WIDTHS = tuple(THEMES)
CHECKED = TOOL["CHECKED"]

# What sticks out at the right, unless it is in a box that scrolls by itself.
WIDER = """() => {
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
  const boxed = (e) => e !== document.body && (scrolls(e) || boxed(e.parentElement))
  const wide = (e) => e.getBoundingClientRect().right > document.scrollingElement.clientWidth + 1
  return [...document.querySelectorAll("main *")]
    .filter((e) => e.checkVisibility() && wide(e) && !boxed(e)).map((e) => e.outerHTML.slice(0, 99))
}"""


@pytest.fixture(scope="module")
def book():
    if "DPSTUDY_BOOK" in os.environ:
        return Path(os.environ["DPSTUDY_BOOK"]).resolve()
    built = subprocess.run(["make", "book"], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "_build/html"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_checked_cell_prints_what_its_notebook_holds(book, chapter):
    # A kernel sends what is printed in pieces, and where they meet the page has another line end.
    text = html.unescape(re.sub("<[^>]+>", "", (book / f"{chapter}.html").read_text()))
    page = " ".join(text.split())
    printed = 0
    for cell in jupytext.read(ROOT / f"{chapter}.ipynb").cells:
        if CHECKED in cell.metadata.get("tags", []):
            held = " ".join("".join(output.text for output in cell.outputs).split())
            assert held
            assert held in page[printed:]
            printed = page.index(held, printed) + len(held)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visit(book, browser):
    """Open an address of the book at that width; the page has a list of what went wrong."""

    def visit(address, width=WIDTHS[0]):
        page = browser.new_page(viewport={"width": width, "height": 900}, offline=True)
        page.wrong = []
        page.on("requestfailed", lambda request: page.wrong.append(request.url))
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))
        page.goto(f"{book.as_uri()}/{address}")
        page.evaluate("async () => { await window.MathJax?.startup?.promise }")
        return page

    return visit


@pytest.fixture(
    scope="module",
    params=product([*PAGES, "genindex", "search"], WIDTHS),
    ids=lambda of: f"{of[0]}-{of[1]}",
)
def page(visit, request):
    name, width = request.param
    page = visit(f"{name}.html", width)
    yield page
    page.close()


def test_it_loads_without_a_network_and_without_an_error(page):
    assert page.wrong == []


def test_formulas_are_typeset(page):
    bare = page.locator(".math:not(:has(mjx-container))")
    assert bare.all_text_contents() == []
    # MathJax writes what it cannot read as an error, and a macro that it does not know in red.
    assert page.locator("mjx-merror, mtext[mathcolor=red]").all_text_contents() == []


def test_nothing_is_wider_than_the_page(page):
    assert page.evaluate(WIDER) == []
    of = "document.scrollingElement"
    assert page.evaluate(f"{of}.scrollWidth - {of}.clientWidth") <= 0


def test_images_have_a_text_alternative(page):
    images = page.locator("main img").all()
    assert [image for image in images if not (image.get_attribute("alt") or "").strip()] == []


def empty(link):
    """Whether a link within the book, or one that holds a CSV itself, leads to nothing."""
    scheme, _, path, *_ = urlsplit(link)
    if scheme == "data":
        return not path.partition(",")[2]
    file = Path(unquote(path))
    return scheme == "file" and not (file.is_file() and file.stat().st_size)


def test_links_and_downloads_lead_to_content(page):
    links = page.eval_on_selector_all("a[href]", "all => all.map((a) => a.href)")
    assert [link for link in links if empty(link)] == []


def test_it_is_accessible(page):
    theme = THEMES[page.viewport_size["width"]]
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.wait_for_function("of => document.documentElement.dataset.theme === of", arg=theme)
    found = Axe().run(page).response["violations"]
    serious = [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    assert serious == []


def test_search_finds_a_word(visit):
    page = visit("search.html?q=sensitivity")
    page.locator("#search-results li a").first.wait_for()


def test_the_explorer_answers_to_the_keyboard(visit):
    page = visit("notebooks/explorer.html")
    best = page.locator("#explorer-chart text", has_text="best:")
    before = best.text_content()
    page.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    expect(best).not_to_have_text(before)
