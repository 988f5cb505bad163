"""Where in an image which colours and edges are: what contrast-normalised patches do not tell."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from dpstudy.recipe.patch_features import of_views, regions
from dpstudy.recipe.views import View

# Of the Gaussians that a pixel's colour is soft-assigned by, channels being from 0 to 1.
_WIDTH = 0.18
# Levels of the slope of light, in units a pixel; and the width of each, in its logarithm.
_SLOPES, _SLOPE_WIDTH = (0.02, 0.05, 0.1, 0.2, 0.4), 0.5
_TINY = 1e-3
LEVELS = len(_SLOPES)


@partial(jax.jit, static_argnames=("views", "grids"))
def features(
    pixels: UInt8[Array, "n h w c"],
    colours: Float[Array, "bins c"],
    *,
    views: tuple[View, ...],
    grids: tuple[int, ...],
) -> Float[Array, "n features"]:
    """Return the square roots of the share of each colour and slope of light, by region."""
    return of_views(lambda image: _shares(image, colours, grids), pixels, views)


def _shares(
    image: Float[Array, "h w c"], colours: Float[Array, "bins c"], grids: tuple[int, ...]
) -> Float[Array, "features"]:
    pixels = image.reshape(-1, image.shape[-1])
    apart = ((pixels[:, None] - colours) ** 2).sum(-1)
    near = jnp.exp(-apart / (2 * _WIDTH**2))
    near /= near.sum(1, keepdims=True) + _TINY
    light = image.mean(-1)
    slope = jnp.hypot(*jnp.gradient(light)).reshape(-1, 1)
    apart = jnp.log(slope + _TINY) - jnp.log(np.float32(_SLOPES))
    steep = jnp.exp(-(apart**2) / (2 * _SLOPE_WIDTH**2))
    return (regions(image.shape[:2], grids) @ jnp.concatenate([near, steep], axis=1)).reshape(-1)
