"""Mechanisms: from per-example gradients to one noisy sum.

A mechanism bounds what one example can add to the sum, and states that bound as an l2 sensitivity
(neighbouring datasets differ by adding or removing one example). Gaussian noise of standard
deviation noise multiplier * sensitivity is added to the sum. The epsilon then follows from the
noise multiplier, the sampling probability and the number of steps alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.gradients.per_example import Gradients, Losses

    Scalar = float | Float[Array, ""]


class Seen(NamedTuple):
    """What a step saw of its examples, summed over them. Not covered by any epsilon."""

    loss: Float[Array, ""]
    norm: Float[Array, ""]
    clipped: Float[Array, ""]
    examples: Float[Array, ""]


def clip_coefficients(norms: Float[Array, "batch"], clip_norm: Scalar) -> Float[Array, "batch"]:
    """Return min(1, C / norm), the factors of flat l2 clipping (tempered sigmoids, Eq. 2)."""
    # Written so that a zero gradient keeps the factor 1 without dividing by it.
    return clip_norm / jnp.maximum(norms, clip_norm)


class FlatClipping(NamedTuple):
    """Each example's gradient, all parameters together, clipped to the l2 norm C.

    Attributes:
        clip_norm: C.
    """

    clip_norm: Scalar

    @property
    def sensitivity(self) -> Scalar:
        """C: one example more or less changes the sum by its clipped gradient, and nothing else."""
        return self.clip_norm

    def sum(
        self, losses: Float[Array, "batch"], gradients: Gradients, mask: Float[Array, "batch"]
    ) -> tuple[nnx.State, Seen]:
        """Return the sum of the clipped gradients of the examples in `mask`, and what was seen."""
        norms = gradients.norms()
        total = gradients.weighted_sum(mask * clip_coefficients(norms, self.clip_norm))
        seen = Seen(
            loss=jnp.vdot(mask, losses),
            norm=jnp.vdot(mask, norms),
            clipped=jnp.vdot(mask, norms > self.clip_norm),
            examples=mask.sum(),
        )
        return total, seen


def gaussian_noise(standard_deviation: Scalar, key: Array) -> optax.GradientTransformation:
    """Return the optax transformation that adds Gaussian noise to a sum of gradients.

    Noise is drawn anew at each update, from `key` and the number of updates so far; the same key
    and number give the same noise, so that a resumed run repeats an undisturbed one.
    """

    def init(params: optax.Params) -> optax.ScaleByScheduleState:
        del params
        return optax.ScaleByScheduleState(count=jnp.zeros([], jnp.int32))

    def update(
        updates: optax.Updates, state: optax.ScaleByScheduleState, params: object = None
    ) -> tuple[optax.Updates, optax.ScaleByScheduleState]:
        del params
        flat, unravel = ravel_pytree(updates)
        noise = jax.random.normal(jax.random.fold_in(key, state.count), flat.shape, flat.dtype)
        noisy = unravel(flat + standard_deviation * noise)
        return noisy, optax.ScaleByScheduleState(state.count + 1)

    return optax.GradientTransformation(init, update)


def plain_sum(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Array,
    labels: Array,
    mask: Float[Array, "batch"],
) -> tuple[nnx.State, Seen]:
    """Return the sum of the gradients of the examples in `mask`: no clipping, no privacy.

    Norms are not seen: that would cost the per-example gradients that this sum avoids.
    """

    def summed(params: nnx.State) -> Array:
        return jnp.vdot(mask, losses(nnx.merge(graph, params), images, labels))

    loss, total = jax.value_and_grad(summed)(params)
    return total, nothing_seen()._replace(loss=loss, examples=mask.sum())


def nothing_seen() -> Seen:
    """Return the empty sum."""
    return Seen(*(jnp.zeros(()) for _ in Seen._fields))
