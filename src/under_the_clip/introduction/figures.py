"""The front page: what each paper claimed, and what is left of it."""

from __future__ import annotations

import pandas as pd

from dpstudy.claims.ledger import Ledger
from dpstudy.page.figure import Table
from under_the_clip.chapters import papers


def what_is_left(judged: Ledger) -> Table:
    """Return a row a paper, by its chapter's `summary`: what it claimed, and what is left."""
    rows = []
    for chapter in papers():
        claimed, left = chapter.module("summary").what_is_left(judged)
        rows.append({"paper": chapter.paper, "claimed": claimed, "what is left": left})
    return Table(
        name="what-is-left",
        caption=(
            "The papers: what each changes and promises, and what is left of it here so far. "
            "Points are means over seeds, with the 95 % interval in brackets."
        ),
        data=pd.DataFrame(rows),
    )
