"""Batches and noise from the generator of the operating system, safe against floating point.

JAX's generator draws all of a run from one short key, and is not cryptographic. Here each bit is of
`os.urandom`: no key is kept that could be stolen or guessed, so that nothing can be drawn again.
It is drawn by the processor outside `jax.jit`, which costs milliseconds a step.

Normals in floating point have gaps, by which a sum may tell what was added to it (Mironov 2012).
Two remedies, of which each would do alone. A normal is the sum of four over two, as in Opacus'
secure mode: to undo it takes a search through all that four may be (Holohan and Braghin 2021,
Section 4). And noise is added in double precision and rounded once, with the sum, to single.
"""

import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, UInt64

from dpstudy.parts.sampling import Among, Draw, capacity_for

# Independent normals whose sum is one: 2n in the paper, n being 2.
_SUMMED = 4
_BITS = 53


def uniform(count: int) -> Float[np.ndarray, "count"]:
    """Draw numbers from (0, 1], each a multiple of 2^-53.

    >>> bool(((found := uniform(1_000)) > 0).all() and (found <= 1).all())
    True
    """
    return ((_words(count) >> np.uint64(64 - _BITS)) + 1.0) * 2.0**-_BITS


def normal(shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
    """Draw standard normals, each the sum of four by Box and Muller, over two.

    >>> bool(abs(normal((10_000,)).std() - 1) < 0.05)
    True
    """
    count = math.prod(shape)
    # Two of a pair are as long as one another: each of the four is of a pair of its own.
    radius = np.sqrt(-2 * np.log(uniform(_SUMMED * count)))
    each = radius * np.cos(2 * np.pi * uniform(_SUMMED * count))
    return (each.reshape(_SUMMED, count).sum(0) / math.sqrt(_SUMMED)).reshape(shape)


def poisson(examples: int, batch: int) -> Draw:
    """Keep each of so many `examples` with probability `batch` / `examples`, or 2^-64 less.

    As `sampling.poisson`, with room for as many.

    >>> draw = poisson(examples=100, batch=100)
    >>> int(draw.count), draw.indices.tolist() == list(range(100))
    (100, True)

    Raises:
        ValueError: a batch below 1, or of more than there are.
    """
    capacity = capacity_for(examples, batch)
    # Below this number are batch / examples of all 64-bit words, rounded down: never more.
    kept = (
        np.flatnonzero(_words(examples) < np.uint64((batch << 64) // examples))
        if (batch < examples)
        else np.arange(examples)
    )
    indices = np.zeros(capacity, np.int32)
    indices[: len(kept)] = kept[:capacity]
    overflow = jnp.bool_(len(kept) > capacity)
    return Draw(jnp.asarray(indices), jnp.int32(len(kept)), overflow, Among(examples))


def gaussian_noise(standard_deviation: float) -> optax.GradientTransformation:
    """Return the optax transformation that adds noise to a sum of gradients, outside `jax.jit`.

    >>> noise = gaussian_noise(0.5)
    >>> noisy, _ = noise.update(jnp.zeros(10_000), noise.init(None))
    >>> bool(abs(noisy.std() - 0.5) < 0.025)
    True

    Raises:
        ValueError: an update within `jax.jit`, which would draw noise once and for all.
    """

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(noisy, updates), state

    def noisy(total: Any) -> Any:
        if isinstance(total, jax.core.Tracer):
            raise ValueError("secure noise is drawn outside jax.jit: inside it would be a constant")
        exact = np.asarray(total, np.float64)
        return jnp.asarray(exact + standard_deviation * normal(exact.shape), jnp.float32)

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _words(count: int) -> UInt64[np.ndarray, "count"]:
    return np.frombuffer(os.urandom(8 * count), np.uint64)
