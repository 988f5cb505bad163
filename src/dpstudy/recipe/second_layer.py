"""A second layer: patches of the maps of a first layer's responses, answered to by drawn patches.

As the first layer, one scale up: responses of a few filters, soft-thresholded on both sides and
averaged over 2 x 2 pixels, are the channels of a new image, half as large. Its patches are
contrast-normalised and whitened, and their cosines with patches of drawn images thresholded.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from dpstudy.recipe import patch_features
from dpstudy.recipe.patch_features import (
    Filters,
    Pixels,
    deskewed,
    of_views,
    pooled,
    regions,
    responses,
    windows,
)
from dpstudy.recipe.views import View

# The first layer's filters, in pixels a side, and its threshold; then the second's, in pairs.
_FIRST, FIRST_SIDE, SIDE = 0.3, 5, 3
# Images and patches of them that the second layer is fitted to.
_IMAGES, _PATCHES = 2_000, 40_000
# The share of a filter's responses that are active on each side; as in the first layer, whitening
# is regularised by a share of the mean variance. The last keeps flat patches small.
_ACTIVE, _WHITENING, _CONTRAST = 0.1, 0.1, 1e-3


class Layer(NamedTuple):
    """What a second layer is computed with: all of it drawn, none of it private."""

    first: Filters
    mean: Float[Array, "pixels"]
    """Of normalised patches of maps."""
    whitening: Float[Array, "pixels directions"]
    filters: Float[Array, "directions filters"]
    threshold: Float[Array, ""]


def choose(
    images: Pixels, first: int, directions: int, filters: int, draw: np.random.Generator
) -> Layer:
    """Choose both layers' filters among the patches of images; errors as of `choose_filters`."""
    bank = patch_features.choose_filters(images, FIRST_SIDE, first, draw)
    of_all = jax.jit(partial(jax.lax.map, lambda one: _maps(one.astype(jnp.float32) / 255, bank)))
    maps = np.asarray(of_all(images[:_IMAGES]))
    which, top, left = (
        draw.integers(most, size=_PATCHES)
        for most in (len(maps), maps.shape[1] - SIDE + 1, maps.shape[2] - SIDE + 1)
    )
    cut = np.lib.stride_tricks.sliding_window_view(maps, (SIDE, SIDE), axis=(1, 2))
    patches = np.moveaxis(cut[which, top, left], 1, -1).reshape(_PATCHES, -1)
    patches = np.asarray(_normalised(patches))
    mean = patches.mean(0)
    variances, axes = np.linalg.eigh(np.cov(patches.T, bias=True))
    leading = axes[:, : -directions - 1 : -1]
    kept = variances[: -directions - 1 : -1]
    whitening = leading / np.sqrt(kept + _WHITENING * kept.mean())
    white = (patches - mean) @ whitening
    chosen = patch_features.unlike(white, filters).T
    threshold = np.quantile(np.abs(white @ chosen), 1 - 2 * _ACTIVE)
    return Layer(
        bank,
        *(jnp.asarray(one, jnp.float32) for one in (mean, whitening, chosen)),
        jnp.float32(threshold),
    )


def _maps(image: Float[Array, "h w c"], bank: Filters) -> Float[Array, "i j maps"]:
    found = responses(image, bank)
    sides = [jax.nn.relu(sign * found - _FIRST) for sign in (1, -1)]
    both = jnp.concatenate(sides, axis=-1)
    height, width = (size // 2 for size in both.shape[:2])
    pairs = both[: 2 * height, : 2 * width].reshape(height, 2, width, 2, -1)
    return pairs.mean((1, 3))


def _normalised(patches: Float[Array, "*n pixels"]) -> Float[Array, "*n pixels"]:
    centred = patches - patches.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).sum(-1, keepdims=True) + _CONTRAST)


@partial(jax.jit, static_argnames=("views", "grids", "overlapping", "deslanted"))
def features(
    pixels: UInt8[Array, "n h w c"],
    layer: Layer,
    *,
    views: tuple[View, ...],
    grids: tuple[int, ...],
    overlapping: bool = False,
    deslanted: bool,
) -> Float[Array, "n features"]:
    """Return the square roots of the second layer's thresholded responses, by region."""

    def of_view(image: Float[Array, "h w c"]) -> Float[Array, "features"]:
        patches = _normalised(windows(_maps(image, layer.first), SIDE))
        found = (patches - layer.mean) @ layer.whitening @ layer.filters
        return pooled(found, layer.threshold, regions(found.shape[:2], grids, overlapping))

    return of_views(of_view, pixels, views, deskewed if deslanted else lambda image: image)
