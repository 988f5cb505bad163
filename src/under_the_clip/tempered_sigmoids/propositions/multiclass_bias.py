"""Tempered sigmoids: a bound on what clipping costs with several classes, where it is denied.

Clipped gradients of several classes are the gradient of nothing (`clipped_fields`), and the paper
concludes that their bias cannot be quantified. It can, without any objective. Let projected clipped
descent rest at θ in a convex Θ, and let g be the clipped gradient there, G the loss' own. To rest
means <g, θ - θ'> <= 0 for every θ' in Θ. The loss is convex, so that its excess at θ over θ' is at
most <G, θ - θ'> <= <G - g, θ - θ'>. An example's gradient is no longer than √2 T |z|, and clipping
takes off what exceeds C. Hence, with |z| <= 1, the bias is at most max(√2 T - C, 0) |Θ|.

A compact Θ has such a θ, by Brouwer's theorem. That descent always comes to rest is not proven.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import in_double
from dpstudy.propositions.statement import Outcome, Statement
from under_the_clip.tempered_sigmoids.propositions.clipped_fields import clipped_field
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import multiclass_loss

if TYPE_CHECKING:
    from jaxtyping import Array, Float

CLASSES = 3
_FEATURES, _EXAMPLES = 2, 8
_DESCENTS, _STEPS = 384, 2000
# A descent rests where a step changes no margin by more.
_AT_REST = 1e-9
_TINY = 1e-300


class Problem(NamedTuple):
    """A softmax regression with T and C, and a ball for its weights, flat; |z| is at most 1."""

    points: Float[Array, "n d"]
    temperature: Float[Array, ""]
    clip_norm: Float[Array, ""]
    centre: Float[Array, "kd"]
    radius: Float[Array, ""]

    @property
    def examples(self) -> tuple[Array, Array]:
        """The points with their labels, class after class."""
        return self.points, jnp.arange(len(self.points)) % CLASSES

    def example_loss(self, theta: Float[Array, "kd"], example: tuple[Array, Array]) -> Array:
        """Return the tempered softmax loss of one point and its label."""
        z, label = example
        # The loss is that of class 0.
        of_classes = jnp.roll(theta.reshape(CLASSES, -1), -label, axis=0)
        return multiclass_loss(of_classes, z, self.temperature)

    def loss(self, theta: Float[Array, "kd"]) -> Array:
        """Return the loss averaged over the examples."""
        return jnp.mean(jax.vmap(self.example_loss, (None, 0))(theta, self.examples))


def step(theta: Float[Array, "kd"], problem: Problem) -> Float[Array, "kd"]:
    """Return where a step of projected clipped descent leads."""
    total = clipped_field(problem.example_loss, theta, problem.examples, problem.clip_norm)
    # The loss is smooth with constant T² / 2.
    rate = 2 / problem.temperature**2
    away = theta - rate * total / len(problem.points) - problem.centre
    length = jnp.maximum(jnp.linalg.norm(away), _TINY)
    return problem.centre + away * jnp.minimum(1, problem.radius / length)


def descend(problem: Problem) -> Float[Array, "kd"]:
    """Return where projected clipped descent ends, started from the centre."""
    return jax.lax.fori_loop(0, _STEPS, lambda _, theta: step(theta, problem), problem.centre)


def _end(problem: Problem) -> tuple[Array, Array]:
    """Return the bias, and by how much another step changes margins."""
    clipped, best = descend(problem), descend(problem._replace(clip_norm=jnp.inf))
    moved = jnp.linalg.norm(step(clipped, problem) - clipped) * problem.temperature
    return problem.loss(clipped) - problem.loss(best), moved


@cache
def at_rest() -> dict[str, np.ndarray]:
    """Run descent with and without clipping on random data, T, C and balls.

    Returns:
        By name, one number for each problem in which clipped descent came to rest: "bias" (the
        excess loss there) and "delta" (max(√2 T - C, 0) |Θ|).
    """
    rng = np.random.default_rng(0)
    temperature, clip_norm, radius = np.exp(rng.uniform(-2, 2, (3, _DESCENTS)))
    points = 2 * rng.normal(size=(_DESCENTS, _EXAMPLES, _FEATURES))
    points /= np.maximum(np.linalg.norm(points, axis=2, keepdims=True), 1)
    centre = rng.normal(size=(_DESCENTS, CLASSES * _FEATURES))
    drawn = Problem(points, temperature, clip_norm, centre, radius)
    bias, moved = in_double(jax.vmap(_end))(drawn)
    delta = np.maximum(np.sqrt(2) * temperature - clip_norm, 0) * 2 * radius
    rests = moved <= _AT_REST
    return {"bias": bias[rests], "delta": delta[rests]}


def no_bound(share: float = 1.0) -> Outcome:
    """Hold `share` of the bound above against the bias of random problems: is it no bound?"""
    found = at_rest()
    bias, delta = found["bias"], share * found["delta"]
    clipping = delta > 0
    largest = float(np.max(bias[clipping] / delta[clipping]))
    excess = float(np.max(bias - delta))
    return Outcome(
        worst=1 - largest,
        corrected=max(excess, largest - 1),
        looked=(
            f"projected descent of {_STEPS:,} steps on {_DESCENTS} random problems of {CLASSES} "
            f"classes, {len(bias)} of which came to rest"
        ),
        finding=(
            f"Where descent came to rest, the largest bias found is {largest:.3f} of the bound "
            "proven here."
        ),
    )


STATEMENTS = (
    Statement(
        name="clipping-bias-multiclass",
        paper="papernot2021tempered",
        where="text before Theorem 1",
        says="With more than two classes, the bias of clipped gradient descent has no bound.",
        refuted_by="A bound, with a proof, that no bias found exceeds.",
        instead="Where projected descent comes to rest, it is at most max(√2 T - C, 0) |Θ|.",
        check=no_bound,
    ),
)
