"""Which examples take part in a step.

Poisson sampling keeps each example with probability q, independently, at every step: that is what
the accountants analyse. A compiled step needs a fixed size, so the drawn examples are listed in
an array of fixed capacity, large enough that a draw beyond it is practically impossible; should
it happen, it is reported and the run is void, never quietly cut short.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from dpstudy.parts.accountable import steps_per_epoch
from dpstudy.parts.part import Part, at_least, part

Order = Int[Array, "examples"] | None

OVERFLOW_PROBABILITY = 1e-15
# Of a draw, by 23 random bits; and the probability below which these are too few.
_DRAWS, _SMALL = 2**23, 2**-10


@jax.tree_util.register_static
@dataclass(frozen=True)
class Among:
    """How many examples were drawn from, where that is known: a number that is never traced."""

    examples: int | None = None


class Draw(NamedTuple):
    """The examples of one step: the first `count` of `indices`, each once. The rest is padding."""

    indices: Int[Array, "capacity"]
    count: Int[Array, ""]
    overflow: Bool[Array, ""]
    among: Among = Among()


@dataclass(frozen=True)
class Sampling(Part):
    """How the examples of a step are chosen.

    `batch` is the number of examples expected in a step. In methods `examples` is the number of
    training examples, and `key` is of `jax.random`.
    """

    batch: int = 512

    def check(self) -> None:
        at_least(self, 1, "batch")

    def steps_per_epoch(self, examples: int) -> int:
        """Return the number of steps in one epoch of so many `examples`."""
        raise NotImplementedError

    def order(self, key: Array, examples: int, epoch: Int[Array, ""]) -> Order:
        """Return the permutation of `examples` that `key` draws for an epoch, from 0, or None."""
        raise NotImplementedError

    def draw(self, key: Array, examples: int, order: Order, step: Int[Array, ""]) -> Draw:
        """Return which `examples` `key` draws for a step, the first being 0, in that order."""
        raise NotImplementedError


@part("poisson")
class Poisson(Sampling):
    """Each example is kept with probability batch / examples, independently, at every step.

    >>> Poisson(300).steps_per_epoch(1_100)  # rounded
    4
    """

    def steps_per_epoch(self, examples: int) -> int:
        return steps_per_epoch(examples, self.batch)

    def order(self, key: Array, examples: int, epoch: Int[Array, ""]) -> None:
        """See `Sampling`: every step draws anew."""

    def draw(self, key: Array, examples: int, order: Order, step: Int[Array, ""]) -> Draw:
        return poisson(jax.random.fold_in(key, step), examples, self.batch)


@part("shuffled")
class Shuffled(Sampling):
    """A fresh permutation an epoch, cut into batches; the rest is left out.

    >>> Shuffled(300).steps_per_epoch(1_100)  # as many as are whole
    3
    """

    def steps_per_epoch(self, examples: int) -> int:
        return examples // self.batch

    def order(self, key: Array, examples: int, epoch: Int[Array, ""]) -> Int[Array, "examples"]:
        return jax.random.permutation(jax.random.fold_in(key, epoch), examples)

    def draw(self, key: Array, examples: int, order: Order, step: Int[Array, ""]) -> Draw:
        return shuffled(order, self.batch, step % self.steps_per_epoch(examples))


def poisson(key: Array, examples: int, batch: int, capacity: int | None = None) -> Draw:
    """Keep each of so many `examples` with probability `batch` / `examples`, independently.

    `key` is of `jax.random`; `capacity`, the room for drawn ones, is by `capacity_for` if None.

    >>> draw = jax.jit(lambda key: poisson(key, examples=1_000, batch=100))(jax.random.key(0))
    >>> int(draw.count), len(draw.indices), bool(draw.overflow)
    (107, 188, False)

    Raises:
        ValueError: a batch below 1, or of more than there are; no room.
    """
    _check(examples, batch)
    capacity = capacity_for(examples, batch) if capacity is None else capacity
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1, got {capacity}")
    # Rounded down: an example that is kept more often costs more than the ε that is stated.
    probability, mode = batch / examples, "low"
    if probability >= _SMALL:
        probability = math.floor(_DRAWS * probability) / _DRAWS
    else:
        probability, mode = probability * (1 - 2 / _DRAWS), "high"
    kept = jax.random.bernoulli(key, probability, (examples,), mode=mode)
    position = jnp.cumsum(kept)
    # The i-th kept example is the first whose running count is i.
    indices = jnp.searchsorted(position, jnp.arange(1, capacity + 1), method="scan_unrolled")
    count = position[-1]
    return Draw(jnp.minimum(indices, examples - 1), count, count > capacity, Among(examples))


def _check(examples: int, batch: int) -> None:
    if not 1 <= batch <= examples:
        raise ValueError(f"batch must be from 1 to the {examples} examples, got {batch}")


def shuffled(order: Int[Array, "examples"], batch: int, step_in_epoch: Array) -> Draw:
    """Return batch number `step_in_epoch`, from 0, of those that a permutation is cut into.

    >>> order = jnp.array([3, 1, 4, 0, 5, 2])
    >>> shuffled(order, batch=2, step_in_epoch=1).indices.tolist()
    [4, 0]
    """
    indices = jax.lax.dynamic_slice_in_dim(order, step_in_epoch * batch, batch)
    return Draw(indices, jnp.int32(batch), jnp.bool_(False), Among(len(order)))


def capacity_for(examples: int, batch: int) -> int:
    """Return a capacity that one Poisson draw of `batch` of `examples` exceeds with P below 1e-15.

    By the Chernoff bound P(X >= c) <= exp(-n KL(c/n || q)) for X binomial(n, q).

    >>> capacity_for(examples=60_000, batch=512)
    712

    Raises:
        ValueError: a batch below 1, or of more than there are.
    """
    _check(examples, batch)
    q, capacity = batch / examples, batch
    while (a := capacity / examples) < 1:
        log_tail = -examples * (a * math.log(a / q) + (1 - a) * math.log((1 - a) / (1 - q)))
        if log_tail <= math.log(OVERFLOW_PROBABILITY):
            break
        capacity += max(1, batch // 256)
    return min(capacity, examples)
