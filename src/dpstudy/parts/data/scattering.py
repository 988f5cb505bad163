"""Images as their scattering coefficients, normalised by example or by released statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from dpstudy.parts.data import images, released_statistics
from dpstudy.parts.data import scattering_transform as scattering_features
from dpstudy.parts.data.dataset import Data, hold_out
from dpstudy.parts.data.images import DATASETS, IMAGE_SHAPE
from dpstudy.parts.data.released_statistics import EPSILON
from dpstudy.parts.data.scattering_transform import COEFFICIENTS
from dpstudy.parts.part import SpecError, choose, part, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Float16


@part("scattering")
class Scattering(Data):
    """Images as their scattering coefficients (Tramèr and Boneh 2021).

    With groups, an example's features are a function of that example alone, and cost no privacy.
    Statistics of all examples are released once, with the same noise for all seeds, and what that
    costs is composed with the training.

    Attributes:
        name: one of `DATASETS`.
        groups: that the coefficients of each colour are normalised in, together over positions: 27
            make 27 of MNIST's 81 channels, and 81 of CIFAR-10's 243. With 0 there are none.
        released: the noise multiplier with which the mean and the mean square of each channel over
            the training set are released, to normalise by; see `released_statistics`. With 0 they
            are not.
        held_out: see `Data`.
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
        return scattering_features.shape_of(IMAGE_SHAPE[self.name])

    @property
    def release_noise(self) -> float | None:
        return self.released / math.sqrt(2) if self.released else None

    @property
    def draws(self) -> bool:
        """See `Data`: the images that bound what is released."""
        return self.released > 0

    def load(self) -> images.Dataset:
        """See `Data`. The first time that a user loads a dataset takes minutes.

        Raises:
            DataError: see `Data`; or the features are neither kept on this machine, nor can they be
                computed and kept.
        """
        whole = images.load(self.name)
        train, test = scattering_features.features(whole)
        data = hold_out(replace(whole, train_images=train, test_images=test), self.held_out)
        return self._normalised(data) if self.released else data

    def _normalised(self, data: images.Dataset) -> images.Dataset:
        bounds = released_statistics.public_bounds(IMAGE_SHAPE[self.name])
        by = released_statistics.release(data.train_images, self.released, bounds)
        train, test = (
            released_statistics.normalised(features, by)
            for features in (data.train_images, data.test_images)
        )
        return replace(data, train_images=train, test_images=test)

    def prepare(self, stored: Float16[Array, "batch h w c"]) -> Float[Array, "batch h w c"]:
        features = stored.astype(jnp.float32)
        if not self.groups:
            return features
        groups = self.groups * (features.shape[-1] // COEFFICIENTS)
        return group_normalised(features, groups)


def group_normalised(x: Float[Array, "batch h w c"], groups: int) -> Float[Array, "batch h w c"]:
    """Return each example with mean 0 and variance 1 in each group of neighbouring channels.

    As `torch.nn.GroupNorm(groups, c, affine=False)`: over positions and a group's channels, with
    1e-5 added to the variance.
    """
    apart = x.reshape(*x.shape[:-1], groups, -1)
    axes = (1, 2, 4)
    centred = apart - apart.mean(axes, keepdims=True)
    variance = jnp.mean(centred**2, axes, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + EPSILON)).reshape(x.shape)
