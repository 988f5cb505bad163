"""One rule a layer type: from a layer's input and output gradient to its per-example gradients.

They come in whatever form makes their norms and weighted sums cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from dpstudy.gradients import convolution
from dpstudy.gradients.layers import Conv, Dense


class LayerGradients(Protocol):
    """One layer's per-example gradients, perhaps never written out: a dataclass, examples first."""

    def squared_norms(self) -> Float[Array, "batch"]:
        """Return each example's squared l2 norm over the layer's parameters."""

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        """Return the weighted sum over examples, by parameter name."""

    def written_out(self) -> dict[str, Array]:
        """Return the gradients themselves, by parameter name, examples first."""


def blanked(gradients: LayerGradients, kept: Bool[Array, "batch"]) -> LayerGradients:
    """Return the gradients with those of all other examples than the kept ones 0."""

    def blank(leaf: Array) -> Array:
        return jnp.where(kept.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, jnp.zeros_like(leaf))

    values = {field.name: getattr(gradients, field.name) for field in fields(gradients)}
    arrays = {k: v for k, v in values.items() if isinstance(v, jax.Array | dict)}
    return replace(gradients, **jax.tree.map(blank, arrays))


def squared(rows: Float[Array, "batch n"]) -> Float[Array, "batch"]:
    """Return at least each row's squared l2 norm, also where squares are below the least number."""
    lost = rows.shape[1] * jnp.finfo(rows.dtype).tiny
    return jnp.sum(rows**2, axis=1) + jnp.where(jnp.any(rows != 0, axis=1), lost, 0.0)


@dataclass(frozen=True)
class DenseGradients(LayerGradients):
    """x g^T for each example: its norm is |x| |g|, and the weighted sum is one product."""

    inputs: Float[Array, "batch m"]
    outputs: Float[Array, "batch n"]
    use_bias: bool

    def squared_norms(self) -> Float[Array, "batch"]:
        return (squared(self.inputs) + float(self.use_bias)) * squared(self.outputs)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        weighted = weights[:, None] * self.outputs
        total = {"kernel": self.inputs.T @ weighted}
        return total | ({"bias": weighted.sum(axis=0)} if self.use_bias else {})

    def written_out(self) -> dict[str, Array]:
        each = {"kernel": self.inputs[:, :, None] * self.outputs[:, None, :]}
        return each | ({"bias": self.outputs} if self.use_bias else {})


@dataclass(frozen=True)
class WrittenOut(LayerGradients):
    """Per-example gradients as arrays, examples first: cheap while a microbatch stays in cache."""

    gradients: dict[str, Float[Array, "batch *parameter"]]

    def squared_norms(self) -> Float[Array, "batch"]:
        return sum(jnp.sum(_flat(g) ** 2, axis=1) for g in jax.tree.leaves(self.gradients))

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        return jax.tree.map(lambda g: (weights @ _flat(g)).reshape(g.shape[1:]), self.gradients)

    def written_out(self) -> dict[str, Array]:
        return self.gradients


def _flat(gradients: Array) -> Array:
    return gradients.reshape(len(gradients), -1)


@dataclass(frozen=True)
class ConvGradients(LayerGradients):
    """A convolution's per-example gradients, written out in the order they were computed in.

    `kernels` gives the kernel's of what was `computed`: unless `exact`, some are no parameters.
    """

    computed: Float[Array, "batch *computed"]
    bias: Float[Array, "batch o"] | None
    kernels: Callable[[Array], Float[Array, "*batch kh kw c o"]]
    exact: bool

    def squared_norms(self) -> Float[Array, "batch"]:
        kernels = self.computed if self.exact else self.kernels(self.computed)
        norms = jnp.sum(_flat(kernels) ** 2, axis=1)
        return norms if self.bias is None else norms + jnp.sum(self.bias**2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        computed = (weights @ _flat(self.computed)).reshape(self.computed.shape[1:])
        total = {"kernel": self.kernels(computed)}
        return total if self.bias is None else total | {"bias": weights @ self.bias}

    def written_out(self) -> dict[str, Array]:
        each = {"kernel": self.kernels(self.computed)}
        return each if self.bias is None else each | {"bias": self.bias}


@dataclass(frozen=True)
class ConvByGram(LayerGradients):
    """A convolution's per-example gradients, not written out: each is added^T seen.

    Its squared norm is the inner product of two Gram matrices over positions, and the weighted
    sum is one product over examples and positions. Where positions cancel, rounding could make the
    one too small for the other: it is a bound from above, by more than either rounds.
    """

    added: Float[Array, "batch positions mo"]
    seen: Float[Array, "batch positions nc"]
    bias: Float[Array, "batch o"] | None
    window: convolution.Window

    def squared_norms(self) -> Float[Array, "batch"]:
        added = jnp.einsum("bpo,bqo->bpq", self.added, self.added)
        seen = jnp.einsum("bpk,bqk->bpq", self.seen, self.seen)
        # If all positions were aligned, and so with the squares that are too small for the type.
        by_position = [jnp.diagonal(matrix, axis1=1, axis2=2) for matrix in (added, seen)]
        largest = jnp.sum(jnp.sqrt(math.prod(by_position)), axis=1) ** 2
        lost = [x.shape[2] * jnp.finfo(x.dtype).tiny for x in (self.added, self.seen)]
        at_most = (square + least for square, least in zip(by_position, lost, strict=True))
        with_lost = jnp.sum(jnp.sqrt(math.prod(at_most)), axis=1) ** 2
        norms = jnp.sum(added * seen, axis=(1, 2)) + ROUNDING * largest + (with_lost - largest)
        return norms if self.bias is None else norms + jnp.sum(self.bias**2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        matrix = jnp.einsum("bpo,bpk->ko", weights[:, None, None] * self.added, self.seen)
        total = {"kernel": convolution.kernel_from_matrix(matrix, self.window)}
        return total if self.bias is None else total | {"bias": weights @ self.bias}

    def written_out(self) -> dict[str, Array]:
        matrices = jnp.einsum("bpo,bpk->bko", self.added, self.seen)
        each = {"kernel": convolution.kernel_from_matrix(matrices, self.window)}
        return each if self.bias is None else each | {"bias": self.bias}


def dense_rule(layer: Dense, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a dense layer."""
    return DenseGradients(inputs, outputs, layer.use_bias)


# What rounding may add up to in the inner product of two Gram matrices of float32, as a share of
# what it is without signs.
ROUNDING = 2e-6
# Numbers in one example's gradient: more do not stay in cache until the weighted sum needs them.
GRAM_ABOVE = 2**18


def conv_rule(layer: Conv, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a convolution: its kernel's matrix product, example by example."""
    window = convolution.window_of(layer, inputs.shape)
    bias = outputs.sum(axis=(1, 2)) if layer.use_bias else None
    if window.direct_gradients(inputs.shape[1:3]):
        computed = convolution.kernel_gradients(inputs, outputs, window)
        return ConvGradients(computed, bias, lambda c: jnp.moveaxis(c, -4, -2), exact=True)
    seen = convolution.gather(inputs, window)
    added = convolution.unfold_rows(outputs, window)
    # A kernel that covers blocks in part has rows in its matrix that are no parameters.
    if added.shape[-1] * seen.shape[-1] > GRAM_ABOVE and window.fits:
        by_position = (x.reshape(len(x), -1, x.shape[-1]) for x in (added, seen))
        return ConvByGram(*by_position, bias, window)
    # In this order of operands: XLA's CPU takes twice as long for the transpose of the product.
    matrices = jnp.einsum("bijo,bijk->bok", added, seen)
    return ConvGradients(
        matrices,
        bias,
        lambda m: convolution.kernel_from_matrix(jnp.swapaxes(m, -1, -2), window),
        exact=window.fits,
    )


Rule = Callable[[Any, Array, Array], LayerGradients]
RULES: dict[type[nnx.Module], Rule] = {Dense: dense_rule, Conv: conv_rule}
