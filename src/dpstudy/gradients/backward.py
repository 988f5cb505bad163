"""One differentiation of a microbatch: each layer's input, and its output's gradient.

The network is differentiated with respect to zeros added to its layers' outputs (`layers.py`), and
no weight gradient is taken.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy.gradients.layers import LayerInput, OutputZero, capturing

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.gradients.layers import Losses


def at_layers(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Any,
    labels: Any,
    *rest: nnx.State,
) -> tuple[Float[Array, "batch"], nnx.State, nnx.State]:
    """Return each example's loss, each layer's input, and the loss' gradient by its output.

    Arguments as of `per_example.gradients`.
    """
    capture = capturing(losses, LayerInput, OutputZero)
    # Copies: flax's transformations write to a network's variables, which no outer ones allow.
    network = partial(nnx.merge, graph, params, *rest, copy=True)
    shapes = jax.eval_shape(lambda: capture(network(), images, labels)[2])
    zeros = jax.tree.map(lambda z: jnp.zeros(z.shape, z.dtype), shapes)

    def summed(zeros: nnx.State) -> tuple[Array, tuple[Array, nnx.State]]:
        run = capturing(losses, LayerInput, init=zeros)
        each, inputs = run(network(), images, labels)
        return each.sum(), (each, inputs)

    output_gradients, (each, inputs) = jax.grad(summed, has_aux=True)(zeros)
    return each, inputs, output_gradients
