"""Tempered sigmoids: what bounded activations do to clipping, and "grossly misclassified" points.

A unit's activation is at most b = max(|o|, |s - o|) in size. The logistic loss on d such
activations has a gradient no longer than |T| b √d (Eq. 4), so that with C at least that no gradient
of its weights is ever clipped. Of relu's activations no C can say as much.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.parts.networks.activation import Tempered
from dpstudy.propositions.proposition import Outcome, judge, proposition, stated_in
from dpstudy.propositions.search import Found, normal, search
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import binary_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Array

stated = partial(proposition, "papernot2021tempered")
_UNITS = 4
# Beyond that the gradients of a point and of the same with a larger T agree to all digits.
_MOST_MARGIN = 10.0
_TINY, _ROUNDED = 1e-300, 1e-12
_NETWORK = dict.fromkeys(("log_scale", "log_temperature", "offset", "temperature"), normal())
_NETWORK |= dict.fromkeys(("x", "theta"), normal(_UNITS, scale=2))
_POINT = dict.fromkeys(("margin", "log_growth", "log_temperature"), normal()) | {"z": normal(3)}


def _margin_and_growth(case: Any) -> tuple[Array, Array]:
    """Return a case's margin m > 0 and by which factor above 1 its T grows."""
    return _MOST_MARGIN * jax.nn.sigmoid(case["margin"]), 1 + jnp.exp(case["log_growth"])


def _relative_growth(case: Any, sign: float) -> Array:
    margin, growth = _margin_and_growth(case)
    temperature, z = jnp.exp(case["log_temperature"]), case["z"]
    theta = sign * margin / temperature * z / jnp.sum(z**2)
    norms = [
        jnp.linalg.norm(jax.grad(binary_loss)(theta, z, factor * temperature))
        for factor in (1, growth)
    ]
    return norms[1] / (growth * norms[0])


@cache
def furthest_from_linear(sign: float = -1.0) -> Found:
    """Search for the largest |growth of the norm / growth of T - 1|, over exp(-m)."""

    def sides(case: Any) -> tuple[Array, Array]:
        margin, _ = _margin_and_growth(case)
        return jnp.abs(_relative_growth(case, sign) - 1), jnp.exp(-margin) + _ROUNDED

    return search(sides, _POINT, climbers=8)


@stated(
    "text after Eq. 4",
    refuted_by="T, a larger T, z and θ with a growth that is further from linear.",
)
def linear_in_temperature(share: float = 1.0, sign: float = -1.0) -> Outcome:
    """For a grossly misclassified point the gradient grows with T as if T scaled z: up to
    exp(-m) of it where -T y ⟨z, θ⟩ is m.

    Args:
        share: of exp(-m), by which growth may differ from linear.
        sign: of the margin; positive: of points classified rightly.
    """
    found, rightly = furthest_from_linear(sign), furthest_from_linear(1.0)
    margin = _MOST_MARGIN / (1 + np.exp(-rightly.case["margin"]))
    return judge(
        found,
        bound=share,
        finding=(
            f"Where -T y ⟨z, θ⟩ is m, growth is off by at most {found.ratio:.4f} exp(-m) of linear."
            " Of points classified rightly it is not linear: there it was off by up to "
            f"{rightly.ratio * np.exp(-margin):.2f} of that, where T y ⟨z, θ⟩ is {margin:.2g}."
        ),
    )


def _member(case: Any) -> tuple[Callable[[Array], Array], Array]:
    """Return a case's activation and its b, the largest size of its values."""
    scale, offset = jnp.exp(case["log_scale"]), case["offset"]
    member = Tempered(scale, jnp.exp(case["log_temperature"]), offset)
    return member, jnp.maximum(jnp.abs(offset), jnp.abs(scale - offset))


@cache
def longest_of_bounded(activation: Callable[[Array], Array] | None = None) -> Found:
    """Search for the longest gradient of the weights after the activations, over |T| b √d."""

    def sides(case: Any) -> tuple[Array, Array]:
        member, size = _member(case)
        z, temperature = (activation or member)(case["x"]), case["temperature"]
        gradient = jax.grad(binary_loss)(case["theta"], z, temperature)
        return jnp.linalg.norm(gradient), jnp.abs(temperature) * size * np.sqrt(_UNITS) + _TINY

    return search(sides, _NETWORK, climbers=8, rate=0.1)


@cache
def longest_below() -> Found:
    """Search for the longest gradient by the activations' own inputs, over the same bound."""

    def sides(case: Any) -> tuple[Array, Array]:
        member, size = _member(case)

        def loss(x: Array) -> Array:
            return binary_loss(case["theta"], member(x), case["temperature"])

        bound = jnp.abs(case["temperature"]) * size * np.sqrt(_UNITS) + _TINY
        return jnp.linalg.norm(jax.grad(loss)(case["x"])), bound

    return search(sides, _NETWORK, steps=0)


@stated(
    "Introduction of arXiv v1, read for the layer that its analysis is about",
    refuted_by="A member of the family, T, inputs and weights with a longer gradient.",
)
def never_clipped(
    share: float = 1.0, activation: Callable[[Array], Array] | None = None
) -> Outcome:
    """Bounded activations eliminate clipping: of the logistic loss on d activations of size
    at most b, no gradient exceeds a C of |T| b √d.
    """
    found, below = longest_of_bounded(activation), longest_below()
    return judge(
        found,
        bound=share,
        looked=f"{{}}, {_UNITS} activations",
        finding=(
            f"The longest gradient found is {found.ratio:.6f} |T| b √d, so that a C of |T| b √d "
            "clips none. Read of all layers it fails, as the one below has gradients that grow "
            f"with the weights above (by its inputs {below.ratio:.3g} |T| b √d was found); and the "
            "noise, which grows with C, stays."
        ),
    )


STATEMENTS = stated_in(globals())
