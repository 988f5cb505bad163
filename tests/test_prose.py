"""Pages are written to be read to the end: few numbers, short paragraphs, the subject first."""

from __future__ import annotations

import re
from functools import cache

import jupytext
import pytest
from test_book import CHAPTERS, PAGES, ROLES, ROOT, markdown

from dpstudy.lab.comparison import Estimate
from under_the_clip.sentences import LEVEL, standing

READ = [page for page in PAGES if not page.startswith("book/reference") and "bibli" not in page]
OPENED_BY = {
    *("of", "in", "on", "at", "by", "with", "without", "for", "from", "to", "as", "over", "under"),
    *("within", "beside", "between", "among", "against", "along", "around", "beyond", "during"),
    *("through", "until", "since", "where", "after", "before"),
}
# Of these a number is a name.
NAMED = r"(?:Figure|Table|Section|Eq|Appendix|Chapter|Theorem|Proposition|seed|Algorithm)s?\.?\s+"
NOT_READ = (
    r"(?s)\A---\n.*?\n---\n",
    r"(?ms)^## Exercises.*",
    r"(?ms)^:::+\{(?:dropdown|exercise|solution).*?^:::+$",  # folded, or not prose
    r"(?s)```.*?```",
    r"(?m)^\s*\|.*$",  # a table's row
    r"(?m)^:{3,}.*$|^:\w[\w-]*:.*$|^\(.*\)=$",
    r"(?s)\$\$.*?\$\$",
)
SHOWN_AS = (
    (r"\{cite(?::\w)?\}`[^`]*`", ""),
    (r"\{[\w:]+\}`([^`<]*)(?:<[^>]*>)?`", r"\1"),
    (r"\$[^$]*\$|`[^`]*`", "x"),
    (r"\[([^\]]*)\]\([^)]*\)", r"\1"),
)


@cache
def prose(page: str) -> str:
    """Return what a reader of a page reads, without code, tables, exercises and what is folded."""
    text = markdown(page)
    for pattern in NOT_READ:
        text = re.sub(pattern, "", text)
    for pattern, shown in SHOWN_AS:
        text = re.sub(pattern, shown, text)
    return text


def paragraphs(text: str) -> list[str]:
    """Return paragraphs and items of lists, without headings."""
    found = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|(?m:^#+ .*$)", text)
    return [" ".join(one.split()) for one in found if one.strip()]


def sentences(text: str) -> list[str]:
    """Return the sentences of all paragraphs."""
    return [
        sentence
        for paragraph in paragraphs(text)
        for sentence in re.split(r"(?<=[.?!:])[*\"”)]*\s+(?=[A-Z\"“*(])", paragraph)
    ]


def numbers(text: str) -> list[str]:
    """Return the numbers in a text, but for those of figures and sections."""
    text = re.sub(rf"{NAMED}(?:[\d.]+(?:[a-d]\b)?(?:,|\s|to|and|or)*)+|CIFAR-10", "", text)
    return re.findall(r"(?<![\w-])[-−+]?\d[\d,.]*", text)


def words(text: str) -> int:
    """Count the words of a text."""
    return len(re.findall(r"[\w'’-]+", text))


def opens_with_a_preposition(sentence: str) -> bool:
    """Return whether a sentence's subject has to wait."""
    first = re.match(r"\W*(\w+)", sentence)
    return first is not None and first[1].lower() in OPENED_BY


@pytest.mark.parametrize("page", READ)
def test_a_page_is_written_to_be_read(page):
    text = prose(page)
    long = [one for one in paragraphs(text) if words(one) > 80]
    crowded = [one for one in sentences(text) if len(numbers(one)) > 3]
    assert (long, crowded) == ([], [])
    assert len(numbers(text)) <= 0.04 * words(text)
    all_of_them = [one for one in sentences(text) if "In short" not in one]
    waiting = [one for one in all_of_them if opens_with_a_preposition(one)]
    assert len(waiting) <= len(all_of_them) / 5, waiting
    assert page not in CHAPTERS or words(text) <= 1300, words(text)
    short = in_short(page)
    assert words(short) <= 90, words(short)
    assert len(numbers(short)) <= 6
    assert len(re.findall(r"(?m)^- ", short)) <= 4


def in_short(page: str) -> str:
    """Return a page's answer, from "In short" to the first figure; empty where it has none."""
    if page not in CHAPTERS:
        return ""
    cells = jupytext.read(ROOT / f"{page}.ipynb").cells
    texts = [ROLES["as_roles"](cell.source) for cell in cells]
    return next((text.partition("In short")[2] for text in texts if "**In short" in text), "")


def test_how_to_read_defines_the_words_for_a_gain_as_they_are_computed():
    told = " ".join((ROOT / "book/how_to_read.md").read_text().split())
    assert f"no further than {100 * LEVEL:g} points to either side" in told
    meant = {
        "ahead : The whole interval is above zero. The other method is *behind*.": (1e-6, 1),
        "level : The interval includes zero, and reaches no further than": (-LEVEL, LEVEL),
        "too close to call : The interval includes zero and reaches further": (0, LEVEL + 1e-6),
    }
    for said, (low, high) in meant.items():
        assert said in told
        assert standing(Estimate(0, low, high, "")) == said.partition(" :")[0]
    assert standing(Estimate(0, -1, -1e-6, "")) == "behind"
    assert standing(Estimate(0, -LEVEL - 1e-6, 0, "")) == "too close to call"
