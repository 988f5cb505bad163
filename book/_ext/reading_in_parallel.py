"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

One extension in the book's list does not say whether that is safe for it. It numbers sections once
all pages are read, and is.
"""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for it."""
    app.setup_extension("sphinx_multitoc_numbering")
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True
    return {"parallel_read_safe": True, "parallel_write_safe": True}
