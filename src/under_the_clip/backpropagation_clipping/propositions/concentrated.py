"""Backpropagation clipping's accounting: zCDP, its composition, and batches in parallel.

Zero-concentrated differential privacy with ρ says that the Rényi divergence of order α between the
outputs on neighbouring data sets is at most αρ, for every α > 1. Between Gaussians of one
deviation s whose means are v apart it is α|v|²/(2s²), so a Gaussian's ρ is that over α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.privacy.conversions import gdp_epsilon, zcdp_epsilon
from dpstudy.propositions.search import Found, search, search_box
from dpstudy.propositions.statement import Outcome, Statement
from under_the_clip.backpropagation_clipping.published import CORRECTED_CLIPPING, CorrectedClipping

if TYPE_CHECKING:
    from jaxtyping import Array, Float

# Summing an integral that is nearly 1 and taking its logarithm costs digits.
_INTEGRATED = 1e-6

# What the conversion is searched over. Both papers' runs and the limits of use lie within.
BUDGETS = {"rho": (1e-4, 100.0), "delta": (1e-12, 1e-2)}


def conversion(claim: Callable[[float, float], float] = zcdp_epsilon) -> Outcome:
    """Search for a Gaussian whose exact ε is above the one that its ρ converts to (Prop. 1).

    A Gaussian that is ρ-zCDP and no better is √(2ρ)-GDP, whose ε is known exactly. The same ρ
    through dp-accounting's conversion of a Rényi divergence is compared as well.
    """

    def sides(rho: float, delta: float) -> tuple[float, float]:
        return gdp_epsilon(math.sqrt(2 * rho), delta), claim(rho, delta)

    def by_divergence(rho: float, delta: float) -> tuple[float, float]:
        orders = np.geomspace(1.01, 1e4, 400)
        return dp_accounting.rdp.compute_epsilon(orders, orders * rho, delta)[0], claim(rho, delta)

    found = search_box(sides, BUDGETS, cases=150, refinements=50)
    divergence = search_box(by_divergence, BUDGETS, cases=50, refinements=0)
    return Outcome(
        worst=max(found.worst, divergence.worst),
        looked=f"Exactly: {found.looked}; by dp-accounting: {divergence.looked}",
        tightness=max(found.ratio, divergence.ratio),
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


def gaussian_mechanism(
    deviation: Callable[[float, float], float] = lambda apart, rho: apart / math.sqrt(2 * rho),
) -> Outcome:
    """Search for an order at which noise of Δ/√(2ρ) does not give ρ-zCDP (Prop. 2)."""

    def sides(order: float, apart: float, rho: float) -> tuple[float, float]:
        return _divergence(order, apart, deviation(apart, rho)), order * rho

    box = {"order": (1.05, 100.0), "apart": (1e-3, 1e3), "rho": (1e-4, 10.0)}
    found = search_box(sides, box, cases=400, refinements=60)
    return Outcome(
        worst=found.ratio - 1,
        looked=found.looked,
        tightness=found.ratio,
        finding=f"The divergence, integrated, comes to {found.ratio:.6f} of αρ.",
        tolerance=_INTEGRATED,
    )


# Three mechanisms in sequence; their outputs on a grid that ends where nothing is left of them.
_IN_SEQUENCE = 3
_OUTPUTS = np.linspace(-16, 16, 97)
_LARGEST_ORDER, _LARGEST_RHO = 4.0, 0.5


def joint_divergence(order: Array, means: Float[Array, "k m"]) -> Array:
    """Return the Rényi divergence of a sequence of noisy outputs from that on a neighbour.

    Every output is a mean plus noise of deviation 1; on the neighbour all means are 0. A mean may
    depend on the output before: `means[i, j]` is the (i+1)-th output's after the j-th value on the
    grid, and the first output's mean does not depend on j. The joint density is integrated over
    all outputs, the last one first, which uses no rule of composition.
    """
    outputs = jnp.asarray(_OUTPUTS)
    rest = jnp.zeros(len(_OUTPUTS))
    for mean in means[::-1]:
        apart = outputs - mean[:, None]
        logs = -(order * apart**2 + (1 - order) * outputs**2) / 2 + rest
        rest = jax.nn.logsumexp(logs, axis=1)
        rest += math.log((_OUTPUTS[1] - _OUTPUTS[0]) / math.sqrt(2 * math.pi))
    return rest[0] / (order - 1)


def composition(total: Callable[[Array], Array] = jnp.sum) -> Outcome:
    """Search for Gaussians in sequence whose joint divergence is above that of their ρ's total."""

    def sides(case: Any) -> tuple[Array, Array]:
        rho = _LARGEST_RHO * jax.nn.sigmoid(case["rho"])
        order = 1.05 + (_LARGEST_ORDER - 1.05) * jax.nn.sigmoid(case["order"])
        # As far from the neighbour's as ρ allows, by what came out before.
        leaning = case["lean"][:, None] + jnp.tanh(case["follow"])[:, None] * _OUTPUTS
        leaning = leaning.at[0].set(case["lean"][0])
        means = jnp.sqrt(2 * rho)[:, None] * jnp.tanh(leaning)
        return joint_divergence(order, means), order * total(rho)

    def draw(rng: np.random.Generator, n: int) -> Any:
        sizes = {"rho": (n, _IN_SEQUENCE), "lean": (n, _IN_SEQUENCE), "follow": (n, _IN_SEQUENCE)}
        return {name: rng.normal(size=size) for name, size in (sizes | {"order": n}).items()}

    found = search(sides, draw, cases=256, climbers=4, steps=150, rate=0.1)
    return Outcome(
        worst=found.ratio - 1,
        looked=f"{found.looked}, {_IN_SEQUENCE} mechanisms, each free to follow the one before",
        tightness=found.ratio,
        finding=f"The divergence of all outputs together, integrated, is {found.ratio:.6f} of αΣρ.",
        tolerance=_INTEGRATED,
    )


# --- batches in parallel ----------------------------------------------------------------------

BATCHES, BATCH, FEATURES = 3, 4, 3
_EXAMPLES = BATCHES * BATCH


def _batches(slots: np.ndarray) -> np.ndarray:
    """Return which example (column) is in which batch (row), from each batch's examples."""
    members = np.zeros((BATCHES, _EXAMPLES + 1))
    for batch, examples in enumerate(slots):
        members[batch, examples] = 1
    return members


_ASSIGNED = np.arange(_EXAMPLES).reshape(BATCHES, BATCH)

# From the data set of the first twelve examples to a neighbour, batch by batch.
REMOVED = _batches([_ASSIGNED[0][1:], *_ASSIGNED[1:]])
REPLACED = _batches([np.array([_EXAMPLES, 1, 2, 3]), *_ASSIGNED[1:]])
# Batches cut from a list: what follows the removed example moves up by one place.
MOVED_UP = _batches([np.arange(1, 5), np.arange(5, 9), np.arange(9, 12)])


def largest_rho(neighbour: np.ndarray, releases: int = 1) -> Found:
    """Search for gradients that make the ρ of all batches' noisy sums largest.

    Args:
        neighbour: which example is in which batch of the neighbouring data set.
        releases: how many times (epochs x layers) all batches are summed, with other gradients.

    Returns:
        What was found; the right side is 1, the ρ of one batch's sum when one example of norm at
        most 1 is removed from it.
    """
    changed = jnp.asarray(_batches(_ASSIGNED) - neighbour)

    def sides(gradients: Float[Array, "releases n d"]) -> tuple[Array, Array]:
        squares = jnp.sum(gradients**2, axis=-1, keepdims=True)
        clipped = gradients / jnp.sqrt(jnp.maximum(squares, 1))
        differences = jnp.einsum("bn,rnd->rbd", changed, clipped)
        return jnp.sum(differences**2), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.normal(size=(n, releases, _EXAMPLES + 1, FEATURES))

    return search(sides, draw, cases=256, climbers=8, steps=200)


def parallel(
    neighbour: np.ndarray = REMOVED, bound: float = 1.0, corrected: float | None = None
) -> Outcome:
    """Search for data whose batches together cost more than `bound` times one batch's ρ.

    Args:
        neighbour: which example is in which batch of the neighbouring data set.
        bound: on the whole epoch's ρ, in units of one batch's.
        corrected: the bound that is said to hold instead.
    """
    found = largest_rho(neighbour)
    return Outcome(
        worst=found.ratio - bound,
        looked=f"{found.looked}, {BATCHES} batches of {BATCH}",
        tightness=found.ratio / bound,
        finding=f"All batches together cost up to {found.ratio:.6f} times one batch's ρ.",
        corrected=None if corrected is None else found.ratio - corrected,
    )


EPOCHS, LAYERS = 3, 2


def whole_run(bound: float = EPOCHS * LAYERS) -> Outcome:
    """Search for a run of Algorithm 2 that costs more than epochs x layers x ρ (Theorem 1)."""
    found = largest_rho(REMOVED, EPOCHS * LAYERS)
    return Outcome(
        worst=found.ratio - bound,
        looked=f"{found.looked}, {EPOCHS} epochs of {BATCHES} batches, {LAYERS} layers",
        tightness=found.ratio / bound,
        finding=(
            f"{EPOCHS} epochs and {LAYERS} layers cost up to {found.ratio:.6f} times the ρ of one "
            "layer's gradient."
        ),
    )


def corrected_targets(
    spent: Callable[[CorrectedClipping], float] = lambda code: code.least_epsilon,
) -> Outcome:
    """Compare the ε that the authors' corrected code aims at with the least that it has."""
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


_KEY = "stevens2022backpropagation"
STATEMENTS = (
    Statement(
        name="zcdp-conversion",
        paper=_KEY,
        where="Proposition 1",
        says="ρ-zCDP gives (ρ + 2 √(ρ log(1/δ)), δ)-differential privacy.",
        refuted_by="A ρ-zCDP mechanism with a larger ε.",
        check=conversion,
    ),
    Statement(
        name="zcdp-gaussian",
        paper=_KEY,
        where="Proposition 2",
        says="Noise of variance Δ²/(2ρ) on a sum of sensitivity Δ gives ρ-zCDP.",
        refuted_by="An order α at which the divergence is above αρ.",
        check=gaussian_mechanism,
    ),
    Statement(
        name="zcdp-composition",
        paper=_KEY,
        where="Section 2",
        says="k mechanisms of ρ-zCDP in sequence give kρ-zCDP.",
        refuted_by="k mechanisms whose divergence is above that of kρ.",
        check=composition,
    ),
    Statement(
        name="parallel-composition",
        paper=_KEY,
        where="Section 2, adding or removing an example",
        says=(
            "Batches that share no example cost together what one does, if which batch an example "
            "is in does not depend on the others."
        ),
        refuted_by="Data and a neighbour whose batches' sums differ by more.",
        check=parallel,
    ),
    Statement(
        name="parallel-composition-replacing",
        ours=True,
        paper=_KEY,
        where="Section 2, replacing an example",
        says="The same for neighbours in which one example is replaced.",
        refuted_by="Data and a neighbour whose batches' sums differ by more.",
        check=lambda: parallel(REPLACED, corrected=4.0),
        instead="Four times that: the sum of a batch may change by 2 Δ.",
    ),
    Statement(
        name="parallel-composition-cut",
        ours=True,
        paper=_KEY,
        where="Section 2, batches cut from a list",
        says="The same where batches are cut from a list and one example is removed.",
        refuted_by="Data and a neighbour whose batches' sums differ by more.",
        check=lambda: parallel(MOVED_UP, corrected=4 * (BATCHES - 1) + 1),
        instead="4 (m - 1) + 1 times that for m batches: all examples that follow move up.",
    ),
    Statement(
        name="privacy-of-the-run",
        paper=_KEY,
        where="Theorem 1",
        says=(
            "E epochs of disjoint batches with noise on L layers give E L ρ-zCDP, under adding or "
            "removing, batches assigned."
        ),
        refuted_by="A run that costs more.",
        check=whole_run,
    ),
    Statement(
        name="corrected-code-targets",
        paper="stevens2022code",
        where="gdp.py, second correction of the code",
        says="The noise that the authors' code, corrected again, chooses gives the ε it aims at.",
        refuted_by="A setting whose ε, all layers of a step sampled together, is larger.",
        check=corrected_targets,
    ),
)
