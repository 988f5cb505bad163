"""Images as their scattering coefficients, normalised by example or by released statistics.

A coefficient averages ``|x * ψ|`` or ``||x * ψ1| * ψ2|``. The wavelets ψ are fixed, so that no
one's data is in the features (Tramèr and Boneh 2021). With J = 2 scales and L = 8 angles a colour
has 1 + 16 + 64 of them, at every fourth pixel.

They are computed once a dataset and kept as float16, which moves a coefficient by at most 1 in
2048: only to that are features equal between machines.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float16, UInt8

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data import images, released_statistics, synthetic_images
from dpstudy.parts.data.dataset import Data, hold_out, kept, of_each_image
from dpstudy.parts.data.images import DATASETS, IMAGE_SHAPE
from dpstudy.parts.part import SpecError, choose, part, static

Features = Float16[np.ndarray, "n i j k"]
Pixels = UInt8[np.ndarray, "n h w c"]

SCALES, ANGLES = 2, 8
COEFFICIENTS = 1 + SCALES * ANGLES + ANGLES**2 * SCALES * (SCALES - 1) // 2

# Larger batches are no faster on one core.
_BATCH = 100
_SYNTHETIC = 500


@part("scattering")
class Scattering(Data):
    """Images as their scattering coefficients (Tramèr and Boneh 2021).

    With groups, an example's features are a function of that example alone, and cost no privacy.
    Statistics of all examples are released once, with the same noise for all seeds, and what that
    costs is composed with the training.

        >>> Scattering("cifar-10").image_shape  # 81 coefficients of each colour
        (8, 8, 243)
        >>> round(Scattering(groups=0, released=8.0).release_noise, 3)  # two sums, 8 on each
        5.657

    Each colour's coefficients are normalised in so many `groups`, together over positions; or, with
    0, by the mean and mean square of each channel over the training set, `released` with that noise
    multiplier on each; or, if that is 0 too, not at all. `name` and `held_out` are as of `Images`.
    """

    name: str = "mnist"
    groups: int = 27
    held_out: int = 0
    released: float = static(0.0)

    def check(self) -> None:
        choose("dataset", self.name, DATASETS)
        if self.groups and (self.groups < 0 or COEFFICIENTS % self.groups):
            raise SpecError(
                f"groups must divide the {COEFFICIENTS} coefficients of a colour, or be 0, got "
                f"{self.groups}"
            )
        if self.released and self.groups:
            raise SpecError(f"groups must be 0 where statistics are released, got {self.groups}")
        released_statistics.check_noise(self.released)
        self.check_held_out()

    @property
    def image_shape(self) -> tuple[int, ...]:
        return shape_of(IMAGE_SHAPE[self.name])

    @property
    def release_noise(self) -> float | None:
        return self.released / math.sqrt(2) if self.released else None

    @property
    def draws(self) -> bool:
        return self.released > 0

    def load(self) -> images.Dataset:
        """See `Data`; the first time takes minutes, and errors are as those of `features` too."""
        whole = images.load(self.name)
        train, test = features(whole)
        data = hold_out(replace(whole, train_images=train, test_images=test), self.held_out)
        if not self.released:
            return data
        bounds = public_bounds(IMAGE_SHAPE[self.name])
        by = released_statistics.release(data.train_images, self.released, bounds)
        both = (data.train_images, data.test_images)
        train, test = (released_statistics.normalised(one, by) for one in both)
        return replace(data, train_images=train, test_images=test)

    def prepare(self, stored: Float16[Array, "batch h w c"]) -> Float[Array, "batch h w c"]:
        features = stored.astype(jnp.float32)
        colours = features.shape[-1] // COEFFICIENTS
        return group_normalised(features, self.groups * colours) if self.groups else features


def group_normalised(x: Float[Array, "batch h w c"], groups: int) -> Float[Array, "batch h w c"]:
    """Return each example normalised as by `torch.nn.GroupNorm(groups, c, affine=False)`."""
    apart, axes = x.reshape(*x.shape[:-1], groups, -1), (1, 2, 4)
    centred = apart - apart.mean(axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    scale = jax.lax.rsqrt(variance + released_statistics.EPSILON)
    return (centred * scale).reshape(x.shape)


def shape_of(image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return height, width and channels of the features of an image with those."""
    height, width, colours = image_shape
    return height // 2**SCALES, width // 2**SCALES, colours * COEFFICIENTS


def features(dataset: images.Dataset) -> tuple[Features, Features]:
    """Return the features of training and test images, read-only and mapped into memory.

    Channels are in the order of Tramèr and Boneh's code: one colour after the other. DataError
    where kymatio is missing, or the cache cannot be read or written.
    """
    count, image_shape = len(dataset.train_images), dataset.train_images.shape[1:]
    shape = (count + len(dataset.test_images), *shape_of(image_shape))

    def compute() -> Iterator[Features]:
        both, what = (dataset.train_images, dataset.test_images), f"scattering of {dataset.name}"
        return of_each_image(both, transform_of(image_shape), what, _BATCH)

    found = kept(file_of(dataset), shape, compute)
    return found[:count], found[count:]


def file_of(dataset: images.Dataset) -> Path:
    """Return where the features of a dataset are kept: one file, training images first."""
    folder = files.cache_folder() / "scattering"
    return folder / f"J{SCALES}-L{ANGLES}-{dataset.fingerprint[:16]}.npy"


@cache
def transform_of(image_shape: tuple[int, int, int]) -> Callable[[Pixels], Features]:
    """Return the function from images of a shape to their features; errors as `features`."""
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


@cache
def public_bounds(image_shape: tuple[int, int, int]) -> tuple[float, float]:
    """Return the median lengths of what `release` bounds, of synthetic images' scattering."""
    scenes = "both" if image_shape[-1] == 1 else "dead-leaves"
    pixels = synthetic_images.draw(scenes, 0, _SYNTHETIC, image_shape)
    vectors = released_statistics.means_and_squares(transform_of(image_shape)(pixels))
    means, squares = (float(np.median(np.linalg.norm(one, axis=1))) for one in vectors)
    return means, squares
