"""Sums over a step's examples: one microbatch after the other, and shared out among devices.

A microbatch is small enough for its patches, activations and per-example gradients to stay in
cache, and as many are taken as the drawn examples need: the sum is exact for any logical batch.

Where devices share one run's examples, none waits for another: each sums over its share in a
program of its own, the sums, flat, are copied to every device, and each adds them up in the same
order. A collective operation within one program makes the devices of a CPU wait for each other on
the threads that they compute with, and XLA (jaxlib 0.10) was seen to wait there for ever.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jaxtyping import Array, Float

from dpstudy.gradients import devices
from dpstudy.gradients.devices import EVERYWHERE, EXAMPLES
from dpstudy.gradients.layers import examples_in
from dpstudy.parts.sampling import Draw

Sum = TypeVar("Sum")


def over_examples(
    part: Callable[..., Sum], nothing: Sum, draw: Draw, arrays: tuple[Any, ...], microbatch: int
) -> Sum:
    """Return the sum of `part` over the drawn examples; NaN if it is of others than there are.

    `part` makes of a microbatch of each of the `arrays`, which have all examples, and of a mask of
    those that count, a sum over them; `nothing` is the empty sum. ValueError where the arrays are
    not all of as many examples, or the draw is of more or fewer.
    """
    examples = examples_in(arrays)
    if draw.among.examples not in (None, examples):
        raise ValueError(f"a draw among {draw.among.examples} examples, where {examples} are given")
    # Independent work for cores that share a device: most operations on a microbatch keep to one.
    abreast = 1 if devices.core_each() or devices.backend() != "cpu" else 2
    size = min(microbatch, -(-len(draw.indices) // abreast))
    indices = jnp.pad(draw.indices, (0, -len(draw.indices) % (size * abreast)))
    # Gathered once, as stored: inside the loop XLA would gather anew for each use of an example.
    batch = jax.tree.map(lambda array: jnp.asarray(array)[indices], arrays)

    def add(index: Array, so_far: Any) -> Any:
        starts = [(index * abreast + beside) * size for beside in range(abreast)]
        for found in list(map(one, starts)):
            so_far = jax.tree.map(_plus, so_far, found, is_leaf=lambda x: isinstance(x, _Exact))
        return so_far

    def one(start: Array) -> Any:
        chosen = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), batch)
        mask: Float[Array, "size"] = start + jnp.arange(size) < draw.count
        return part(*chosen, mask.astype(jnp.float32))

    steps = -(-draw.count // (size * abreast))
    exact = jax.lax.fori_loop(0, steps, add, jax.tree.map(_Exact.of, nothing))
    total = jax.tree.map(sum, exact, is_leaf=lambda x: isinstance(x, _Exact))
    if draw.among.examples is not None:
        return total
    # Beyond the last example JAX would take that one, as often as is asked for.
    real = jnp.arange(len(draw.indices)) < draw.count
    beyond = jnp.any(real & ((draw.indices < 0) | (draw.indices >= examples)))
    beyond |= draw.count > len(draw.indices)
    return jax.tree.map(lambda leaf: jnp.where(beyond, jnp.nan, leaf), total)


class _Exact(NamedTuple):
    """A sum, and what rounding took from it."""

    total: Array
    lost: Array

    @classmethod
    def of(cls, nothing: Any) -> Self:
        return cls(jnp.asarray(nothing), jnp.zeros_like(nothing))


def _plus(so_far: _Exact, term: Array) -> _Exact:
    """Return a sum and a term more, by Knuth's error-free addition.

    Without it one example turns the rounding of all that is added after it, by as much together as
    several examples (Casacuberta et al. 2022).
    """
    total = so_far.total + term
    added = total - so_far.total
    lost = (so_far.total - (total - added)) + (term - added)
    return _Exact(total, so_far.lost + jnp.where(jnp.isfinite(total), lost, 0))


def mine(draw: Draw, mesh: Mesh) -> Draw:
    """Return every n-th drawn example, where the caller is mapped over `mesh`'s n devices."""
    count = mesh.shape[EXAMPLES]
    if count == 1:
        return draw
    me = jax.lax.axis_index(EXAMPLES)
    indices = jnp.pad(draw.indices, (0, -len(draw.indices) % count)).reshape(-1, count)
    indices = jax.lax.dynamic_index_in_dim(indices, me, axis=1, keepdims=False)
    return draw._replace(indices=indices, count=(draw.count - me + count - 1) // count)


def flat(tree: Any) -> Float[Array, "values"]:
    """Return a tree of arrays as one, so that it can be copied at once."""
    return ravel_pytree(tree)[0]


def exchanged(parts: Array, mesh: Mesh) -> tuple[Array, ...]:
    """Return each device's part of `parts`, in the order of the devices, whole on each of them."""
    everywhere = jax.NamedSharding(mesh, EVERYWHERE)
    part = {shard.device: shard.data for shard in parts.addressable_shards}
    places = list(mesh.devices.flat)
    # In one call, and none of a part to where it is: each call takes as long as a small copy.
    away = [(source, target) for source in places for target in places if source != target]
    copies = jax.device_put([part[source] for source, _ in away], [target for _, target in away])
    on = dict(zip(away, copies, strict=True)) | {(place, place): part[place] for place in places}
    return tuple(
        jax.make_array_from_single_device_arrays(
            part[source].shape, everywhere, [on[source, target] for target in places]
        )
        for source in places
    )


def added(parts: Sequence[Array], like: Any) -> Any:
    """Return the sum of flat parts as a tree like `like`."""
    return ravel_pytree(like)[1](sum(part.reshape(-1) for part in parts))
