"""Time several things in turn, round by round, and store their seconds as one record."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

import click
from tqdm import tqdm

import under_the_clip  # noqa: F401 - its kinds of record
from dpstudy.lab import records


def store_in_turn(timed: Mapping[str, Iterator[float]], rounds: int, name: str) -> None:
    """Take the seconds of each `rounds` times, and store them.

    Args:
        timed: by name, the seconds of one epoch after the other.
        rounds: epochs of each.
        name: of the record.
    """
    begun = time.perf_counter()
    seconds: dict[str, list[float]] = {one: [] for one in timed}
    for _ in tqdm(range(rounds), unit="round"):
        # In an order drawn anew: what slows the machine down for a while slows all.
        for one in random.sample(list(timed), len(timed)):
            seconds[one].append(float(f"{next(timed[one]):.4g}"))
    for one, found in seconds.items():
        click.echo(f"{min(found):8.2f} s  {one}")
    path = records.folder("mechanisms") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    provenance = records.provenance(time.perf_counter() - begun)
    records.write(path, "mechanisms", {"epoch_seconds": seconds, "provenance": provenance})
    click.echo(f"Stored {path}")
