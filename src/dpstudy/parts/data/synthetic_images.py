"""Images that are nobody's: drawn from a seed, with some of the statistics of natural ones.

Dead leaves are discs that hide one another, with radii of density r^-3: edges at every scale, and
the power spectrum of photographs (Lee, Mumford and Huang 2001). Strokes are thick Bézier curves on
black, for digits. Baradad et al. (2021) learn features from such images.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from dpstudy.gradients import devices

Image = Float[Array, "h w c"]

# Images drawn in one call: their pixels stay in cache.
_BATCH = 50
_DISCS, _SMALLEST = 400, 2.0
_COLOUR_APART, _NOISE = 0.15, 0.02
_STROKES, _POINTS = 3, 24


def draw(
    scenes: str, seed: int, count: int, shape: tuple[int, int, int]
) -> UInt8[np.ndarray, "count h w c"]:
    """Draw images of one of `SCENES`, of a height, width and channels."""
    key, batch = jax.random.key(seed), min(_BATCH, count)

    def drawn(start: int) -> UInt8[np.ndarray, "batch h w c"]:
        return np.asarray(_batch(scenes, shape, key, jnp.arange(start, start + batch)))

    with ThreadPoolExecutor(devices.available_cores()) as pool:
        return np.concatenate([*pool.map(drawn, range(0, count, _BATCH))])[:count]


@partial(jax.jit, static_argnums=(0, 1))
def _batch(
    scenes: str, shape: tuple[int, int, int], key: Array, numbers: Int[Array, "count"]
) -> UInt8[Array, "count h w c"]:
    def one(number: Array) -> Image:
        drawn = [scene(shape, jax.random.fold_in(key, number)) for scene in SCENES[scenes]]
        return jnp.stack(drawn)[number % len(drawn)]

    return jnp.round(255 * jnp.clip(jax.vmap(one)(numbers), 0, 1)).astype(jnp.uint8)


def dead_leaves(shape: tuple[int, int, int], key: Array) -> Image:
    """Draw discs of any colour, the later before the earlier, and a little noise."""
    height, width, colours = shape
    *places, sizes, shades, tints, noise = jax.random.split(key, 6)
    largest = max(height, width) / 2
    y, x = (
        jax.random.uniform(place, (_DISCS,), minval=-largest, maxval=side + largest)
        for place, side in zip(places, (height, width), strict=True)
    )
    # The inverse of the distribution function of a density r^-3 between smallest and largest.
    share = jax.random.uniform(sizes, (_DISCS,))
    radius = _SMALLEST / jnp.sqrt(1 - share * (1 - (_SMALLEST / largest) ** 2))
    lightness = jax.random.uniform(shades, (_DISCS, 1))
    colour = lightness + _COLOUR_APART * jax.random.normal(tints, (_DISCS, colours)) * (colours > 1)
    rows, columns = jnp.arange(height)[:, None], jnp.arange(width)[None, :]

    def hide(top: Array, disc: tuple[Array, ...]) -> tuple[Array, None]:
        index, y, x, radius = disc
        inside = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        return jnp.where(inside, index, top), None

    discs = (jnp.arange(_DISCS), y, x, radius)
    top = jax.lax.scan(hide, jnp.zeros((height, width), jnp.int32), discs)[0]
    return colour[top] + _NOISE * jax.random.normal(noise, shape)


def strokes(shape: tuple[int, int, int], key: Array) -> Image:
    """Draw one to three thick quadratic Bézier curves, white on black, with soft edges."""
    height, width, _ = shape
    ends, thickness, how_many = jax.random.split(key, 3)
    points = jax.random.uniform(ends, (_STROKES, 3, 2), minval=0.15, maxval=0.85)
    t = jnp.linspace(0, 1, _POINTS)[:, None]
    start, control, end = (points[:, None, k] for k in range(3))
    curves = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    curves = curves * jnp.array([height, width])
    grid = jnp.stack(jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij"), -1) + 0.5
    apart = jnp.linalg.norm(grid[None, :, :, None] - curves[:, None, None], axis=-1).min(-1)
    radius = jax.random.uniform(thickness, minval=0.9, maxval=2.2)
    ink = jnp.clip(radius + 0.5 - apart, 0, 1)
    drawn = jnp.arange(_STROKES) < jax.random.randint(how_many, (), 1, _STROKES + 1)
    return jnp.where(drawn[:, None, None], ink, 0).max(0)[..., None] * jnp.ones(shape)


# What may be drawn; of several, each image shows the next.
SCENES = {
    "dead-leaves": (dead_leaves,),
    "strokes": (strokes,),
    "both": (dead_leaves, strokes),
    # Pixels that know nothing of each other.
    "noise": (lambda shape, key: 0.5 + 0.2 * jax.random.normal(key, shape),),
}
