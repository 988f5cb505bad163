"""Canaries: examples whose presence is to be read off the steps that train a run.

Weights stand still: all that a step gives away is its noisy mean. What a canary gives away is by
how much the step that trains moves the weights otherwise when it is among the examples drawn:
gradients, bounds, sum, noise and division are `training.loop`'s, on batches as the run draws them.
Code that bounds examples wrongly may show a canary among others only.

In the simulated runs sampling and noise are the training loop's too; the others' sum is known, and
left out. In units of the noise that is stated, number by number, all directions are alike, and what
one learns of examples whose gradients are at right angles is independent. So a run has room for
thousands of canaries (Nasr et al. 2023, Steinke et al. 2023): the first is a real example, each of
the others its gradient turned to be at right angles to all before it.
"""

import dataclasses
from functools import partial
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from dpstudy.errors import UserError
from dpstudy.parts.measure import Examples
from dpstudy.parts.mechanism import nothing_seen
from dpstudy.parts.optimizer import Sgd
from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Draw
from dpstudy.privacy.auditing import Trials
from dpstudy.privacy.worst_example import Example, in_units_of_noise
from dpstudy.training import loop

# Batches of the run that the first canary is put into.
_BATCHES = 4
# By what share a batch has to show more of it than it shows alone: sums are rounded.
_ROUNDING = 1e-3


def given_away(run: Run, example: Example) -> Float[Array, "numbers"]:
    """Return the longest of `differences`: that of the example alone, where no other is longer."""
    each = differences(run, example)
    lengths = jnp.linalg.norm(each, axis=1)
    # Of a batch whose sum is not finite nothing can be read.
    lengths = jnp.where(jnp.isfinite(lengths), lengths, 0.0)
    return each[jnp.argmax(lengths.at[1:].divide(1 + _ROUNDING))]


def differences(run: Run, example: Example) -> Float[Array, "batches numbers"]:
    """Return by how much a step's noisy sum differs with an example and without, over the noise.

    The first is of a batch of the example alone, the others of batches that the run draws, from
    steps spread over it. The example stands in the first one's place in the training set.
    """
    run = _standing(run)
    steps = np.linspace(0, run.epochs * run.steps_per_epoch - 1, _BATCHES).astype(np.int32)
    # It has each time another place in the batch, and so other examples beside it.
    places = np.append(0, np.linspace(0, 1, _BATCHES, dtype=np.float32))
    cases = np.append(steps[:1], steps), np.arange(1 + _BATCHES) == 0, places
    start = loop.start(run)._replace(params=example.params)
    return _differences(run.of_a_step(), run.key, start, _with_first(run, example), cases)


def _standing(run: Run) -> Run:
    """Return the run whose weights move by minus the noisy mean, and no other way."""
    return dataclasses.replace(run, optimizer=Sgd(learning_rate=1.0, momentum=0.0))


def _with_first(run: Run, example: Example) -> Examples:
    data = run.dataset.load()
    images, labels = np.array(data.train_images), np.array(data.train_labels)
    if np.issubdtype(images.dtype, np.integer):
        images = images.astype(np.float32)  # a canary's pixels may lie in between
    images[0], labels[0] = example.image, example.label
    return Examples(images, labels)


@jax.jit
def _differences(
    run: Run, key: Array, start: loop.State, train: Examples, cases: tuple[Array, ...]
) -> Float[Array, "cases numbers"]:
    """Return the differences that the first example makes, at each step, alone or among others."""

    def noisy_sum(state: loop.State, draw: Draw) -> nnx.State:
        total, seen = loop.sum_over(run, run.network.examples_at_once(), state, draw, train)
        # From weights of 0, where what they move by is not rounded to what they are.
        state = state._replace(params=jax.tree.map(jnp.zeros_like, state.params))
        after = loop.updated(run, key, state, draw.overflow, total, seen)
        return jax.tree.map(lambda x: -run.sampling.batch * x, after.params)

    def difference(case: tuple[Array, ...]) -> Array:
        step, alone, place = case
        draw = loop.draw_examples(run, key, loop.order_of_epoch(run, key, step), step)
        draw = draw._replace(count=jnp.where(alone, 1, draw.count))
        of_draw = partial(noisy_sum, start._replace(step=step))
        pair = jax.lax.map(of_draw, _with_and_without(draw, place))
        return in_units_of_noise(run, jax.tree.map(lambda x: x[0] - x[1], pair))

    return jax.lax.map(difference, cases)


def _with_and_without(draw: Draw, share: Float[Array, ""]) -> Draw:
    """Return a draw with the first example in it, behind that share of the others, and without."""
    # Where it was not drawn it takes the place of one that was: a shuffled batch has no room.
    last = jnp.maximum(draw.count, 1) - 1
    place = (share * last).astype(jnp.int32)
    drawn = (jnp.arange(len(draw.indices)) < draw.count) & (draw.indices == 0)
    before = jnp.where(drawn.any(), jnp.argmax(drawn), place)
    with_it = draw.indices.at[before].set(draw.indices[place]).at[place].set(0)
    without = with_it.at[place].set(with_it[last])
    inside = draw._replace(indices=with_it, count=last + 1)
    outside = draw._replace(indices=without, count=last)
    return jax.tree.map(lambda *pair: jnp.stack(pair), inside, outside)


class Frame(NamedTuple):
    """Directions at right angles, of which the first is given.

    Direction k is a comb, every `count`-th number from the k-th on, mirrored so that the first comb
    becomes the direction given; `mirror` is the mirror's unit normal, or zeros.
    """

    mirror: Float[Array, "numbers"]
    count: int

    @classmethod
    def around(cls, direction: Float[Array, "numbers"], count: int) -> Self:
        """Return the frame whose first direction is the one given, of length 1 or 0."""
        if not 0 < count <= len(direction):
            raise UserError(f"canaries must be 1 to {len(direction)}, got {count}")
        teeth = len(direction) // count
        comb = jnp.zeros(len(direction)).at[: teeth * count : count].set(teeth**-0.5)
        normal = direction - comb
        length = jnp.linalg.norm(normal) * (jnp.linalg.norm(direction) > 0)
        return cls(jnp.where(length > 1e-6, normal / jnp.maximum(length, 1e-6), 0.0), count)

    def along(self, vector: Float[Array, "numbers"]) -> Float[Array, "count"]:
        """Return a vector's components along the directions."""
        teeth = len(vector) // self.count
        mirrored = vector - 2 * jnp.vdot(self.mirror, vector) * self.mirror
        rows = mirrored[: teeth * self.count].reshape(teeth, self.count)
        return rows.sum(axis=0) / jnp.sqrt(teeth)


def trials(run: Run, example: Example, *, runs: int, canaries: int, seed: int = 0) -> Trials:
    """Simulate runs at standing weights, with canaries in or out, and score each.

    Canary k is example number k of the dataset, with a gradient as long as the given example's.
    Within a run scores and noises are independent. `runs` have fresh coins, sampling and noise, by
    one `seed`.

    >>> from dpstudy.parts.mechanism import NoPrivacy
    >>> trials(Run(mechanism=NoPrivacy()), example=None, runs=10, canaries=4_000)
    Traceback (most recent call last):
    dpstudy.errors.UserError: a run without noise has no epsilon to audit

    Raises:
        UserError: the run adds no noise, or there are more canaries than examples or parameters.
    """
    if not run.private:
        raise UserError("a run without noise has no epsilon to audit")
    if canaries > run.dataset.examples:
        raise UserError(f"canaries must be at most {run.dataset.examples}, got {canaries}")
    shown = given_away(run, example)
    strength = jnp.linalg.norm(shown)
    frame = Frame.around(shown / jnp.maximum(strength, 1e-30), canaries)
    keys = jax.random.split(jax.random.key(seed), 1 + runs)
    run = _standing(run)
    inside, scores = _simulated(canaries, run, loop.start(run), frame.mirror, strength, keys)
    return Trials(np.asarray(inside), np.moveaxis(np.asarray(scores), 0, 1), float(strength))


@partial(jax.jit, static_argnums=0)
def _simulated(
    canaries: int, run: Run, start: loop.State, mirror: Array, strength: Array, keys: Array
) -> tuple[Array, Array]:
    dealt = _dealt(run, keys[0], canaries)
    one_run = partial(_one_run, run, start, Frame(mirror, canaries), strength, dealt)
    return jax.lax.map(one_run, keys[1:])


def _dealt(run: Run, key: Array, canaries: int) -> Bool[Array, "epochs steps canaries"]:
    """Return which canaries are drawn for which steps, by a key."""

    def step(order: Array | None, number: Array) -> Array:
        return _drawn(loop.draw_examples(run, key, order, number), canaries)

    def epoch(start: Array) -> Array:
        order = loop.order_of_epoch(run, key, start)
        return jax.lax.map(partial(step, order), start + jnp.arange(run.steps_per_epoch))

    return jax.lax.map(epoch, run.steps_per_epoch * jnp.arange(run.epochs))


def _one_run(
    run: Run, start: loop.State, frame: Frame, strength: Array, dealt: Array, key: Array
) -> tuple[Array, Array]:
    coin_key, key = jax.random.split(key)
    inside = jax.random.bernoulli(coin_key, shape=(frame.count,))
    nothing = jax.tree.map(jnp.zeros_like, start.params)

    def step(order: Array | None, state: loop.State, _: None) -> tuple[loop.State, Array]:
        draw = loop.draw_examples(run, key, order, state.step)
        seen = nothing_seen()._replace(examples=draw.count.astype(jnp.float32))
        state = loop.updated(run, key, state, draw.overflow, nothing, seen)
        noise = jax.tree.map(lambda x: -run.sampling.batch * x, state.params)
        shown = strength * (inside & _drawn(draw, frame.count))
        along = frame.along(in_units_of_noise(run, noise)) + shown
        return state._replace(params=nothing), strength * along - strength**2 / 2

    def epoch(state: loop.State, _: None) -> tuple[loop.State, Array]:
        order = loop.order_of_epoch(run, key, state.step)
        return jax.lax.scan(partial(step, order), state, None, length=run.steps_per_epoch)

    start = start._replace(params=nothing)
    ratios = jax.lax.scan(epoch, start, None, length=run.epochs)[1]
    return inside, jnp.stack([attack(run, ratios, dealt) for attack in ATTACKS.values()])


def _drawn(draw: Draw, canaries: int) -> Bool[Array, "canaries"]:
    real = jnp.arange(len(draw.indices)) < draw.count
    places = jnp.where(real & (draw.indices < canaries), draw.indices, canaries)
    return jnp.zeros(canaries, bool).at[places].set(True, mode="drop")


def _each_step(run: Run, ratios: Array, _: Array) -> Float[Array, "canaries"]:
    """Steps drawn for by themselves: the ratios of steps multiply, each a mixture."""
    q = run.sampling_probability
    return jnp.logaddexp(jnp.log1p(-q), jnp.log(q) + ratios).sum((0, 1))


def _a_step_an_epoch(run: Run, ratios: Array, _: Array) -> Float[Array, "canaries"]:
    """One batch of each epoch, or none: the epoch is a mixture over its batches."""
    q = run.sampling_probability
    left_over = jnp.log(jnp.maximum(1 - run.steps_per_epoch * q, 0.0))
    return jnp.logaddexp(left_over, jnp.log(q) + jax.nn.logsumexp(ratios, axis=1)).sum(0)


# What an attacker makes of the logarithms of the likelihood ratios of taking part to not, by epoch,
# step and canary, and of which steps canaries took part in by another key. The first two are those
# of Poisson and of shuffled batches as they should be, the others look for mistakes.
ATTACKS = {
    "each step by itself": _each_step,
    "a step of each epoch": _a_step_an_epoch,
    "the same step of every epoch": lambda _, ratios, __: jax.nn.logsumexp(ratios.sum(0), axis=0),
    "every step or none": lambda _, ratios, __: ratios.sum((0, 1)),
    "the steps of another run": lambda _, ratios, dealt: (ratios * dealt).sum((0, 1)),
    "steps that differ": lambda _, ratios, __: ratios.max((0, 1)) - ratios.min((0, 1)),
}
