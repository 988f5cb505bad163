"""Time an epoch of the study's own loop by what bounds the gradients, in turn, and store it.

Needs the study's environment alone: `.venv/bin/python benchmarks/mechanisms.py`. Wants a quiet
machine. The chapter on backpropagation clipping reads what it stores.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

import click
from rounds import store_in_turn

from dpstudy.gradients import devices
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson
from under_the_clip.backpropagation_clipping.experiments import as_published

_PUBLISHED = as_published("mnist")
MECHANISMS = {
    "no privacy": NoPrivacy(),
    "flat clipping": FlatClipping(),
    "backpropagation clipping": _PUBLISHED.mechanism,
}
BATCHES = (256, 4096)


def epochs(run: Run) -> Iterator[float]:
    """Yield the seconds of one epoch after the other; the first compiles, and is left out."""
    import jax
    import jax.numpy as jnp

    from dpstudy.parts.measure import Examples
    from dpstudy.training import loop

    data, mesh = run.dataset.load(), devices.mesh_for(1)
    [train] = devices.everywhere((Examples(data.train_images, data.train_labels),), mesh)
    cohort, keys, states = devices.of_each_run(
        (loop.stack([run]), jnp.stack([jax.random.key(0)]), loop.stack([loop.start(run)])), mesh
    )
    for number in itertools.count():
        before = time.perf_counter()
        states, _ = loop.train_epoch(
            mesh, run.network.examples_at_once(), cohort.of_a_step(), keys, states, train
        )
        jax.block_until_ready(states)
        if number:
            yield time.perf_counter() - before


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(2), default=6, help="Epochs of each.")
def main(rounds: int) -> None:
    """Time each mechanism on the network of the paper for MNIST, and store the result."""
    runs = {
        f"{name}, batch {batch}": replace(
            vary(_PUBLISHED, mechanism=mechanism), sampling=Poisson(batch)
        )
        for batch in BATCHES
        for name, mechanism in MECHANISMS.items()
    }
    store_in_turn({name: epochs(run) for name, run in runs.items()}, rounds, "mnist")


if __name__ == "__main__":
    main()
