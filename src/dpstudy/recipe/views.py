"""Views of an image: zoomed, turned and mirrored, as its features are averaged over."""

from dataclasses import replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.parts.part import Part, SpecError, part, static

_MOST_ZOOM = 4.0


@part("view")
class View(Part):
    """An image as another photograph of the same would be: about its centre, bilinear.

    >>> image = jnp.arange(4.0).reshape(2, 2, 1)
    >>> View(mirrored=True).of(image)[..., 0].tolist()
    [[1.0, 0.0], [3.0, 2.0]]
    """

    zoom: float = static(1.0)
    degrees: float = static(0.0)
    mirrored: bool = False

    def check(self) -> None:
        if not 1 / _MOST_ZOOM <= self.zoom <= _MOST_ZOOM:
            raise SpecError(f"zoom must be from 1/4 to 4, got {self.zoom}")
        if not -180 <= self.degrees <= 180:
            raise SpecError(f"degrees must be from -180 to 180, got {self.degrees}")

    @property
    def mirror_image(self) -> Self:
        """The view that is this one's mirror image."""
        return replace(self, mirrored=not self.mirrored)

    def places(self, height: int, width: int) -> Float[np.ndarray, "2 h w"]:
        """Return the row and column that each pixel is taken from."""
        middle = np.array([height - 1, width - 1])[:, None, None] / 2
        rows, columns = np.indices((height, width)) - middle
        columns = -columns if self.mirrored else columns
        turn = np.deg2rad(self.degrees)
        turned = (
            np.cos(turn) * rows - np.sin(turn) * columns,
            np.sin(turn) * rows + np.cos(turn) * columns,
        )
        return np.float32(np.stack(turned) / self.zoom + middle)

    def of(self, image: Float[Array, "h w c"]) -> Float[Array, "h w c"]:
        """Return the view; from outside the image come the pixels of its edge."""
        return taken(image, jnp.asarray(self.places(*image.shape[:2])))


# An image and its mirror image: averaged over both, features tell no left from right.
WITH_MIRROR = (View(), View(mirrored=True))


def mirror_pairs(views: tuple[View, ...]) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """Return the views without those whose mirror image is there too, and one of each such pair.

    >>> mirror_pairs((View(0.9), *WITH_MIRROR)) == ((View(0.9),), (View(),))
    True
    """
    alone, pairs = list(views), []
    for view in views:
        if view in alone and view.mirror_image in alone:
            alone.remove(view)
            alone.remove(view.mirror_image)
            pairs.append(view)
    return tuple(alone), tuple(pairs)


def taken(image: Float[Array, "h w c"], places: Float[Array, "2 h w"]) -> Float[Array, "h w c"]:
    """Return pixels from places between an image's own, each between the four about it."""

    def of_colour(colour: Float[Array, "h w"]) -> Float[Array, "h w"]:
        return jax.scipy.ndimage.map_coordinates(colour, list(places), order=1, mode="nearest")

    return jax.vmap(of_colour, -1, -1)(image)
