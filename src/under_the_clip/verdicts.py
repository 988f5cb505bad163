"""Verdicts in a sentence: what summaries say of the ledger, so that it changes with it."""

from __future__ import annotations

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.verdict import Verdict
from dpstudy.lab.wording import points
from dpstudy.parts.data.images import DATASETS


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
