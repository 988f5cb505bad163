"""Canaries: examples whose presence is to be read off a run's noisy sums.

Weights stand still, as in a run with learning rate 0: then all that a step gives away is its noisy
sum. The rest of the data adds nothing, as blank examples do; epsilon speaks of such neighbours too.
What is left of a canary is its gradient as the mechanism bounds it, in those steps that sampling
puts it in. Sampling, bounded sum and noise here are the run's own, in all of its dimensions.

A noisy sum is looked at in units of its noise, number by number. There the noise is the same in
all directions, so an example whose gradient points elsewhere and is as long is as easy to see; and
what one learns of examples whose gradients are at right angles is independent. So a run has room
for thousands of canaries (gradient canaries: Nasr et al. 2023, Steinke et al. 2023): the first is a
real example, each of the others its gradient turned to be at right angles to all before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpstudy.errors import UserError
from dpstudy.parts.mechanism import Microbatch, gaussian_noise
from dpstudy.parts.sampling import Shuffled

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array, Bool, Float

    from dpstudy.parts.run import Run
    from dpstudy.parts.sampling import Draw


class Example(NamedTuple):
    """An example as its dataset stores it, and the weights at which it is looked at.

    Pixels may lie between the 256 values that are stored.
    """

    image: Float[Array, "h w c"]
    label: int | Array
    params: nnx.State


@dataclass(frozen=True)
class Trials:
    """Canaries put in or left out by a fair coin, and how likely each looks to be in.

    Attributes:
        inside: whether it was in, by run and canary.
        scores: logarithm of the likelihood ratio of in to out, by run and canary.
        strength: the canary's gradient over the noise, what a step that it is in gives away.
    """

    inside: Bool[np.ndarray, "runs canaries"]
    scores: Float[np.ndarray, "runs canaries"]
    strength: float


def contribution(run: Run, example: Example) -> nnx.State:
    """Return what an example adds to a step's sum: its gradient as the mechanism bounds it."""
    losses = run.losses(jnp.float32(1))
    images, labels = jnp.asarray(example.image)[None], jnp.asarray(example.label)[None]
    alone = Microbatch(run.network.graph(), losses, example.params, images, labels)
    return run.mechanism.sum(alone, jnp.ones(1))[0]


def in_units_of_noise(run: Run, total: nnx.State) -> Float[Array, "numbers"]:
    """Return a sum over its noise's standard deviation, number by number, flat."""
    return ravel_pytree(jax.tree.map(jnp.divide, total, run.mechanism.noise(total)))[0]


class Frame(NamedTuple):
    """Directions at right angles, of which the first is given.

    Direction k is a comb, every `count`-th number from the k-th on, mirrored so that the first comb
    becomes the direction given. To mirror takes two passes over a vector, however many they are.

    Attributes:
        mirror: the unit normal of the mirror, or zeros.
        count: the number of directions.
    """

    mirror: Float[Array, "numbers"]
    count: int

    @classmethod
    def around(cls, direction: Float[Array, "numbers"], count: int) -> Frame:
        """Return the frame whose first direction is the one given, of length 1 or 0."""
        if not 0 < count <= len(direction):
            raise UserError(f"canaries must be 1 to {len(direction)}, got {count}")
        normal = direction - _combs(jnp.eye(1, count)[0], len(direction))
        length = jnp.linalg.norm(normal) * (jnp.linalg.norm(direction) > 0)
        return cls(jnp.where(length > 1e-6, normal / jnp.maximum(length, 1e-6), 0.0), count)

    def combined(self, lengths: Float[Array, "count"]) -> Float[Array, "numbers"]:
        """Return the sum of vectors that long along the directions."""
        return self._mirrored(_combs(lengths, len(self.mirror)))

    def along(self, vector: Float[Array, "numbers"]) -> Float[Array, "count"]:
        """Return a vector's components along the directions."""
        teeth = len(vector) // self.count
        rows = self._mirrored(vector)[: teeth * self.count].reshape(teeth, self.count)
        return rows.sum(axis=0) / jnp.sqrt(teeth)

    def _mirrored(self, vector: Array) -> Array:
        return vector - 2 * jnp.vdot(self.mirror, vector) * self.mirror


def _combs(lengths: Float[Array, "count"], numbers: int) -> Float[Array, "numbers"]:
    teeth = numbers // len(lengths)
    flat = jnp.tile(lengths / jnp.sqrt(teeth), teeth)
    return jnp.pad(flat, (0, numbers - len(flat)))


def trials(run: Run, example: Example, *, runs: int, canaries: int, seed: int = 0) -> Trials:
    """Simulate runs at standing weights, with canaries in or out, and score each: one program.

    Canary k is example number k of the dataset, with a gradient as long as the given example's; the
    other examples add nothing, as do canaries that are out. Within a run no canary's score depends
    on another's presence, and their noises are independent.

    Args:
        run: its mechanism, sampling, epochs and network are what is simulated.
        example: the first canary, and the weights.
        runs: how often the run is repeated with fresh coins, sampling and noise.
        canaries: in each of them.
        seed: of all randomness.

    Raises:
        UserError: the run adds no noise, or there are more canaries than examples or parameters.
    """
    if not run.private:
        raise UserError("a run without noise has no epsilon to audit")
    if canaries > run.dataset.examples:
        raise UserError(f"canaries must be at most {run.dataset.examples}, got {canaries}")
    keys = jax.random.split(jax.random.key(seed), runs)
    strength, inside, scores = _simulated(canaries, run, example, keys)
    return Trials(np.asarray(inside), np.asarray(scores), float(strength))


@partial(jax.jit, static_argnums=0)
def _simulated(
    canaries: int, run: Run, example: Example, keys: Array
) -> tuple[Array, Array, Array]:
    total = contribution(run, example)
    seen = in_units_of_noise(run, total)
    strength = jnp.linalg.norm(seen)
    frame = Frame.around(seen / jnp.maximum(strength, 1e-30), canaries)
    inside, scores = jax.lax.map(partial(_one_run, run, total, frame, strength), keys)
    return strength, inside, scores


def _one_run(
    run: Run, like: nnx.State, frame: Frame, strength: Array, key: Array
) -> tuple[Array, Array]:
    coin_key, sampling_key, noise_key = jax.random.split(key, 3)
    inside = jax.random.bernoulli(coin_key, shape=(frame.count,))
    deviations = run.mechanism.noise(like)
    noise = gaussian_noise(deviations, noise_key, apart=False)
    unravel = ravel_pytree(like)[1]
    examples, steps = run.dataset.examples, run.steps_per_epoch

    def step(order: Array | None, number: Array) -> Array:
        draw = run.sampling.draw(sampling_key, examples, order, number)
        taking_part = inside & _drawn(draw, frame.count)
        clean = unravel(frame.combined(strength * taking_part))
        total = jax.tree.map(jnp.multiply, clean, deviations)
        noisy, _ = noise.update(total, noise.init(total)._replace(count=number))
        ratio = strength * frame.along(in_units_of_noise(run, noisy)) - strength**2 / 2
        return ratio

    def epoch(score: Array, number: Array) -> tuple[Array, None]:
        order = run.sampling.order(sampling_key, examples, number)
        start = _nothing_seen(run, frame.count)
        numbers = number * steps + jnp.arange(steps)
        seen, _ = jax.lax.scan(lambda c, t: (_added(run, c, step(order, t)), None), start, numbers)
        return score + seen, None

    zero = jnp.zeros(frame.count)
    return inside, jax.lax.scan(epoch, zero, jnp.arange(run.epochs))[0]


def _drawn(draw: Draw, canaries: int) -> Bool[Array, "canaries"]:
    """Return which of the first examples were drawn."""
    real = jnp.arange(len(draw.indices)) < draw.count
    places = jnp.where(real & (draw.indices < canaries), draw.indices, canaries)
    return jnp.zeros(canaries, bool).at[places].set(True, mode="drop")


def _nothing_seen(run: Run, canaries: int) -> Float[Array, "canaries"]:
    """Return an epoch's score before its first step."""
    if not isinstance(run.sampling, Shuffled):
        return jnp.zeros(canaries)
    left_over = 1 - run.steps_per_epoch * run.sampling_probability
    return jnp.full(canaries, jnp.log(jnp.maximum(left_over, 0.0)))


def _added(run: Run, score: Array, ratio: Array) -> Float[Array, "canaries"]:
    """Return an epoch's score with one more step's log-likelihood ratio of taking part to not.

    Drawn independently at every step, the ratios of steps multiply, each a mixture of taking part
    and not. Shuffled, an example is in one batch of the epoch: the epoch is a mixture over them.
    """
    q = run.sampling_probability
    if isinstance(run.sampling, Shuffled):
        return jnp.logaddexp(score, jnp.log(q) + ratio)
    return score + jnp.logaddexp(jnp.log1p(-q), jnp.log(q) + ratio)
