"""Per-example gradients: their norms and weighted sums, without a pass per example.

The network is differentiated once, for a whole microbatch, with respect to its layers' outputs
(`at_layers`). One rule a layer type (`layer_rules.py`) then turns a layer's input and output
gradient into its per-example gradients. `by_vmap`, the plain way, sees each example alone: against
it the rules are tested, and it serves networks beyond them (`applicability.py`).

Norms and sums are in float32, or in float64 where a parameter is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.nnx import GraphDef, State
from jaxtyping import Array, Float

from dpstudy.gradients import devices, layers
from dpstudy.gradients.applicability import losses_shape, why_not_by_rules
from dpstudy.gradients.layer_rules import RULES, LayerGradients, WrittenOut, blanked


class Gradients:
    """The gradients of a network over one microbatch: a layer's under its path in `like`."""

    def __init__(self, layers: dict[tuple, LayerGradients], like: State):
        self.layers, self._like = layers, like

    @cached_property
    def squared_norms(self) -> dict[tuple, Float[Array, "batch"]]:
        """Each layer's part of the examples' squared l2 norms."""
        return {path: layer.squared_norms() for path, layer in self.layers.items()}

    def norms(self) -> Float[Array, "batch"]:
        """Return each example's l2 norm; not finite where a gradient, or its square, is not."""
        return jnp.sqrt(sum(self.squared_norms.values()))

    def weighted_sum(self, weights: Float[Array, "batch"]) -> State:
        """Return the weighted sum; an example of weight 0 is left out, whatever its gradient."""
        return self.weighted_sum_by_layer(dict.fromkeys(self.layers, weights))

    def weighted_sum_by_layer(self, weights: dict[tuple, Float[Array, "batch"]]) -> State:
        """Return the sum over examples with weights of their own in each layer."""

        def sums(of: dict[tuple, LayerGradients]) -> dict[tuple, dict[str, Array]]:
            return {path: layer.weighted_sum(weights[path]) for path, layer in of.items()}

        def selected() -> dict[tuple, dict[str, Array]]:
            return sums({path: blanked(g, weights[path] != 0) for path, g in self.layers.items()})

        # 0 times a number that is not finite is not 0. To select costs as much as the sum on a CPU,
        # and is hardly ever needed; elsewhere a condition of each of many runs spares nothing.
        if devices.backend() == "cpu":
            finite = jnp.isfinite(sum(square.sum() for square in self.squared_norms.values()))
            return self._assemble(jax.lax.cond(finite, lambda: sums(self.layers), selected))
        return self._assemble(selected())

    def written_out(self) -> State:
        """Return all gradients, shaped as the parameters with a leading axis of examples."""
        return self._assemble({path: layer.written_out() for path, layer in self.layers.items()})

    def changed(self, change: Callable[[Array], Array]) -> Gradients:
        """Return other gradients: `change` of these, one parameter's at a time, written out."""
        each = {p: jax.tree.map(change, g.written_out()) for p, g in self.layers.items()}
        return Gradients({path: WrittenOut(layer) for path, layer in each.items()}, self._like)

    def _assemble(self, values: dict[tuple, dict[str, Array]]) -> State:
        def value(path: tuple, _: Array) -> Array:
            names = layers.names_of(path)
            return values[names[:-1]][names[-1]]

        return jax.tree.map_with_path(value, self._like)


def gradients(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient: by the rules, or by vmap where they do not hold.

    `losses` gives one an example, of a microbatch of arrays, or trees of them, examples first.
    Gradients are by `params`; `rest` is what else the network holds. A network that falls back says
    so once, as a `FallbackWarning`.

    >>> from dpstudy.gradients.layers import tap
    >>> graph, params = nnx.split(tap(nnx.Linear(2, 1, rngs=nnx.Rngs(0), use_bias=False)))
    >>> x = jnp.array([[3.0, 4.0], [0.0, 2.0]])
    >>> each, found = gradients(graph, lambda net, x, _: net(x)[:, 0], params, x, jnp.zeros(2))
    >>> found.norms().tolist()  # the gradient of w·x by w is x
    [5.0, 2.0]

    Raises:
        ValueError: the network changes `rest`; a parameter is not real; there are not as many
            labels as images, or not one loss an example.
    """
    network = (graph, losses, params, images, labels, *rest)
    try:
        return _gradients(*network)
    except (TypeError, NotImplementedError):
        # No forward mode, as in a loss with a Jacobian, passes through a gradient written by hand.
        return _gradients(layers.with_flax_convolutions(graph, params, *rest), *network[1:])


def _gradients(*network: Any) -> tuple[Float[Array, "batch"], Gradients]:
    _, _, params, images, labels, *_ = network
    layers.summed_in(params)
    check_losses(losses_shape(*network), layers.examples_in((images, labels)))
    reason = why_not_by_rules(*network)
    if reason is None:
        return by_rules(*network)
    result = by_vmap(*network)
    _warn_once(reason)
    return result


def check_losses(found: Any, examples: int) -> None:
    """Raise ValueError unless there is one loss an example."""
    shape = getattr(found, "shape", None)
    if shape == (examples,) and jnp.issubdtype(found.dtype, jnp.floating):
        return
    got = ", ".join(
        f"{one.dtype}{list(one.shape)}" if hasattr(one, "shape") else type(one).__name__
        for one in jax.tree.leaves(found)
    )
    within = "" if shape is not None else f"{type(found).__name__} of "
    averaged = "; leave out the mean or sum over examples" if shape == () else ""
    raise ValueError(
        f"one loss an example is wanted, an array of numbers of shape ({examples},), got "
        f"{within}{got}{averaged}"
    )


class FallbackWarning(UserWarning):
    """A network is beyond the rules: the same result, at several times the cost."""


@cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"per-example gradients by vmap: {reason}", FallbackWarning, stacklevel=4)


def by_rules(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient, by one differentiation and the layers' rules.

    Only for networks that `why_not_by_rules` has nothing against: on others the result is wrong
    without a word. `gradients` asks first.

    >>> from dpstudy.gradients.layers import tap
    >>> graph, params = nnx.split(tap(nnx.Linear(2, 1, rngs=nnx.Rngs(0))))
    >>> x = jnp.array([[2.0, 2.0]])
    >>> of = lambda params: by_rules(graph, lambda net, x, _: net(x)[:, 0], params, x, jnp.zeros(1))
    >>> jax.jit(lambda params: of(params)[1].norms())(params).tolist()  # that of (2, 2, 1)
    [3.0]
    """
    each, inputs, output_gradients = layers.at_layers(graph, losses, params, images, labels, *rest)
    modules = dict(nnx.iter_modules(nnx.merge(graph, params, *rest, copy=True)))
    outputs = {path[:-1]: g for path, g in nnx.to_flat_state(output_gradients)}
    of_type, by_layer = layers.summed_in(params), {}
    for path, value in nnx.to_flat_state(inputs):
        layer = modules[path[:-1]]
        # What is looked up in a table are whole numbers, which float32 has not all of.
        seen = value[0] if type(layer) is layers.Embed else value[0].astype(of_type)
        found = outputs[path[:-1]][...].astype(of_type)
        by_layer[path[:-1]] = RULES[type(layer)](layer, seen, found)
    return each, Gradients(by_layer, params)


def by_vmap(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient by `jax.vmap(jax.grad(...))`; each is a batch of one.

    >>> graph, params = nnx.split(nnx.Linear(2, 1, rngs=nnx.Rngs(0)))
    >>> x = jnp.array([[2.0, 2.0]])
    >>> _, found = by_vmap(graph, lambda net, x, _: net(x)[:, 0], params, x, jnp.zeros(1))
    >>> found.norms().tolist()
    [3.0]

    Raises:
        ValueError: there is not one loss an example.
    """

    def one(params: State, image: Any, label: Any) -> Array:
        network = nnx.merge(graph, params, *rest, copy=True)
        alone = jax.tree.map(lambda array: array[None], (image, label))
        found = losses(network, *alone)
        check_losses(found, 1)
        return found[0]

    each, gradients = jax.vmap(jax.value_and_grad(one), (None, 0, 0))(params, images, labels)
    of_type, by_layer = layers.summed_in(params), {}
    for path, gradient in nnx.to_flat_state(gradients):
        by_layer.setdefault(path[:-1], {})[path[-1]] = gradient.get_raw_value().astype(of_type)
    return each, Gradients({path: WrittenOut(g) for path, g in by_layer.items()}, params)
