"""What clipping does to gradients: their norms before it, and how it turns their mean.

Losing less, Figures 1 (c, d), 7 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax

from dpstudy.gradients import per_example
from dpstudy.parts.measure import Examples, Measure, Moment, counts_by_norm, in_chunks
from dpstudy.parts.mechanism import ByNorm
from dpstudy.parts.part import SpecError, part

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array

    from dpstudy.parts.mechanism import Mechanism


@part("clipping-bias")
class ClippingBias(Measure):
    """Of per-example gradients, by the clip of the run's mechanism.

    `counts`: examples by the norm of their gradient before clipping, as in `BoundedNorms`.
    `cosine`: between the mean of the clipped gradients and that of the unclipped ones.
    """

    def check_mechanism(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, ByNorm):
            raise SpecError(f"{self.kind!r} is of clips by norm, got {mechanism.kind!r}")

    def __call__(self, moment: Moment) -> dict[str, Array]:
        graph = moment.network.graph()

        def of_chunk(chunk: Examples) -> tuple[Array, nnx.State, nnx.State]:
            _, gradients = per_example.gradients(graph, moment.losses, moment.params, *chunk)
            norms = gradients.norms()
            clipped = gradients.weighted_sum(moment.mechanism.coefficients(norms))
            return norms, clipped, gradients.weighted_sum(jnp.ones_like(norms))

        norms, *means = jax.lax.map(of_chunk, in_chunks(moment.train))
        clipped, plain = jax.tree.map(lambda sums: sums.sum(axis=0), tuple(means))
        lengths = optax.tree.norm(clipped) * optax.tree.norm(plain)
        cosine = optax.tree.vdot(clipped, plain) / jnp.maximum(lengths, 1e-30)
        return {"counts": counts_by_norm(norms), "cosine": cosine}
