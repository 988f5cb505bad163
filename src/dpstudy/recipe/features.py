"""Features whitened by images that are nobody's: responses to patches of them, and scattering.

The noise of DP-SGD is as large in each direction of a linear head: features whose energy sits in a
few directions waste it. Whitening spreads it, at no cost in privacy, since the images that it is
fitted to are drawn from a seed.
"""

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float16, UInt8

from dpstudy import files
from dpstudy.gradients import devices
from dpstudy.parts.data import images, released_statistics, scattering, synthetic_images
from dpstudy.parts.data.dataset import Data, hold_out, kept, of_each_image
from dpstudy.parts.data.images import DATASETS, IMAGE_SHAPE, TRAINING_EXAMPLES
from dpstudy.parts.data.scattering import group_normalised
from dpstudy.parts.data.synthetic_images import SCENES
from dpstudy.parts.part import SpecError, at_least, choose, part, static
from dpstudy.recipe import basis as synthetic_basis
from dpstudy.recipe import patch_features
from dpstudy.recipe.basis import Basis

Pixels = UInt8[np.ndarray, "n h w c"]
Filters = tuple[Float[np.ndarray, "side side c filters"], ...]

# In place of scenes: the private images themselves, without noise. A diagnostic with no epsilon.
OWN = "own"
# The sides of filters, in pixels.
_SIDES = (5, 8)
# Groups of a colour's coefficients that an example is normalised in, as of `Scattering`.
_GROUPS = 27
# Examples that are written out in single precision together.
_AT_ONCE = 1_000


@part()
class Whitened(Data):
    """Images as principal components of their features, fitted to images that are nobody's.

    The `synthetic` images show `scenes`, of `SCENES`, or are `OWN`: training images. A component is
    divided by its variance to the `exponent`; 1/2 whitens. `drawn` is the seed of images, filters
    and released noise; `released` the noise multiplier of the training examples' mean, which is
    taken away: what all have in common is length without meaning. With 0 it stays.
    """

    name: str = "cifar-10"
    scenes: str = "dead-leaves"
    synthetic: int = 12_000
    components: int = 8_000
    exponent: float = static(0.4)
    drawn: int = 0
    released: float = static(0.0)
    held_out: int = 0

    @property
    def features(self) -> int:
        """The number of features before components are taken."""
        raise NotImplementedError

    def filters(self, pixels: Pixels) -> Filters:
        """Return what the features are computed with, if anything."""
        return ()

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        """Return the features of images, each of its image alone."""
        raise NotImplementedError

    def check(self) -> None:
        choose("dataset", self.name, DATASETS)
        choose("scenes", self.scenes, (*SCENES, OWN))
        at_least(self, 1, "synthetic", "components")
        if self.leaks and self.synthetic > TRAINING_EXAMPLES[self.name]:
            raise SpecError(
                f"synthetic must be at most the {TRAINING_EXAMPLES[self.name]} training images of "
                f"{self.name!r}, got {self.synthetic}"
            )
        most = min(self.synthetic - 1, self.features)
        if self.components > most:
            raise SpecError(
                f"components must be at most {most:,}, as {self.synthetic:,} images with "
                f"{self.features:,} features have, got {self.components:,}"
            )
        at_least(self, 0, "exponent", "drawn")
        if self.exponent > 1:
            raise SpecError(f"exponent must be at most 1, got {self.exponent}")
        released_statistics.check_noise(self.released)
        self.check_held_out()

    @property
    def leaks(self) -> bool:
        return self.scenes == OWN

    @property
    def release_noise(self) -> float | None:
        return self.released or None

    @property
    def draws(self) -> bool:
        return True

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.components,)

    def at_seed(self, seed: int) -> Self:
        return replace(self, drawn=seed)

    def load(self) -> images.Dataset:
        """See `Data`; the first time takes minutes. Errors as `basis`."""
        return self.load_with_mean()[0]

    def load_with_mean(self) -> tuple[images.Dataset, Float[np.ndarray, "k"]]:
        """Return the arrays, and the mean that was taken away, or 0; errors as `load`."""
        data = self._whitened()
        if not self.released:
            return data, np.zeros(self.components)
        # Its noise must not be what the filters are drawn by.
        [noise] = np.random.SeedSequence(self.drawn).spawn(1)
        mean = released_statistics.release_mean(data.train_images, self.released, noise)
        for split in (data.train_images, data.test_images):
            centre(split, mean)
        return data, mean

    def _whitened(self) -> images.Dataset:
        whole = images.load(self.name)
        count = len(whole.train_images)
        shape = (count + len(whole.test_images), self.components)
        # Of the basis these alone: all of it is a gigabyte. First, since without a basis there are
        # no components in it either.
        path = self._file("basis", "npz")
        if (variances := synthetic_basis.read(path, lambda stored: stored["variances"])) is None:
            variances = self.basis().variances
        path = self._file(whole.fingerprint, "npy")
        components = kept(path, shape, lambda: self._components(whole))
        # JAX holds what it was given until this: of the basis, nearly two gigabytes.
        gc.collect()
        found = self.scaled(components, variances)
        train, test = found[:count], found[count:]
        return hold_out(replace(whole, train_images=train, test_images=test), self.held_out)

    def prepare(self, stored: Float16[Array, "batch n"]) -> Float[Array, "batch n"]:
        return stored.astype(jnp.float32)

    def basis(self) -> Basis:
        """Return the basis that components are taken in, fitted once.

        Raises:
            DataError: it cannot be kept in the cache.
            SpecError: the synthetic images have fewer filters that differ.
            UserError: JAX does not start.
        """
        devices.backend()
        path = self._file("basis", "npz")
        if (found := synthetic_basis.read(path)) is None:
            if self.leaks:
                pixels = images.load(self.name).train_images[: self.synthetic]
            else:
                what = self.scenes, self.drawn, self.synthetic, IMAGE_SHAPE[self.name]
                pixels = synthetic_images.draw(*what)
            filters = self.filters(pixels)
            of = partial(self.features_of, filters)
            found = synthetic_basis.fit(pixels, filters, of, self.components)
            # Components that are there were taken in a basis that is not, and may be another's.
            for taken in path.parent.glob(path.name.replace("-basis.npz", "-*.npy")):
                taken.unlink()
            synthetic_basis.write(path, found)
        return found

    def check_images(self, pixels: Pixels) -> None:
        """Raise SpecError unless images have the type and shape of the dataset's."""
        shape = IMAGE_SHAPE[self.name]
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            wanted = f"uint8, from 0 to 255, of shape (n, {', '.join(map(str, shape))})"
            raise SpecError(f"images must be {wanted}, got {pixels.dtype} of shape {pixels.shape}")

    def components_of(self, basis: Basis, pixels: Pixels) -> Float[Array, "n components"]:
        """Return the principal components of images, by `basis()`; errors as `check_images`."""
        self.check_images(pixels)
        return basis.components(self.features_of(basis.filters, pixels))

    def scaled(
        self, components: Float16[np.ndarray, "n k"], variances: Float[np.ndarray, "k"]
    ) -> Float16[np.ndarray, "n k"]:
        """Return components divided by their variance to the `exponent`, each example of norm 1."""
        by, found = variances**-self.exponent, np.empty(components.shape, np.float16)
        _of_norm_one(components, lambda part: part * by, found)
        return found

    def _components(self, whole: images.Dataset) -> Iterator[np.ndarray]:
        # Once: at each call JAX would copy the basis, a gigabyte.
        basis = jax.tree.map(jnp.asarray, self.basis())
        of = partial(self.components_of, basis)
        return of_each_image(whole, of, "features", synthetic_basis.BATCH)

    def _file(self, what: str, ending: str) -> Path:
        """Return a file of the cache, named by all settings that its content depends on."""
        name = self.name if self.leaks else ""
        fitted = replace(self, name=name, exponent=0.0, released=0.0, held_out=0).to_dict()
        of = json.dumps([fitted, IMAGE_SHAPE[self.name]], sort_keys=True)
        digest = hashlib.sha256(of.encode()).hexdigest()[:16]
        return files.cache_folder() / "synthetic" / f"{digest}-{what[:16]}.{ending}"


def centre(features: Float16[np.ndarray, "n k"], mean: Float[np.ndarray, "k"]) -> None:
    """Take a mean from features, each of norm 1 again: in place, since a copy takes gigabytes."""
    _of_norm_one(features, lambda part: part - np.float32(mean), features)


def _of_norm_one(
    features: Float16[np.ndarray, "n k"],
    change: Callable[[Float[np.ndarray, "part k"]], Float[np.ndarray, "part k"]],
    into: Float16[np.ndarray, "n k"],
) -> None:
    """Write what a change makes of features, each example of norm 1; of no finite norm, 0."""
    for start in range(0, len(features), _AT_ONCE):
        part = change(np.float32(features[start : start + _AT_ONCE]))
        norm = np.linalg.norm(part, axis=1, keepdims=True)
        sound = np.isfinite(norm) & (norm > 0)
        into[start : start + _AT_ONCE] = np.where(sound, part / np.where(sound, norm, 1), 0)


@part("synthetic-features")
class SyntheticFeatures(Whitened):
    """Images as whitened responses to patches of synthetic images.

    There are `small` filters of 5 x 5 pixels and `large` ones of 8 x 8. If `mirrored`, features are
    averages over an image and its mirror image; if `deslanted`, images are first `deskewed`. Each
    of `grids` divides the image into so many regions a side.
    """

    small: int = 1_000
    large: int = 250
    threshold: float = static(0.6)
    mirrored: bool = True
    grids: tuple[int, ...] = static((3,))
    deslanted: bool = False

    def check(self) -> None:
        at_least(self, 1, "small", "large")
        if max(self.small, self.large) > patch_features.PATCHES // 10:
            raise SpecError(
                f"small and large must be at most {patch_features.PATCHES // 10:,}, a tenth of the "
                f"patches that filters are chosen from, got {self.small} and {self.large}"
            )
        at_least(self, 0, "threshold")
        if not self.grids or not all(1 <= grid <= 10 for grid in self.grids):
            raise SpecError(f"grids must be one or more, each 1 to 10, got {self.grids}")
        super().check()

    @property
    def features(self) -> int:
        return 2 * sum(grid**2 for grid in self.grids) * (self.small + self.large)

    def filters(self, pixels: Pixels) -> Filters:
        draw = np.random.default_rng(self.drawn)
        return tuple(
            patch_features.choose_filters(pixels, side, count, draw)
            for side, count in zip(_SIDES, (self.small, self.large), strict=True)
        )

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        options = {"mirrored": self.mirrored, "grids": self.grids, "deslanted": self.deslanted}
        return patch_features.features(pixels, filters, self.threshold, **options)


@part("whitened-scattering")
class WhitenedScattering(Whitened):
    """Coefficients as of `Scattering`, normalised in 27 groups a colour, and whitened."""

    @property
    def features(self) -> int:
        return prod(scattering.shape_of(IMAGE_SHAPE[self.name]))

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        found = jnp.asarray(scattering.transform_of(pixels.shape[1:])(pixels), jnp.float32)
        groups = _GROUPS * (found.shape[-1] // scattering.COEFFICIENTS)
        return group_normalised(found, groups).reshape(len(found), -1)
