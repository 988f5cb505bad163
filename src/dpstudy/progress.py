"""A bar of how far work is: in a terminal, or as one line of a notebook that changes."""

import io
import sys
from typing import Any

import tqdm as of_terminals


class _Line(io.StringIO):
    """The line of a notebook's cell that is written over: on standard error each stays."""

    def __init__(self) -> None:
        from IPython.display import display

        super().__init__()
        self.shown = display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        if text.strip():
            self.shown.update({"text/plain": text.strip()}, raw=True)


class tqdm(of_terminals.tqdm):
    """tqdm's bar. In a notebook tqdm's own wants a package more, and stays as red lines without."""

    def __init__(self, *args: Any, **options: Any) -> None:
        mine = {"file": _Line()} if hasattr(sys.stderr, "pub_thread") else {}  # in a kernel
        super().__init__(*args, **mine | options)
