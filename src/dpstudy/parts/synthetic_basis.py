"""The basis that whitened features are written in, fitted to synthetic images alone.

Filters are patches of the images; each feature is standardised by them; and the basis is that of
their features' principal components. It is kept in the user's cache: fitting takes minutes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from dpstudy.parts import files, patch_features, synthetic_images
from dpstudy.parts.files import DataError

if TYPE_CHECKING:
    from jaxtyping import Array, Float, UInt8

    from dpstudy.parts.patch_features import Filters

# Images in one call, and the sides of filters in pixels.
BATCH, _SIDES = 250, (5, 8)
# Added to a feature's standard deviation: some filters answer to no synthetic image.
_FLAT = 1e-6


class Basis(NamedTuple):
    """How an image's features, and then its components, are computed."""

    small: Filters
    large: Filters
    mean: Float[np.ndarray, "features"]
    directions: Float[np.ndarray, "features components"]
    """Principal directions, each feature divided by its standard deviation."""
    variances: Float[np.ndarray, "components"]
    """Of the synthetic images' components, the largest first."""


def fit(
    scenes: str,
    synthetic: int,
    shape: tuple[int, int, int],
    filters: tuple[int, int],
    threshold: float,
    mirrored: bool,
    components: int,
    seed: int,
) -> Basis:
    """Draw synthetic images of a shape, and fit a basis to them.

    The settings are those of `SyntheticFeatures`; `filters` are the numbers of 5 x 5 and 8 x 8.

    Raises:
        SpecError: the images have fewer filters that differ.
    """
    pixels = synthetic_images.draw(scenes, seed, synthetic, shape)
    draw = np.random.default_rng(seed)
    banks = tuple(
        patch_features.choose_filters(pixels, side, count, draw)
        for side, count in zip(_SIDES, filters, strict=True)
    )
    # In place, where it can be: the features alone take a gigabyte.
    found = _features(pixels, banks, threshold, mirrored)
    mean, deviation = found.mean(0), found.std(0) + _FLAT
    found -= mean
    found /= deviation
    # Of images times images, since there are fewer of them than of features.
    gram = found @ found.T
    gram /= synthetic
    variances, weights = np.linalg.eigh(gram)
    del gram
    variances = np.maximum(variances[: -components - 1 : -1], np.finfo(np.float32).tiny)
    directions = found.T @ (weights[:, : -components - 1 : -1] / np.sqrt(variances * synthetic))
    directions /= deviation[:, None]
    return Basis(*map(np.asarray, banks), mean, directions, variances)


def _features(
    pixels: UInt8[np.ndarray, "n h w c"],
    banks: tuple[Filters, ...],
    threshold: float,
    mirrored: bool,
) -> Float[np.ndarray, "n features"]:
    count = 2 * patch_features.GRID**2 * sum(bank.shape[-1] for bank in banks)
    found = np.empty((len(pixels), count), np.float32)
    for start in range(0, len(pixels), BATCH):
        part = slice(start, start + BATCH)
        found[part] = patch_features.features(pixels[part], banks, threshold, mirrored=mirrored)
    return found


def project(
    basis: Basis, pixels: UInt8[np.ndarray, "n h w c"], threshold: float, mirrored: bool
) -> Float[Array, "n components"]:
    """Return the principal components of images."""
    banks = (basis.small, basis.large)
    found = patch_features.features(pixels, banks, threshold, mirrored=mirrored)
    return _centred_product(found, basis.mean, basis.directions)


@jax.jit
def _centred_product(found: Array, mean: Array, directions: Array) -> Array:
    return (found - mean) @ directions


def read(path: Path) -> Basis | None:
    """Return the basis of a file of the cache; None if it is not there, or is damaged.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with np.load(path) as stored:
            return Basis(*(stored[name] for name in Basis._fields))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({files.brief(error)}); delete it, and it is computed again"
        ) from error


def write(path: Path, basis: Basis) -> None:
    """Write a basis, whole or not at all.

    Raises:
        DataError: it cannot be written.
    """
    with files.written_whole(path) as stream:
        np.savez(stream, **basis._asdict())
