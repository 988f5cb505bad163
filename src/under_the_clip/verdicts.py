"""Verdicts in a sentence, and what is left of each paper: summaries that follow the ledger."""

import pandas as pd

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.verdict import Verdict
from dpstudy.lab.wording import points
from dpstudy.page.figure import Table
from dpstudy.parts.data.images import DATASETS
from under_the_clip.chapters import papers


def holds(judged: Ledger, name: str) -> bool:
    """Say whether the entry of that name is reproduced."""
    [found] = (entry for entry in judged.entries if entry.id == name)
    return found.outcome.verdict is Verdict.REPRODUCED


def gains(judged: Ledger, claim: str) -> str:
    """Return what a claim's runs gain, by dataset, and on which datasets they are not stored."""
    ours, missing = [], []
    for entry in judged.entries:
        if entry.claim.id != claim:
            continue
        name = DATASETS[entry.dataset]
        if "difference" in (found := entry.outcome.ours):
            ends = (found[f"difference_{end}"] for end in ("low", "high"))
            ours.append(f"{gain_in_words(found['difference'], *ends)} on {name}")
        else:
            found, needed = entry.outcome.found, entry.outcome.needed
            missing.append(f"{name} ({found} of {needed} runs so far)" if found else name)
    still = [f"not run on {' and '.join(missing)}"] if missing else []
    return "; ".join([", ".join(ours)] * bool(ours) + still) + "."


def gain_in_words(value: float, low: float, high: float) -> str:
    """Return a gain in points with its interval, given as shares: "+0.54 points (0.01 to 1.08)"."""
    interval = f"{100 * low:.2f} to {100 * high:.2f}".replace("-", "−")
    return f"{points(value)} ({interval})"


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
