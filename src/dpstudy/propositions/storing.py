"""Run searches with a bar, and keep what they come to as records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dpstudy.lab import records
from dpstudy.propositions.statement import Outcome, Statement

KIND = "theorems"


def run(statements: Iterable[Statement]) -> Iterator[tuple[Statement, Outcome, float]]:
    """Check one statement after the other, with a bar; yield its outcome and its seconds."""
    with tqdm(list(statements), unit="statement", dynamic_ncols=True) as bar:
        for statement in bar:
            bar.set_description(statement.name)
            started = time.monotonic()
            outcome = statement.check()
            yield statement, outcome, time.monotonic() - started


def content(statement: Statement, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain values, by name."""
    return {
        "statement": statement.name,
        "verdict": statement.verdict(outcome),
        "worst": float(outcome.worst),
        "tightness": None if outcome.tightness is None else float(outcome.tightness),
        "looked": outcome.looked,
        "finding": outcome.finding,
    }


def keep(statement: Statement, outcome: Outcome, seconds: float) -> Path:
    """Store an outcome with its provenance, in place of an earlier one; return the file.

    Raises:
        StoreError: the write failed, or a value is not a finite number.
    """
    provenance = records.provenance(seconds, "scipy", "dp-accounting")
    path = records.folder(KIND) / f"{statement.name}.json"
    records.write(path, KIND, content(statement, outcome) | {"provenance": provenance})
    return path
