"""Losing less: its equations for gradients (3, 7, 11) and smoothness (Lemma 1, Eq. 12)."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import Found, in_double, normal, search, searched, uniform

Path = Callable[[Array, Array, Array], Array]
"""From w, w' and t to a point."""

stated = partial(proposition, "shamsabadi2023losing")
# Widths of the network under Eq. 3 and 11: input, hidden layer M - 1, classes.
_WIDTHS = (3, 3, 3)


def small_network(rng: np.random.Generator, n: int) -> Any:
    """Draw n times a layer's input a, the weights V of layer M - 1 and W of layer M, scaled."""
    inputs, hidden, classes = _WIDTHS
    scale = np.exp(rng.uniform(-2, 1, (3, n, 1, 1)))
    return {
        "a": (scale[0] * rng.normal(size=(n, 1, inputs)))[:, 0],
        "V": scale[1] * rng.normal(size=(n, hidden, inputs)),
        "W": scale[2] * rng.normal(size=(n, classes, hidden)),
    }


def true_gradient(case: Any) -> Float[Array, "hidden inputs"]:
    """Return the gradient of cross-entropy by V, class 0 being right, by differentiation."""

    def loss(V: Array) -> Array:
        logits = case["W"] @ jnp.tanh(V @ case["a"])
        return jax.nn.logsumexp(logits) - logits[0]

    return jax.grad(loss)(case["V"])


def _residual(case: Any) -> Float[Array, "classes"]:
    return jax.nn.softmax(case["W"] @ jnp.tanh(case["V"] @ case["a"])).at[0].add(-1)


def corrected_backpropagation(case: Any) -> Array:
    """Return Eq. 3 with the activation's derivative."""
    slope = 1 - jnp.tanh(case["V"] @ case["a"]) ** 2
    return jnp.outer((_residual(case) @ case["W"]) * slope, case["a"])


@cache
def _apart(one: Callable[[Any], Array], other: Callable[[Any], Array], draw: Any) -> Found:
    def sides(case: Any) -> tuple[Array, Array]:
        left, right = jnp.ravel(one(case)), jnp.ravel(other(case))
        return jnp.linalg.norm(left - right), jnp.linalg.norm(right)

    return search(sides, draw, climbers=1, steps=0)


@stated(
    "Eq. 3, layer M - 1, for the networks of Tables 1 and 2",
    refuted_by="Such a network whose gradient, differentiated, is another.",
    instead="(((p - y) W) ⊙ f'(h))ᵀ a; as printed where layer M - 1 is linear.",
    misprint=True,
)
def backpropagation_equation(
    printed: Callable[[Any], Array] = lambda of: jnp.outer(_residual(of) @ of["W"], of["a"]),
) -> Outcome:
    """With tanh in layer M - 1 its gradient is ((p - y) W)ᵀ a."""
    found, corrected = (
        _apart(one, true_gradient, small_network) for one in (printed, corrected_backpropagation)
    )
    said = (
        f"The printed gradient is off by up to {found.ratio:.2g} times the true one; with the "
        f"factor f'(h) by {corrected.ratio:.1e}."
    )
    return Outcome(found.ratio, found.looked, said, corrected=corrected.ratio)


_RESIDUAL = normal(10, scale=3)


def half_squared_norm(residual: Float[Array, "classes"]) -> Array:
    """Return Eq. 7's left side, squared."""
    return jnp.linalg.norm(residual) ** 2 / 2


@stated(
    "Eq. 7",
    refuted_by="A vector for which it is not.",
    instead="Half the squared norm is.",
    misprint=True,
)
def sse_as_a_norm(
    printed: Callable[[Array], Array] = lambda residual: jnp.linalg.norm(residual) / 2,
) -> Outcome:
    """Half the norm of h - y is half the sum of its squares."""
    found, corrected = (
        _apart(one, lambda residual: jnp.sum(residual**2) / 2, _RESIDUAL)
        for one in (printed, half_squared_norm)
    )
    said = (
        f"The two sides differ by up to {found.ratio:.2g} of the right one; with the norm squared "
        f"by {corrected.ratio:.1e}."
    )
    return Outcome(found.ratio, found.looked, said, corrected=corrected.ratio)


def norms(case: Any) -> tuple[Array, Array, Array]:
    """Return |p - y|, |W| (the largest singular value) and |a|."""
    spectral = jnp.linalg.norm(case["W"], ord=2)
    return jnp.linalg.norm(_residual(case)), spectral, jnp.linalg.norm(case["a"])


def product_of_norms(case: Any) -> Array:
    """Return the right side of Eq. 11 as it should be: norms are sub-multiplicative."""
    residual, weights, inputs = norms(case)
    return residual * weights * inputs


@searched(small_network, climbers=8, steps=200)
def gradient_against(case: Any, bound: Callable[[Any], Array]) -> tuple[Array, Array]:
    """Search for a gradient of layer M - 1 longer than the bound."""
    return jnp.linalg.norm(true_gradient(case)), bound(case)


@stated(
    "Eq. 11",
    refuted_by="A network with a longer gradient.",
    instead="|p - y| |W| |a|, for an activation with |f'| ≤ 1.",
)
def gradient_norm_sum(printed: Callable[[Any], Array] = lambda case: sum(norms(case))) -> Outcome:
    """The gradient of layer M - 1 is no longer than |p - y| + |W| + |a|."""
    found, corrected = gradient_against(printed), gradient_against(product_of_norms)
    residual, weights, inputs = map(float, in_double(norms)(found.case))
    return judge(
        found,
        corrected=corrected.worst,
        finding=(
            f"A gradient {found.ratio:.3g} times the printed bound: |p - y| = {residual:.3g}, "
            f"|W| = {weights:.3g}, |a| = {inputs:.3g}. The product is reached to "
            f"{corrected.ratio:.6f}."
        ),
    )


# --- Lemma 1 ----------------------------------------------------------------------------------

# A loss that is flat for x ≤ 0 and changes sign in y over a strip as narrow as this.
_STRIP = 0.02
# The set: the square without that part of the strip where the loss is not flat. It is simply
# connected, and no line across the gap stays in it.
GAP = 0.1


def gated(w: Float[Array, "2"]) -> Array:
    """Return max(x, 0)³ tanh(y / h), a loss with two continuous derivatives."""
    return jnp.maximum(w[0], 0) ** 3 * jnp.tanh(w[1] / _STRIP)


def into_set(w: Float[Array, "2"]) -> Float[Array, "2"]:
    """Return the point of the set [-1, 1]² without {x > 0, |y| < gap} that w is taken for."""
    x, y = jnp.clip(w, -1, 1)
    outside = (x > 0) & (jnp.abs(y) < GAP)
    return jnp.stack([x, jnp.where(outside, jnp.where(y < 0, -GAP, GAP), y)])


def largest_curvature(loss: Callable[[Array], Array], w: Array) -> Array:
    """Return the largest singular value of the loss' Hessian at w."""
    return jnp.max(jnp.abs(jnp.linalg.eigvalsh(jax.hessian(loss)(w))))


@cache
def on_a_set(project: Callable[[Array], Array] = into_set) -> Found:
    """Search a set for a gradient that changes faster than its curvature there, on a grid."""

    def sides(case: Any) -> tuple[Array, Array]:
        one, other = project(case["from"]), project(case["to"])
        gradient = jax.grad(gated)
        distance = jnp.linalg.norm(one - other)
        return jnp.linalg.norm(gradient(one) - gradient(other)), curvature * distance + 1e-12

    axis = np.linspace(-1, 1, 61)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    over_set = in_double(jax.vmap(lambda w: largest_curvature(gated, project(w))))(grid)
    curvature = float(over_set.max())
    draw = {"from": uniform(-1, 1, 2), "to": uniform(-1, 1, 2)}
    return search(sides, draw, climbers=8, rate=0.02)


# The small network of the lemma's line form: two inputs, two tanh units, two classes.
_SHAPES = ((2, 3), (2, 3))
_SIZE = sum(rows * columns for rows, columns in _SHAPES)
_CLASSES = _SHAPES[1][0]
_NETWORK = {
    "w": normal(_SIZE),
    "way": normal(_SIZE),
    "examples": normal(4, 2),
    "share": normal(scale=2),
}


def _loss_and_way(case: Any) -> tuple[Callable[[Array], Array], Array]:
    """Return a small network's loss (Eq. 10, no penalty), and a way from the case's weights."""
    examples, share = case["examples"], jax.nn.sigmoid(case["share"])
    rows, columns = _SHAPES[0]

    def loss(w: Float[Array, "d"]) -> Array:
        hidden = w[: rows * columns].reshape(_SHAPES[0])
        out = w[rows * columns :].reshape(_SHAPES[1])

        def one(x: Array, y: Array) -> Array:
            logits = out[:, :-1] @ jnp.tanh(hidden[:, :-1] @ x + hidden[:, -1]) + out[:, -1]
            entropy = jax.nn.logsumexp(logits) - logits[y]
            squares = jnp.sum((logits - jnp.eye(_CLASSES)[y]) ** 2)
            return share * entropy + (1 - share) * squares / 2

        return jnp.mean(jax.vmap(one)(examples, jnp.arange(len(examples)) % _CLASSES))

    return loss, case["way"] / jnp.maximum(2 * jnp.linalg.norm(case["way"]), 1)


@searched(_NETWORK, cases=64, climbers=3, steps=60)
def on_a_line(case: Any) -> tuple[Array, Array]:
    """Search a small network's weights for a gradient that changes faster than the curvature.

    That is taken along the line between the points, at the nodes of a Gauss-Legendre rule, whose
    average of Hessians times the way is the change: the largest of the nodes bounds it.
    """
    nodes, _ = np.polynomial.legendre.leggauss(5)
    loss, way = _loss_and_way(case)
    along = (jnp.asarray(nodes)[:, None] + 1) / 2 * way + case["w"]
    curvature = jnp.max(jax.vmap(lambda w: largest_curvature(loss, w))(along))
    gradient = jax.grad(loss)
    change = gradient(case["w"] + way) - gradient(case["w"])
    return jnp.linalg.norm(change), curvature * jnp.linalg.norm(way)


@stated(
    "Lemma 1",
    refuted_by="A loss, such a set, and two points between which the gradient changes more.",
    instead="The same in a convex set, or with σ_max along the line from w to w'.",
)
def smoothness(project: Callable[[Array], Array] = into_set) -> Outcome:
    """If the Hessian's singular values are at most σ_max in a simply connected set, the
    gradient changes by at most σ_max |w - w'| between its points.
    """
    found, line = on_a_set(project), on_a_line()
    return judge(
        found,
        looked=f"On a set: {{}}; on a line: {line.looked}",
        corrected=line.worst,
        finding=(
            f"In a simply connected set with a gap of {2 * GAP:g}, the gradient changes by "
            f"{found.ratio:.3g} times the bound. With σ_max taken along the line, which the proof "
            f"uses, a network's gradient comes to {line.ratio:.4f} of it."
        ),
    )


# --- Eq. 12: over which points the Hessian is integrated --------------------------------------

_NODES = 16
# The rule's error, relative to the change of the gradient.
_INTEGRATED = 1e-6
_TINY = 1e-12


def printed_path(w: Float[Array, "d"], other: Float[Array, "d"], t: Array) -> Array:
    """Return the point as printed, which starts at w and leads away from w'."""
    return w + t * (w - other)


def segment(w: Float[Array, "d"], other: Float[Array, "d"], t: Array) -> Array:
    """Return the point on the segment between the two, from w' on."""
    return other + t * (w - other)


@searched(_NETWORK, steps=0)
def furthest_apart(case: Any, path: Path) -> tuple[Array, Array]:
    """Search a small network's weights for the largest error of the integral, over the change."""
    loss, way = _loss_and_way(case)
    other, w = case["w"], case["w"] + way
    gradient = jax.grad(loss)

    def curved(t: Array) -> Array:
        return jax.jvp(gradient, (path(w, other, t),), (w - other,))[1]

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    integral = jnp.asarray(weights / 2) @ jax.vmap(curved)(jnp.asarray((nodes + 1) / 2))
    change = gradient(w) - gradient(other)
    return jnp.linalg.norm(integral - change), jnp.linalg.norm(change) + _TINY


def cube(path: Path) -> float:
    """Return the integral for L(w) = w³ from w' = 0 to w = 1, whose gradient changes by 3."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return float(weights / 2 @ (6 * np.array([path(1.0, 0.0, t) for t in (nodes + 1) / 2])))


@stated(
    "Eq. 12, proof of Lemma 1",
    refuted_by="A loss and two points between which it changes by something else.",
    instead=(
        "The Hessian at w' + t (w - w'): the line between the two, which the text after the "
        "equation names, so that the proof stands where that line is in the set."
    ),
    misprint=True,
)
def change_of_gradient_integral(path: Path = printed_path) -> Outcome:
    """The gradient changes from w' to w by the integral over t from 0 to 1 of the Hessian
    at w + t (w - w'), times w - w'.
    """
    found, mended = furthest_apart(path), furthest_apart(segment)
    change, printed = cube(segment), cube(path)
    return Outcome(
        worst=max(found.ratio, abs(printed / change - 1)),
        corrected=mended.ratio,
        looked=f"a network: {found.looked}; and a cube",
        finding=(
            f"For L(w) = w³, from w' = 0 to w = 1, the gradient changes by {change:g} and Eq. 12 "
            f"gives {printed:g}. Of a network it is off by up to {found.ratio:.2g} times the "
            f"change; with the points of the segment by {mended.ratio:.0e}."
        ),
        tolerance=_INTEGRATED,
    )
