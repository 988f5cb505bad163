"""Sums over a step's examples, one microbatch after the other.

A microbatch is small enough for its patches, activations and per-example gradients to stay in
cache, and as many are taken as the drawn examples need: the sum is exact for a logical batch of
any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

from dpstudy.gradients import devices
from dpstudy.gradients.layers import examples_in

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.parts.sampling import Draw

Sum = TypeVar("Sum")


def over_examples(
    part: Callable[..., Sum], nothing: Sum, draw: Draw, arrays: tuple[Any, ...], microbatch: int
) -> Sum:
    """Return the sum of `part` over the drawn examples; NaN if it is of others than there are.

    Args:
        part: from one microbatch of each array, and a mask of those of its examples that count,
            to a sum over them.
        nothing: the empty sum.
        draw: which examples.
        arrays: the dataset, each an array or a tree of arrays, examples first.
        microbatch: examples in one call of `part`.

    Raises:
        ValueError: the arrays are not all of as many examples, or the draw is of more or fewer.
    """
    examples = examples_in(arrays)
    if draw.among.examples not in (None, examples):
        raise ValueError(f"a draw among {draw.among.examples} examples, where {examples} are given")
    # Independent work for cores that share a device: most operations on a microbatch keep to one.
    abreast = 1 if devices.core_each() or jax.default_backend() != "cpu" else 2
    size = min(microbatch, -(-len(draw.indices) // abreast))
    indices = jnp.pad(draw.indices, (0, -len(draw.indices) % (size * abreast)))
    # Gathered once, as stored: inside the loop XLA would gather anew for each use of an example.
    batch = jax.tree.map(lambda array: jnp.asarray(array)[indices], arrays)

    def add(index: Array, so_far: Any) -> Any:
        starts = [(index * abreast + beside) * size for beside in range(abreast)]
        return jax.tree.map(lambda *terms: sum(terms), so_far, *map(one, starts))

    def one(start: Array) -> Any:
        chosen = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), batch)
        mask: Float[Array, "size"] = start + jnp.arange(size) < draw.count
        return part(*chosen, mask.astype(jnp.float32))

    total = jax.lax.fori_loop(0, -(-draw.count // (size * abreast)), add, nothing)
    if draw.among.examples is not None:
        return total
    # Beyond the last example JAX would take that one, as often as is asked for.
    real = jnp.arange(len(draw.indices)) < draw.count
    beyond = jnp.any(real & ((draw.indices < 0) | (draw.indices >= examples)))
    beyond |= draw.count > len(draw.indices)
    return jax.tree.map(lambda leaf: jnp.where(beyond, jnp.nan, leaf), total)
