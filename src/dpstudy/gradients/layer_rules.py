"""One rule a layer type: from a layer's input and output gradient to its per-example gradients.

They come in whatever form makes their norms and weighted sums cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from dpstudy.gradients import convolution
from dpstudy.gradients.layers import Conv, Dense, DenseGeneral, Embed, GroupNorm, LayerNorm


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
        return _weighted(weights, self.gradients)

    def written_out(self) -> dict[str, Array]:
        return self.gradients


def _flat(gradients: Array) -> Array:
    return gradients.reshape(len(gradients), -1)


def _weighted(weights: Array, gradients: Any) -> Any:
    return jax.tree.map(lambda g: (weights @ _flat(g)).reshape(g.shape[1:]), gradients)


def _named(kernel: Array, bias: Array | None) -> dict[str, Array]:
    return {"kernel": kernel} if bias is None else {"kernel": kernel, "bias": bias}


@dataclass(frozen=True)
class KernelGradients(LayerGradients):
    """Per-example gradients by products at positions, written out in the order of computation.

    `kernels` gives the kernel's of what was `computed`: unless `exact`, some are no parameters.
    """

    computed: Float[Array, "batch *computed"]
    bias: Float[Array, "batch *o"] | None
    kernels: Callable[[Array], Float[Array, "*batch *kernel"]]
    exact: bool

    def squared_norms(self) -> Float[Array, "batch"]:
        kernels = self.computed if self.exact else self.kernels(self.computed)
        norms = jnp.sum(_flat(kernels) ** 2, axis=1)
        return norms if self.bias is None else norms + jnp.sum(_flat(self.bias) ** 2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        kernel = self.kernels(_weighted(weights, self.computed))
        return _named(kernel, _weighted(weights, self.bias))

    def written_out(self) -> dict[str, Array]:
        return _named(self.kernels(self.computed), self.bias)


@dataclass(frozen=True)
class ByGram(LayerGradients):
    """Per-example gradients by products at positions, not written out: each is seen^T added.

    Its squared norm is the inner product of two Gram matrices over positions, and the weighted
    sum is one product over examples and positions. Where positions cancel, rounding could make the
    one too small for the other: it is a bound from above, by all that the products may round, which
    grows with the numbers that one adds up.
    """

    added: Float[Array, "batch positions mo"]
    seen: Float[Array, "batch positions nc"]
    bias: Float[Array, "batch *o"] | None
    kernels: Callable[[Array], Float[Array, "*batch *kernel"]]

    def squared_norms(self) -> Float[Array, "batch"]:
        added = jnp.einsum("bpo,bqo->bpq", self.added, self.added)
        seen = jnp.einsum("bpk,bqk->bpq", self.seen, self.seen)
        # If all positions were aligned, and so with the squares that are too small for the type.
        by_position = [jnp.diagonal(matrix, axis1=1, axis2=2) for matrix in (added, seen)]
        largest = jnp.sum(jnp.sqrt(math.prod(by_position)), axis=1) ** 2
        lost = [x.shape[2] * jnp.finfo(x.dtype).tiny for x in (self.added, self.seen)]
        at_most = (square + least for square, least in zip(by_position, lost, strict=True))
        with_lost = jnp.sum(jnp.sqrt(math.prod(at_most)), axis=1) ** 2
        # Each number of the sum of n products in float32 is off by n units of rounding at most.
        terms = self.added.shape[2] + self.seen.shape[2] + 2 * added.shape[1]
        rounding = terms * jnp.finfo(added.dtype).eps / 2 * largest
        by_row = jnp.sum(jnp.sum(added * seen, axis=2), axis=1)
        norms = by_row + rounding + (with_lost - largest)
        return norms if self.bias is None else norms + jnp.sum(_flat(self.bias) ** 2, axis=1)

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        matrix = jnp.einsum("bpo,bpk->ko", weights[:, None, None] * self.added, self.seen)
        return _named(self.kernels(matrix), _weighted(weights, self.bias))

    def written_out(self) -> dict[str, Array]:
        matrices = jnp.einsum("bpo,bpk->bko", self.added, self.seen)
        return _named(self.kernels(matrices), self.bias)


# Numbers in one example's gradient: more do not stay in cache until the weighted sum needs them.
GRAM_ABOVE = 2**18


def conv_rule(layer: Conv, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a convolution: its kernel's matrix product, example by example."""
    window = convolution.window_of(layer, inputs.shape)
    bias = outputs.sum(axis=(1, 2)) if layer.use_bias else None
    if window.direct_gradients(inputs.shape[1:3]):
        computed = convolution.kernel_gradients(inputs, outputs, window)
        return KernelGradients(computed, bias, lambda c: jnp.moveaxis(c, -4, -2), exact=True)
    seen = convolution.gather(inputs, window)
    added = convolution.unfold_rows(outputs, window)
    kernels = partial(convolution.kernel_from_matrix, window=window)
    # A kernel that covers blocks in part has rows in its matrix that are no parameters.
    if added.shape[-1] * seen.shape[-1] > GRAM_ABOVE and window.fits:
        by_position = (x.reshape(len(x), -1, x.shape[-1]) for x in (added, seen))
        return ByGram(*by_position, bias, kernels)
    return _multiplied(added, seen, bias, kernels, exact=window.fits)


def _multiplied(
    added: Array, seen: Array, bias: Array | None, kernels: Callable[[Array], Array], *, exact: bool
) -> LayerGradients:
    # In this order of operands: XLA's CPU takes twice as long for the transpose of the product.
    matrices = jnp.einsum("b...o,b...k->bok", added, seen)
    return KernelGradients(matrices, bias, lambda m: kernels(jnp.swapaxes(m, -1, -2)), exact)


def gram_is_less(positions: int, m: int, n: int) -> bool:
    """Whether Gram matrices are less work than gradients of m x n numbers, to square and to add up.

    In multiplications; gradients that do not stay in cache cost more than products.
    """
    multiplications = positions**2 * (m + n)
    too_large = m * n > GRAM_ABOVE and multiplications < positions * m * n
    return multiplications < 2 * m * n or too_large


def dense_rule(layer: Dense | DenseGeneral, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a dense layer, of one vector an example or of a sequence."""
    if inputs.ndim == outputs.ndim == 2:
        return DenseGradients(inputs, outputs, layer.bias is not None)
    shape, contracted = layer.kernel.shape, len(getattr(layer, "axis", (-1,)))
    (m, n), batch = map(math.prod, (shape[:contracted], shape[contracted:])), len(inputs)
    positions = math.prod(inputs.shape[1 : inputs.ndim - contracted])
    seen, added = inputs.reshape(batch, positions, m), outputs.reshape(batch, positions, n)
    bias = None if layer.bias is None else added.sum(axis=1).reshape(batch, *shape[contracted:])

    def kernels(matrices: Array) -> Array:
        return matrices.reshape(*matrices.shape[:-2], *shape)

    if gram_is_less(positions, m, n):
        return ByGram(added, seen, bias, kernels)
    return _multiplied(added, seen, bias, kernels, exact=True)


def normalisation_rule(
    layer: LayerNorm | GroupNorm, inputs: Array, outputs: Array
) -> LayerGradients:
    """Per-example gradients of a normalisation: of its scale by what the layer makes without it."""
    plain = nnx.clone(layer)
    plain.scale = plain.bias = plain.dtype = None
    each = {} if layer.bias is None else {"bias": outputs}
    if layer.scale is not None:
        each["scale"] = plain(inputs) * outputs
    return WrittenOut(
        {name: g.reshape(len(g), -1, g.shape[-1]).sum(axis=1) for name, g in each.items()}
    )


@dataclass(frozen=True)
class EmbedGradients(LayerGradients):
    """A table's per-example gradients: those of positions, for the rows that these looked up.

    Rows below 0 are none of the table's. No gradient is ever as large as the table.
    """

    rows: Int[Array, "batch positions"]
    outputs: Float[Array, "batch positions n"]
    entries: int

    def squared_norms(self) -> Float[Array, "batch"]:
        return jnp.sum(self._by_row() ** 2, axis=(1, 2))

    def weighted_sum(self, weights: Float[Array, "batch"]) -> dict[str, Array]:
        weighted = weights[:, None, None] * self._by_row()
        return {"embedding": self._table().at[self.rows].add(weighted, mode="drop")}

    def _by_row(self) -> Float[Array, "batch positions n"]:
        """Return each row's gradient at the first place that looked it up, and 0 at the others.

        Added up before it is clipped, the same for norm and sum: where places cancel, what rounding
        leaves of each in a sum over examples could be longer than all that the norm has seen.
        """
        same = self.rows[:, :, None] == self.rows[:, None, :]
        first = (self.rows >= 0) & ~jnp.any(jnp.tril(same, -1), axis=2)
        added = jnp.einsum("bpq,bqn->bpn", same.astype(self.outputs.dtype), self.outputs)
        return jnp.where(first[:, :, None], added, 0)

    def written_out(self) -> dict[str, Array]:
        def one(rows: Array, outputs: Array) -> Array:
            return self._table().at[rows].add(outputs, mode="drop")

        return {"embedding": jax.vmap(one)(self.rows, self.outputs)}

    def _table(self) -> Array:
        return jnp.zeros((self.entries, self.outputs.shape[2]), self.outputs.dtype)


def embed_rule(layer: Embed, inputs: Array, outputs: Array) -> LayerGradients:
    """Per-example gradients of a table; which rows were looked up, a table of numbers says."""
    entries, width = layer.embedding.shape
    numbered = nnx.clone(layer)
    numbered.embedding, numbered.dtype = nnx.Param(jnp.arange(entries)[:, None]), jnp.int32
    rows = numbered(inputs)[..., 0].reshape(len(inputs), -1)
    return EmbedGradients(rows, outputs.reshape(*rows.shape, width), entries)


Rule = Callable[[Any, Array, Array], LayerGradients]
RULES: dict[type[nnx.Module], Rule] = {
    Conv: conv_rule,
    Dense: dense_rule,
    DenseGeneral: dense_rule,
    LayerNorm: normalisation_rule,
    GroupNorm: normalisation_rule,
    Embed: embed_rule,
}
