"""Have Sphinx read several pages at once: most of the time goes into notebooks that run.

Where a process can be forked, kernels are forks of one that has imported what they need.

Three extensions in the list do not say whether that is safe for them. One numbers sections
once all pages are read, one copies MathJax when all is written, one works for LaTeX alone. And a
domain, that of numbered propositions, does not say how to merge its data: it has none.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import jupyter_client
from sphinx.application import Sphinx
from sphinx_proof.domain import ProofDomain

WARM = Path(__file__).parent / "warm_kernels.py"
PATIENCE = 120  # seconds
SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")


class ThroughFiles(jupyter_client.AsyncKernelManager):
    """Talks to its kernel through files: kernels that start at once may be given one TCP port."""

    def __init__(self, **settings: Any) -> None:
        """Name the files' beginning: by default it is relative, and a kernel runs elsewhere."""
        beginning = Path(tempfile.gettempdir()) / f"kernel-{uuid4().hex[:8]}"
        super().__init__(transport="ipc", ip=str(beginning), **settings)


class Forked(ThroughFiles):
    """Has its kernel forked, as `warm_kernels` does, as soon as that is ready."""

    address: Path

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """Return the command that asks for a fork; that of a fresh kernel if none comes."""
        latest = time.monotonic() + PATIENCE
        while not self.address.exists():
            if time.monotonic() > latest:
                return super().format_kernel_cmd(extra_arguments)
            time.sleep(0.1)
        relay = [str(WARM), "relay", str(self.address), str(Path(self.connection_file).resolve())]
        # Without site-packages it starts in no time.
        return [sys.executable, "-I", "-S", *relay]


def _warm(app: Sphinx) -> None:
    """Start the process that kernels are forked from; it ends when Sphinx does."""
    if app.config.nb_execution_mode == "off" or not hasattr(os, "fork"):
        return
    Forked.address = Path(tempfile.mkdtemp(prefix="kernels-")) / "socket"
    command = [sys.executable, str(WARM), "serve", str(Forked.address)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    jupyter_client.AsyncKernelManager = Forked

    def end(app: Sphinx, exception: Exception | None) -> None:
        process.stdin.close()
        process.wait()

    app.connect("build-finished", end)


def setup(app: Sphinx) -> dict[str, bool]:
    """Say so for them."""
    for name in SILENT:
        app.setup_extension(name)
        app.extensions[name].parallel_read_safe = True
    ProofDomain.merge_domaindata = lambda *_: None
    jupyter_client.AsyncKernelManager = ThroughFiles
    app.connect("builder-inited", _warm)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
