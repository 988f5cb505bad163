"""What a notebook says in prose, for tests that hold its numbers to what is stored."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

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
