"""What training does inside a network: norms of its gradients and of its activations.

Measured on training examples and without noise: no epsilon covers these numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy.gradients import per_example
from dpstudy.gradients.layers import PreActivation

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    from dpstudy.gradients.per_example import Losses
    from dpstudy.models import Elementwise

EXAMPLES = 1_000
# Examples whose gradients are written out at once, for each run of a cohort.
CHUNK = 50


class Norms(NamedTuple):
    """Means over examples of l2 norms."""

    gradient: Float[Array, ""]
    """Of an example's gradient over all parameters, before any clipping."""
    activation: Float[Array, ""]
    """Of what the first layer's activation puts out for an example, before pooling."""


def probe(array: Array) -> Array:
    """Return the same `EXAMPLES` entries of a training set every time, evenly spread over it."""
    return array[:: len(array) // EXAMPLES][:EXAMPLES]


def norms(
    graph: nnx.GraphDef,
    losses: Losses,
    activation: Elementwise,
    params: nnx.State,
    images: Float[Array, "batch *image"],
    labels: Int[Array, "batch"],
) -> Norms:
    """Return the mean norms of gradients and first activations (tempered sigmoids, Figures 4, 5).

    Args:
        graph: the network without its parameters.
        losses: from network, images and labels to one loss an example.
        activation: of the first layer.
        params: the parameters.
        images: examples, as `losses` takes them; a multiple of `CHUNK`.
        labels: their labels.
    """
    capture = nnx.capture(losses, PreActivation)

    def of_chunk(chunk: tuple[Array, Array]) -> Norms:
        _, gradients = per_example.gradients(graph, losses, params, *chunk)
        _, seen = capture(nnx.merge(graph, params), *chunk)
        # By name, the first convolution comes before all other layers of each network.
        _, first = min(nnx.to_flat_state(seen), key=lambda named: named[0])
        active = activation(first[0]).reshape(CHUNK, -1)
        return Norms(gradients.norms(), jnp.linalg.norm(active, axis=1))

    chunks = tuple(x.reshape(-1, CHUNK, *x.shape[1:]) for x in (images, labels))
    return jax.tree.map(jnp.mean, jax.lax.map(of_chunk, chunks))
