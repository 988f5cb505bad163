"""Which examples take part in a step.

Poisson sampling keeps each example with probability q, independently, at every step: that is what
the accountants analyse. A compiled step needs a fixed size, so the drawn examples are listed in
an array of fixed capacity, large enough that a draw beyond it is practically impossible; should
it happen, it is reported and the run is void, never quietly cut short.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int

OVERFLOW_PROBABILITY = 1e-15


class Draw(NamedTuple):
    """The examples of one step: the first `count` of `indices`. The rest is padding."""

    indices: Int[Array, "capacity"]
    count: Int[Array, ""]
    overflow: Bool[Array, ""]


def poisson(key: Array, examples: int, batch: int, capacity: int | None = None) -> Draw:
    """Keep each of `examples` with probability batch / examples.

    `capacity` is the room for drawn examples; by default, `capacity_for` the batch.
    """
    capacity = capacity_for(examples, batch) if capacity is None else capacity
    kept = jax.random.bernoulli(key, batch / examples, (examples,))
    position = jnp.cumsum(kept)
    # The i-th kept example is the first whose running count is i.
    indices = jnp.searchsorted(position, jnp.arange(1, capacity + 1), method="scan_unrolled")
    count = position[-1]
    return Draw(jnp.minimum(indices, examples - 1), count, count > capacity)


def shuffled(order: Int[Array, "examples"], batch: int, step_in_epoch: Array) -> Draw:
    """Return one of the batches that an epoch's permutation of the examples is cut into."""
    indices = jax.lax.dynamic_slice_in_dim(order, step_in_epoch * batch, batch)
    return Draw(indices, jnp.int32(batch), jnp.bool_(False))


def capacity_for(examples: int, batch: int) -> int:
    """Return a capacity that one Poisson draw exceeds with probability below 1e-15.

    By the Chernoff bound P(X >= c) <= exp(-n KL(c/n || q)) for X binomial(n, q). A study of a
    thousand runs of ten thousand steps overflows with probability below 1e-8.
    """
    q = batch / examples
    capacity = batch
    while capacity < examples and _log_tail(examples, q, capacity) > math.log(OVERFLOW_PROBABILITY):
        capacity += max(1, batch // 256)
    return min(capacity, examples)


def _log_tail(n: int, q: float, capacity: int) -> float:
    a = capacity / n
    if a >= 1:
        return n * math.log(q)
    return -n * (a * math.log(a / q) + (1 - a) * math.log((1 - a) / (1 - q)))
