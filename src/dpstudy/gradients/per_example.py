"""Per-example gradients: their norms and weighted sums, without a pass per example.

The network is differentiated once, for a whole microbatch, with respect to zeros added to its
layers' outputs (`layers.py`): that gives each layer's output gradient for each example, and no
weight gradient is taken. One rule a layer type (`layer_rules.py`) then turns a layer's input and
output gradient into its per-example gradients. `by_vmap` is the plain way, against which the rules
are tested and which serves networks beyond them (`applicability.py`).
"""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy.gradients.applicability import why_not_by_rules
from dpstudy.gradients.layer_rules import RULES, LayerGradients, WrittenOut
from dpstudy.gradients.layers import LayerInput, OutputZero, capturing, names_of
from dpstudy.gradients.shared_state import refuse_updates

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    from dpstudy.gradients.layers import Losses


class Gradients:
    """The per-example gradients of a whole network over one microbatch, layer by layer."""

    def __init__(self, layers: dict[tuple, LayerGradients], like: nnx.State):
        """Hold each layer's gradients under its path in the parameters `like`."""
        self.layers = layers
        self._like = like

    def norms(self) -> Float[Array, "batch"]:
        """Return each example's l2 norm over all parameters."""
        return jnp.sqrt(sum(layer.squared_norms() for layer in self.layers.values()))

    def weighted_sum(self, weights: Float[Array, "batch"]) -> nnx.State:
        """Return the weighted sum over examples, shaped as the parameters."""
        return self.weighted_sum_by_layer(dict.fromkeys(self.layers, weights))

    def weighted_sum_by_layer(self, weights: dict[tuple, Float[Array, "batch"]]) -> nnx.State:
        """Return the sum over examples with weights of their own in each layer."""
        return self._assemble({p: g.weighted_sum(weights[p]) for p, g in self.layers.items()})

    def written_out(self) -> nnx.State:
        """Return all gradients, shaped as the parameters with a leading axis of examples."""
        return self._assemble({path: layer.written_out() for path, layer in self.layers.items()})

    def _assemble(self, values: dict[tuple, dict[str, Array]]) -> nnx.State:
        def value(path: tuple, _: Array) -> Array:
            names = names_of(path)
            return values[names[:-1]][names[-1]]

        return jax.tree.map_with_path(value, self._like)


def gradients(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Float[Array, "batch *image"],
    labels: Int[Array, "batch"],
    *rest: nnx.State,
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient: by the rules, or by vmap where they do not hold.

    A network that falls back says so once, as a `FallbackWarning`: the result is the same, at
    several times the cost.

    Args:
        graph: the network without its states.
        losses: an example's loss may depend on that example alone.
        params: what the gradients are with respect to.
        images: a microbatch.
        labels: its labels.
        rest: what else the network holds, the same for all examples.

    Raises:
        ValueError: the network changes `rest`.
    """
    network = (graph, losses, params, images, labels, *rest)
    if jax.tree.leaves(rest):
        refuse_updates(*network)
    reason = why_not_by_rules(*network)
    if reason is None:
        return by_rules(*network)
    result = by_vmap(*network)
    _warn_once(reason)
    return result


class FallbackWarning(UserWarning):
    """A network is beyond the rules, and pays for it."""


@cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"per-example gradients by vmap: {reason}", FallbackWarning, stacklevel=4)


def by_rules(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Float[Array, "batch *image"],
    labels: Int[Array, "batch"],
    *rest: nnx.State,
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient, by one differentiation and the layers' rules.

    Only for networks that `why_not_by_rules` has nothing against: on others the result is wrong
    without a word. `gradients` asks first. An example's loss must depend on that example alone.
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
    modules = dict(nnx.iter_modules(network()))
    outputs = {path[:-1]: g for path, g in nnx.to_flat_state(output_gradients)}
    layers = {}
    for path, value in nnx.to_flat_state(inputs):
        layer = modules[path[:-1]]
        layers[path[:-1]] = RULES[type(layer)](layer, value[0], outputs[path[:-1]][...])
    return each, Gradients(layers, params)


def by_vmap(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Float[Array, "batch *image"],
    labels: Int[Array, "batch"],
    *rest: nnx.State,
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient by `jax.vmap(jax.grad(...))`."""

    def one(params: nnx.State, image: Array, label: Array) -> Array:
        network = nnx.merge(graph, params, *rest, copy=True)
        return losses(network, image[None], label[None])[0]

    each, gradients = jax.vmap(jax.value_and_grad(one), (None, 0, 0))(params, images, labels)
    layers: dict[tuple, dict[str, Array]] = {}
    for path, gradient in nnx.to_flat_state(gradients):
        layers.setdefault(path[:-1], {})[path[-1]] = gradient[...]
    return each, Gradients({path: WrittenOut(g) for path, g in layers.items()}, params)
