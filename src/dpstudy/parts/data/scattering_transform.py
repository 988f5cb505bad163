"""Scattering coefficients of images: computed once a dataset, and kept in the user's cache.

A coefficient is an average of |x * ψ| or ||x * ψ1| * ψ2| over wavelets ψ that are fixed, so that no
one's data is in the features (Tramèr and Boneh 2021). With J = 2
scales and L = 8 angles a colour has 1 + 16 + 64 of them, at every fourth pixel.

Stored as float16, which moves a coefficient by at most 1 in 2048. Another processor may round one
otherwise: unlike pixels, features are equal between machines only to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.parts.data import feature_cache, files
from dpstudy.parts.data.files import DataError

if TYPE_CHECKING:
    from jaxtyping import Float, Float16, UInt8

    from dpstudy.parts.data.images import Dataset

    Features = Float16[np.ndarray, "n i j k"]
    Pixels = UInt8[np.ndarray, "n h w c"]

SCALES, ANGLES = 2, 8
COEFFICIENTS = 1 + SCALES * ANGLES + ANGLES**2 * SCALES * (SCALES - 1) // 2

# Larger batches are no faster on one core.
_BATCH = 100


def shape_of(image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return height, width and channels of the features of an image with those."""
    height, width, colours = image_shape
    every = 2**SCALES
    return height // every, width // every, colours * COEFFICIENTS


def features(dataset: Dataset) -> tuple[Features, Features]:
    """Return the features of training and test images, read-only and mapped into memory.

    Channels are in the order of Tramèr and Boneh's code: all coefficients of the first colour, then
    those of the second. What the cache does not have whole is computed, with a progress bar.

    Raises:
        DataError: kymatio is missing, or the cache cannot be read or written.
    """
    count, image_shape = len(dataset.train_images), dataset.train_images.shape[1:]
    shape = (count + len(dataset.test_images), *shape_of(image_shape))

    def compute() -> Iterator[Features]:
        transform = transform_of(image_shape)
        return feature_cache.of_each_image(dataset, transform, "scattering", _BATCH)

    found = feature_cache.kept(file_of(dataset), shape, compute)
    return found[:count], found[count:]


def file_of(dataset: Dataset) -> Path:
    """Return where the features of a dataset are kept: one file, training images first."""
    name = f"J{SCALES}-L{ANGLES}-{dataset.fingerprint[:16]}.npy"
    return files.cache_folder() / "scattering" / name


@lru_cache
def transform_of(image_shape: tuple[int, int, int]) -> Callable[[Pixels], Features]:
    """Return the function from images of a shape to their features.

    Raises:
        DataError: kymatio is missing.
    """
    try:
        # Not by `kymatio.jax`, whose three-dimensional part asks for what SciPy 1.17 took out.
        from kymatio.scattering2d.frontend.jax_frontend import ScatteringJax2D
        from tqdm import tqdm  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"scattering features need the packages kymatio and tqdm ({files.brief(error)}): pip "
            "install kymatio tqdm, or copy the folder scattering of a cache that has them into "
            f"{files.cache_folder()}"
        ) from error
    scattering = ScatteringJax2D(J=SCALES, shape=image_shape[:2], L=ANGLES)

    @jax.jit
    def transform(pixels: UInt8[jax.Array, "n h w c"]) -> Float[jax.Array, "n i j k"]:
        channels_first = jnp.moveaxis(pixels.astype(jnp.float32) / 255, -1, 1)
        found = scattering(channels_first)  # n, colours, coefficients, i, j
        found = found.reshape(len(found), -1, *found.shape[-2:])
        return jnp.moveaxis(found, 1, -1).astype(jnp.float16)

    return lambda pixels: np.asarray(transform(pixels))
