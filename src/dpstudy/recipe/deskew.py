"""Digits made upright: each image is sheared by its own slant, which costs no privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float

# Beyond 45 degrees a slant is no writer's; and what is added to sums of light, which may be 0.
_MOST, _DARK = 1.0, 1e-6


def upright(image: Float[Array, "h w c"]) -> Float[Array, "h w c"]:
    """Return an image with its rows shifted so that its light leans neither left nor right.

    Its slant is the slope of the line that predicts, of where light is, the column from the row.
    Rows are shifted about the centre of light, interpolated linearly, with black from outside
    ("deslanted" in LeCun et al. 1998, Section III).
    """
    light = image.mean(-1) / (image.mean(-1).sum() + _DARK)
    rows, columns = (jnp.arange(size, dtype=image.dtype) for size in image.shape[:2])
    below = rows - light.sum(1) @ rows
    aside = columns - light.sum(0) @ columns
    slant = (below @ light @ aside) / (light.sum(1) @ below**2 + _DARK)
    source = columns + jnp.clip(slant, -_MOST, _MOST) * below[:, None]

    def shifted(row: Float[Array, "w"], at: Float[Array, "w"]) -> Float[Array, "w"]:
        return jnp.interp(at, columns, row, left=0, right=0)

    of_each_colour = jax.vmap(shifted, (1, None), 1)
    return jax.vmap(of_each_colour)(image, source)
