"""The tanh filter: what it bounds, what it prints, and the noise it relies on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dpstudy.lab.published import MNIST_PARAMETERS
from dpstudy.parts.mechanism import clip_coefficients
from dpstudy.privacy.conversions import gdp_delta
from dpstudy.propositions.search import Found, search, search_box
from dpstudy.propositions.statement import Outcome, Statement

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Filter = Callable[[Float[Array, "n"]], Float[Array, "n"]]

PARAMETERS = 100
_EQUAL = 1e-12


def clipped_after(gradient: Float[Array, "n"]) -> Float[Array, "n"]:
    """Return what may replace the filter: tanh of each entry, then clipped to norm 1."""
    filtered = jnp.tanh(gradient)
    square = jnp.sum(filtered**2)
    norm = jnp.sqrt(jnp.where(square > 0, square, 1.0))
    return filtered * clip_coefficients(norm, 1.0)


def longest(what: Filter, bound: float) -> Found:
    """Search for a gradient that the filter leaves longer than the bound."""

    def sides(gradient: Array) -> tuple[Array, Array]:
        return jnp.linalg.norm(what(gradient)), jnp.asarray(bound)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        sizes = np.exp(rng.uniform(-3, np.log(3), (n, 1)))
        return sizes * rng.normal(size=(n, PARAMETERS))

    return search(sides, draw, climbers=8, steps=200, rate=0.5)


def root_bound(bound: Callable[[int], float] = math.sqrt) -> Outcome:
    """Search for a filtered gradient of n entries longer than √n (Section III.A)."""
    found = longest(jnp.tanh, bound(PARAMETERS))
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=(
            f"The longest filtered gradient of {PARAMETERS} entries comes to {found.ratio:.6f} of "
            f"the bound, which is the limit of large entries; entries of 2 give {math.tanh(2):.4f}."
        ),
    )


def assumed_bound(bound: float = 1.0) -> Outcome:
    """Search for a filtered gradient longer than 1, and for one that is clipped as well."""
    found, corrected = longest(jnp.tanh, bound), longest(clipped_after, 1.0)
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=(
            f"A filtered gradient of {PARAMETERS} entries is up to {found.ratio:.3f} long; on the "
            f"MNIST network √n is {math.sqrt(MNIST_PARAMETERS):.1f}. Filtered, then clipped to 1: "
            f"at most {corrected.ratio:.6f}."
        ),
        corrected=corrected.worst,
    )


def printed_tanh(x: Float[Array, ""]) -> Array:
    """Return Eq. 4's right side: (1 - exp(-x)) / (1 + exp(-x))."""
    return (1 - jnp.exp(-x)) / (1 + jnp.exp(-x))


def printed_formula(left: Callable[[Array], Array] = jnp.tanh) -> Outcome:
    """Compare Eq. 4's right side with its left, and with tanh(x / 2)."""

    def apart(other: Callable[[Array], Array]) -> Found:
        def sides(x: Array) -> tuple[Array, Array]:
            return jnp.abs(printed_tanh(x) - other(x)), jnp.asarray(_EQUAL)

        return search(sides, lambda rng, n: 3 * rng.normal(size=n), climbers=4, steps=100)

    found, corrected = apart(left), apart(lambda x: jnp.tanh(x / 2))
    return Outcome(
        worst=found.ratio * _EQUAL - _EQUAL,
        looked=found.looked,
        finding=(
            f"The printed formula is up to {found.ratio * _EQUAL:.4f} away from tanh(x), at "
            f"x = {float(found.case):.3f}, and {corrected.ratio * _EQUAL:.1e} from tanh(x/2)."
        ),
        corrected=corrected.ratio * _EQUAL - _EQUAL,
    )


# What the classical theorem is stated for: epsilon below 1.
CLASSICAL = {"epsilon": (0.01, 0.999), "delta": (1e-10, 0.1)}


def classical_gaussian(box: dict[str, tuple[float, float]] | None = None) -> Outcome:
    """Search for (ε, δ) that σ = √(2 ln(1.25/δ)) Δ/ε does not give, by the exact δ."""

    def sides(epsilon: float, delta: float) -> tuple[float, float]:
        sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        return gdp_delta(1 / sigma, epsilon), delta

    found = search_box(sides, box or CLASSICAL, cases=2000, refinements=200)
    return Outcome(
        worst=found.ratio - 1,
        looked=found.looked,
        tightness=found.ratio,
        finding=(
            f"The exact δ comes to at most {found.ratio:.4f} of the one asked for, at "
            f"ε = {found.case['epsilon']:.2f}, δ = {found.case['delta']:.1e}."
        ),
    )


_KEY = "amian2022tanh"
STATEMENTS = (
    Statement(
        name="gaussian-mechanism-classical",
        paper=_KEY,
        where="Theorem of Section II.A",
        says="For ε below 1, noise of √(2 ln(1.25/δ)) Δ/ε gives (ε, δ)-differential privacy.",
        refuted_by="ε and δ at which the Gaussian's exact δ is larger.",
        check=classical_gaussian,
    ),
    Statement(
        name="tanh-equation",
        misprint=True,
        paper=_KEY,
        where="Eq. 4",
        says="tanh x is (1 - exp(-x)) / (1 + exp(-x)).",
        refuted_by="A number at which it is not.",
        check=printed_formula,
        instead="tanh(x/2) is.",
    ),
    Statement(
        name="tanh-filter-root-n",
        paper=_KEY,
        where="Section III.A, proof",
        says="A filtered gradient of n entries is shorter than √n.",
        refuted_by="A gradient that is longer when filtered.",
        check=root_bound,
    ),
    Statement(
        name="tanh-filter-sensitivity-one",
        paper=_KEY,
        where="Section III.A, as used in its experiments",
        says="The sensitivity of a filtered gradient may be taken as 1.",
        refuted_by="A gradient that is longer when filtered.",
        check=assumed_bound,
        instead="√n, or 1 if the filtered gradient is then clipped to 1.",
    ),
)
