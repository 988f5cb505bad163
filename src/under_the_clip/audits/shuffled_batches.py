"""Shuffled batches: who sees every noisy sum and knows all but the order, the noise and the coin.

The canary takes part or is blanked; its place is then filled by nothing. Unlike in
`privacy.canaries` the others add their own gradients, known but for the batch that each is in.
Their sums hide the canary as far as they vary, and give its batch away as far as they do not: that
batch has one of the others less. In the bad case of `privacy.shuffling` all are its opposite.

All is in units of the noise. A batch's sum is looked at along two directions at right angles: those
of the canary's gradient u and of A^-1 u, where A is the covariance of a batch's sum, which is where
a canary in a known batch shows best. Weights stand still, so that epochs differ by the deal and the
noise alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int
from scipy.sparse import linalg

from dpstudy.parts.run import Run
from dpstudy.privacy import auditing
from dpstudy.privacy.auditing import Trials
from dpstudy.privacy.worst_example import bounded_sum, in_units_of_noise
from under_the_clip.audits.white_box import Audited, trained_weights

# Solving for A^-1 u: after so many passes over the data the rest is below 3 % on MNIST.
_PASSES = 10
_MOST_AT_ONCE = 128  # Examples whose gradients are held at once.


@dataclass(frozen=True, kw_only=True)
class ShuffledAudit(Audited):
    """One canary in shuffled batches: every gradient is known too, but not the order."""

    trained: int  # epochs after which gradients are taken; 0 for those of the proof
    runs: int

    def carry_out(self) -> dict[str, Any]:
        """Return what the record of the audit holds, but for its provenance."""
        if self.trained:
            weights = trained_weights(replace(self.run, epochs=self.trained))
            gradients = of_training(self.run, weights)
        else:
            gradients = of_the_proof(self.run)
        seen = trials(self.run, gradients, self.runs)
        return self.record_of_trials(auditing.of_many_runs(*seen.flat, self.run.delta), seen)


class Gradients(NamedTuple):
    """What examples add to a step's sum along two directions, in units of the noise."""

    others: Float[np.ndarray, "others 2"]
    canary: Float[np.ndarray, "2"]


def of_the_proof(run: Run) -> Gradients:
    """Return the gradients of `privacy.shuffling`: the canary's, and its opposite of all others."""
    longest = 1 / run.mechanism.noise_over_sensitivity
    others = np.tile([-longest, 0.0], (run.dataset.examples - 1, 1))
    return Gradients(others.astype(np.float32), np.array([longest, 0.0], np.float32))


def of_training(run: Run, params: nnx.State) -> Gradients:
    """Return the training examples' gradients at some weights.

    The canary is the example whose gradient points most against the mean of all, as in the proof.
    Only for mechanisms that bound examples one by one.
    """
    data, count = run.dataset.load(), run.dataset.examples
    size = next(size for size in range(_MOST_AT_ONCE, 0, -1) if count % size == 0)
    pair = data.train_images, data.train_labels
    chunks = tuple(jnp.asarray(array).reshape(-1, size, *array.shape[1:]) for array in pair)
    along, weighted = (partial(over, run, params, chunks) for over in (_along, _weighted))
    mean = weighted(jnp.ones(count)) / count
    index = int(jnp.argmin(along(mean)))
    canary = weighted(jnp.arange(count) == index)

    def covariance(v: Float[np.ndarray, "numbers"]) -> Float[Array, "numbers"]:
        moment = weighted(along(v)) / count
        return v + run.sampling.batch * (moment - jnp.vdot(mean, v) * mean)

    # Not by JAX's conjugate gradients, which would compile a pass twice.
    solved = linalg.LinearOperator((canary.size, canary.size), covariance, dtype=canary.dtype)
    best, _ = linalg.cg(solved, np.asarray(canary), rtol=0.0, maxiter=_PASSES)
    directions, _ = jnp.linalg.qr(jnp.stack([canary, best], axis=1))
    each = np.stack([np.asarray(along(one)) for one in directions.T], axis=1)
    return Gradients(np.delete(each, index, axis=0), each[index])


def trials(run: Run, gradients: Gradients, count: int, seed: int = 0) -> Trials:
    """Simulate the run so many times, its weights standing still, and score the canary."""
    rng = np.random.default_rng(seed)
    inside = rng.integers(0, 2, count).astype(bool)
    score, deal = _attacker(run, gradients), _dealer(rng, gradients.others)
    scores = [score(_released(rng, run, gradients.canary, deal, coin)).sum() for coin in inside]
    strength = float(np.linalg.norm(gradients.canary))
    return Trials(inside[:, None], np.array(scores)[:, None], strength)


def _released(
    rng: np.random.Generator,
    run: Run,
    canary: Float[np.ndarray, "2"],
    deal: Callable[[Int[np.ndarray, "batches"]], Float[np.ndarray, "batches 2"]],
    inside: bool,
) -> Float[np.ndarray, "epochs batches 2"]:
    batches, batch = run.steps_per_epoch, run.sampling.batch
    sums = rng.standard_normal((run.epochs, batches, 2), np.float32)
    for epoch in sums:
        sizes = np.full(batches, batch)
        place = rng.integers(run.dataset.examples) // batch  # of the canary; the rest is left out
        if place < batches:
            sizes[place] -= 1
            epoch[place] += inside * canary
        epoch += deal(sizes)
    return sums


def _dealer(
    rng: np.random.Generator, others: Float[np.ndarray, "others 2"]
) -> Callable[[Int[np.ndarray, "batches"]], Float[np.ndarray, "batches 2"]]:
    """Return the function from batches' sizes to their sums, of examples dealt at random."""
    if (others == others[0]).all():
        return lambda sizes: sizes[:, None] * others[0]
    # A pair of numbers is shuffled fastest as a complex one.
    pairs = np.ascontiguousarray(others).view(np.complex64)[:, 0]

    def deal(sizes: np.ndarray) -> np.ndarray:
        dealt = rng.permutation(pairs)[: sizes.sum()]
        return np.add.reduceat(dealt, np.cumsum(sizes) - sizes)[:, None].view(np.float32)

    return deal


def _attacker(
    run: Run, gradients: Gradients
) -> Callable[[Float[np.ndarray, "epochs batches 2"]], Float[np.ndarray, "epochs"]]:
    """Return the logarithm of the likelihood ratio of in to out, of each epoch.

    The others' sums are taken as Gaussian, with the mean and the covariance that dealing without
    replacement gives them: n S (N - n) / (N - 1) in a batch, and -n^2 S / (N - 1) between two, for
    batches of n of N examples and the examples' covariance S. So all batches together, of which
    little is left out, vary less than each.
    """
    examples, batch, batches = run.dataset.examples, run.sampling.batch, run.steps_per_epoch
    others = gradients.others.astype(float)
    mean, spread = others.mean(axis=0), np.cov(others.T, bias=True) / (examples - 1)
    apart = np.eye(2) + batch * examples * spread
    together = np.eye(2) + batch * (examples - batch * batches) * spread
    dealt = batch * batches / examples

    def ratio(seen: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Return how much likelier one of the batches is shifted than none, its logarithm."""
        by_itself, by_all = np.linalg.solve(apart, shift), np.linalg.solve(together, shift)
        level = seen.mean(axis=1, keepdims=True)
        shown = (seen - level) @ by_itself + level @ by_all
        own = ((1 - 1 / batches) * by_itself + by_all / batches) @ shift / 2
        return np.log1p(dealt * (np.exp(shown - own).mean(axis=1) - 1))

    def score(released: Float[np.ndarray, "epochs batches 2"]) -> Float[np.ndarray, "epochs"]:
        seen = released - batch * mean
        return ratio(seen, gradients.canary - mean) - ratio(seen, -mean)

    return score


def _total(
    run: Run, params: nnx.State, chunk: tuple[Array, Array], weights: Float[Array, "chunk"]
) -> Float[Array, "numbers"]:
    return in_units_of_noise(run, bounded_sum(run, params, *chunk, weights)[0])


@jax.jit
def _along(
    run: Run, params: nnx.State, chunks: tuple[Array, Array], direction: Float[Array, "numbers"]
) -> Float[Array, "examples"]:
    """Return what each example adds along a direction."""

    def one(chunk: tuple[Array, Array]) -> Array:
        _, transposed = jax.vjp(partial(_total, run, params, chunk), jnp.ones(len(chunk[1])))
        return transposed(direction)[0]

    return jax.lax.map(one, chunks).reshape(-1)


@jax.jit
def _weighted(
    run: Run, params: nnx.State, chunks: tuple[Array, Array], weights: Float[Array, "examples"]
) -> Float[Array, "numbers"]:

    def add(so_far: Array, case: tuple[tuple[Array, Array], Array]) -> tuple[Array, None]:
        return so_far + _total(run, params, *case), None

    weights = weights.reshape(chunks[1].shape).astype(jnp.float32)
    zero = ravel_pytree(jax.tree.map(jnp.zeros_like, params))[0]
    return jax.lax.scan(add, zero, (chunks, weights))[0]
