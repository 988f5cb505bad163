"""Where in an image which colours and edges are: what contrast-normalised patches do not tell."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from dpstudy.recipe.patch_features import regions

# Of the Gaussians that a pixel's colour is soft-assigned by, channels being from 0 to 1.
_WIDTH = 0.18
# Levels of the slope of light, in units a pixel; and the width of each, in its logarithm.
_SLOPES, _SLOPE_WIDTH = (0.02, 0.05, 0.1, 0.2, 0.4), 0.5
_TINY = 1e-3
LEVELS = len(_SLOPES)


@partial(jax.jit, static_argnames=("mirrored", "grids"))
def features(
    pixels: UInt8[Array, "n h w c"],
    colours: Float[Array, "bins c"],
    *,
    mirrored: bool,
    grids: tuple[int, ...],
) -> Float[Array, "n features"]:
    """Return the square roots of the share of each colour and slope of light, by region.

    If `mirrored`, the mean share over an image and its mirror image, where a region is another.
    """
    mean_over = regions(pixels.shape[1:3], grids)
    if mirrored:
        mean_over = (mean_over + regions(pixels.shape[1:3], grids, mirrored=True)) / 2

    def of_one(image: UInt8[Array, "h w c"]) -> Float[Array, "features"]:
        shares = mean_over @ _shares(image.astype(jnp.float32) / 255, colours)
        return jnp.sqrt(shares).reshape(-1)

    return jax.lax.map(of_one, pixels)


def _shares(
    image: Float[Array, "h w c"], colours: Float[Array, "bins c"]
) -> Float[Array, "h*w bins"]:
    """Return each pixel's share in each colour and slope of light."""
    pixels = image.reshape(-1, image.shape[-1])
    # Channel by channel: XLA takes five times as long for a sum over an axis of three.
    apart = sum((of[:, None] - colour) ** 2 for of, colour in zip(pixels.T, colours.T, strict=True))
    near = jnp.exp(-apart / (2 * _WIDTH**2))
    near /= near.sum(1, keepdims=True) + _TINY
    slope = jnp.hypot(*jnp.gradient(image.mean(-1))).reshape(-1, 1)
    apart = jnp.log(slope + _TINY) - jnp.log(np.float32(_SLOPES))
    return jnp.concatenate([near, jnp.exp(-(apart**2) / (2 * _SLOPE_WIDTH**2))], axis=1)
