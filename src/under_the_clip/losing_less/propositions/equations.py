"""Losing less: its equations for gradients (3, 7, 11) and smoothness (Lemma 1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import Found, in_double, search
from dpstudy.propositions.statement import Outcome, Statement

if TYPE_CHECKING:
    from jaxtyping import Array, Float

# Widths of the network under Eq. 3 and 11: input, hidden layer M - 1, classes.
_WIDTHS = (3, 3, 3)
# Two ways of computing one number in double precision differ by less, relative to it.
_EQUAL = 1e-9


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
    """Return p - y."""
    return jax.nn.softmax(case["W"] @ jnp.tanh(case["V"] @ case["a"])).at[0].add(-1)


def printed_backpropagation(case: Any) -> Array:
    """Return Eq. 3 for layer M - 1 as printed: ((p - y) W)ᵀ a."""
    return jnp.outer(_residual(case) @ case["W"], case["a"])


def corrected_backpropagation(case: Any) -> Array:
    """Return Eq. 3 with the activation's derivative: (((p - y) W) ⊙ f'(h))ᵀ a."""
    slope = 1 - jnp.tanh(case["V"] @ case["a"]) ** 2
    return jnp.outer((_residual(case) @ case["W"]) * slope, case["a"])


def _equal(one: Callable[[Any], Array], other: Callable[[Any], Array], draw: Any) -> Found:
    def sides(case: Any) -> tuple[Array, Array]:
        left, right = jnp.ravel(one(case)), jnp.ravel(other(case))
        return jnp.linalg.norm(left - right), _EQUAL * jnp.linalg.norm(right)

    return search(sides, draw, climbers=1, steps=0)


def backpropagation(printed: Callable[[Any], Array] = printed_backpropagation) -> Outcome:
    """Compare Eq. 3 as printed, and with the missing factor, with differentiation."""
    found = _equal(printed, true_gradient, small_network)
    corrected = _equal(corrected_backpropagation, true_gradient, small_network)
    return Outcome(
        worst=found.ratio * _EQUAL - _EQUAL,
        looked=found.looked,
        finding=(
            f"The printed gradient is off by up to {found.ratio * _EQUAL:.2g} times the true one; "
            f"with the factor f'(h) by {corrected.ratio * _EQUAL:.1e}."
        ),
        corrected=corrected.ratio * _EQUAL - _EQUAL,
    )


def half_norm(residual: Float[Array, "classes"]) -> Array:
    """Return Eq. 7's left side as printed: half the norm."""
    return jnp.linalg.norm(residual) / 2


def half_squared_norm(residual: Float[Array, "classes"]) -> Array:
    """Return Eq. 7's left side, squared: half the squared norm."""
    return jnp.linalg.norm(residual) ** 2 / 2


def sum_of_squares(printed: Callable[[Array], Array] = half_norm) -> Outcome:
    """Compare the two sides of Eq. 7."""

    def right(residual: Array) -> Array:
        return jnp.sum(residual**2) / 2

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return 3 * rng.normal(size=(n, 10))

    found, corrected = _equal(printed, right, draw), _equal(half_squared_norm, right, draw)
    return Outcome(
        worst=found.ratio * _EQUAL - _EQUAL,
        looked=found.looked,
        finding=(
            f"The two sides differ by up to {found.ratio * _EQUAL:.2g} of the right one; with the "
            f"norm squared by {corrected.ratio * _EQUAL:.1e}."
        ),
        corrected=corrected.ratio * _EQUAL - _EQUAL,
    )


def norms(case: Any) -> tuple[Array, Array, Array]:
    """Return |p - y|, |W| (the largest singular value) and |a|."""
    spectral = jnp.linalg.norm(case["W"], ord=2)
    return jnp.linalg.norm(_residual(case)), spectral, jnp.linalg.norm(case["a"])


def sum_of_norms(case: Any) -> Array:
    """Return the right side of Eq. 11 as printed."""
    return sum(norms(case))


def product_of_norms(case: Any) -> Array:
    """Return the right side of Eq. 11 as it should be: norms are sub-multiplicative."""
    residual, weights, inputs = norms(case)
    return residual * weights * inputs


@cache
def gradient_against(bound: Callable[[Any], Array]) -> Found:
    """Search for a gradient of layer M - 1 longer than the bound."""

    def sides(case: Any) -> tuple[Array, Array]:
        return jnp.linalg.norm(true_gradient(case)), bound(case)

    return search(sides, small_network, climbers=8, steps=200)


def gradient_bound(printed: Callable[[Any], Array] = sum_of_norms) -> Outcome:
    """Search for a counterexample to Eq. 11, as printed and with the product for the sum."""
    found, corrected = gradient_against(printed), gradient_against(product_of_norms)
    residual, weights, inputs = map(float, in_double(norms)(found.case))
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=(
            f"A gradient {found.ratio:.3g} times the printed bound: |p - y| = {residual:.3g}, "
            f"|W| = {weights:.3g}, |a| = {inputs:.3g}. The product is reached to "
            f"{corrected.ratio:.6f}."
        ),
        corrected=corrected.worst,
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
    """Search two points of a set for a gradient that changes faster than the curvature in it.

    Args:
        project: onto the set; the curvature's maximum is taken over it, on a grid.
    """

    def sides(case: Any) -> tuple[Array, Array]:
        one, other = project(case["from"]), project(case["to"])
        gradient = jax.grad(gated)
        distance = jnp.linalg.norm(one - other)
        return jnp.linalg.norm(gradient(one) - gradient(other)), curvature * distance + 1e-12

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {"from": rng.uniform(-1, 1, (n, 2)), "to": rng.uniform(-1, 1, (n, 2))}

    axis = np.linspace(-1, 1, 61)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    over_set = in_double(jax.vmap(lambda w: largest_curvature(gated, project(w))))(grid)
    curvature = float(over_set.max())
    return search(sides, draw, climbers=8, rate=0.02)


# The small network of the lemma's line form: two inputs, two tanh units, two classes.
_SHAPES = ((2, 3), (2, 3))
SIZE = sum(rows * columns for rows, columns in _SHAPES)
_CLASSES, _NODES = _SHAPES[1][0], 5


def network_loss(w: Float[Array, "d"], examples: Float[Array, "n 2"], share: Array) -> Array:
    """Return share x cross-entropy + (1 - share) x SSE (Eq. 10 without its penalty), averaged."""
    rows, columns = _SHAPES[0]
    hidden, out = w[: rows * columns].reshape(_SHAPES[0]), w[rows * columns :].reshape(_SHAPES[1])

    def one(x: Array, y: Array) -> Array:
        logits = out[:, :-1] @ jnp.tanh(hidden[:, :-1] @ x + hidden[:, -1]) + out[:, -1]
        entropy = jax.nn.logsumexp(logits) - logits[y]
        return share * entropy + (1 - share) * jnp.sum((logits - jnp.eye(_CLASSES)[y]) ** 2) / 2

    return jnp.mean(jax.vmap(one)(examples, jnp.arange(len(examples)) % _CLASSES))


@cache
def on_a_line() -> Found:
    """Search a small network's weights for a gradient that changes faster than the curvature.

    The curvature is taken along the line between the two points, at the nodes of a Gauss-Legendre
    rule. The change of the gradient is the rule's average of Hessians times the way, up to the
    rule's error, so the largest of the nodes bounds it.
    """
    nodes, _ = np.polynomial.legendre.leggauss(_NODES)

    def sides(case: Any) -> tuple[Array, Array]:
        def loss(w: Array) -> Array:
            return network_loss(w, case["examples"], jax.nn.sigmoid(case["share"]))

        way = case["way"] / jnp.maximum(2 * jnp.linalg.norm(case["way"]), 1)
        along = (jnp.asarray(nodes)[:, None] + 1) / 2 * way + case["w"]
        curvature = jnp.max(jax.vmap(lambda w: largest_curvature(loss, w))(along))
        gradient = jax.grad(loss)
        change = gradient(case["w"] + way) - gradient(case["w"])
        return jnp.linalg.norm(change), curvature * jnp.linalg.norm(way)

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "w": rng.normal(size=(n, SIZE)),
            "way": rng.normal(size=(n, SIZE)),
            "examples": rng.normal(size=(n, 4, 2)),
            "share": 2 * rng.normal(size=n),
        }

    return search(sides, draw, cases=64, climbers=3, steps=60)


def smoothness() -> Outcome:
    """Search for counterexamples to Lemma 1: on a simply connected set, and on a line."""
    found, line = on_a_set(), on_a_line()
    return Outcome(
        worst=found.worst,
        looked=f"On a set: {found.looked}; on a line: {line.looked}",
        tightness=found.ratio,
        finding=(
            f"In a simply connected set with a gap of {2 * GAP:g}, the gradient changes by "
            f"{found.ratio:.3g} times the bound. With σ_max taken along the line, which the proof "
            f"uses, a network's gradient comes to {line.ratio:.4f} of it."
        ),
        corrected=line.worst,
    )


_KEY = "shamsabadi2023losing"
STATEMENTS = (
    Statement(
        name="backpropagation-equation",
        misprint=True,
        paper=_KEY,
        where="Eq. 3, layer M - 1, for the networks of Tables 1 and 2",
        says="With tanh in layer M - 1 its gradient is ((p - y) W)ᵀ a.",
        refuted_by="Such a network whose gradient, differentiated, is another.",
        check=backpropagation,
        instead="(((p - y) W) ⊙ f'(h))ᵀ a; as printed where layer M - 1 is linear.",
    ),
    Statement(
        name="sse-as-a-norm",
        misprint=True,
        paper=_KEY,
        where="Eq. 7",
        says="Half the norm of h - y is half the sum of its squares.",
        refuted_by="A vector for which it is not.",
        check=sum_of_squares,
        instead="Half the squared norm is.",
    ),
    Statement(
        name="gradient-norm-sum",
        paper=_KEY,
        where="Eq. 11",
        says="The gradient of layer M - 1 is no longer than |p - y| + |W| + |a|.",
        refuted_by="A network with a longer gradient.",
        check=gradient_bound,
        instead="|p - y| |W| |a|, for an activation with |f'| ≤ 1.",
    ),
    Statement(
        name="smoothness",
        paper=_KEY,
        where="Lemma 1",
        says=(
            "If the Hessian's singular values are at most σ_max in a simply connected set, the "
            "gradient changes by at most σ_max |w - w'| between its points."
        ),
        refuted_by="A loss, such a set, and two points between which the gradient changes more.",
        check=smoothness,
        instead="The same in a convex set, or with σ_max along the line from w to w'.",
    ),
)
