"""The built book: every page as a browser without a network shows it.

The book is built first, by `make book`: of the notebooks that nbval ran a moment ago where EXECUTED
names their cache, as in `make test`. DPSTUDY_BOOK may name the folder of one that is built.
"""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright
from test_book import PAGES, ROOT

ALL_PAGES = (*PAGES, "genindex", "search")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
# Each theme at one width: all four take minutes, and colours do not follow from the width.
THEMES = {390: "dark", 1280: "light"}
NARROW, WIDE = THEMES
CONTRAST = ("color-contrast", "link-in-text-block")
# What it finds is moderate, which `serious` leaves out, and it takes a quarter of the time.
REGION = "region"
# Rules that a width decides; the others find no more where less is shown.
OF_WIDTH = ("scrollable-region-focusable", "aria-hidden-focus", "nested-interactive")

# It reads no style sheet by itself: from a file that is an error, and the page would be blamed.
AXE = {"resultTypes": ["violations"], "preload": False}

# The rows of a table are alike; the explorer has hundreds.
FIRST_ROWS = "tbody tr:nth-child(n + 101) { display: none }"

# What sticks out at the right, unless it is in a box that scrolls by itself.
WIDER = """() => {
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
  const boxed = (e) => e !== document.body && (scrolls(e) || boxed(e.parentElement))
  const wide = (e) => e.getBoundingClientRect().right > document.scrollingElement.clientWidth + 1
  return [...document.querySelectorAll("main *")]
    .filter((e) => e.checkVisibility() && wide(e) && !boxed(e)).map((e) => e.outerHTML.slice(0, 99))
}"""

# One element of each style of text that no page before had, its backgrounds and opacities included:
# contrast takes longest, and follows from the style.
ONE_OF_EACH = """(seen) => {
  const behind = new Map()
  const backgrounds = (e) => {
    if (!e) return ""
    if (!behind.has(e)) {
      const {backgroundColor, backgroundImage, opacity} = getComputedStyle(e)
      const own = [backgroundColor, backgroundImage, opacity].join(" ")
      const clear = own === "rgba(0, 0, 0, 0) none 1"
      behind.set(e, backgrounds(e.parentElement) + (clear ? "" : own + ";"))
    }
    return behind.get(e)
  }
  const written = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
  const found = new Map(seen.map((style) => [style, null]))
  for (const e of document.querySelectorAll("body *")) {
    if (!written(e) || !e.checkVisibility()) continue
    const {color, fontSize, fontWeight, textShadow, textDecorationLine} = getComputedStyle(e)
    const around = [textDecorationLine, getComputedStyle(e.parentElement).color, backgrounds(e)]
    const style = [color, fontSize, fontWeight, textShadow, ...around].join("#")
    if (!found.has(style)) found.set(style, e)
  }
  window.oneOfEach = [...found.values()].filter(Boolean)
  return [...found.keys()]
}"""


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """The folder of the book, which the first of all processes builds."""
    if "DPSTUDY_BOOK" in os.environ:
        return Path(os.environ["DPSTUDY_BOOK"]).resolve()
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with open(folder / "book-is-built", "a+") as said:
        fcntl.flock(said, fcntl.LOCK_EX)
        said.seek(0)
        if not said.read():
            done = subprocess.run(["make", "book"], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            said.write(done.stdout)
    return ROOT / "_build/html"


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

    page = browser.new_page(offline=True)
    page.on("requestfailed", lambda request: page.wrong.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))

    def visit(address, width=WIDE):
        page.wrong = []
        resize(page, width)
        page.goto(f"{book.as_uri()}/{address}")
        page.evaluate("async () => { await window.MathJax?.startup?.promise }")
        return page

    return visit


def resize(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=THEMES[width], reduced_motion="reduce")


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", metafunc.cls.pages, indirect=True, scope="class")


@pytest.fixture(scope="class")
def page(visit, request):
    page = visit(f"{request.param}.html")
    page.evaluate(Axe().axe_script)
    page.add_style_tag(content=FIRST_ROWS)
    return page


@pytest.fixture(scope="class", params=THEMES)  # of which pytest takes the last first
def at_width(page, request):
    if request.param != page.viewport_size["width"]:
        resize(page, request.param)
        # A third of a second after a new size the theme has the keyboard reach what scrolls.
        page.wait_for_timeout(400)
    return page


@pytest.fixture(scope="module")
def styles():
    """Those whose contrast was tested on pages before."""
    return []


def empty(link):
    """Whether a link within the book, or one that holds a CSV itself, leads to nothing."""
    scheme, _, path, *_ = urlsplit(link)
    if scheme == "data":
        return not path.partition(",")[2]
    file = Path(unquote(path))
    return scheme == "file" and not (file.is_file() and file.stat().st_size)


def serious(found):
    """What axe says of violations that keep a reader from something."""
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


class OfEachPage:
    """What holds of each of `pages`."""

    def test_it_loads_without_a_network_and_without_an_error(self, page):
        assert page.wrong == []

    def test_formulas_are_typeset(self, page):
        bare = page.locator(".math:not(:has(mjx-container))")
        assert bare.all_text_contents() == []
        # MathJax writes what it cannot read as an error, and a macro that it does not know in red.
        assert page.locator("mjx-merror, mtext[mathcolor=red]").all_text_contents() == []

    def test_nothing_is_wider_than_the_page(self, at_width):
        assert at_width.evaluate(WIDER) == []
        of = "document.scrollingElement"
        assert at_width.evaluate(f"{of}.scrollWidth - {of}.clientWidth") <= 0

    def test_a_number_stays_beside_its_sign(self, page):
        paragraphs = page.locator("main :is(p, li):not(.cell_output *)").all_text_contents()
        assert [text for text in paragraphs if re.search(r"\d %", text)] == []

    def test_images_have_a_text_alternative(self, page):
        images = page.locator("main img").all()
        assert [image for image in images if not (image.get_attribute("alt") or "").strip()] == []

    def test_links_and_downloads_lead_to_content(self, page):
        links = page.eval_on_selector_all("a[href]", "all => all.map((a) => a.href)")
        assert [link for link in links if empty(link)] == []

    def test_it_is_accessible(self, at_width):
        if at_width.viewport_size["width"] == WIDE:
            rules = {"rules": {name: {"enabled": False} for name in (*CONTRAST, REGION)}}
        else:
            rules = {"runOnly": {"type": "rule", "values": OF_WIDTH}}
        assert serious(at_width.evaluate("options => axe.run(options)", AXE | rules)) == []

    def test_its_text_stands_out_from_what_is_behind_it(self, at_width, styles):
        theme = THEMES[at_width.viewport_size["width"]]
        at_width.wait_for_function("of => document.documentElement.dataset.theme === of", arg=theme)
        styles[:] = at_width.evaluate(ONE_OF_EACH, styles)
        if not at_width.evaluate("window.oneOfEach.length"):
            return
        options = AXE | {"runOnly": {"type": "rule", "values": CONTRAST}}
        run = "options => axe.run({include: window.oneOfEach}, options)"
        assert serious(at_width.evaluate(run, options)) == []


class TestEverySecondPage(OfEachPage):
    pages = ALL_PAGES[::2]


class TestThePagesBetween(OfEachPage):
    """In another process, where there are some: all together take minutes."""

    pages = ALL_PAGES[1::2]


@pytest.mark.parametrize("name", ["notebooks/explorer", "notebooks/01_accounting"])
def test_it_loads_on_a_narrow_screen_too(visit, name):
    page = visit(f"{name}.html", NARROW)
    assert page.wrong == [] and page.evaluate(WIDER) == []


@pytest.mark.parametrize("name", ["00_dp_sgd", "07b_search_cost"])
def test_exercises_of_a_page_without_a_number_are_counted_from_1(visit, name):
    page = visit(f"notebooks/{name}.html")
    found = page.locator("div.exercise .caption-number").all_text_contents()
    assert [number.strip() for number in found] == ["Exercise 1", "Exercise 2"]


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
    tables = page.locator("#explorer-tables")
    expect(tables).to_be_hidden()
    page.get_by_role("link", name="The same settings as tables").press("Enter")
    expect(tables).to_be_visible()
