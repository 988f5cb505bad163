"""Images as whitened responses to patches of synthetic images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpstudy.parts.part import SpecError, at_least, part, static
from dpstudy.recipe import patch_features
from dpstudy.recipe.whitened import Whitened

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.recipe.whitened import Filters, Pixels

# Of filters, in pixels.
_SIDES = (5, 8)


@part("synthetic-features")
class SyntheticFeatures(Whitened):
    """Images as whitened responses to patches of synthetic images.

    Attributes:
        small: the number of filters of 5 x 5 pixels.
        large: and of 8 x 8.
        threshold: of a response, on either side.
        mirrored: whether features are averages over an image and its mirror image.
        grids: into how many regions a side the image is divided, each time by itself.
        deslanted: whether an image, synthetic or not, is first made `upright`.
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
        return patch_features.features(
            pixels,
            filters,
            self.threshold,
            mirrored=self.mirrored,
            grids=self.grids,
            deslanted=self.deslanted,
        )
