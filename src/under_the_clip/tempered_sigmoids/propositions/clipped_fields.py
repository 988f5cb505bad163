"""Tempered sigmoids: what clipped gradients are the gradient of, and whether of anything.

A smooth vector field is a gradient if and only if its Jacobian is symmetric, and if and only if
its line integral around every loop is zero. For the binary logistic loss the clipped field is the
gradient of a surrogate that goes on linearly where the loss is clipped; for three classes or more
it is the gradient of nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import Found, in_double, search
from dpstudy.propositions.statement import Outcome, Statement
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import (
    binary_loss,
    multiclass_loss,
)

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Loss = Callable[[Array, Array], Array]
    """From theta (flat) and one example to its loss."""
    Field = Callable[[Array], Array]
    Objective = Callable[[Array, Array, Array], Array]
    """From theta, one example and C to a loss."""

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
    square = jnp.sum(twisted**2)
    twist = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    return twist / (jnp.sqrt(jnp.sum(straight**2) + _FLAT**2))


def line_integral(field: Field, centre: Array, across: Array, up: Array) -> Array:
    """Return the field's line integral on the way around an ellipse, over that of its length.

    The ellipse is centre + across cos t + up sin t. The last of the values is 0 for a gradient.
    The trapezoidal rule is used, whose error falls with the square of the number of points where
    the field has a kink, and faster elsewhere.
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


@cache
def most_twisted(classes: int | None) -> Found:
    """Search for the most asymmetric Jacobian of the clipped field of random examples."""
    loss, size = loss_of(classes)

    def sides(case: Any) -> tuple[Array, Array]:
        field = partial(
            clipped_field, loss, examples=case["examples"], clip_norm=jnp.exp(case["log_clip"])
        )
        return asymmetry(field, case["theta"]), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "theta": rng.normal(size=(n, size)),
            "examples": 2 * rng.normal(size=(n, EXAMPLES, FEATURES)),
            "log_clip": rng.uniform(-4, 0, n),
        }

    return search(sides, draw, cases=512, climbers=4, steps=100)


@cache
def most_circulating(classes: int | None) -> Found:
    """Search for the loop around which the clipped field of random examples circulates most."""
    loss, size = loss_of(classes)

    def sides(case: Any) -> tuple[Array, Array]:
        field = partial(
            clipped_field, loss, examples=case["examples"], clip_norm=jnp.exp(case["log_clip"])
        )
        return circulation(field, case["centre"], case["across"], case["up"]), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "centre": rng.normal(size=(n, size)),
            "across": rng.normal(size=(n, size)),
            "up": rng.normal(size=(n, size)),
            "examples": 2 * rng.normal(size=(n, EXAMPLES, FEATURES)),
            "log_clip": rng.uniform(-4, 0, n),
        }

    return search(sides, draw, cases=64, climbers=4, steps=40)


def surrogate(theta: Float[Array, "d"], z: Float[Array, "d"], clip_norm: Array) -> Array:
    """Return the loss whose gradient is the binary loss' clipped one, at T = 1.

    Where the gradient |z| σ(-m) at margin m exceeds C, the loss is continued by its tangent.
    """
    return continued(theta, z, clip_norm)


def continued(theta: Array, z: Array, clip_norm: Array, steepness: float = 1.0) -> Array:
    """Return the loss continued by a line, as `surrogate`, `steepness` times its tangent's slope.

    With another steepness than 1 the gradient jumps where the two meet. A steeper line leaves the
    whole convex, a flatter one does not.
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


def is_gradient(classes: int | None = None) -> Outcome:
    """Search for a sign that the clipped field of so many classes (None: binary) is no gradient."""
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


def is_no_gradient(classes: int | None = 3) -> Outcome:
    """Search for witnesses that the clipped field is no gradient: a Jacobian, and a loop."""
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


@cache
def falling_along(objective: Objective = surrogate) -> Found:
    """Search for two points between which an objective's gradient points back.

    The ratio is what it loses on the way from one to the other, over the most that it could: above
    0, the objective is not convex.
    """

    def sides(case: Any) -> tuple[Array, Array]:
        before, after = _on_the_way(objective, case, 2)
        most = (jnp.linalg.norm(before) + jnp.linalg.norm(after)) * jnp.linalg.norm(case["way"])
        return case["way"] @ (before - after), most + _TINY

    return search(sides, _two_points, climbers=8)


@cache
def steepest_turn(objective: Objective = surrogate) -> Found:
    """Search for the largest change of an objective's gradient, over |z|²/4 a unit of way.

    So fast the binary loss' own gradient changes where it changes fastest, at T = 1; a jump would
    exceed every such bound. Looked at in small steps on the way, any of which could hold a jump.
    """

    def sides(case: Any) -> tuple[Array, Array]:
        gradients = _on_the_way(objective, case, _STEPS + 1)
        change = jnp.max(jnp.linalg.norm(jnp.diff(gradients, axis=0) * _STEPS, axis=1))
        return change, jnp.sum(case["example"] ** 2) / 4 * jnp.linalg.norm(case["way"])

    return search(sides, _two_points, climbers=8)


def _on_the_way(objective: Objective, case: Any, points: int) -> Float[Array, "points d"]:
    """Return the objective's gradients at evenly spaced points on the case's way, ends included."""
    at = case["theta"] + jnp.linspace(0, 1, points)[:, None] * case["way"]
    gradient = jax.vmap(jax.grad(objective), (0, None, None))
    return gradient(at, case["example"], jnp.exp(case["log_clip"]))


def _two_points(rng: np.random.Generator, n: int) -> Any:
    return {
        "theta": rng.normal(size=(n, FEATURES)),
        "way": rng.normal(size=(n, FEATURES)),
        "example": 2 * rng.normal(size=(n, FEATURES)),
        "log_clip": rng.uniform(-4, 1, n),
    }


def is_convex(objective: Objective = surrogate) -> Outcome:
    """Search for a sign that the surrogate is not convex, or not differentiable.

    Args:
        objective: from theta, one example and C, in place of the surrogate.
    """
    back, turn = falling_along(objective), steepest_turn(objective)
    return Outcome(
        worst=max(back.ratio, turn.ratio - 1),
        looked=f"convex: {back.looked}; differentiable: {turn.looked}",
        finding=(
            f"Between no two points found does the gradient point back (at most {back.ratio:.1e} "
            f"of its length), and it changes by at most {turn.ratio:.6f} |z|²/4 a unit of way."
        ),
    )


def along_the_loop(classes: int | None) -> np.ndarray:
    """Return the line integral on the way around the loop that `most_circulating` ended with."""
    loss, _ = loss_of(classes)

    def one(case: Any) -> Array:
        field = partial(
            clipped_field, loss, examples=case["examples"], clip_norm=jnp.exp(case["log_clip"])
        )
        return line_integral(field, case["centre"], case["across"], case["up"])

    return in_double(one)(most_circulating(classes).case)


_KEY = "papernot2021tempered"
STATEMENTS = (
    Statement(
        name="clipped-field-binary",
        paper=_KEY,
        where="Proof of Theorem 1",
        says=(
            "For binary logistic regression, clipped gradients are the gradient of a surrogate: "
            "the loss, continued by its tangent where it is clipped."
        ),
        refuted_by="A Jacobian that is not symmetric, or a loop with circulation.",
        check=is_gradient,
    ),
    Statement(
        name="surrogate-convex",
        paper=_KEY,
        where="Proof of Theorem 1",
        says="That surrogate is differentiable and convex.",
        refuted_by="Two points between which its gradient points back, or a jump of its gradient.",
        check=is_convex,
    ),
    Statement(
        name="clipped-field-multiclass",
        paper=_KEY,
        where="Section “Controlling gradient norm helps control bias”",
        says="For multiclass logistic regression, clipped gradients need not be any gradient.",
        refuted_by="No Jacobian but symmetric ones, or no loop with circulation, to be found.",
        check=is_no_gradient,
    ),
)
