"""The front page's row on automatic clipping."""

from __future__ import annotations

from dpstudy.claims.ledger import Ledger
from under_the_clip.verdicts import gains


def what_is_left(judged: Ledger) -> tuple[str, str]:
    """Return what the paper claims, and what is left of it."""
    left = f"Against flat clipping: {gains(judged, 'automatic-not-below-flat')}"
    return "Every gradient scaled to one norm, which needs no search.", left
