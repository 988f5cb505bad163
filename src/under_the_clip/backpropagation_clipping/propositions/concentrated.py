"""Backpropagation clipping's accounting: zCDP, its composition, and batches in parallel.

With ρ-zCDP the Rényi divergence of order α > 1 is at most αρ; a Gaussian's is α|v|²/(2s²).
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.privacy.conversions import gdp_epsilon, zcdp_epsilon
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import Found, normal, search, search_box
from under_the_clip.backpropagation_clipping.published import CORRECTED_CLIPPING, CorrectedClipping

stated = partial(proposition, "stevens2022backpropagation")
# Summing an integral that is nearly 1 and taking its logarithm costs digits.
_INTEGRATED = 1e-6

# What the conversion is searched over. Both papers' runs and the limits of use lie within.
BUDGETS = {"rho": (1e-4, 100.0), "delta": (1e-12, 1e-2)}


@stated("Proposition 1", refuted_by="A ρ-zCDP mechanism with a larger ε.")
def zcdp_conversion(claim: Callable[[float, float], float] = zcdp_epsilon) -> Outcome:
    """ρ-zCDP gives (ρ + 2 √(ρ log(1/δ)), δ)-differential privacy.

    A Gaussian that is ρ-zCDP and no better is √(2ρ)-GDP, whose ε is known exactly.
    """

    def sides(rho: float, delta: float) -> tuple[float, float]:
        return gdp_epsilon(math.sqrt(2 * rho), delta), claim(rho, delta)

    def by_divergence(rho: float, delta: float) -> tuple[float, float]:
        orders = np.geomspace(1.01, 1e4, 400)
        return dp_accounting.rdp.compute_epsilon(orders, orders * rho, delta)[0], claim(rho, delta)

    found = search_box(sides, BUDGETS, cases=150, refinements=50)
    divergence = search_box(by_divergence, BUDGETS, cases=50, refinements=0)
    return judge(
        found,
        divergence,
        looked=f"Exactly: {{}}; by dp-accounting: {divergence.looked}",
        finding=(
            f"The exact ε comes to at most {found.ratio:.4f} of the converted one, and "
            f"dp-accounting's, from the same divergence, to {divergence.ratio:.4f}."
        ),
    )


def _divergence(order: float, apart: float, deviation: float) -> float:
    """Return the Rényi divergence of two Gaussians, by summing its integral."""
    width = 12 * deviation
    # The integrand is a Gaussian around order * apart.
    x = np.linspace(order * apart - width, order * apart + width, 2001)
    log_p, log_q = (-((x - mean) ** 2) / (2 * deviation**2) for mean in (apart, 0.0))
    logs = order * log_p + (1 - order) * log_q
    top = logs.max()
    integral = np.exp(logs - top).sum() * (x[1] - x[0]) / (deviation * math.sqrt(2 * math.pi))
    return (top + math.log(integral)) / (order - 1)


@stated("Proposition 2", refuted_by="An order α at which the divergence is above αρ.")
def zcdp_gaussian(
    deviation: Callable[[float, float], float] = lambda apart, rho: apart / math.sqrt(2 * rho),
) -> Outcome:
    """Noise of variance Δ²/(2ρ) on a sum of sensitivity Δ gives ρ-zCDP."""

    def sides(order: float, apart: float, rho: float) -> tuple[float, float]:
        return _divergence(order, apart, deviation(apart, rho)), order * rho

    box = {"order": (1.05, 100.0), "apart": (1e-3, 1e3), "rho": (1e-4, 10.0)}
    found = search_box(sides, box, cases=400, refinements=60)
    return judge(
        found,
        bound=1.0,
        finding=f"The divergence, integrated, comes to {found.ratio:.6f} of αρ.",
        tolerance=_INTEGRATED,
    )


# Three mechanisms in sequence; their outputs on a grid that ends where nothing is left of them.
_IN_SEQUENCE = 3
_OUTPUTS = np.linspace(-16, 16, 97)
_LARGEST_ORDER, _LARGEST_RHO = 4.0, 0.5


def joint_divergence(order: Array, means: Float[Array, "k m"]) -> Array:
    """Return the Rényi divergence of a sequence of noisy outputs from that on a neighbour.

    Noise has deviation 1, and the neighbour's means are 0. `means[i, j]` is the (i+1)-th output's
    after the j-th value on the grid. Integrated over all outputs, by no rule of composition.
    """
    outputs = jnp.asarray(_OUTPUTS)
    rest = jnp.zeros(len(_OUTPUTS))
    for mean in means[::-1]:
        apart = outputs - mean[:, None]
        logs = -(order * apart**2 + (1 - order) * outputs**2) / 2 + rest
        rest = jax.nn.logsumexp(logs, axis=1)
        rest += math.log((_OUTPUTS[1] - _OUTPUTS[0]) / math.sqrt(2 * math.pi))
    return rest[0] / (order - 1)


@stated("Section 2", refuted_by="k mechanisms whose divergence is above that of kρ.")
def zcdp_composition(total: Callable[[Array], Array] = jnp.sum) -> Outcome:
    """k mechanisms of ρ-zCDP in sequence give kρ-zCDP."""

    def sides(case: Any) -> tuple[Array, Array]:
        rho = _LARGEST_RHO * jax.nn.sigmoid(case["rho"])
        order = 1.05 + (_LARGEST_ORDER - 1.05) * jax.nn.sigmoid(case["order"])
        # As far from the neighbour's as ρ allows, by what came out before.
        leaning = case["lean"][:, None] + jnp.tanh(case["follow"])[:, None] * _OUTPUTS
        leaning = leaning.at[0].set(case["lean"][0])
        means = jnp.sqrt(2 * rho)[:, None] * jnp.tanh(leaning)
        return joint_divergence(order, means), order * total(rho)

    draw = dict.fromkeys(("rho", "lean", "follow"), normal(_IN_SEQUENCE)) | {"order": normal()}
    found = search(sides, draw, cases=256, climbers=4, steps=150, rate=0.1)
    return judge(
        found,
        bound=1.0,
        looked=f"{{}}, {_IN_SEQUENCE} mechanisms, each free to follow the one before",
        finding=f"The divergence of all outputs together, integrated, is {found.ratio:.6f} of αΣρ.",
        tolerance=_INTEGRATED,
    )


# --- batches in parallel ----------------------------------------------------------------------

BATCHES, BATCH, FEATURES = 3, 4, 3
_EXAMPLES = BATCHES * BATCH


def _batches(slots: np.ndarray) -> np.ndarray:
    return np.array([np.bincount(one, minlength=_EXAMPLES + 1) for one in slots], float)


_ASSIGNED = np.arange(_EXAMPLES).reshape(BATCHES, BATCH)

# From the data set of the first twelve examples to a neighbour, batch by batch.
_NEIGHBOURS = {
    "removed": _batches([_ASSIGNED[0][1:], *_ASSIGNED[1:]]),
    "replaced": _batches([np.array([_EXAMPLES, 1, 2, 3]), *_ASSIGNED[1:]]),
    # Batches cut from a list: what follows the removed example moves up by one place.
    "moved up": _batches([np.arange(1, 5), np.arange(5, 9), np.arange(9, 12)]),
}


@cache
def largest_rho(neighbour: str, releases: int = 1) -> Found:
    """Search for gradients that make the ρ of all batches' noisy sums largest, over one batch's.

    The neighbour is of `_NEIGHBOURS`; `releases` are epochs x layers, each with other gradients.
    """
    changed = jnp.asarray(_batches(_ASSIGNED) - _NEIGHBOURS[neighbour])

    def sides(gradients: Float[Array, "releases n d"]) -> tuple[Array, Array]:
        squares = jnp.sum(gradients**2, axis=-1, keepdims=True)
        clipped = gradients / jnp.sqrt(jnp.maximum(squares, 1))
        differences = jnp.einsum("bn,rnd->rbd", changed, clipped)
        return jnp.sum(differences**2), jnp.ones(())

    draw = normal(releases, _EXAMPLES + 1, FEATURES)
    return search(sides, draw, cases=256, climbers=8, steps=200)


_DIFFER = "Data and a neighbour whose batches' sums differ by more."


def _in_parallel(neighbour: str, bound: float, corrected: float | None = None) -> Outcome:
    found = largest_rho(neighbour)
    return judge(
        found,
        bound=bound,
        looked=f"{{}}, {BATCHES} batches of {BATCH}",
        corrected=None if corrected is None else found.ratio - corrected,
        finding=f"All batches together cost up to {found.ratio:.6f} times one batch's ρ.",
    )


@stated("Section 2, adding or removing an example", refuted_by=_DIFFER)
def parallel_composition(bound: float = 1.0) -> Outcome:
    """Batches that share no example cost together what one does, if which batch an example
    is in does not depend on the others.
    """
    return _in_parallel("removed", bound)


@stated(
    "Section 2, replacing an example",
    refuted_by=_DIFFER,
    instead="Four times that: the sum of a batch may change by 2 Δ.",
    ours=True,
)
def parallel_composition_replacing(bound: float = 1.0) -> Outcome:
    """The same for neighbours in which one example is replaced."""
    return _in_parallel("replaced", bound, corrected=4.0)


@stated(
    "Section 2, batches cut from a list",
    refuted_by=_DIFFER,
    instead="4 (m - 1) + 1 times that for m batches: all examples that follow move up.",
    ours=True,
)
def parallel_composition_cut(bound: float = 1.0) -> Outcome:
    """The same where batches are cut from a list and one example is removed."""
    return _in_parallel("moved up", bound, corrected=4 * (BATCHES - 1) + 1)


EPOCHS, LAYERS = 3, 2


@stated("Theorem 1", refuted_by="A run that costs more.")
def privacy_of_the_run(bound: float = EPOCHS * LAYERS) -> Outcome:
    """E epochs of disjoint batches with noise on L layers give E L ρ-zCDP, under adding or
    removing, batches assigned.
    """
    found = largest_rho("removed", EPOCHS * LAYERS)
    return judge(
        found,
        bound=bound,
        looked=f"{{}}, {EPOCHS} epochs of {BATCHES} batches, {LAYERS} layers",
        finding=(
            f"{EPOCHS} epochs and {LAYERS} layers cost up to {found.ratio:.6f} times the ρ of one "
            "layer's gradient."
        ),
    )


@proposition(
    "stevens2022code",
    "gdp.py, second correction of the code",
    refuted_by="A setting whose ε, all layers of a step sampled together, is larger.",
)
def corrected_code_targets(
    spent: Callable[[CorrectedClipping], float] = lambda code: code.least_epsilon,
) -> Outcome:
    """The noise that the authors' code, corrected again, chooses gives the ε it aims at."""
    pairs = [(code.target_epsilon, spent(code)) for code in CORRECTED_CLIPPING]
    return Outcome(
        worst=max(has - target for target, has in pairs),
        looked=f"The code's {len(pairs)} settings, by PLD rounded down",
        tightness=max(has / target for target, has in pairs),
        finding=(
            "Targets, and what they cost at least: "
            + ", ".join(f"{target:g} and {has:.3g}" for target, has in pairs)
            + ". Were the divisor a constant, they would cost at most "
            + ", ".join(f"{code.epsilon():.3g}" for code in CORRECTED_CLIPPING)
            + "."
        ),
    )
