"""Per-example gradients: their norms and weighted sums, without a pass per example.

The network is differentiated once, for a whole microbatch, with respect to zeros added to its
layers' outputs (`layers.py`): that gives each layer's output gradient for each example, and no
weight gradient is taken. One rule a layer type then turns a layer's (input, output gradient) into
its per-example gradients, in whatever form makes norms and weighted sums cheap. `by_vmap` is the
plain way, against which the rules are tested and which serves layers that have no rule.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy import convolution
from dpstudy.layers import Conv, Dense, LayerInput, OutputZero

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    Losses = Callable[[nnx.Module, Float[Array, "batch *image"], Int[Array, "batch"]], Array]
    """From a network, images and labels to one loss an example."""


class LayerGradients(Protocol):
    """One layer's per-example gradients, perhaps never written out."""

    def squared_norms(self) -> Float[Array, "batch"]:
        """Return each example's squared l2 norm over the layer's parameters."""

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """Return the weighted sum over examples, by parameter name."""

    def written_out(self) -> dict[str, Array]:
        """Return the gradients themselves, by parameter name, examples first."""


@dataclass(frozen=True)
class DenseGradients:
    """x g^T for each example: its norm is |x| |g|, and the weighted sum is one product."""

    inputs: Float[Array, "batch m"]
    outputs: Float[Array, "batch n"]
    use_bias: bool

    def squared_norms(self) -> Float[Array, "batch"]:
        """See `LayerGradients`."""
        inputs = jnp.sum(self.inputs**2, axis=1) + self.use_bias
        return inputs * jnp.sum(self.outputs**2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """See `LayerGradients`."""
        weighted = weights[:, None] * self.outputs
        total = {"kernel": self.inputs.T @ weighted}
        return total | ({"bias": weighted.sum(axis=0)} if self.use_bias else {})

    def written_out(self) -> dict[str, Array]:
        """See `LayerGradients`."""
        each = {"kernel": self.inputs[:, :, None] * self.outputs[:, None, :]}
        return each | ({"bias": self.outputs} if self.use_bias else {})


@dataclass(frozen=True)
class WrittenOut:
    """Per-example gradients as arrays, examples first: cheap while a microbatch stays in cache."""

    gradients: dict[str, Float[Array, "batch *parameter"]]

    def squared_norms(self) -> Float[Array, "batch"]:
        """See `LayerGradients`."""
        return sum(jnp.sum(_flat(g) ** 2, axis=1) for g in jax.tree.leaves(self.gradients))

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """See `LayerGradients`."""
        return jax.tree.map(lambda g: (weights @ _flat(g)).reshape(g.shape[1:]), self.gradients)

    def written_out(self) -> dict[str, Array]:
        """See `LayerGradients`."""
        return self.gradients


def _flat(gradients: Array) -> Array:
    return gradients.reshape(len(gradients), -1)


@dataclass(frozen=True)
class ConvGradients:
    """A convolution's per-example gradients, written out in the order they were computed in.

    Attributes:
        computed: the kernel's gradients, and perhaps numbers that are no parameters.
        bias: those of the bias.
        kernels: from gradients as computed, one or many, to the kernel's.
        exact: whether `computed` holds the kernel's numbers and no more.
    """

    computed: Float[Array, "batch *computed"]
    bias: Float[Array, "batch o"] | None
    kernels: Callable[[Array], Float[Array, "*batch kh kw c o"]]
    exact: bool

    def squared_norms(self) -> Float[Array, "batch"]:
        """See `LayerGradients`."""
        kernels = self.computed if self.exact else self.kernels(self.computed)
        norms = jnp.sum(_flat(kernels) ** 2, axis=1)
        return norms if self.bias is None else norms + jnp.sum(self.bias**2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """See `LayerGradients`."""
        computed = (weights @ _flat(self.computed)).reshape(self.computed.shape[1:])
        total = {"kernel": self.kernels(computed)}
        return total if self.bias is None else total | {"bias": weights @ self.bias}

    def written_out(self) -> dict[str, Array]:
        """See `LayerGradients`."""
        each = {"kernel": self.kernels(self.computed)}
        return each if self.bias is None else each | {"bias": self.bias}


@dataclass(frozen=True)
class ConvByGram:
    """A convolution's per-example gradients, not written out: each is added^T seen.

    Its squared norm is the inner product of two Gram matrices over positions, and the weighted
    sum is one product over examples and positions.
    """

    added: Float[Array, "batch positions mo"]
    seen: Float[Array, "batch positions nc"]
    bias: Float[Array, "batch o"] | None
    window: convolution.Window

    def squared_norms(self) -> Float[Array, "batch"]:
        """See `LayerGradients`."""
        added = jnp.einsum("bpo,bqo->bpq", self.added, self.added)
        seen = jnp.einsum("bpk,bqk->bpq", self.seen, self.seen)
        norms = jnp.sum(added * seen, axis=(1, 2))
        return norms if self.bias is None else norms + jnp.sum(self.bias**2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """See `LayerGradients`."""
        weighted = weights[:, None, None] * self.added
        matrix = jnp.einsum("bpo,bpk->ko", weighted, self.seen)
        total = {"kernel": convolution.kernel_from_matrix(matrix, self.window)}
        return total if self.bias is None else total | {"bias": weights @ self.bias}

    def written_out(self) -> dict[str, Array]:
        """See `LayerGradients`."""
        matrices = jnp.einsum("bpo,bpk->bko", self.added, self.seen)
        each = {"kernel": convolution.kernel_from_matrix(matrices, self.window)}
        return each if self.bias is None else each | {"bias": self.bias}


def dense_rule(layer: Dense, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a dense layer."""
    return DenseGradients(inputs, outputs, layer.use_bias)


# Numbers in one example's gradient: more do not stay in cache until the weighted sum needs them.
GRAM_ABOVE = 2**18


def conv_rule(layer: Conv, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a convolution: its kernel's matrix product, example by example.

    On a CPU core alone, wide layers of stride 1 take a convolution an example instead.
    """
    window = convolution.window_of(layer, inputs.shape)
    bias = outputs.sum(axis=(1, 2)) if layer.use_bias else None
    if window.direct_gradients(inputs.shape[1:3]):
        computed = convolution.kernel_gradients(inputs, outputs, window)
        return ConvGradients(computed, bias, lambda c: jnp.moveaxis(c, -4, -2), exact=True)
    seen = convolution.gather(inputs, window)
    added = convolution.unfold_rows(outputs, window)
    # A kernel that covers blocks in part has rows in its matrix that are no parameters.
    if added.shape[-1] * seen.shape[-1] > GRAM_ABOVE and window.fits:
        positions = (len(inputs), -1)
        return ConvByGram(
            added.reshape(*positions, added.shape[-1]),
            seen.reshape(*positions, seen.shape[-1]),
            bias,
            window,
        )
    # In this order of operands: XLA's CPU takes twice as long for the transpose of the product.
    matrices = jnp.einsum("bijo,bijk->bok", added, seen)
    return ConvGradients(
        matrices,
        bias,
        lambda m: convolution.kernel_from_matrix(jnp.swapaxes(m, -1, -2), window),
        exact=window.fits,
    )


RULES: dict[type[nnx.Module], Callable[[Any, Array, Array], LayerGradients]] = {
    Dense: dense_rule,
    Conv: conv_rule,
}


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
        return self._assemble(lambda layer: layer.weighted_sum(weights))

    def written_out(self) -> nnx.State:
        """Return all gradients, shaped as the parameters with a leading axis of examples."""
        return self._assemble(lambda layer: layer.written_out())

    def _assemble(self, part: Callable[[LayerGradients], dict[str, Array]]) -> nnx.State:
        values = {path: part(layer) for path, layer in self.layers.items()}

        def value(path: tuple, _: Array) -> Array:
            names = tuple(key.key for key in path if hasattr(key, "key"))
            return values[names[:-1]][names[-1]]

        return jax.tree.map_with_path(value, self._like)


def gradients(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient: by the rules, or by vmap where one is missing.

    A network that falls back says so once, as a `FallbackWarning`: the result is the same, at
    several times the cost.
    """
    reason = why_not_by_rules(graph, losses, params, images, labels)
    if reason is None:
        return by_rules(graph, losses, params, images, labels)
    _warn_once(reason)
    return by_vmap(graph, losses, params, images, labels)


class FallbackWarning(UserWarning):
    """A network has a layer without a rule, and pays for it."""


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"per-example gradients by vmap: {reason}", FallbackWarning, stacklevel=4)


def why_not_by_rules(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> str | None:
    """Return what keeps a network from the rules, in words; None if nothing does."""
    capture = nnx.capture(losses, LayerInput)
    captured = jax.eval_shape(lambda: capture(nnx.merge(graph, params), images, labels)[1])
    inputs = {path[:-1]: value.get_value() for path, value in nnx.to_flat_state(captured)}
    modules = dict(nnx.iter_modules(nnx.merge(graph, params)))
    for path in {path[:-1] for path, _ in nnx.to_flat_state(params)}:
        name, layer = ".".join(map(str, path)), modules[path]
        if type(layer) not in RULES:
            return f"no rule for {type(layer).__name__} ({name})"
        if len(inputs.get(path, ())) != 1:
            return f"{name} is applied {len(inputs.get(path, ()))} times, not once"
        if type(layer) is Conv and not convolution.ordinary(layer):
            return f"{name} is not an ordinary 2-D convolution"
        if type(layer) is Dense and inputs[path][0].ndim != 2:
            return f"{name} is applied to more than one vector an example"
    return None


def by_rules(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient, by one differentiation and the layers' rules.

    Only for networks that `why_not_by_rules` has nothing against: on others the result is wrong
    without a word. `gradients` asks first. An example's loss must depend on that example alone.
    """
    capture = nnx.capture(losses, LayerInput, OutputZero)
    shapes = jax.eval_shape(lambda: capture(nnx.merge(graph, params), images, labels)[2])
    zeros = jax.tree.map(lambda z: jnp.zeros(z.shape, z.dtype), shapes)

    def summed(zeros: nnx.State) -> tuple[Array, tuple[Array, nnx.State]]:
        run = nnx.capture(losses, LayerInput, init=zeros)
        each, inputs = run(nnx.merge(graph, params), images, labels)
        return each.sum(), (each, inputs)

    output_gradients, (each, inputs) = jax.grad(summed, has_aux=True)(zeros)
    modules = dict(nnx.iter_modules(nnx.merge(graph, params)))
    outputs = {path[:-1]: g for path, g in nnx.to_flat_state(output_gradients)}
    layers = {}
    for path, value in nnx.to_flat_state(inputs):
        layer = modules[path[:-1]]
        layers[path[:-1]] = RULES[type(layer)](layer, value[0], outputs[path[:-1]][...])
    return each, Gradients(layers, params)


def by_vmap(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> tuple[Float[Array, "batch"], Gradients]:
    """Return each example's loss and gradient by `jax.vmap(jax.grad(...))`."""

    def one(params: nnx.State, image: Array, label: Array) -> Array:
        return losses(nnx.merge(graph, params), image[None], label[None])[0]

    each, gradients = jax.vmap(jax.value_and_grad(one), (None, 0, 0))(params, images, labels)
    layers: dict[tuple, dict[str, Array]] = {}
    for path, gradient in nnx.to_flat_state(gradients):
        layers.setdefault(path[:-1], {})[path[-1]] = gradient[...]
    return each, Gradients({path: WrittenOut(g) for path, g in layers.items()}, params)
