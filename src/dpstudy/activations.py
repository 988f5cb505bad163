"""The activations under study: the tempered sigmoid family and relu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Scalar = float | Float[Array, ""]


def tempered_sigmoid(
    x: Float[Array, "*shape"], scale: Scalar, inverse_temperature: Scalar, offset: Scalar
) -> Float[Array, "*shape"]:
    """Return s / (1 + exp(-T x)) - o (tempered sigmoids, Eq. 3).

    (s, T, o) = (2, 2, 1) is tanh. Computed as s/2 * (tanh(T x / 2) + 1) - o, the same function,
    which is exact for tanh, does not overflow, and is cheap where tanh is a vector instruction.
    """
    half = scale / 2
    return half * jnp.tanh(x * (inverse_temperature / 2)) + (half - offset)


def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return max(x, 0), with gradient 0 at 0."""
    return jax.nn.relu(x)
