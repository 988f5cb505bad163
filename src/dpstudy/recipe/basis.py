"""The basis that whitened features are written in, fitted to images that are nobody's.

Each feature is standardised, and the basis is that of the principal components. It is kept in the
user's cache: fitting takes minutes.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from dpstudy import files

# Also for its precision of products: an accelerator's own would lose the small components.
from dpstudy.gradients import devices
from dpstudy.parts.data.dataset import of_each_image

Pixels = UInt8[np.ndarray, "n h w c"]

Read = TypeVar("Read")
# Mean and deviation of features, principal directions of standardised ones, and their variances.
Principal = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# Images in one call.
BATCH = 250
# Added to a feature's standard deviation: some are the same for every synthetic image.
_FLAT = 1e-6
_FIELDS = ("mean", "directions", "variances")


class Basis(NamedTuple):
    """How an image's features, and then its components, are computed."""

    filters: tuple[Float[np.ndarray, "side side c filters"], ...]
    """What the features are computed with, if anything."""
    mean: Float[np.ndarray, "features"]
    directions: Float[np.ndarray, "features components"]
    """Principal directions, each feature divided by its standard deviation."""
    variances: Float[np.ndarray, "components"]
    """Of the images' components, the largest first."""

    @jax.jit
    def components(self, features: Float[Array, "n features"]) -> Float[Array, "n components"]:
        """Return the principal components of features."""
        return (features - self.mean) @ self.directions


def fit(
    pixels: Pixels,
    filters: tuple[np.ndarray, ...],
    features: Callable[[Pixels], Float[Array, "n features"]],
    components: int,
) -> Basis:
    """Fit a basis of `components`, fewer than there are images, to their features by `filters`."""
    rows = iter(of_each_image([pixels], features, "features of synthetic images", BATCH))
    first = next(rows)
    of = _of_features if len(pixels) > first.shape[1] else _of_images
    mean, deviation, directions, variances = of(chain([first], rows), len(pixels), components)
    directions /= deviation[:, None]
    return Basis(tuple(map(np.asarray, filters)), mean, directions, variances)


def _say() -> None:
    from dpstudy.progress import tqdm

    tqdm.write("their principal components: up to two minutes", file=sys.stderr)


def _of_features(
    parts: Iterable[Float[np.ndarray, "part features"]], images: int, components: int
) -> Principal:
    """Return what `_of_images` does, by the correlations of features: the images may be many."""
    import scipy.linalg  # only here: it takes a second to import

    parts = iter(parts)
    first = next(parts)
    # About what is nearly the mean: of products about 0 little would be left in single precision.
    about, count = first.mean(0), first.shape[1]
    total, products = np.zeros(count), np.zeros((count, count), np.float32, order="F")
    for part in chain([first], parts):
        apart = part - about
        total += apart.sum(0)
        # The upper half, in place.
        products = scipy.linalg.blas.ssyrk(1.0, apart.T, beta=1.0, c=products, overwrite_c=True)
    _say()
    off = np.float32(total / images)
    products /= images
    products -= np.outer(off, off)
    deviation = np.sqrt(np.maximum(np.diag(products), 0)) + _FLAT
    products /= deviation
    products /= deviation[:, None]
    if devices.backend() == "cpu":
        how = {"lower": False, "driver": "evd", "overwrite_a": True, "check_finite": False}
        variances, directions = scipy.linalg.eigh(products, **how)
    else:
        whole = jnp.triu(products) + jnp.triu(products, 1).T
        variances, directions = map(np.asarray, jnp.linalg.eigh(whole))
    leading = slice(None, -components - 1, -1)
    variances = _above_rounding(variances[leading])
    return about + off, deviation, np.ascontiguousarray(directions[:, leading]), variances


def _above_rounding(variances: Float[np.ndarray, "components"]) -> Float[np.ndarray, "components"]:
    """Return variances, the largest first, none below what single precision tells of the largest.

    Where features depend on each other some come out as zero or less: whitened, only these would
    be left.
    """
    return np.maximum(variances, np.finfo(np.float32).eps * variances[0])


def _of_images(
    parts: Iterable[Float[np.ndarray, "part features"]], images: int, components: int
) -> Principal:
    """Return principal components by the products of images: fewer of them than of features."""
    found, at = None, 0
    for part in parts:
        found = np.empty((images, part.shape[1]), part.dtype) if found is None else found
        found[at : at + len(part)] = part
        at += len(part)
    _say()
    # In place, where it can be: the features alone take a gigabyte.
    mean, deviation = found.mean(0), found.std(0) + _FLAT
    found -= mean
    found /= deviation
    principal = _principal if devices.backend() == "cpu" else _principal_on_accelerator
    return mean, deviation, *principal(found, components)


def _principal(
    found: Float[np.ndarray, "images features"], components: int
) -> tuple[Float[np.ndarray, "features components"], Float[np.ndarray, "components"]]:
    """Return principal directions, each of norm 1, and variances, the largest first."""
    import scipy.linalg

    gram = found @ found.T
    gram /= len(found)
    # The transpose is the same matrix, in the order that LAPACK can overwrite. Divide and conquer:
    # in single precision the relatively robust method, which needs less memory, loses small ones.
    options = {"driver": "evd", "overwrite_a": True, "check_finite": False}
    variances, weights = scipy.linalg.eigh(gram.T, **options)
    variances = _above_rounding(variances[: -components - 1 : -1])
    directions = np.empty((found.shape[1], components), found.dtype)
    leading, scale = weights[:, ::-1], np.sqrt(variances * len(found))
    # Some at a time: all weights scaled at once take another 0.4 GB.
    for start in range(0, components, BATCH):
        part = slice(start, min(start + BATCH, components))
        directions[:, part] = found.T @ (leading[:, part] / scale[part])
    return directions, variances


def _principal_on_accelerator(
    found: Float[np.ndarray, "images features"], components: int
) -> tuple[Float[np.ndarray, "features components"], Float[np.ndarray, "components"]]:
    """Return the same in seconds instead of minutes."""
    rows = jnp.asarray(found)
    values, weights = jnp.linalg.eigh(rows @ rows.T / len(rows))
    values = _above_rounding(np.asarray(values[: -components - 1 : -1]))
    directions = rows.T @ (weights[:, : -components - 1 : -1] / jnp.sqrt(values * len(rows)))
    # A copy that can be written to: each feature's deviation is still to be divided out.
    return np.array(directions), np.array(values)


def _whole(stored: Mapping[str, np.ndarray]) -> Basis:
    banks = sorted(set(stored) - set(_FIELDS))
    return Basis(tuple(stored[bank] for bank in banks), *(stored[one] for one in _FIELDS))


def read(path: Path, wanted: Callable[[Mapping[str, np.ndarray]], Read] = _whole) -> Read | None:
    """Return what is wanted of a basis in the cache, or None; DataError if it cannot be read."""

    def read(path: Path) -> Read:
        with np.load(path) as stored:
            return wanted(stored)

    return files.found_in_cache(path, read)


def write(path: Path, basis: Basis) -> None:
    """Write a basis, whole or not at all; DataError if it cannot be written."""
    banks = {f"filters_{number}": bank for number, bank in enumerate(basis.filters)}
    with files.kept_in_cache(path) as stream:
        np.savez(stream, **banks, **{name: getattr(basis, name) for name in _FIELDS})
        files.seal(stream)
