"""Roles of notebooks: links where these are opened elsewhere, and themselves in the book.

The title of a link has the role and its target, so that the book finds both again.
"""

import re
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
ROLE = re.compile(r"\{(term|cite|cite:t|doc|prf:ref)\}`([^`<]+?)(?:\s+<([^`]+)>)?`")
LINK = re.compile(r"\[([^]\[]+)\]\([\w./]+ '(term|cite|cite:t|doc|prf:ref) ([^']+)'\)")


@cache
def _bibliography() -> dict:
    from pybtex.database import parse_file

    return parse_file(str(ROOT / "book/references.bib")).entries


def _cited(key: str) -> tuple[str, str]:
    entry = _bibliography()[key]
    names = [" ".join(map(str, person.rich_last_names)) for person in entry.persons["author"]]
    named = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return named, entry.fields["year"]


@cache
def _page(target: str) -> tuple[str, str]:
    """Return the file of a page, by its name as a notebook has it, and its title."""
    script = ROOT / "notebooks" / f"{target}.py"
    if script.exists():
        return f"{target}.ipynb", re.search(r"^# # (.+)", script.read_text(), re.M)[1]
    text = script.with_suffix(".md").read_text()
    return f"{target}.md", re.search(r"^# (.+)", text, re.M)[1]


def _link(role: str, target: str) -> tuple[str, str]:
    """Return where a role points, and what it shows by itself."""
    match role:
        case "term":
            return "../book/glossary.md", target
        case "cite":
            cited = "; ".join(", ".join(_cited(key)) for key in target.split(","))
            return "../book/bibliography.md", f"({cited})"
        case "cite:t":
            return "../book/bibliography.md", "{} ({})".format(*_cited(target))
        case "doc":
            return _page(target)
        case _:
            return "06_theorems.ipynb", f"Proposition {target}"


def as_links(text: str) -> str:
    """Write roles as links."""

    def link(found: re.Match) -> str:
        role, target = found[1], found[3] or found[2]
        place, shown = _link(role, target)
        return f"[{found[2] if found[3] else shown}]({place} '{role} {target}')"

    return ROLE.sub(link, text)


def as_roles(text: str) -> str:
    """Write such links as roles again."""

    def role(found: re.Match) -> str:
        shown, name, target = found.groups()
        own = shown == _link(name, target)[1]
        return f"{{{name}}}`{target if own else f'{shown} <{target}>'}`"

    return LINK.sub(role, text)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Have the book read roles."""
    source[0] = as_roles(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
