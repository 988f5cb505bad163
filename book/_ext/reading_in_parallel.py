"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

Three extensions in the list do not say whether that is safe for them. One numbers sections
once all pages are read, one copies MathJax when all is written, one works for LaTeX alone. And a
domain, that of numbered propositions, does not say how to merge its data: it has none.
"""

import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import jupyter_client
from sphinx.application import Sphinx
from sphinx_proof.domain import ProofDomain

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")


class ThroughFiles(jupyter_client.AsyncKernelManager):
    """Talks to its kernel through files: kernels that start at once may be given one TCP port."""

    def __init__(self, **settings: Any) -> None:
        """Name the files' beginning: by default it is relative, and a kernel runs elsewhere."""
        beginning = Path(tempfile.gettempdir()) / f"kernel-{uuid4().hex[:8]}"
        super().__init__(transport="ipc", ip=str(beginning), **settings)


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for them."""
    for name in SILENT:
        app.setup_extension(name)
        app.extensions[name].parallel_read_safe = True
    ProofDomain.merge_domaindata = lambda *_: None
    jupyter_client.AsyncKernelManager = ThroughFiles
    return {"parallel_read_safe": True, "parallel_write_safe": True}
