"""What a screen reader is told of two lists that it would not know as such.

Sphinx writes a long signature as a list of definitions without terms, and docutils an entry of the
bibliography with a role that is no longer used.
"""

import re

from sphinx.application import Sphinx

PARAMETERS = re.compile(r"<dl>\n((?:<dd><em.*</dd>\n)+)</dl>")


def lists(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Have both be lists, of items."""
    body = context.get("body", "").replace('role="doc-biblioentry"', 'role="listitem"')
    context["body"] = PARAMETERS.sub(_listed, body)


def _listed(parameters: re.Match) -> str:
    items = parameters[1].replace("<dd>", '<div role="listitem">').replace("</dd>", "</div>")
    return f'<div role="list">\n{items}</div>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.connect("html-page-context", lists)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
