"""DP-SGD for one's own network: the clipped gradient of any flax model, for an optax loop.

`book/own_network.py` is a complete example. What makes the epsilon true is the caller's to keep:
examples drawn by `sampling.poisson`, noise of standard deviation noise multiplier x sensitivity
on the *sum*, a division by the *expected* batch size, and nothing else that looks at the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import nnx

from dpstudy import accumulate, devices, layers, mechanisms, per_example

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jaxtyping import Array

    from dpstudy.per_example import Losses
    from dpstudy.sampling import Draw


@dataclass(frozen=True)
class PrivateGradient:
    """The sum of a network's clipped per-example gradients, as a function.

    Attributes:
        graph: the network without its parameters.
        losses: from a network, inputs and labels to one loss an example. An example's loss may
            depend on that example alone: no batch normalisation, no contrastive terms.
        clip_norm: C, the l2 norm to which each example's gradient is clipped.
        microbatch: examples in one pass.
        mesh: the devices that share the examples; None for one device.
    """

    graph: nnx.GraphDef
    losses: Losses
    clip_norm: float
    microbatch: int = 32
    mesh: Mesh | None = None

    @property
    def sensitivity(self) -> float:
        """The sum's l2 sensitivity to adding or removing one example: the clipping norm."""
        return self.clip_norm

    def __call__(self, params: nnx.State, inputs: Array, labels: Array, draw: Draw) -> nnx.State:
        """Return the sum over the drawn examples, without noise; NaN if the draw overflowed.

        Args:
            params: the network's parameters.
            inputs: the whole training set, examples first.
            labels: its labels.
            draw: the examples of this step.
        """
        if self.mesh is None:
            total = self._sum(params, inputs, labels, draw)
        else:
            everywhere = devices.EVERYWHERE
            total = jax.shard_map(
                self._sum_shared,
                mesh=self.mesh,
                in_specs=everywhere,
                out_specs=everywhere,
                check_vma=False,
            )(params, inputs, labels, draw)
        return jax.tree.map(lambda leaf: jnp.where(draw.overflow, jnp.nan, leaf), total)

    def _sum(self, params: nnx.State, inputs: Array, labels: Array, draw: Draw) -> nnx.State:
        def part(inputs: Array, labels: Array, mask: Array) -> nnx.State:
            each = per_example.gradients(self.graph, self.losses, params, inputs, labels)
            return mechanisms.clipped_sum(*each, mask, self.clip_norm)[0]

        nothing = jax.tree.map(jnp.zeros_like, params)
        return accumulate.over_examples(part, nothing, draw, (inputs, labels), self.microbatch)

    def _sum_shared(self, params: nnx.State, inputs: Array, labels: Array, draw: Draw) -> nnx.State:
        mine = devices.my_share(draw, self.mesh)
        return devices.sum_of_shares(self._sum(params, inputs, labels, mine), self.mesh)


def private_gradient(
    model: nnx.Module,
    losses: Losses,
    *,
    clip_norm: float,
    microbatch: int = 32,
    mesh: Mesh | None = None,
) -> tuple[PrivateGradient, nnx.State]:
    """Return the clipped gradient of a flax model, and the model's parameters.

    `nnx.Conv` and `nnx.Linear` layers have fast rules. A model with any other layer that has
    parameters falls back to `jax.vmap(jax.grad(...))`, and says so once.

    With `mesh=devices.mesh_for(1)` all local devices share the examples of each step; on a CPU,
    `devices.one_device_a_core()` before JAX starts makes each core one (mind its sharp edge).
    Put the training set on all of them once, by `devices.everywhere`, or every step copies it.

    Raises:
        ValueError: a clipping norm or microbatch that is not positive.
    """
    if not clip_norm > 0:
        raise ValueError(f"clip_norm must be > 0, got {clip_norm}")
    if microbatch < 1:
        raise ValueError(f"microbatch must be at least 1, got {microbatch}")
    graph, params = nnx.split(layers.tap(model), nnx.Param)
    return PrivateGradient(graph, losses, clip_norm, microbatch, mesh), params
