"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

Where a process can be forked, kernels are forks of one that has imported what they need; so are
those that read pages, and in the end those that link what a page's code names to the reference.

Three extensions in the list do not say whether that is safe for them. One numbers sections
once all pages are read, one copies MathJax when all is written, one works for LaTeX alone. And a
domain, that of numbered propositions, does not say how to merge its data: it has none.
"""

from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

import jupyter_client
from forked_kernels import Forked, warm
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.parallel import ParallelTasks, parallel_available
from sphinx_codeautolink import extension as links
from sphinx_proof.domain import ProofDomain
from warm_kernels import NEEDED

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")


class Manager(Forked, jupyter_client.AsyncKernelManager):
    """Has the kernels of pages forked."""


def _warm(app: Sphinx) -> None:
    """Start the process that kernels are forked from, if any run; it ends when Sphinx does."""
    if app.config.nb_execution_mode not in ("off", "cache"):
        running = ExitStack()
        running.enter_context(warm())
        app.connect("build-finished", lambda app, exception: running.close())


def _import(app: Sphinx) -> None:
    """Import what pages document and name, before those who read them are forked."""
    if parallel_available and app.parallel > 1:
        for name in NEEDED:
            import_module(name)


def _link(app: Sphinx) -> None:
    """Have pages linked by several processes, too: the extension takes one after the other."""
    if not parallel_available or app.parallel == 1:
        return
    pages, link, left = ParallelTasks(app.parallel), links.link_html, []

    def begin(page: str, *how: Any, **further: Any) -> None:
        left.append(page)
        pages.add_task(partial(link, page, *how, **further), None, lambda *_: left.remove(page))

    def end(app: Sphinx, exception: Exception | None) -> None:
        pages.join()
        if left:  # The first error in a process is lost with it.
            raise ExtensionError(f"not linked: {', '.join(left)}")

    links.link_html = begin
    app.connect("build-finished", end, priority=900)


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for them."""
    for name in SILENT:
        app.setup_extension(name)
        app.extensions[name].parallel_read_safe = True
    ProofDomain.merge_domaindata = lambda *_: None
    jupyter_client.AsyncKernelManager = Manager
    for begin in (_warm, _import, _link):
        app.connect("builder-inited", begin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
