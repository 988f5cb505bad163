"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

Three extensions in the list do not say whether that is safe for them. One numbers sections
once all pages are read, one copies MathJax when all is written, one works for LaTeX alone.
"""

from sphinx.application import Sphinx

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for them."""
    for name in SILENT:
        app.setup_extension(name)
        app.extensions[name].parallel_read_safe = True
    return {"parallel_read_safe": True, "parallel_write_safe": True}
