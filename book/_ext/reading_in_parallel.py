"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

Where a process can be forked, kernels are forks of one that has imported what they need.

Three extensions in the list do not say whether that is safe for them. One numbers sections
once all pages are read, one copies MathJax when all is written, one works for LaTeX alone. And a
domain, that of numbered propositions, does not say how to merge its data: it has none.
"""

from contextlib import ExitStack

import jupyter_client
from forked_kernels import Forked, warm
from sphinx.application import Sphinx
from sphinx_proof.domain import ProofDomain

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")


class Manager(Forked, jupyter_client.AsyncKernelManager):
    """Has the kernels of pages forked."""


def _warm(app: Sphinx) -> None:
    """Start the process that kernels are forked from, if any run; it ends when Sphinx does."""
    if app.config.nb_execution_mode not in ("off", "cache"):
        running = ExitStack()
        running.enter_context(warm())
        app.connect("build-finished", lambda app, exception: running.close())


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for them."""
    for name in SILENT:
        app.setup_extension(name)
        app.extensions[name].parallel_read_safe = True
    ProofDomain.merge_domaindata = lambda *_: None
    jupyter_client.AsyncKernelManager = Manager
    app.connect("builder-inited", _warm)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
