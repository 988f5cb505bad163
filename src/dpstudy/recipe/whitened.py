"""Features of images, whitened by images that are nobody's.

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
from pathlib import Path
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float16, UInt8

from dpstudy import files
from dpstudy.gradients import devices
from dpstudy.parts.data import images, released_statistics, synthetic_images
from dpstudy.parts.data.dataset import Data, hold_out, kept, of_each_image
from dpstudy.parts.data.images import DATASETS, IMAGE_SHAPE, TRAINING_EXAMPLES
from dpstudy.parts.data.synthetic_images import SCENES
from dpstudy.parts.part import SpecError, at_least, choose, part, static
from dpstudy.recipe import basis as synthetic_basis
from dpstudy.recipe.basis import BATCH, Basis

Pixels = UInt8[np.ndarray, "n h w c"]
Filters = tuple[Float[np.ndarray, "side side c filters"], ...]

# In place of scenes: the private images themselves, without noise. A diagnostic with no epsilon.
OWN = "own"
# Examples that are written out in single precision together.
_AT_ONCE = 1_000


class Drawn(Data):
    """Vectors of norm 1 that are made of images by what was drawn from the seed `drawn`.

    `released` is the noise multiplier of the training examples' mean, which is taken away: what all
    have in common is length without meaning. With 0 it stays.
    """

    drawn: int
    released: float

    @property
    def release_noise(self) -> float | None:
        return self.released or None

    @property
    def draws(self) -> bool:
        return True

    def at_seed(self, seed: int) -> Self:
        return replace(self, drawn=seed)

    @property
    def weighted_blocks(self) -> tuple[tuple["Whitened", float], ...]:
        """The blocks that vectors are put together of, in order, and their shares in the norm."""
        raise NotImplementedError

    def vectors_of(self, whole: images.Dataset) -> Float16[np.ndarray, "n k"]:
        """Return the vectors of a dataset's images, training first; errors as `Whitened.basis`."""
        raise NotImplementedError

    def vectors(self, pixels: Pixels) -> Float16[np.ndarray, "n k"]:
        """Return the vectors of any images, before a mean is taken away.

        Raises:
            SpecError: images that are not uint8, of the shape of the dataset's.
            DataError: a basis cannot be kept in the cache.
        """
        raise NotImplementedError

    def check_drawn(self) -> None:
        """Raise SpecError of a field, of those that all such features have, that cannot be."""
        choose("dataset", self.name, DATASETS)
        at_least(self, 0, "drawn")
        released_statistics.check_noise(self.released)
        self.check_held_out()
        most = TRAINING_EXAMPLES[self.name] - self.held_out
        if not 0 <= self.only <= most:
            raise SpecError(f"only must be from 0 to the {most} examples, got {self.only}")

    def check_images(self, pixels: Pixels) -> None:
        """Raise SpecError unless images have the type and shape of the dataset's."""
        shape = IMAGE_SHAPE[self.name]
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            wanted = f"uint8, from 0 to 255, of shape (n, {', '.join(map(str, shape))})"
            raise SpecError(f"images must be {wanted}, got {pixels.dtype} of shape {pixels.shape}")

    def load(self) -> images.Dataset:
        """See `Data`; the first time takes minutes. Errors as `vectors`."""
        return self.load_with_mean()[0]

    def load_with_mean(self) -> tuple[images.Dataset, Float[np.ndarray, "k"]]:
        """Return the arrays, and the mean that was taken away, or 0; errors as `load`."""
        whole = images.load(self.name)
        found, count = self.vectors_of(whole), len(whole.train_images)
        train, test = found[:count], found[count:]
        data = hold_out(replace(whole, train_images=train, test_images=test), self.held_out)
        few = slice(self.examples)
        data = replace(
            data, train_images=data.train_images[few], train_labels=data.train_labels[few]
        )
        if not self.released:
            return data, np.zeros(found.shape[1])
        # Its noise must not be what the filters are drawn by.
        [noise] = np.random.SeedSequence(self.drawn).spawn(1)
        mean = released_statistics.release_mean(data.train_images, self.released, noise)
        for split in (data.train_images, data.test_images):
            centre(split, mean)
        return data, mean

    def prepare(self, stored: Float16[Array, "batch n"]) -> Float[Array, "batch n"]:
        return stored.astype(jnp.float32)


@part()
class Whitened(Drawn):
    """Images as principal components of their features, fitted to images that are nobody's.

    The `synthetic` images show `scenes`, of `SCENES`, or are `OWN`: training images. A component is
    divided by its variance to the `exponent`; 1/2 whitens.
    """

    name: str = "cifar-10"
    scenes: str = "dead-leaves"
    synthetic: int = 12_000
    components: int = 8_000
    exponent: float = static(0.4)
    drawn: int = 0
    released: float = static(0.0)
    held_out: int = 0
    only: int = 0

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
        self.check_drawn()
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
        at_least(self, 0, "exponent")
        if self.exponent > 1:
            raise SpecError(f"exponent must be at most 1, got {self.exponent}")

    @property
    def leaks(self) -> bool:
        return self.scenes == OWN

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.components,)

    @property
    def weighted_blocks(self) -> tuple[tuple[Self, float], ...]:
        return ((self, 1.0),)

    def vectors_of(self, whole: images.Dataset) -> Float16[np.ndarray, "n k"]:
        shape = (len(whole.train_images) + len(whole.test_images), self.components)
        # Of the basis these alone: all of it is a gigabyte. First, since without a basis there are
        # no components in it either.
        path = self._file("basis", "npz")
        if (variances := synthetic_basis.read(path, lambda stored: stored["variances"])) is None:
            variances = self.basis().variances
        path = self._file(whole.fingerprint, "npy")
        components = kept(path, shape, lambda: self._components(whole))
        # JAX holds what it was given until this: of the basis, nearly two gigabytes.
        gc.collect()
        return self.scaled(components, variances)

    def vectors(self, pixels: Pixels) -> Float16[np.ndarray, "n k"]:
        self.check_images(pixels)
        basis = jax.tree.map(jnp.asarray, self.basis())
        of = partial(self.components_of, basis)
        found = list(of_each_image([pixels], of, f"{self.kind} of images", BATCH))
        return self.scaled(np.concatenate(found).astype(np.float16), np.asarray(basis.variances))

    def basis(self) -> Basis:
        """Return the basis that components are taken in, fitted once.

        DataError where it cannot be kept in the cache, SpecError where the synthetic images have
        fewer filters that differ, UserError where JAX does not start.
        """
        devices.backend()
        path = self._file("basis", "npz")
        if (found := synthetic_basis.read(path)) is None:
            files.check_cache(path)
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
        both = whole.train_images, whole.test_images
        return of_each_image(both, of, f"features of {whole.name}", BATCH)

    def _file(self, what: str, ending: str) -> Path:
        """Return a file of the cache, named by all settings that its content depends on."""
        name = self.name if self.leaks else ""
        fitted = replace(self, name=name, exponent=0.0, released=0.0, held_out=0, only=0).to_dict()
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
