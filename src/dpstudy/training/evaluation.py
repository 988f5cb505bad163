"""What a network makes of the test set, and of examples whose norms are recorded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
from flax import nnx
from jax.sharding import PartitionSpec

from dpstudy import diagnostics, models
from dpstudy.gradients import devices
from dpstudy.losses import LOSSES
from dpstudy.objectives import activation_of, normalized, objective

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jaxtyping import Array, Bool, Float

    from dpstudy.objectives import Numbers
    from dpstudy.spec import Run

# Intermediates of larger batches leave a core's cache, and take half as long again or more.
BATCH = 100


class Scores(NamedTuple):
    """A network on the test set, in batches."""

    losses: Float[Array, "*runs batches batch"]
    correct: Bool[Array, "*runs batches batch"]


@partial(jax.jit, static_argnames=("shape", "mesh"))
def evaluate(
    shape: Run, mesh: Mesh, numbers: Numbers, params: nnx.State, images: Array, labels: Array
) -> Scores:
    """Evaluate each run on the test set, which must be a multiple of the evaluation batch.

    Devices that share a run share the test set, where it can be shared evenly in batches.
    """

    def one(numbers: Numbers, params: nnx.State, images: Array, labels: Array) -> Scores:
        network = nnx.merge(models.structure(shape.model, shape.width), params)
        activation = activation_of(shape, numbers)

        def of_batch(batch: tuple[Array, Array]) -> Scores:
            logits = network(normalized(batch[0], shape.normalization), activation)
            return Scores(LOSSES[shape.loss](logits, batch[1]), logits.argmax(axis=1) == batch[1])

        return jax.lax.map(of_batch, (images, labels))

    batches = [x.reshape(-1, BATCH, *x.shape[1:]) for x in (images, labels)]
    even = len(batches[0]) % mesh.shape[devices.EXAMPLES] == 0
    spread = {"data_in": PartitionSpec(devices.EXAMPLES), "out": devices.EACH_SHARE} if even else {}
    return devices.over_runs(one, mesh, data=2, **spread)(numbers, params, *batches)


@partial(jax.jit, static_argnames=("shape", "mesh"))
def measure_norms(
    shape: Run, mesh: Mesh, numbers: Numbers, params: nnx.State, images: Array, labels: Array
) -> diagnostics.Norms:
    """Measure the norms inside each run's network on some examples."""

    def one(numbers: Numbers, params: nnx.State, images: Array, labels: Array) -> diagnostics.Norms:
        first, *_ = models.in_layers(activation_of(shape, numbers), 1)
        graph = models.structure(shape.model, shape.width)
        return diagnostics.norms(graph, objective(shape, numbers), first, params, images, labels)

    return devices.over_runs(one, mesh, data=2)(numbers, params, images, labels)
