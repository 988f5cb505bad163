"""Per-example training losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def cross_entropy(
    logits: Float[Array, "batch classes"], labels: Int[Array, "batch"]
) -> Float[Array, "batch"]:
    """Return each example's cross-entropy, in nats (losing less, Eq. 2)."""
    log_probabilities = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]


LOSSES = {"cross-entropy": cross_entropy}
