"""What a network makes of the test set, and what is measured inside it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float

from dpstudy.gradients import devices
from dpstudy.parts.data.dataset import AT_ONCE
from dpstudy.parts.measure import Examples
from dpstudy.parts.run import Run


class Scores(NamedTuple):
    """A network on the test set, in batches."""

    losses: Float[Array, "*runs batches batch"]
    correct: Bool[Array, "*runs batches batch"]


@partial(jax.jit, static_argnames="mesh")
def evaluate(
    mesh: Mesh, runs: Run, params: nnx.State, epochs: Float[Array, "runs"], test: Examples
) -> Scores:
    """Evaluate each run on the test set, which must be a multiple of `AT_ONCE`.

    Devices that share a run share the test set, where it can be shared evenly in batches.
    `epochs` are those done, by run.
    """

    def one(run: Run, params: nnx.State, epoch: Array, test: Examples) -> Scores:
        module = nnx.merge(run.network.graph(), params)

        def of_batch(batch: Examples) -> Scores:
            logits, hidden = run.network.outputs(module, run.dataset.prepare(batch.images))
            losses = run.loss(logits, hidden, batch.labels, epoch)
            return Scores(losses, logits.argmax(axis=1) == batch.labels)

        return jax.lax.map(of_batch, test)

    batches = jax.tree.map(lambda x: x.reshape(-1, AT_ONCE, *x.shape[1:]), test)
    even = len(batches.labels) % mesh.shape[devices.EXAMPLES] == 0
    spread = {"data_in": PartitionSpec(devices.EXAMPLES), "out": devices.EACH_SHARE} if even else {}
    return devices.over_runs(one, mesh, **spread)(runs, params, epochs, batches)


@partial(jax.jit, static_argnames="mesh")
def measure(
    mesh: Mesh, runs: Run, params: nnx.State, epochs: Float[Array, "runs"], train: Examples
) -> dict[str, Array]:
    """Take each run's measures; named "norms.gradient" and so on, by the measure's kind."""

    def one(run: Run, params: nnx.State, epoch: Array, train: Examples) -> dict[str, Array]:
        taken = [(each.kind, each(run.snapshot(params, epoch, train))) for each in run.measures]
        return {f"{kind}.{name}": x for kind, found in taken for name, x in found.items()}

    return devices.over_runs(one, mesh)(runs, params, epochs, train)
