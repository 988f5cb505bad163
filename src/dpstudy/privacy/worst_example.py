"""The example whose bounded gradient is longest: searched uphill over image, label and weights.

How near real networks come to a proven sensitivity is looked for by Adam from many random starts:
images within the dataset's pixels, every label, and weights either as they are drawn or free.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from dpstudy.parts.mechanism import Microbatch
from dpstudy.parts.run import Run, stream

CLASSES = 10
# The first step of Adam, on images' logits and on weights; the last is a hundredth of it.
_IMAGE_RATE, _WEIGHT_RATE = 0.3, 0.03
# Where free weights start: times as large as they are drawn, from the least to the most.
_LEAST_SCALE, _MOST_SCALE = 1.0, 16.0
# How far from 0 the logits of pixels start: nearly black and nearly white.
_CONTRAST = 4.0


class Example(NamedTuple):
    """An example as its dataset stores it (pixels may lie in between), and weights."""

    image: Float[Array, "h w c"]
    label: int | Array
    params: nnx.State


class Found(NamedTuple):
    """The best of a search, and the norms of its bounded gradient in the order of parameters."""

    example: Example
    norms: Float[Array, "leaves"]


def bounded_sum(
    run: Run,
    params: nnx.State,
    images: Array,
    labels: Array,
    weights: Float[Array, "batch"] | None = None,
) -> tuple[nnx.State, Any]:
    """Return what the mechanism makes of some examples: their weighted sum, and what it saw."""
    weights = jnp.ones(len(labels)) if weights is None else weights
    losses = run.losses(jnp.float32(1))
    batch = Microbatch(run.network.graph(), losses, params, images, labels)
    return run.mechanism.sum(batch, weights)


def contribution(run: Run, example: Example) -> nnx.State:
    """Return what an example adds to a step's sum: its gradient as the mechanism bounds it."""
    image, label = jnp.asarray(example.image), jnp.asarray(example.label)
    return bounded_sum(run, example.params, image[None], label[None])[0]


def in_units_of_noise(run: Run, total: nnx.State) -> Float[Array, "numbers"]:
    """Return a sum over its noise's standard deviation, number by number, flat."""
    return ravel_pytree(jax.tree.map(jnp.divide, total, run.mechanism.noise(total)))[0]


def norms(run: Run, example: Example) -> Float[Array, "leaves"]:
    """Return the l2 norms of an example's bounded gradient, leaf by leaf."""
    leaves = jax.tree.leaves(contribution(run, example))
    squares = jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
    return jnp.sqrt(jnp.where(squares > 0, squares, 1e-30))  # with a gradient at 0


def search(
    run: Run,
    params: nnx.State | None = None,
    *,
    weights: bool,
    leaf: int | None = None,
    starts: int = 20,
    steps: int = 300,
    seed: int = 0,
) -> Found:
    """Return the example whose bounded gradient is longest, in units of its noise.

    By `steps` of Adam from as many random `starts` of that `seed`; labels take turns. The `params`
    are by default those that the run's seed draws; `weights` says whether they are free too. `leaf`
    is the number of the one whose gradient is to be long; by default all count.
    """
    initial = drawn_weights(run) if params is None else params
    deviations = jnp.stack(jax.tree.leaves(run.mechanism.noise(initial)))
    counts = 1.0 if leaf is None else jnp.arange(len(deviations)) == leaf
    keys = jax.random.split(jax.random.key(seed), starts)
    labels = jnp.arange(starts) % CLASSES
    values, found = _climbed(weights, steps, run, counts / deviations**2, initial, keys, labels)
    return jax.tree.map(lambda x: x[jnp.argmax(values)], found)


def drawn_weights(run: Run) -> nnx.State:
    """Return the weights that training starts from."""
    return run.network.initial(stream(run.key, "initial"))


@partial(jax.jit, static_argnums=(0, 1))
def _climbed(
    weights: bool,
    steps: int,
    run: Run,
    importance: Float[Array, "leaves"],
    initial: nnx.State,
    keys: Array,
    labels: Array,
) -> tuple[Array, Found]:
    rates = {"logits": _IMAGE_RATE, "params": _WEIGHT_RATE if weights else 0.0}
    rule = optax.multi_transform(
        {name: optax.adam(optax.linear_schedule(r, r / 100, steps)) for name, r in rates.items()},
        {name: name for name in rates},
    )

    def climb(key: Array, label: Array) -> tuple[Array, Found]:
        def looked_at(case: dict) -> Example:
            return Example(255 * jax.nn.sigmoid(case["logits"]), label, case["params"])

        def value(case: dict) -> Array:
            return jnp.log(jnp.vdot(importance, norms(run, looked_at(case)) ** 2)) / 2

        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            case, state, best, at = carry
            now, gradient = jax.value_and_grad(value)(case)
            at = jax.tree.map(partial(jnp.where, now > best), case, at)
            gradient = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), -x, 0.0), gradient)
            change, state = rule.update(gradient, state)
            best = jnp.where(now > best, now, best)  # Unlike a maximum, no NaN.
            return (optax.apply_updates(case, change), state, best, at), None

        case = _start(run, initial, weights, key)
        carry = (case, rule.init(case), -jnp.inf, case)
        (_, _, best, at), _ = jax.lax.scan(step, carry, None, length=steps)
        return best, Found(looked_at(at), norms(run, looked_at(at)))

    return jax.lax.map(lambda pair: climb(*pair), (keys, labels))


def _start(run: Run, initial: nnx.State, weights: bool, key: Array) -> dict:
    """Return an image of noise, bright in a square, and weights of a random size."""
    noise_key, square_key, scale_key = jax.random.split(key, 3)
    height, width, _ = shape = run.dataset.image_shape
    across, down, side = jax.random.uniform(square_key, (3,))
    side = jnp.maximum(side, 0.2)
    rows = jnp.abs(jnp.arange(height) / height - across) < side / 2
    columns = jnp.abs(jnp.arange(width) / width - down) < side / 2
    bright = (rows[:, None] & columns)[..., None]
    logits = jax.random.normal(noise_key, shape) + _CONTRAST * jnp.where(bright, 1.0, -1.0)
    scale = 1.0
    if weights:
        low, high = jnp.log(_LEAST_SCALE), jnp.log(_MOST_SCALE)
        scale = jnp.exp(jax.random.uniform(scale_key, minval=low, maxval=high))
    return {"logits": logits, "params": jax.tree.map(lambda x: scale * x, initial)}
