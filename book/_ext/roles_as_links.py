"""Terms and citations of notebooks: links where these are opened elsewhere, roles in the book.

The title of a link has the role and its target, so that the book finds both again.
"""

import re
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

PAGES = {"term": "../book/glossary.md", "cite": "../book/bibliography.md"}
ROLE = re.compile(r"\{(term|cite(?::t)?)\}`([^`<]+?)(?:\s+<([^`]+)>)?`")
LINK = re.compile(r"\[([^]\[]+)\]\(\.\./book/\w+\.md '(term|cite(?::t)?) ([^']+)'\)")


@cache
def _cited(key: str) -> tuple[str, str]:
    from pybtex.database import parse_file

    entry = parse_file(str(Path(__file__).parents[1] / "references.bib")).entries[key]
    names = [" ".join(map(str, person.rich_last_names)) for person in entry.persons["author"]]
    named = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return named, entry.fields["year"]


def as_links(text: str) -> str:
    """Write roles as links."""

    def link(found: re.Match) -> str:
        role, shown, target = found[1], found[2], found[3] or found[2]
        if role == "cite":
            shown = f"({'; '.join(', '.join(_cited(key)) for key in target.split(','))})"
        elif role == "cite:t":
            shown = "{} ({})".format(*_cited(target))
        return f"[{shown}]({PAGES[role[:4]]} '{role} {target}')"

    return ROLE.sub(link, text)


def as_roles(text: str) -> str:
    """Write such links as roles again."""

    def role(found: re.Match) -> str:
        shown, name, target = found.groups()
        plain = name != "term" or shown == target
        return f"{{{name}}}`{target if plain else f'{shown} <{target}>'}`"

    return LINK.sub(role, text)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Have the book read roles."""
    source[0] = as_roles(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
