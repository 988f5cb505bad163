"""What the recipe's features are made of: patches, colours, a second layer, scattering."""

from math import prod

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.parts.data import scattering
from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.data.scattering import group_normalised
from dpstudy.parts.part import SpecError, at_least, part, static
from dpstudy.recipe import colour_features, patch_features, second_layer
from dpstudy.recipe.views import WITH_MIRROR, View
from dpstudy.recipe.whitened import Filters, Pixels, Whitened

# The sides of filters, in pixels.
_SIDES = (5, 8)
# Groups of a colour's coefficients that an example is normalised in, as of `Scattering`.
_GROUPS = 27


def _check_grids(grids: tuple[int, ...]) -> None:
    if not grids or not all(1 <= grid <= 10 for grid in grids):
        raise SpecError(f"grids must be one or more, each 1 to 10, got {grids}")


@part("synthetic-features")
class SyntheticFeatures(Whitened):
    """Images as whitened responses to patches of synthetic images.

    There are `small` filters of 5 x 5 pixels and `large` ones of 8 x 8. Features are averages over
    `views`, or without any over the image and, if `mirrored`, its mirror image; if `deslanted`,
    images are first `deskewed`. Each of `grids` divides the image into so many regions a side,
    which may be `overlapping`.
    """

    small: int = 1_000
    large: int = 250
    threshold: float = static(0.6)
    mirrored: bool = True
    grids: tuple[int, ...] = static((3,))
    deslanted: bool = False
    views: tuple[View, ...] = ()
    overlapping: bool = False

    def check(self) -> None:
        at_least(self, 1, "small", "large")
        if max(self.small, self.large) > patch_features.PATCHES // 10:
            raise SpecError(
                f"small and large must be at most {patch_features.PATCHES // 10:,}, a tenth of the "
                f"patches that filters are chosen from, got {self.small} and {self.large}"
            )
        at_least(self, 0, "threshold")
        _check_grids(self.grids)
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
        views = self.views or (WITH_MIRROR if self.mirrored else WITH_MIRROR[:1])
        return patch_features.features(
            pixels,
            filters,
            self.threshold,
            views=views,
            grids=self.grids,
            overlapping=self.overlapping,
            deslanted=self.deslanted,
        )


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


@part("colour-features")
class ColourFeatures(Whitened):
    """Which colours, of so many drawn from the cube, and which slopes of light are where."""

    components: int = 1_500
    colours: int = 96
    mirrored: bool = True
    grids: tuple[int, ...] = static((4, 2, 1))

    def check(self) -> None:
        at_least(self, 1, "colours")
        _check_grids(self.grids)
        super().check()

    @property
    def features(self) -> int:
        return sum(grid**2 for grid in self.grids) * (self.colours + colour_features.LEVELS)

    def filters(self, pixels: Pixels) -> Filters:
        draw = np.random.default_rng(self.drawn)
        return (np.float32(draw.random((self.colours, pixels.shape[-1]))),)

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        return colour_features.features(
            pixels, filters[0], mirrored=self.mirrored, grids=self.grids
        )


@part("second-layer-features")
class SecondLayerFeatures(Whitened):
    """Whitened responses of a second layer of patches; see `second_layer`.

    Of `first` filters of the first layer, with `seconds` on patches of their maps in so many
    `directions`.
    """

    components: int = 6_000
    first: int = 64
    directions: int = 256
    seconds: int = 600
    grids: tuple[int, ...] = static((3, 2))
    deslanted: bool = False
    views: tuple[View, ...] = (View(),)
    overlapping: bool = False

    def check(self) -> None:
        at_least(self, 1, "first", "directions", "seconds")
        _check_grids(self.grids)
        super().check()

    @property
    def features(self) -> int:
        return 2 * sum(grid**2 for grid in self.grids) * self.seconds

    def filters(self, pixels: Pixels) -> Filters:
        draw = np.random.default_rng(self.drawn)
        return second_layer.choose(pixels, self.first, self.directions, self.seconds, draw)

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        return second_layer.features(
            pixels,
            second_layer.Layer(*filters),
            views=self.views,
            grids=self.grids,
            overlapping=self.overlapping,
            deslanted=self.deslanted,
        )
