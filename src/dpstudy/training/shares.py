"""One run's examples shared out among devices, none of which waits for another.

Each device sums over its share of a step's examples in a program of its own. The sums, flat, are
then copied to every device, and each adds them up in the same order. The usual way, a collective
operation within one program, makes the devices of a CPU wait for each other on the threads that
they compute with, and XLA (jaxlib 0.10) was seen to wait there for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from dpstudy.gradients.devices import EVERYWHERE, EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.sharding import Mesh
    from jaxtyping import Array, Float

    from dpstudy.parts.sampling import Draw


def mine(draw: Draw, mesh: Mesh) -> Draw:
    """Return every n-th drawn example, for the n devices that share a run's examples.

    Only within a function that is mapped over `mesh`.
    """
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
