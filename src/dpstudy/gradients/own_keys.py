"""Random layers, such as dropout, with a key of its own for each example.

One key for a microbatch would make what an example drops depend on its place, and so on which
others are drawn: the sums with and without an example would differ in all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key


@dataclass(frozen=True)
class OwnKeys:
    """Losses whose inputs are `(inputs, keys)`: each example is a batch of one, under its own key.

    >>> drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    >>> losses = OwnKeys(lambda network, x, _: network(x).sum(axis=1))
    >>> keys = jax.random.split(jax.random.key(1), 2)
    >>> found = losses(drop, (jnp.ones((2, 100)), keys), jnp.zeros(2))
    >>> found.shape, bool(found[0] == found[1])
    ((2,), False)
    """

    losses: Callable[[nnx.Module, Any, Any], Array]

    def __call__(
        self, network: nnx.Module, inputs: tuple[Any, Key[Array, "batch"]], labels: Any
    ) -> Array:
        """Return one loss an example, whatever `losses` makes of one."""

        def one(inputs: Any, labels: Any, key: Array) -> Array:
            alone = jax.tree.map(lambda array: array[None], (inputs, labels))
            return self.losses(reseeded(network, key), *alone)

        each = jax.vmap(one)(inputs[0], labels, inputs[1])
        if getattr(each, "shape", None) == (len(inputs[1]), 1):
            return each[:, 0]
        # Not one loss of a batch of one: as it is, for the check of losses to refuse.
        return jax.tree.map(lambda leaf: leaf[0], each)


def draws(state: nnx.State) -> bool:
    """Whether a state has keys of random numbers.

    >>> draws(nnx.state(nnx.Dropout(0.5, rngs=nnx.Rngs(0)))), draws(nnx.state(nnx.PReLU()))
    (True, False)
    """
    return bool(jax.tree.leaves(nnx.filter_state(state, nnx.RngKey)))


def reseeded(network: nnx.Module, key: Key[Array, ""]) -> nnx.Module:
    """Return a copy of a network whose random streams all start anew, from `key`.

    >>> drop, key = nnx.Dropout(0.5, rngs=nnx.Rngs(0)), jax.random.key(1)
    >>> one, same = (reseeded(drop, key)(jnp.ones(100)) for _ in range(2))
    >>> bool((one == same).all())
    True
    """
    streams = iter(range(2**31))

    def anew(leaf: nnx.Variable) -> nnx.Variable:
        # New variables: what watches the old ones does not watch a copy's.
        value = leaf.get_raw_value()
        if isinstance(leaf, nnx.RngCount):
            return type(leaf)(jnp.zeros_like(value), tag=leaf.tag)
        # As many keys as the stream has: those of mapped layers have several.
        own = jax.random.fold_in(key, next(streams))
        return type(leaf)(jax.random.split(own, value.shape), tag=leaf.tag)

    graph, random, rest = nnx.split(network, nnx.RngState, ...)
    random = jax.tree.map(anew, random, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable))
    return nnx.merge(graph, random, rest, copy=True)
