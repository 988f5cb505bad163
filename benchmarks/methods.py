"""Train each method of the leaderboard for a few epochs on one core; store its time and memory.

Needs the study's environment alone: `.venv/bin/python benchmarks/methods.py fashion-mnist`, with
the dataset where DPSTUDY_DATA says. Wants a quiet machine. The leaderboard's chapter reads it.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click
from tqdm import tqdm

from dpstudy.lab import records
from dpstudy.lab.campaign import train_missing
from dpstudy.parts.run import vary
from under_the_clip.designs import EPSILON, on_all
from under_the_clip.leaderboard.experiments import EPSILONS, methods

_EPOCHS = 4


def cost(dataset: str, method: str) -> dict[str, float]:
    """Return the minutes of a whole run on one core, without the first epoch, which compiles."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = on_all(EPSILON, methods(dataset)[method])
    ends: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        outcome = train_missing(
            [vary(run, epochs=_EPOCHS)],
            Path(folder),
            report=lambda _: ends.append(time.perf_counter()),
        )
    [result] = outcome.stored
    return {
        "minutes": (ends[-1] - ends[0]) / (_EPOCHS - 1) * run.epochs / 60,
        "peak_megabytes": result.provenance["peak_megabytes"],
    }


@click.command()
@click.argument("dataset", type=click.Choice(list(EPSILONS)))
def main(dataset: str) -> None:
    """Time each method on DATASET, each in a process of its own, and store what it cost."""
    start = time.monotonic()
    found = {}
    for method in tqdm(methods(dataset)):
        # A new process: the most memory that one held is known of all its life.
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawned) as one:
            found[method] = one.submit(cost, dataset, method).result()
    path = records.folder("methods") / f"{dataset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"dataset": dataset} | {
        name: {method: one[name] for method, one in found.items()}
        for name in ("minutes", "peak_megabytes")
    }
    records.write(
        path,
        "methods",
        content | {"provenance": records.provenance(time.monotonic() - start)},
    )
    click.echo(f"Stored {path}")


if __name__ == "__main__":
    main()
