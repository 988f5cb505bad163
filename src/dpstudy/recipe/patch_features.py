"""Features of images by filters that are patches of other images.

A patch of an image is contrast-normalised; its responses to whitened patches are soft-thresholded
on both sides and averaged over a grid of regions (Coates and Ng 2011; Thiry et al. 2021). Nothing
is fitted to the images whose features these are.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from dpstudy.parts.part import SpecError
from dpstudy.recipe.views import View, mirror_pairs, taken

Filters = Float[Array, "side side c filters"]
Pixels = UInt8[np.ndarray, "n h w c"]
OfImage = Callable[[Float[Array, "h w c"]], Float[Array, "features"]]

# Patches that whitening is fitted to, and that filters are chosen from.
PATCHES = 50_000
# Added to the variance of a patch's pixels; and, as a share of their mean, to those of whitening.
_CONTRAST, _WHITENING = 10 / 255**2, 0.1
# Beyond 45 degrees a slant is no writer's; and what is added to sums of light, which may be 0.
_MOST_SLANT, _DARK = 1.0, 1e-6
# Filters whose cosine is above this, up to sign, are near duplicates.
_ALIKE = 0.9


def choose_filters(images: Pixels, side: int, count: int, draw: np.random.Generator) -> Filters:
    """Choose patches of images as filters: whitened, of norm one, without near duplicates.

    A filter with a normalised patch makes the cosine of both, whitened, times the patch's norm.
    SpecError where the images do not have as many patches that differ.
    """
    patches = np.asarray(normalised(_random_patches(images, side, draw)))
    centred = patches - patches.mean(0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    scale = 1 / np.sqrt(variances + _WHITENING * variances.mean())
    whitening = (directions * scale) @ directions.T
    chosen = unlike(centred @ whitening, count)
    if len(chosen) < count:
        raise SpecError(
            f"the images have {len(chosen)} filters of {side} x {side} pixels that differ, and "
            f"{count} are wanted"
        )
    return jnp.asarray((whitening @ chosen.T).reshape(side, side, images.shape[-1], count))


def _random_patches(
    images: Pixels, side: int, draw: np.random.Generator
) -> Float[np.ndarray, "patches pixels"]:
    height, width = images.shape[1:3]
    which = draw.integers(len(images), size=PATCHES)
    top = draw.integers(height - side + 1, size=PATCHES)
    left = draw.integers(width - side + 1, size=PATCHES)
    windows = np.lib.stride_tricks.sliding_window_view(images, (side, side), axis=(1, 2))
    patches = np.moveaxis(windows[which, top, left], 1, -1)  # patches, side, side, colours
    return patches.reshape(PATCHES, -1).astype(np.float32) / 255


def normalised(patches: Float[Array, "*n pixels"]) -> Float[Array, "*n pixels"]:
    """Return patches with mean zero and, unless they are nearly flat, variance one."""
    centred = patches - patches.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + _CONTRAST)


def unlike(candidates: Float[np.ndarray, "n pixels"], count: int) -> np.ndarray:
    """Return the first candidates, of norm one, that are no near duplicates."""
    candidates = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    chosen = candidates[:1]
    for start in range(1, len(candidates), count):
        block = candidates[start : start + count]
        block = block[np.abs(block @ chosen.T).max(1) < _ALIKE]
        apart = np.abs(np.tril(block @ block.T, -1)).max(1, initial=0) < _ALIKE
        chosen = np.concatenate([chosen, block[apart]])[:count]
        if len(chosen) == count:
            break
    return chosen


def deskewed(image: Float[Array, "h w c"]) -> Float[Array, "h w c"]:
    """Return an image with its rows shifted so that its light leans neither left nor right.

    As "deslanted" in LeCun et al. (1998, Section III); rows are interpolated, black from outside.
    """
    light = image.mean(-1) / (image.mean(-1).sum() + _DARK)
    rows, columns = (jnp.arange(size, dtype=image.dtype) for size in image.shape[:2])
    below = rows - light.sum(1) @ rows
    aside = columns - light.sum(0) @ columns
    slant = (below @ light @ aside) / (light.sum(1) @ below**2 + _DARK)
    source = columns + jnp.clip(slant, -_MOST_SLANT, _MOST_SLANT) * below[:, None]

    def shifted(row: Float[Array, "w"], at: Float[Array, "w"]) -> Float[Array, "w"]:
        return jnp.interp(at, columns, row, left=0, right=0)

    of_each_colour = jax.vmap(shifted, (1, None), 1)
    return jax.vmap(of_each_colour)(image, source)


@partial(jax.jit, static_argnames=("views", "grids", "overlapping", "deslanted"))
def features(
    pixels: UInt8[Array, "n h w c"],
    banks: tuple[Filters, ...],
    threshold: Array,
    *,
    views: tuple[View, ...] = (View(),),
    grids: tuple[int, ...] = (3,),
    overlapping: bool = False,
    deslanted: bool = False,
) -> Float[Array, "n features"]:
    """Return the square roots of thresholded responses, averaged over regions and over views."""

    def means(of: Float[Array, "i j filters"], mirrored: bool = False) -> Float[Array, "features"]:
        return pooled(of, threshold, regions(of.shape[:2], grids, overlapping, mirrored))

    def of_view(image: Float[Array, "h w c"]) -> Float[Array, "features"]:
        return jnp.concatenate([means(responses(image, bank)) for bank in banks])

    def of_both(image: Float[Array, "h w c"]) -> Float[Array, "features"]:
        found = [responses_with_mirror(image, bank) for bank in banks]
        return jnp.concatenate([means(one) + means(other, mirrored=True) for one, other in found])

    before = deskewed if deslanted else lambda image: image
    return of_views(of_view, pixels, views, before, of_both)


def of_views(
    of_view: OfImage,
    pixels: UInt8[Array, "n h w c"],
    views: tuple[View, ...],
    before: Callable[[Float[Array, "h w c"]], Float[Array, "h w c"]] = lambda image: image,
    of_both: OfImage | None = None,
) -> Float[Array, "n features"]:
    """Return the square roots of a function's mean over views of each image, made ready before.

    What it returns of a view and of its mirror image, together, `of_both` may return in less time.
    """
    alone, both = mirror_pairs(views) if of_both else (views, ())
    functions = [(of_view, alone), (of_both, both)]

    def of_one(image: UInt8[Array, "h w c"]) -> Float[Array, "features"]:
        ready = before(image.astype(jnp.float32) / 255)
        # One at a time: its responses stay in cache until they are pooled.
        sums = (jax.lax.map(of, _seen(ready, some)).sum(0) for of, some in functions if some)
        return jnp.sqrt(sum(sums) / len(views))

    return jax.lax.map(of_one, pixels)


def _seen(image: Float[Array, "h w c"], views: tuple[View, ...]) -> Float[Array, "views h w c"]:
    """Return all views first: XLA would take a pixel again for each patch that it is in."""
    places = jnp.stack([view.places(*image.shape[:2]) for view in views])
    return jax.vmap(taken, (None, 0))(image, places)


def responses(image: Float[Array, "h w c"], bank: Filters) -> Float[Array, "i j filters"]:
    """Return the responses of filters to each patch of an image, as if it were `normalised`.

    The mean of a patch is taken from the filters instead: so one product is all there is to do.
    """
    # A convolution of few filters takes seven times as long on a CPU.
    found = windows(image, bank.shape[0]) @ _centred(bank).reshape(-1, bank.shape[-1])
    return found * _contrast(image, bank)


def responses_with_mirror(
    image: Float[Array, "h w c"], bank: Filters
) -> tuple[Float[Array, "i j filters"], Float[Array, "i j filters"]]:
    """Return the responses to each patch, and to what it is in the mirror image.

    A filter has an even part, which a patch and its mirror image answer alike, and an odd one,
    which they answer with opposite signs. Half a patch tells either: both products take one's time.
    """
    side, count = bank.shape[0], bank.shape[-1]
    half, middle = side // 2, slice(side // 2, side - side // 2)
    patches, filters = windows(image, side) * _contrast(image, bank), _centred(bank)
    places = patches.shape[:2]
    patches = patches.reshape(*places, *bank.shape[:-1])
    left, right = patches[..., :half, :], patches[..., ::-1, :][..., :half, :]
    of_left, of_right = filters[:, :half], filters[:, ::-1][:, :half]
    even = jnp.concatenate([left + right, patches[..., middle, :]], axis=-2)
    of_even = jnp.concatenate([(of_left + of_right) / 2, filters[:, middle]], axis=1)
    alike = even.reshape(*places, -1) @ of_even.reshape(-1, count)
    apart = (left - right).reshape(*places, -1) @ ((of_left - of_right) / 2).reshape(-1, count)
    return alike + apart, alike - apart


def _centred(bank: Filters) -> Filters:
    return bank - bank.mean((0, 1, 2))


def _contrast(image: Float[Array, "h w c"], bank: Filters) -> Float[Array, "i j 1"]:
    """Return what the patches of a bank's size are multiplied by."""
    side, pixels = bank.shape[0], bank[..., 0].size
    mean, square = (_sums(of.sum(-1), side) / pixels for of in (image, image**2))
    return jax.lax.rsqrt(jnp.maximum(square - mean**2, 0) + _CONTRAST)[..., None]


def _sums(light: Float[Array, "h w"], side: int) -> Float[Array, "i j"]:
    return jax.lax.reduce_window(light, 0.0, jax.lax.add, (side, side), (1, 1), "VALID")


def windows(image: Float[Array, "h w c"], side: int) -> Float[Array, "i j pixels"]:
    """Return the patches of so many pixels a side about each place."""
    numbers = np.arange(image.size).reshape(image.shape)
    of_patches = np.lib.stride_tricks.sliding_window_view(numbers, (side, side), axis=(0, 1))
    of_patches = np.moveaxis(of_patches, 2, -1)  # i, j, side, side, c
    return image.reshape(-1)[of_patches.reshape(*of_patches.shape[:2], -1)]


def pooled(
    responses: Float[Array, "i j filters"],
    threshold: Array,
    mean_over: Float[np.ndarray, "regions i*j"],
) -> Float[Array, "features"]:
    """Return the means of both sides' responses beyond the threshold: by region, side, filter."""
    responses = responses.reshape(-1, responses.shape[-1])
    # As products: XLA would read all responses once for each region.
    sides = [mean_over @ jax.nn.relu(sign * responses - threshold) for sign in (1, -1)]
    return jnp.stack(sides, axis=1).reshape(-1)


def regions(
    shape: tuple[int, int],
    grids: tuple[int, ...],
    overlapping: bool = False,
    mirrored: bool = False,
) -> Float[np.ndarray, "regions i*j"]:
    """Return the weights of a mean over each region of each grid, or of its mirror image.

    Overlapping regions have no edge that a thing moves across at once: the weight of a place falls
    from a region's middle to nothing at the middles of its neighbours.
    """
    parts = _overlapping_parts if overlapping else _parts
    sides = [side for grid in grids for side in product(*(parts(size, grid) for size in shape))]
    columns = slice(None, None, -1 if mirrored else 1)
    weights = np.stack([np.outer(row, column[columns]).reshape(-1) for row, column in sides])
    return weights / weights.sum(1, keepdims=True)


def _parts(size: int, grid: int) -> list[Float[np.ndarray, "size"]]:
    """Return for each of so many parts of a side which places are in it."""
    ends = [round(at * size / grid) for at in range(1, grid)]
    part = np.searchsorted(ends, np.arange(size), "right")
    return [np.float32(part == one) for one in range(grid)]


def _overlapping_parts(size: int, grid: int) -> list[Float[np.ndarray, "size"]]:
    """Return for each of so many parts of a side the weights of all places; of one part, 1."""
    places, middles = ((np.arange(count) + 0.5) / count * grid for count in (size, grid))
    apart = np.abs(places - middles[:, None])
    return list(np.float32(np.maximum(1 - apart, 0) if grid > 1 else np.ones((1, size))))
