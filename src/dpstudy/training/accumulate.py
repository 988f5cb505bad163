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

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.parts.sampling import Draw

Sum = TypeVar("Sum")


def over_examples(
    part: Callable[..., Sum], nothing: Sum, draw: Draw, arrays: tuple[Array, ...], microbatch: int
) -> Sum:
    """Return the sum of `part` over the drawn examples.

    Args:
        part: from one microbatch of each array, and a mask of those of its examples that count,
            to a sum over them.
        nothing: the empty sum.
        draw: which examples.
        arrays: the dataset, examples first.
        microbatch: examples in one call of `part`.
    """
    # Independent work for cores that share a device: most operations on a microbatch keep to one.
    abreast = 1 if devices.core_each() or jax.default_backend() != "cpu" else 2
    size = min(microbatch, -(-len(draw.indices) // abreast))
    indices = jnp.pad(draw.indices, (0, -len(draw.indices) % (size * abreast)))
    # Gathered once, as stored: inside the loop XLA would gather anew for each use of an example.
    batch = tuple(array[indices] for array in arrays)

    def add(index: Array, so_far: Any) -> Any:
        starts = [(index * abreast + beside) * size for beside in range(abreast)]
        return jax.tree.map(lambda *terms: sum(terms), so_far, *map(one, starts))

    def one(start: Array) -> Any:
        chosen = (jax.lax.dynamic_slice_in_dim(array, start, size) for array in batch)
        mask: Float[Array, "size"] = start + jnp.arange(size) < draw.count
        return part(*chosen, mask.astype(jnp.float32))

    return jax.lax.fori_loop(0, -(-draw.count // (size * abreast)), add, nothing)
