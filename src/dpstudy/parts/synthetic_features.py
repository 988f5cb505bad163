"""Images as whitened responses to patches of synthetic images: no one's data is in the features.

Filters, their whitening, the scale of each feature and the principal components all come from
images drawn from a seed. The noise of DP-SGD is as large in each direction of a linear head:
features whose energy sits in a few directions waste it. Whitening spreads it, at no cost in
privacy, since the images that it is fitted to are nobody's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dpstudy.parts import feature_cache, files, images, patch_features, synthetic_basis
from dpstudy.parts.dataset import Data, check_held_out, hold_out
from dpstudy.parts.images import DATASETS, IMAGE_SHAPE
from dpstudy.parts.part import SpecError, choose, part, static
from dpstudy.parts.synthetic_images import SCENES

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Float16

    from dpstudy.parts.synthetic_basis import Basis


@part("synthetic-features")
class SyntheticFeatures(Data):
    """Images as whitened responses to patches of synthetic images.

    Attributes:
        name: of the private images, one of `DATASETS`.
        scenes: what the synthetic images show, one of `SCENES`.
        synthetic: how many there are.
        small: the number of filters of 5 x 5 pixels.
        large: and of 8 x 8.
        threshold: of a response, on either side.
        mirrored: whether features are averages over an image and its mirror image.
        components: principal components of the synthetic images' features that are kept.
        exponent: of a component's variance, which it is divided by: 0 leaves it, 1/2 whitens.
        drawn: the seed of synthetic images and filters.
        held_out: as of `Images`.
    """

    name: str = "cifar-10"
    scenes: str = "dead-leaves"
    synthetic: int = 12_000
    small: int = 1_000
    large: int = 250
    threshold: float = static(0.6)
    mirrored: bool = True
    components: int = 8_000
    exponent: float = static(0.4)
    drawn: int = 0
    held_out: int = 0

    def check(self) -> None:
        """See `Part`."""
        choose("dataset", self.name, DATASETS)
        choose("scenes", self.scenes, SCENES)
        for field in ("synthetic", "small", "large", "components"):
            if getattr(self, field) < 1:
                raise SpecError(f"{field} must be at least 1, got {getattr(self, field)}")
        most = min(self.synthetic - 1, self.features)
        if self.components > most:
            raise SpecError(
                f"components must be at most {most:,}, as {self.synthetic:,} images with "
                f"{self.features:,} features have, got {self.components:,}"
            )
        for field in ("threshold", "exponent", "drawn"):
            if getattr(self, field) < 0:
                raise SpecError(f"{field} must be at least 0, got {getattr(self, field)}")
        check_held_out(self.held_out, super().examples)

    @property
    def examples(self) -> int:
        """See `Data`."""
        return super().examples - self.held_out

    @property
    def features(self) -> int:
        """The number of features before components are taken."""
        return 2 * patch_features.GRID**2 * (self.small + self.large)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """See `Data`."""
        return (self.components,)

    def at_seed(self, seed: int) -> SyntheticFeatures:
        """See `Data`: images and filters are drawn by the seed."""
        return replace(self, drawn=seed)

    def load(self) -> images.Dataset:
        """See `Data`. The first time that a user loads these takes minutes.

        Raises:
            DataError: see `Data`; or the features cannot be kept in the cache.
            SpecError: the synthetic images have fewer filters that differ.
        """
        whole = images.load(self.name)
        count = len(whole.train_images)
        shape = (count + len(whole.test_images), self.components)
        path = self._file(whole.fingerprint, "npy")
        components = feature_cache.kept(path, shape, lambda: self._components(whole))
        found = self.scaled(components, self.basis().variances)
        train, test = found[:count], found[count:]
        return hold_out(replace(whole, train_images=train, test_images=test), self.held_out)

    def prepare(self, stored: Float16[Array, "batch n"]) -> Float[Array, "batch n"]:
        """See `Data`."""
        return stored.astype(jnp.float32)

    def basis(self) -> Basis:
        """Return the basis that components are taken in, fitted once.

        Raises:
            DataError: it cannot be kept in the cache.
            SpecError: the synthetic images have fewer filters that differ.
        """
        path = self._file("basis", "npz")
        found = synthetic_basis.read(path)
        if found is None:
            found = synthetic_basis.fit(
                self.scenes,
                self.synthetic,
                IMAGE_SHAPE[self.name],
                (self.small, self.large),
                self.threshold,
                self.mirrored,
                self.components,
                self.drawn,
            )
            synthetic_basis.write(path, found)
        return found

    def scaled(
        self, components: Float16[np.ndarray, "n k"], variances: Float[np.ndarray, "k"]
    ) -> Float16[np.ndarray, "n k"]:
        """Return components divided by their variance to the `exponent`, each example of norm 1."""
        by = variances**-self.exponent
        found = np.empty(components.shape, np.float16)
        for start in range(0, len(found), 1000):
            part = np.float32(components[start : start + 1000]) * by
            found[start : start + 1000] = part / np.linalg.norm(part, axis=1, keepdims=True)
        return found

    def _components(self, whole: images.Dataset) -> Iterator[np.ndarray]:
        basis = self.basis()
        of = partial(
            synthetic_basis.project, basis, threshold=self.threshold, mirrored=self.mirrored
        )
        return feature_cache.of_each_image(whole, of, "features", synthetic_basis.BATCH)

    def _file(self, what: str, ending: str) -> Path:
        """Return a file of the cache, named by all that its content depends on."""
        fitted = replace(self, name="", exponent=0.0, held_out=0).to_dict()
        of = json.dumps([fitted, IMAGE_SHAPE[self.name]], sort_keys=True)
        digest = hashlib.sha256(of.encode()).hexdigest()[:16]
        return files.cache_folder() / "synthetic" / f"{digest}-{what[:16]}.{ending}"
