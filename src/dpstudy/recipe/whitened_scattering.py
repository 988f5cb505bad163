"""Scattering coefficients, whitened by those of synthetic images."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import jax.numpy as jnp

from dpstudy.parts.data import scattering
from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.data.scattering import COEFFICIENTS, group_normalised
from dpstudy.parts.part import part
from dpstudy.recipe.whitened import Whitened

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from dpstudy.recipe.whitened import Filters, Pixels

# Groups of a colour's coefficients that an example is normalised in, as of `Scattering`.
_GROUPS = 27


@part("whitened-scattering")
class WhitenedScattering(Whitened):
    """Coefficients as of `Scattering`, normalised in 27 groups a colour, and whitened."""

    @property
    def features(self) -> int:
        return prod(scattering.shape_of(IMAGE_SHAPE[self.name]))

    def features_of(self, filters: Filters, pixels: Pixels) -> Float[Array, "n features"]:
        """See `Whitened`.

        Raises:
            DataError: kymatio is missing.
        """
        del filters
        found = jnp.asarray(scattering.transform_of(pixels.shape[1:])(pixels), jnp.float32)
        groups = _GROUPS * (found.shape[-1] // COEFFICIENTS)
        return group_normalised(found, groups).reshape(len(found), -1)
