"""What a notebook says in prose, and the ledger that its numbers are held to."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

from dpstudy.claims.ledger import Ledger
from under_the_clip.claims import ledger

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@cache
def prose_of(name: str) -> str:
    """Return the lines of the notebook of a name as one, without comment signs."""
    lines = (NOTEBOOKS / f"{name}.py").read_text().splitlines()
    return " ".join(" ".join(line.removeprefix("#") for line in lines).split())


def said_by(name: str) -> Callable[[str], None]:
    """Return an assertion that the notebook of a name says a fragment."""

    def says(fragment: str) -> None:
        assert fragment in prose_of(name), fragment

    return says


@cache
def study_ledger() -> Ledger:
    """Judge the study's own results, once a process: it takes seconds."""
    with mock.patch.dict(os.environ):
        os.environ.pop("DPSTUDY_RESULTS", None)
        return ledger()
