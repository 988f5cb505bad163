"""Time an epoch of losing less with its measures and without, in turn, and store it.

Needs the study's environment alone: `.venv/bin/python benchmarks/measures.py`. Wants a quiet
machine. The chapter on losing less reads what it stores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
from rounds import store_in_turn

from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.run import Run, vary
from under_the_clip.losing_less.experiments import COMPOSITE, MEASURES, with_loss


def epochs(run: Run) -> Iterator[float]:
    """Yield the seconds of one epoch after the other, with what is looked at after it."""
    from dpstudy.training import loop

    trained = loop.train([run], run.dataset.load(), run.network.examples_at_once())
    for _ in range(2):
        next(trained)  # Before the first step, and the first epoch: both compile.
    while True:
        before = time.perf_counter()
        next(trained)
        yield time.perf_counter() - before


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(2, 38), default=6, help="Epochs of each.")
def main(rounds: int) -> None:
    """Time training on MNIST with and without measures, both losses, and store the result."""
    losses = {"cross-entropy": CrossEntropy(), "composite": COMPOSITE["mnist"]}
    runs = {
        f"{name}{with_them}": vary(with_loss("mnist", loss), measures=measures)
        for name, loss in losses.items()
        for with_them, measures in {"": (), ", measured": MEASURES}.items()
    }
    store_in_turn({name: epochs(run) for name, run in runs.items()}, rounds, "losing-less-measures")


if __name__ == "__main__":
    main()
