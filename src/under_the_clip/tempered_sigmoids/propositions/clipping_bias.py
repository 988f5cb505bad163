"""Tempered sigmoids, Theorem 1: how much clipping costs logistic regression.

Clipped gradient descent ends within O(Δ) of the best θ in Θ, Δ = max(T - C, 0) |Θ|: the proof gives
2 Δ, the chapter's notebook half of Δ. Searched by descent on random data in balls; by gradients,
where Θ is a segment and the clipped optimum the root of a function of one variable; and for two
examples by a simplex, which comes to data that make every step of the argument an equality.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import (
    Found,
    in_double,
    normal,
    search,
    search_box,
    searched,
    uniform,
)

stated = partial(proposition, "papernot2021tempered")
PROVEN, SHARP = 2.0, 0.5
_DIMENSIONS = (1, 2, 10)
_EXAMPLES = 8
_DESCENTS, _DESCENT_STEPS = 384, 600
_HALVINGS = 45
_TINY = 1e-300
_LARGER = "Data, T, C and Θ for which clipped gradient descent ends with a larger excess loss."


def _above_surrogate(margin: Array, share: Array) -> Array:
    """Return ℓ - ℓ̂, the loss less what clipped gradients are those of, at a margin T y <z, θ>.

    Clipped at `share` of T |z|, ℓ̂ follows ℓ down to the margin where they part, then its tangent.
    """
    edge = jnp.log1p(-share) - jnp.log(share)
    past = jnp.maximum(edge - margin, 0)
    return jax.nn.softplus(past - edge) - jax.nn.softplus(-edge) - share * past


_EXAMPLE = dict.fromkeys(("log_temperature", "length", "clip", "margin"), normal(scale=2))


@searched(_EXAMPLE, climbers=8)
def steepest_apart(case: Any) -> tuple[Array, Array]:
    """Search for the longest gradient of ℓ̂ - ℓ, over T - C."""
    temperature, length = jnp.exp(case["log_temperature"]), jax.nn.sigmoid(case["length"])
    share = jax.nn.sigmoid(case["clip"])
    # The derivative along z, which is where the whole gradient lies.
    steepness = jax.grad(_above_surrogate)(case["margin"], share) * temperature * length
    return jnp.abs(steepness), temperature * (1 - length * share)


@stated("proof of Theorem 1", refuted_by="An example, T, C and θ where they are further apart.")
def surrogate_gradient(bound: float = 1.0) -> Outcome:
    """For T > 0, the loss and the objective that clipped gradients belong to have gradients
    at most max(T - C, 0) apart.
    """
    found = steepest_apart()
    return judge(found, bound=bound, finding=f"The longest found is {found.ratio:.6f} (T - C).")


@searched(_EXAMPLE | {"log_width": normal(scale=2)}, climbers=8)
def furthest_from_loss(case: Any, *, shifted: bool) -> tuple[Array, Array]:
    """Search for the largest |ℓ̂ - ℓ| over Δ on a segment along z; shifted: equal at one end."""
    temperature, length = jnp.exp(case["log_temperature"]), jax.nn.sigmoid(case["length"])
    share = jax.nn.sigmoid(case["clip"])
    width = jnp.exp(case["log_width"])
    apart = _above_surrogate(case["margin"] - width, share)
    if shifted:
        apart -= _above_surrogate(case["margin"], share)
    diameter = width / (temperature * length)
    return apart, temperature * (1 - length * share) * diameter


@stated(
    "proof of Theorem 1",
    refuted_by="An example, T, C and a Θ on which they are further apart.",
    instead="Shifted by a constant, which moves no minimum and leaves the theorem as it is.",
)
def surrogate_distance(*, shifted: bool = False) -> Outcome:
    """Everywhere on Θ, for T > 0, the objective that clipped gradients belong to is within
    max(T - C, 0) |Θ| of the loss.
    """
    printed, mended = furthest_from_loss(shifted=shifted), furthest_from_loss(shifted=True)
    return Outcome(
        worst=printed.ratio - 1,
        corrected=mended.ratio - 1,
        looked=printed.looked,
        finding=(
            f"They are up to {printed.ratio:.3g} Δ apart where Θ is small and lies where clipping "
            f"has long begun; shifted to agree at one end of Θ, up to {mended.ratio:.4f} Δ."
        ),
    )


class Problem(NamedTuple):
    """A logistic regression: signed examples y z, their shares of the data, T and C."""

    points: Float[Array, "n d"]
    shares: Float[Array, "n"]
    temperature: Float[Array, ""]
    clip_norm: Float[Array, ""]


def loss(theta: Float[Array, "d"], problem: Problem) -> Array:
    """Return the tempered logistic loss, averaged over the examples."""
    return problem.shares @ jax.nn.softplus(-problem.temperature * (problem.points @ theta))


def clipped_gradient(theta: Float[Array, "d"], problem: Problem) -> Float[Array, "d"]:
    """Return the average of the examples' gradients, each clipped to norm C (infinite: not)."""
    margins = problem.temperature * (problem.points @ theta)
    slopes = problem.temperature * jax.nn.sigmoid(-margins)
    norms = jnp.abs(slopes) * jnp.linalg.norm(problem.points, axis=1)
    kept = jnp.minimum(1.0, problem.clip_norm / jnp.maximum(norms, _TINY))
    return -(problem.shares * kept * slopes) @ problem.points


def descend(problem: Problem, centre: Float[Array, "d"], radius: Array) -> Float[Array, "d"]:
    """Return where projected gradient descent in a ball ends, started from its centre."""
    # Clipped or not, the objective is smooth with constant T^2 / 4, |z| being at most 1.
    rate = 4 / problem.temperature**2

    def step(_: int, theta: Array) -> Array:
        moved = theta - rate * clipped_gradient(theta, problem) - centre
        length = jnp.maximum(jnp.linalg.norm(moved), _TINY)
        return centre + moved * jnp.minimum(1, radius / length)

    return jax.lax.fori_loop(0, _DESCENT_STEPS, step, centre)


def _into_unit_ball(points: Float[Array, "n d"]) -> Float[Array, "n d"]:
    norms = jnp.linalg.norm(points, axis=1, keepdims=True)
    return points / jnp.maximum(norms, 1)


@cache
def drawn(sign: float = 1.0) -> dict[str, np.ndarray]:
    """Run gradient descent with and without clipping on random data, T (of a sign), C and balls.

    "bias" is the excess loss where clipped descent ends, "delta" max(T - C, 0) |Θ|.
    """
    rng = np.random.default_rng(0)

    def one(points: Array, centre: Array, radius: Array, temperature: Array, clip: Array) -> Array:
        shares = jnp.full(_EXAMPLES, 1 / _EXAMPLES)
        problem = Problem(_into_unit_ball(points), shares, temperature, clip)
        both = problem, problem._replace(clip_norm=jnp.inf)
        ends = [descend(one, centre, radius) for one in both]
        clipped, best = (loss(end, problem) for end in ends)
        return clipped - best

    dimension = rng.choice(_DIMENSIONS, _DESCENTS)
    # A problem of fewer dimensions is one of the most whose other coordinates are zero.
    kept = np.arange(max(_DIMENSIONS)) < dimension[:, None]
    size, clip, radius = np.exp(rng.uniform(-2, 2, (3, _DESCENTS)))
    temperature = sign * size
    points = 2 * rng.normal(size=(_DESCENTS, _EXAMPLES, max(_DIMENSIONS))) * kept[:, None]
    centre = rng.normal(size=kept.shape) * kept
    return {
        "dimension": dimension,
        "temperature": temperature,
        "clip_norm": clip,
        "radius": radius,
        "bias": in_double(jax.vmap(one))(points, centre, radius, temperature, clip),
        "delta": np.maximum(temperature - clip, 0) * 2 * radius,
    }


class Segment(NamedTuple):
    """Θ as a segment along the first axis."""

    centre: Float[Array, "d"]
    radius: Float[Array, ""]

    def at(self, u: Array) -> Float[Array, "d"]:
        """Return the θ at u, from -1 at one end to 1 at the other."""
        return self.centre.at[0].add(self.radius * u)


def segment_bias(problem: Problem, segment: Segment) -> Array:
    """Return the excess loss at the clipped optimum on a segment, differentiable by the data."""

    def slope(u: Array, problem: Problem) -> Array:
        return clipped_gradient(segment.at(u), problem)[0]

    clipped = _differentiable_root(partial(slope, problem=problem))
    best = _root(partial(slope, problem=problem._replace(clip_norm=jnp.inf)))
    return loss(segment.at(clipped), problem) - loss(segment.at(best), problem)


def data_and_segment(case: Any) -> tuple[Problem, Segment]:
    """Return the problem and Θ of a case whose numbers are free to climb."""
    temperature = jnp.exp(case["log_temperature"])
    problem = Problem(
        points=_into_unit_ball(case["points"]),
        shares=jax.nn.softmax(case["shares"]),
        temperature=temperature,
        clip_norm=temperature * jax.nn.sigmoid(case["clip"]),
    )
    radius = jnp.exp(case["log_radius"])
    return problem, Segment(jnp.exp(case["log_distance"]) * case["centre"], radius)


def on_a_segment(case: Any) -> tuple[Array, Array]:
    """Return the bias and Δ where Θ is a segment along the first axis, for data to climb over."""
    problem, segment = data_and_segment(case)
    delta = (problem.temperature - problem.clip_norm) * 2 * segment.radius
    return segment_bias(problem, segment), delta


def _root(increasing: Any) -> Array:
    """Return where an increasing function on [-1, 1] is zero, or the end nearest to that."""

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = increasing(middle) < 0
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (-jnp.ones(()), jnp.ones(())))
    return jax.lax.stop_gradient((low + high) / 2)


def _differentiable_root(increasing: Any) -> Array:
    """Return `_root` with its derivative by the data, through one step of Newton's method."""
    root = _root(increasing)
    steepness = jax.lax.stop_gradient(jax.grad(increasing)(root))
    return jnp.clip(root - increasing(root) / jnp.maximum(steepness, 1e-12), -1, 1)


# What `data_and_segment` is drawn from.
ON_A_SEGMENT = {
    "points": normal(_EXAMPLES, 3, scale=2),
    "shares": normal(_EXAMPLES),
    "centre": normal(3),
    "log_distance": uniform(-1, 3),
    "log_radius": uniform(-2, 2),
    "log_temperature": uniform(-2, 2),
    "clip": normal(scale=2),
}


@cache
def climbed() -> Found:
    """Search for the largest bias over Δ, Θ being a segment in three dimensions."""
    return search(on_a_segment, ON_A_SEGMENT, rate=0.1, climbers=8)


# Two examples on opposite sides of the origin: their lengths along the segment, how far aside each
# lies, the first one's share of the data, C / T, and how far off Θ lies. T and its radius are 1.
_CAMPS = {
    "first": (0.01, 1.0),
    "second": (0.01, 1.0),
    "first_aside": (1e-4, 1.0),
    "second_aside": (1e-4, 1.0),
    "share": (0.01, 0.99),
    "clip": (0.01, 0.99),
    "distance": (1.0, 1e6),
}


def _camps_case(values: dict[str, float]) -> Any:
    first, second = values["first"], values["second"]
    aside = values["first_aside"] * first, values["second_aside"] * second
    return {
        "points": np.array([[-first, aside[0], 0], [second, aside[1], 0]]),
        "shares": np.log([values["share"], 1 - values["share"]]),
        "centre": np.array([0.0, -1.0, 0.0]),
        "log_distance": np.log(values["distance"]),
        "log_radius": np.array(0.0),
        "log_temperature": np.array(0.0),
        "clip": np.log(values["clip"] / (1 - values["clip"])),
    }


@cache
def camps() -> Found:
    """Search for the largest bias over Δ with two examples alone, on opposite sides.

    It ends far from all that is classified rightly: just under half of the data lose T - C, the
    others, of norm C / T, nothing, so that the smaller camp has as much to say.
    """
    both = in_double(on_a_segment)

    def sides(**values: float) -> tuple[float, float]:
        found, delta = both(_camps_case(values))
        return float(found), float(delta)

    return search_box(sides, _CAMPS, cases=8000, refinements=3000)


def climbed_biases() -> dict[str, np.ndarray]:
    """Return the bias and Δ of the worst cases, of many examples and of two."""
    bias, delta = in_double(jax.vmap(on_a_segment))(climbed().climbed)
    of_two, delta_of_two = in_double(on_a_segment)(_camps_case(camps().case))
    return {"bias": np.append(bias, of_two), "delta": np.append(delta, delta_of_two)}


@stated("Theorem 1, constant of its proof", refuted_by=_LARGER)
def clipping_bias(constant: float = PROVEN) -> Outcome:
    """Clipped gradient descent on tempered logistic regression with T > 0 ends with an
    excess loss of at most 2 max(T - C, 0) |Θ|.
    """
    problems = drawn()
    found, of_two = climbed(), camps()
    largest = max(found.ratio, of_two.ratio)
    excess = float(np.max(problems["bias"] - constant * problems["delta"]))
    clipping = problems["delta"] > 0
    by_descent = float(np.max(problems["bias"][clipping] / problems["delta"][clipping]))
    return Outcome(
        worst=max(excess, largest - constant),
        looked=(
            f"{found.looked}; for two examples {of_two.looked}; gradient descent to convergence on "
            f"{_DESCENTS} random problems in 1, 2 and 10 dimensions"
        ),
        tightness=largest / constant,
        finding=(
            f"The largest bias found is {of_two.ratio:.4f} Δ with two examples, {found.ratio:.4f} "
            f"Δ with {_EXAMPLES}, and {by_descent:.4f} Δ by gradient descent on random data."
        ),
    )


@stated(
    "Theorem 1, whose T is any real number",
    refuted_by=_LARGER,
    instead="With |T| in place of T.",
    misprint=True,
)
def clipping_bias_negative_temperature(sign: float = -1.0) -> Outcome:
    """The same where T is negative.

    A negative T is the positive one with all labels exchanged, and clips as much.
    """
    problems = drawn(sign)
    clip_norm, delta = problems["clip_norm"], problems["delta"]
    without_sign = np.maximum(np.abs(problems["temperature"]) - clip_norm, 0)
    worst = int(np.argmax(problems["bias"] - PROVEN * delta))
    diameter = 2 * problems["radius"]
    return Outcome(
        worst=float(problems["bias"][worst] - PROVEN * delta[worst]),
        corrected=float(np.max(problems["bias"] - PROVEN * without_sign * diameter)),
        looked=f"gradient descent to convergence on {_DESCENTS} random problems",
        finding=(
            f"With T = {problems['temperature'][worst]:.3g} and C = {clip_norm[worst]:.3g}, a bias "
            f"of {problems['bias'][worst]:.3g} was found where the bound is "
            f"{PROVEN * delta[worst]:.3g}."
        ),
    )


@stated("Theorem 1, sharpened here", refuted_by=_LARGER, ours=True)
def clipping_bias_sharp(constant: float = SHARP) -> Outcome:
    """For T > 0 a quarter is enough: the excess loss is at most max(T - C, 0) |Θ| / 2."""
    return clipping_bias.check(constant)
