"""Losing less, Eq. 12: over which points the Hessian is integrated.

A change of the gradient is the integral of the Hessian along the segment from w' to w, whose points
are w' + t (w - w') for t from 0 to 1. Printed is w + t (w - w'), which starts at w and leads away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import Found, search
from dpstudy.propositions.statement import Outcome, Statement
from under_the_clip.losing_less.propositions.equations import SIZE, network_loss

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Path = Callable[[Array, Array, Array], Array]
    """From w, w' and t to a point."""

_NODES = 16
# The rule's error, relative to the change of the gradient.
_INTEGRATED = 1e-6
_TINY = 1e-12


def printed_path(w: Float[Array, "d"], other: Float[Array, "d"], t: Array) -> Array:
    """Return w + t (w - w'), as printed."""
    return w + t * (w - other)


def segment(w: Float[Array, "d"], other: Float[Array, "d"], t: Array) -> Array:
    """Return w' + t (w - w'), on the segment between the two."""
    return other + t * (w - other)


def integral(loss: Callable[[Array], Array], path: Path, w: Array, other: Array) -> Array:
    """Return the integral over t from 0 to 1 of the Hessian at path(t), times w - w'."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    gradient = jax.grad(loss)

    def curved(t: Array) -> Array:
        return jax.jvp(gradient, (path(w, other, t),), (w - other,))[1]

    return jnp.asarray(weights / 2) @ jax.vmap(curved)(jnp.asarray((nodes + 1) / 2))


def furthest_apart(path: Path) -> Found:
    """Search a small network's weights for the largest error of the integral, over the change."""

    def sides(case: Any) -> tuple[Array, Array]:
        def loss(w: Array) -> Array:
            return network_loss(w, case["examples"], jax.nn.sigmoid(case["share"]))

        way = case["way"] / jnp.maximum(2 * jnp.linalg.norm(case["way"]), 1)
        other, w = case["w"], case["w"] + way
        change = jax.grad(loss)(w) - jax.grad(loss)(other)
        apart = jnp.linalg.norm(integral(loss, path, w, other) - change)
        return apart, jnp.linalg.norm(change) + _TINY

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "w": rng.normal(size=(n, SIZE)),
            "way": rng.normal(size=(n, SIZE)),
            "examples": rng.normal(size=(n, 4, 2)),
            "share": 2 * rng.normal(size=n),
        }

    return search(sides, draw, steps=0)


def change_as_integral(path: Path = printed_path) -> Outcome:
    """Search for a network whose change of gradient is not the integral of Eq. 12."""
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


def cube(path: Path) -> float:
    """Return the integral for L(w) = w³ from w' = 0 to w = 1, whose gradient changes by 3."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return float(weights / 2 @ (6 * np.array([path(1.0, 0.0, t) for t in (nodes + 1) / 2])))


STATEMENTS = (
    Statement(
        name="change-of-gradient-integral",
        misprint=True,
        paper="shamsabadi2023losing",
        where="Eq. 12, proof of Lemma 1",
        says=(
            "The gradient changes from w' to w by the integral over t from 0 to 1 of the Hessian "
            "at w + t (w - w'), times w - w'."
        ),
        refuted_by="A loss and two points between which it changes by something else.",
        check=change_as_integral,
        instead=(
            "The Hessian at w' + t (w - w'): the line between the two, which the text after the "
            "equation names, so that the proof stands where that line is in the set."
        ),
    ),
)
