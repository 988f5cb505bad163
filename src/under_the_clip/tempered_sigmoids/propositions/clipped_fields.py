"""Tempered sigmoids: what clipped gradients are the gradient of, and whether of anything.

A smooth field is a gradient if and only if its Jacobian is symmetric, and its line integral around
every loop zero. The clipped field is one for the binary logistic loss, not for three classes.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, proposition
from dpstudy.propositions.search import Found, in_double, normal, search, searched, uniform
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import (
    binary_loss,
    multiclass_loss,
)

Loss = Callable[[Array, Array], Array]
"""From theta (flat) and one example to its loss."""
Field = Callable[[Array], Array]
Objective = Callable[[Array, Array, Array], Array]
"""From theta, one example and C to a loss."""

stated = partial(proposition, "papernot2021tempered")
FEATURES, EXAMPLES = 2, 3
# A circulation or an asymmetry counts as one from here on, relative to the largest possible...
SEEN = 1e-2
# ...and as none up to here, which is what the quadrature below makes of the field's kinks.
UNSEEN = 1e-3
_POINTS_ON_LOOP = 256
# Into so many steps a way is cut to look for a jump.
_STEPS = 64
_TINY, _FLAT = 1e-300, 1e-9


def clipped_field(loss: Loss, theta: Array, examples: Array, clip_norm: Array) -> Array:
    """Return the sum of the examples' gradients at theta, each clipped to norm C."""
    gradients = jax.vmap(jax.grad(loss), (None, 0))(theta, examples)
    squares = jnp.sum(gradients**2, axis=1)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return jnp.minimum(1.0, clip_norm / norms) @ gradients


def asymmetry(field: Field, theta: Float[Array, "d"]) -> Array:
    """Return |J - Jᵀ| / |J + Jᵀ| of the field's Jacobian J at theta: 0 for a gradient."""
    jacobian = jax.jacfwd(field)(theta)
    twisted, straight = jacobian - jacobian.T, jacobian + jacobian.T
    # Where all is clipped the binary field is constant, and its Jacobian zero but for rounding.
    return optax.safe_norm(twisted, 1e-150) / jnp.sqrt(jnp.sum(straight**2) + _FLAT**2)


def line_integral(field: Field, centre: Array, across: Array, up: Array) -> Array:
    """Return the field's line integral around the ellipse centre + across cos t + up sin t.

    Relative to that of its length; the last value is 0 for a gradient, by the trapezoidal rule.
    """
    angles = 2 * jnp.pi * jnp.arange(_POINTS_ON_LOOP) / _POINTS_ON_LOOP
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    values = jax.vmap(field)(centre + across * cos + up * sin)
    steps = up * cos - across * sin
    lengths = jnp.linalg.norm(values, axis=1) * jnp.linalg.norm(steps, axis=1)
    return jnp.cumsum(jnp.sum(values * steps, axis=1)) / (jnp.sum(lengths) + _TINY)


def circulation(field: Field, centre: Array, across: Array, up: Array) -> Array:
    """Return the size of the whole `line_integral`: 0 for a gradient, and at most 1."""
    return jnp.abs(line_integral(field, centre, across, up)[-1])


def loss_of(classes: int | None) -> tuple[Loss, int]:
    """Return the loss for so many classes (None: binary) at T = 1, and its number of parameters."""
    if classes is None:
        return partial(binary_loss, temperature=jnp.ones(())), FEATURES

    def loss(theta: Array, z: Array) -> Array:
        return multiclass_loss(theta.reshape(classes, FEATURES), z, jnp.ones(()))

    return loss, classes * FEATURES


_EXAMPLES_AND_CLIP = {"examples": normal(EXAMPLES, FEATURES, scale=2), "log_clip": uniform(-4, 0)}


def _field(loss: Loss, case: Any) -> Field:
    clip_norm = jnp.exp(case["log_clip"])
    return partial(clipped_field, loss, examples=case["examples"], clip_norm=clip_norm)


@cache
def most_twisted(classes: int | None) -> Found:
    """Search for the most asymmetric Jacobian of the clipped field of random examples."""
    loss, size = loss_of(classes)

    def sides(case: Any) -> tuple[Array, Array]:
        return asymmetry(_field(loss, case), case["theta"]), jnp.ones(())

    draw = {"theta": normal(size)} | _EXAMPLES_AND_CLIP
    return search(sides, draw, cases=512, climbers=4, steps=100)


@cache
def most_circulating(classes: int | None) -> Found:
    """Search for the loop around which the clipped field of random examples circulates most."""
    loss, size = loss_of(classes)

    def sides(case: Any) -> tuple[Array, Array]:
        loop = case["centre"], case["across"], case["up"]
        return circulation(_field(loss, case), *loop), jnp.ones(())

    draw = dict.fromkeys(("centre", "across", "up"), normal(size)) | _EXAMPLES_AND_CLIP
    return search(sides, draw, cases=64, climbers=4, steps=40)


def surrogate(theta: Array, z: Array, clip_norm: Array, steepness: float = 1.0) -> Array:
    """Return the loss whose gradient is the binary loss' clipped one, at T = 1.

    Where the gradient |z| σ(-m) at margin m exceeds C, the loss is continued by its tangent, or by
    a line of another steepness: there its gradient jumps, and a flatter one is not convex.
    """
    norm, margin = jnp.linalg.norm(z), z @ theta
    share = jnp.minimum(clip_norm / norm, 1 - 1e-12)
    kink = -jnp.log(share / (1 - share))
    line = jax.nn.softplus(-kink) + steepness * share * (kink - margin)
    clips = (norm > clip_norm) & (margin < kink)
    return jnp.where(clips, line, jax.nn.softplus(-margin))


@cache
def surrogate_error() -> float:
    """Return the largest distance between the surrogate's gradient and the clipped gradient."""
    loss, size = loss_of(None)

    def apart(theta: Array, z: Array, clip_norm: Array) -> Array:
        clipped = clipped_field(loss, theta, z[None], clip_norm)
        return jnp.linalg.norm(jax.grad(surrogate)(theta, z, clip_norm) - clipped)

    rng = np.random.default_rng(0)
    clip_norms = np.exp(rng.uniform(-4, 1, 4096))
    draws = rng.normal(size=(4096, size)), 2 * rng.normal(size=(4096, size)), clip_norms
    return float(np.max(in_double(jax.vmap(apart))(*draws)))


@stated(
    "Proof of Theorem 1", refuted_by="A Jacobian that is not symmetric, or a loop with circulation."
)
def clipped_field_binary(classes: int | None = None) -> Outcome:
    """For binary logistic regression, clipped gradients are the gradient of a surrogate:
    the loss, continued by its tangent where it is clipped.
    """
    twisted, circulating = most_twisted(classes), most_circulating(classes)
    apart = surrogate_error() if classes is None else 0.0
    return Outcome(
        worst=max(twisted.ratio, circulating.ratio, apart) - UNSEEN,
        looked=(
            f"Jacobians: {twisted.looked}; loops: {circulating.looked}"
            + ("; the surrogate's gradient at 4,096 points" if classes is None else "")
        ),
        finding=(
            f"Largest asymmetry of the Jacobian {twisted.ratio:.1e}, largest circulation around a "
            f"loop {circulating.ratio:.1e}"
            + (f", surrogate's gradient off by {apart:.1e}." if classes is None else ".")
        ),
        tolerance=0.0,
    )


_TWO_POINTS = {
    "theta": normal(FEATURES),
    "way": normal(FEATURES),
    "example": normal(FEATURES, scale=2),
    "log_clip": uniform(-4, 1),
}


@searched(_TWO_POINTS, climbers=8)
def falling_along(case: Any, objective: Objective = surrogate) -> tuple[Array, Array]:
    """Search for points between which the gradient points back: above 0, not convex."""
    before, after = _on_the_way(objective, case, 2)
    most = (jnp.linalg.norm(before) + jnp.linalg.norm(after)) * jnp.linalg.norm(case["way"])
    return case["way"] @ (before - after), most + _TINY


@searched(_TWO_POINTS, climbers=8)
def steepest_turn(case: Any, objective: Objective = surrogate) -> tuple[Array, Array]:
    """Search for the largest change of an objective's gradient, over |z|²/4 a unit of way.

    The binary loss' own changes no faster at T = 1; a jump would exceed every such bound.
    """
    gradients = _on_the_way(objective, case, _STEPS + 1)
    change = jnp.max(jnp.linalg.norm(jnp.diff(gradients, axis=0) * _STEPS, axis=1))
    return change, jnp.sum(case["example"] ** 2) / 4 * jnp.linalg.norm(case["way"])


def _on_the_way(objective: Objective, case: Any, points: int) -> Float[Array, "points d"]:
    at = case["theta"] + jnp.linspace(0, 1, points)[:, None] * case["way"]
    gradient = jax.vmap(jax.grad(objective), (0, None, None))
    return gradient(at, case["example"], jnp.exp(case["log_clip"]))


@stated(
    "Proof of Theorem 1",
    refuted_by="Two points between which its gradient points back, or a jump of its gradient.",
)
def surrogate_convex(objective: Objective = surrogate) -> Outcome:
    """That surrogate is differentiable and convex."""
    back, turn = falling_along(objective), steepest_turn(objective)
    return Outcome(
        worst=max(back.ratio, turn.ratio - 1),
        looked=f"convex: {back.looked}; differentiable: {turn.looked}",
        finding=(
            f"Between no two points found does the gradient point back (at most {back.ratio:.1e} "
            f"of its length), and it changes by at most {turn.ratio:.6f} |z|²/4 a unit of way."
        ),
    )


@stated(
    "Section “Controlling gradient norm helps control bias”",
    refuted_by="No Jacobian but symmetric ones, or no loop with circulation, to be found.",
)
def clipped_field_multiclass(classes: int | None = 3) -> Outcome:
    """For multiclass logistic regression, clipped gradients need not be any gradient."""
    twisted, circulating = most_twisted(classes), most_circulating(classes)
    return Outcome(
        worst=SEEN - min(twisted.ratio, circulating.ratio),
        looked=f"Jacobians: {twisted.looked}; loops: {circulating.looked}",
        finding=(
            f"A Jacobian with |J - Jᵀ| = {twisted.ratio:.2f} |J + Jᵀ|, and a loop around which the "
            f"field adds up to {circulating.ratio:.1%} of its length."
        ),
        tolerance=0.0,
    )


def along_the_loop(classes: int | None) -> np.ndarray:
    """Return the line integral on the way around the loop that `most_circulating` ended with."""
    loss, _ = loss_of(classes)

    def one(case: Any) -> Array:
        return line_integral(_field(loss, case), case["centre"], case["across"], case["up"])

    return in_double(one)(most_circulating(classes).case)


# --- several classes: a bound on what clipping costs, without an objective ---------------------

# The proof of the bound, max(√2 T - C, 0) |Θ| for |z| <= 1, is in the chapter's notebook. A compact
# Θ has a θ where projected descent rests, by Brouwer's theorem; that it always gets there is not
# proven.
CLASSES = 3
_DATA = 8
_DESCENTS, _DESCENT_STEPS = 384, 2000
# A descent rests where a step changes no margin by more.
_AT_REST = 1e-9


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
    return jax.lax.fori_loop(
        0, _DESCENT_STEPS, lambda _, theta: step(theta, problem), problem.centre
    )


def _end(problem: Problem) -> tuple[Array, Array]:
    """Return the bias, and by how much another step changes margins."""
    clipped, best = descend(problem), descend(problem._replace(clip_norm=jnp.inf))
    moved = jnp.linalg.norm(step(clipped, problem) - clipped) * problem.temperature
    return problem.loss(clipped) - problem.loss(best), moved


@cache
def at_rest() -> dict[str, np.ndarray]:
    """Return where descent with and without clipping came to rest on random data, T, C and balls.

    "bias" is the excess loss there, "delta" max(√2 T - C, 0) |Θ|.
    """
    rng = np.random.default_rng(0)
    temperature, clip_norm, radius = np.exp(rng.uniform(-2, 2, (3, _DESCENTS)))
    points = 2 * rng.normal(size=(_DESCENTS, _DATA, FEATURES))
    points /= np.maximum(np.linalg.norm(points, axis=2, keepdims=True), 1)
    centre = rng.normal(size=(_DESCENTS, CLASSES * FEATURES))
    drawn = Problem(points, temperature, clip_norm, centre, radius)
    bias, moved = in_double(jax.vmap(_end))(drawn)
    delta = np.maximum(np.sqrt(2) * temperature - clip_norm, 0) * 2 * radius
    rests = moved <= _AT_REST
    return {"bias": bias[rests], "delta": delta[rests]}


@stated(
    "text before Theorem 1",
    refuted_by="A bound, with a proof, that no bias found exceeds.",
    instead="Where projected descent comes to rest, it is at most max(√2 T - C, 0) |Θ|.",
)
def clipping_bias_multiclass(share: float = 1.0) -> Outcome:
    """With more than two classes, the bias of clipped gradient descent has no bound."""
    found = at_rest()
    bias, delta = found["bias"], share * found["delta"]
    clipping = delta > 0
    largest = float(np.max(bias[clipping] / delta[clipping]))
    excess = float(np.max(bias - delta))
    return Outcome(
        worst=1 - largest,
        corrected=max(excess, largest - 1),
        looked=(
            f"projected descent of {_DESCENT_STEPS:,} steps on {_DESCENTS} random problems of "
            f"{CLASSES} classes, {len(bias)} of which came to rest"
        ),
        finding=(
            f"Where descent came to rest, the largest bias found is {largest:.3f} of the bound "
            "proven here."
        ),
    )
