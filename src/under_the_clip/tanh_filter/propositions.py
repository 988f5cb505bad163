"""The tanh filter: what it bounds, what it prints, and the noise it relies on."""

import math
from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from dpstudy.parts.mechanism import clip_coefficients
from dpstudy.privacy.conversions import gdp_delta
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import normal, search_box, searched
from under_the_clip.published import MNIST_PARAMETERS

Filter = Callable[[Float[Array, "n"]], Float[Array, "n"]]

PARAMETERS = 100
# Two ways of computing one number in double precision differ by less.
_EQUAL = 1e-12
stated = partial(proposition, "amian2022tanh")
# What the classical theorem is stated for: epsilon below 1.
CLASSICAL = {"epsilon": (0.01, 0.999), "delta": (1e-10, 0.1)}


@stated("Theorem of Section II.A", refuted_by="ε and δ at which the Gaussian's exact δ is larger.")
def gaussian_mechanism_classical(box: dict[str, tuple[float, float]] | None = None) -> Outcome:
    """For ε below 1, noise of √(2 ln(1.25/δ)) Δ/ε gives (ε, δ)-differential privacy."""

    def sides(epsilon: float, delta: float) -> tuple[float, float]:
        sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        return gdp_delta(1 / sigma, epsilon), delta

    found = search_box(sides, box or CLASSICAL, cases=2000, refinements=200)
    return judge(
        found,
        bound=1.0,
        finding=(
            f"The exact δ comes to at most {found.ratio:.4f} of the one asked for, at "
            f"ε = {found.case['epsilon']:.2f}, δ = {found.case['delta']:.1e}."
        ),
    )


@searched(normal(scale=3), climbers=4, steps=100)
def _apart(x: Float[Array, ""], left: Callable[[Array], Array]) -> tuple[Array, Array]:
    printed = (1 - jnp.exp(-x)) / (1 + jnp.exp(-x))
    return jnp.abs(printed - left(x)), jnp.ones(())


@stated("Eq. 4", refuted_by="A number at which it is not.", instead="tanh(x/2) is.", misprint=True)
def tanh_equation(left: Callable[[Array], Array] = jnp.tanh) -> Outcome:
    """tanh x is (1 - exp(-x)) / (1 + exp(-x))."""
    found, corrected = _apart(left), _apart(lambda x: jnp.tanh(x / 2))
    return Outcome(
        worst=found.ratio,
        corrected=corrected.ratio,
        looked=found.looked,
        finding=(
            f"The printed formula is up to {found.ratio:.4f} away from tanh(x), at "
            f"x = {float(found.case):.3f}, and {corrected.ratio:.1e} from tanh(x/2)."
        ),
        tolerance=_EQUAL,
    )


def clipped_after(gradient: Float[Array, "n"]) -> Float[Array, "n"]:
    """Return what may replace the filter: tanh of each entry, then clipped to norm 1."""
    filtered = jnp.tanh(gradient)
    return filtered * clip_coefficients(optax.safe_norm(filtered, 1e-150), 1.0)


def _of_all_sizes(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(rng.uniform(-3, np.log(3), (n, 1))) * rng.normal(size=(n, PARAMETERS))


@searched(_of_all_sizes, climbers=8, steps=200, rate=0.5)
def longest(gradient: Array, what: Filter) -> tuple[Array, Array]:
    """Search for the gradient that the filter leaves longest."""
    return jnp.linalg.norm(what(gradient)), jnp.ones(())


@stated("Section III.A, proof", refuted_by="A gradient that is longer when filtered.")
def tanh_filter_root_n(bound: Callable[[int], float] = math.sqrt) -> Outcome:
    """A filtered gradient of n entries is shorter than √n."""
    found, most = longest(jnp.tanh), bound(PARAMETERS)
    return judge(
        found,
        bound=most,
        finding=(
            f"The longest filtered gradient of {PARAMETERS} entries comes to "
            f"{found.ratio / most:.6f} of the bound, which is the limit of large entries; entries "
            f"of 2 give {math.tanh(2):.4f}."
        ),
    )


@stated(
    "Section III.A, as used in its experiments",
    refuted_by="A gradient that is longer when filtered.",
    instead="√n, or 1 if the filtered gradient is then clipped to 1.",
)
def tanh_filter_sensitivity_one(bound: float = 1.0) -> Outcome:
    """The sensitivity of a filtered gradient may be taken as 1."""
    found, corrected = longest(jnp.tanh), longest(clipped_after)
    return judge(
        found,
        bound=bound,
        corrected=corrected.worst,
        finding=(
            f"A filtered gradient of {PARAMETERS} entries is up to {found.ratio:.3f} long; on the "
            f"MNIST network √n is {math.sqrt(MNIST_PARAMETERS):.1f}. Filtered, then clipped to 1: "
            f"at most {corrected.ratio:.6f}."
        ),
    )
