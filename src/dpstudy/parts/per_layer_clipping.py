"""Clipping layer by layer: each layer's part of an example's gradient to its own bound.

McMahan et al. (2018, "Learning differentially private recurrent language models", section 2.1)
clip so, with equal shares of the bound. Audited beside flat clipping; no paper of the study trains
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from dpstudy.parts.mechanism import Bounded, Seen, clip_coefficients, counted
from dpstudy.parts.part import part

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array, Float

    from dpstudy.parts.mechanism import Microbatch


@part("per-layer")
class PerLayerClipping(Bounded):
    """Each of L layers clipped in l2 to C / √L: together no longer than √(L C² / L) = C.

    A layer is its kernel and, where it has one, its bias.

    Attributes:
        clip_norm: C, in units of the whole gradient's l2 norm.
        noise_multiplier: sigma; the noise on the sum has standard deviation sigma C.
    """

    clip_norm: float = 0.1
    noise_multiplier: float = 1.23

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """See `Mechanism`. An example with any layer clipped is seen as clipped."""
        each, gradients = batch.gradients()
        norms = {path: jnp.sqrt(square) for path, square in gradients.squared_norms.items()}
        bound = self.clip_norm / len(norms) ** 0.5
        by_layer = jnp.stack(list(norms.values()))
        whole = jnp.linalg.norm(by_layer, axis=0)
        counts = counted(mask, whole)
        total = gradients.weighted_sum_by_layer(
            {
                p: jnp.where(counts, mask * clip_coefficients(norm, bound), 0.0)
                for p, norm in norms.items()
            }
        )
        return total, Seen.of(mask, each, whole, by_layer.max(axis=0) > bound)
