"""Measures: what is looked at inside a network while it trains, beside accuracy and loss.

Taken on training and test examples without noise: no epsilon covers these numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Int

from dpstudy.gradients import per_example
from dpstudy.gradients.layers import Losses
from dpstudy.parts.data.dataset import Data
from dpstudy.parts.mechanism import Mechanism, Microbatch
from dpstudy.parts.networks.network import Network, Outputs
from dpstudy.parts.part import Part, part

# Training examples that a measure is given: the same every time, evenly spread over the set.
EXAMPLES = 1_000
# Examples whose gradients are written out at once, for each run of a cohort.
CHUNK = 50
# Of the bins that norms are counted in: ten a decade.
EDGES = np.geomspace(1e-3, 1e3, 61)
# Of what measures store after an epoch, where its readers count on a shape; a number has ().
SHAPES = dict.fromkeys(("norms.gradient", "norms.activation", "bounded-norms.largest"), ())
SHAPES["bounded-norms.counts"] = (len(EDGES) - 1,)


class Examples(NamedTuple):
    """Images and labels, as stored."""

    images: Array
    labels: Array


class Snapshot(NamedTuple):
    """What a measure may look at: a run in training, before its first step or after an epoch."""

    network: Network
    dataset: Data
    mechanism: Mechanism
    losses: Losses
    """From module, stored images and labels to per-example losses, as of this epoch."""
    params: nnx.State
    train: Examples
    """`EXAMPLES` of the training set."""

    def outputs(self, images: Array) -> Outputs:
        """Return what the network makes of `images`, as stored."""
        module = nnx.merge(self.network.graph(), self.params)
        return self.network.outputs(module, self.dataset.prepare(images))

    def in_chunks(self, function: Callable[[Examples], Any]) -> Any:
        """Return what a function makes of each `CHUNK` of the examples."""
        chunks = jax.tree.map(lambda x: x.reshape(-1, CHUNK, *x.shape[1:]), self.train)
        return jax.lax.map(function, chunks)


class Measure(Part):
    """A function of a snapshot in training."""

    def check_mechanism(self, mechanism: Mechanism) -> None:
        """Raise SpecError unless it can be taken of runs with that mechanism."""

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        """Return named arrays, of the same shapes at every snapshot."""
        raise NotImplementedError


@part("norms")
class Norms(Measure):
    """Mean l2 norms.

    `gradient`: of an example's unclipped gradient over all parameters. `activation`: of what the
    first layer's activation puts out for an example, before pooling.
    """

    def __call__(self, snapshot: Snapshot) -> dict[str, Float[Array, ""]]:
        graph, first = snapshot.network.graph(), snapshot.network.activation.of_layer(0)

        def of_chunk(chunk: Examples) -> tuple[Array, Array]:
            _, gradients = per_example.gradients(graph, snapshot.losses, snapshot.params, *chunk)
            active = first(snapshot.outputs(chunk.images).hidden[0]).reshape(CHUNK, -1)
            return gradients.norms(), jnp.linalg.norm(active, axis=1)

        gradient, activation = jax.tree.map(jnp.mean, snapshot.in_chunks(of_chunk))
        return {"gradient": gradient, "activation": activation}


@part("bounded-norms")
class BoundedNorms(Measure):
    """How long an example's gradient is once the mechanism has bounded it: what noise has to cover.

    `counts`: examples by that norm, see `counts_by_norm`. `largest`: of those norms.
    """

    def __call__(self, snapshot: Snapshot) -> dict[str, Array]:
        graph, bounded = snapshot.network.graph(), snapshot.mechanism.sum

        def of_one(one: Examples) -> Float[Array, ""]:
            alone = jax.tree.map(lambda x: x[None], one)
            batch = Microbatch(graph, snapshot.losses, snapshot.params, *alone)
            return optax.tree.norm(bounded(batch, jnp.ones(1))[0])

        norms = jax.lax.map(of_one, snapshot.train, batch_size=CHUNK)
        return {"counts": counts_by_norm(norms), "largest": norms.max()}


def counts_by_norm(norms: Float[Array, "..."]) -> Int[Array, "bins"]:
    """Count norms in bins between `EDGES`, what is beyond in the outermost."""
    decades = jnp.log10(jnp.clip(norms, EDGES[0], EDGES[-1]))
    counts, _ = jnp.histogram(decades, bins=len(EDGES) - 1, range=(-3.0, 3.0))
    return counts.astype(int)


def probe(examples: Examples) -> Examples:
    """Return the training examples that measures are given."""
    return jax.tree.map(lambda x: x[:: max(1, len(x) // EXAMPLES)][:EXAMPLES], examples)
