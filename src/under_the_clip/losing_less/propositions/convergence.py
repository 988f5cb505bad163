"""Losing less, Section 4.2: how fast SSE and cross-entropy fall under gradient descent.

On a linear model, from zero, with step length 1/β: SSE falls exponentially to its minimum, 0 with
more features than examples; cross-entropy on separable data like 1/t (Soudry et al. 2018).
"""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import Found, in_double, normal, search

stated = partial(proposition, "shamsabadi2023losing")
EXAMPLES, FEATURES, CLASSES = 6, 10, 3
# Fewer features than examples: labels that a linear model cannot all fit.
FEW_FEATURES = 3
_SSE_STEPS = 150
# Below this, a loss that started near 1 is rounding.
_ROUNDED = 1e-13
# Cross-entropy's exponent is measured between these steps, over many data sets.
_FROM, _TO, _DATA_SETS = 1_000, 10_000, 32
# How far a measured exponent may be from the stated one: it is the limit of large t.
_MEASURED = 0.1


def labels() -> Float[Array, "n k"]:
    """Return the examples' one-hot labels: the classes in turn."""
    return jnp.eye(CLASSES)[jnp.arange(EXAMPLES) % CLASSES]


def sse(weights: Float[Array, "d k"], data: Float[Array, "n d"]) -> Array:
    """Return half the mean squared norm of the residuals (Eq. 7)."""
    return jnp.sum((data @ weights - labels()) ** 2) / (2 * EXAMPLES)


def cross_entropy(weights: Float[Array, "d k"], data: Float[Array, "n d"]) -> Array:
    """Return the mean cross-entropy (Eq. 2)."""
    return -jnp.sum(labels() * jax.nn.log_softmax(data @ weights)) / EXAMPLES


def descend(loss: Any, data: Array, steps: int) -> Float[Array, "steps"]:
    """Return the loss before each step of gradient descent from zero, step length 1/β of SSE."""
    rate = 1 / jnp.linalg.eigvalsh(data @ data.T / EXAMPLES)[-1]
    weights = jnp.zeros((data.shape[1], CLASSES), data.dtype)

    def step(weights: Array, _: None) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(loss)(weights, data)
        return weights - rate * gradient, value

    return jax.lax.scan(step, weights, None, length=steps)[1]


def _stated_and_measured(data: Array, *, excess: bool) -> tuple[Array, Array]:
    """Return the rate SSE is said to fall with at least, and its own, in nats a step."""
    values = jnp.linalg.eigvalsh(data @ data.T / EXAMPLES)
    slowest = values[-min(data.shape)] / values[-1]
    fitted = data @ jnp.linalg.lstsq(data, labels())[0] if excess else labels()
    minimum = jnp.sum((fitted - labels()) ** 2) / (2 * EXAMPLES)
    curve = descend(sse, data, _SSE_STEPS + 1) - minimum
    stated = -2 * jnp.log1p(-slowest)
    measured = jnp.log(curve[0] / jnp.maximum(curve[-1], _ROUNDED)) / _SSE_STEPS
    # Data on which the stated rate ends in rounding cannot tell.
    tells = stated < jnp.log(curve[0] / _ROUNDED) / _SSE_STEPS
    return jnp.where(tells, stated, 0.0), measured


@cache
def sse_against_its_rate(features: int, excess: bool) -> Found:
    """Search for data on which SSE falls more slowly than by (1 - λmin/λmax)² a step.

    λ are the eigenvalues of the data's second moment that are not zero; `excess` measures SSE from
    its minimum instead of from 0.
    """
    sides = partial(_stated_and_measured, excess=excess)
    # Where the labels cannot be fitted there is no need to climb.
    steps = 150 if features >= EXAMPLES else 0
    return search(sides, normal(EXAMPLES, features), cases=256, climbers=8, steps=steps)


_DESCENT = f"{{}}, each of {_SSE_STEPS} steps of gradient descent"


@stated("Section 4.2", refuted_by="Data on which it falls more slowly.")
def sse_exponential(features: int = FEATURES) -> Outcome:
    """On a linear model with more features than examples, SSE falls exponentially to 0:
    by a factor (1 - λmin/λmax)² a step.
    """
    found = sse_against_its_rate(features, excess=False)
    return judge(
        found,
        looked=_DESCENT,
        finding=(
            f"The stated rate comes to at most {found.ratio:.4f} of the rate measured over "
            f"{_SSE_STEPS} steps."
        ),
    )


@stated(
    "Section 4.2, with fewer features than examples",
    refuted_by="Data on which it does not.",
    instead="It falls exponentially to its minimum.",
    ours=True,
)
def sse_to_zero() -> Outcome:
    """On any linear model SSE falls exponentially to 0."""
    found = sse_against_its_rate(FEW_FEATURES, excess=False)
    corrected = sse_against_its_rate(FEW_FEATURES, excess=True)
    return judge(
        found,
        looked=_DESCENT,
        corrected=corrected.worst,
        finding=(
            f"With {FEW_FEATURES} features for {EXAMPLES} examples the stated rate is up to "
            f"{found.ratio:.3g} times the measured one; for the distance from SSE's minimum "
            f"it comes to at most {corrected.ratio:.4f} of it."
        ),
    )


@stated("Section 4.2", refuted_by="Data on which it falls like another power.")
def cross_entropy_rate(exponent: float = -1.0) -> Outcome:
    """On separable data the cross-entropy of a linear model falls like 1/t."""
    data = np.random.default_rng(0).normal(size=(_DATA_SETS, EXAMPLES, FEATURES))
    curves = in_double(jax.vmap(lambda x: descend(cross_entropy, x, _TO + 1)))(data)
    measured = np.log(curves[:, _TO] / curves[:, _FROM]) / np.log(_TO / _FROM)
    return Outcome(
        worst=float(np.max(np.abs(measured - exponent))) - _MEASURED,
        looked=(
            f"{_DATA_SETS} random separable data sets, exponents measured between steps "
            f"{_FROM:,} and {_TO:,}"
        ),
        finding=(
            f"Cross-entropy falls like t to a power between {measured.min():.3f} and "
            f"{measured.max():.3f}."
        ),
        tolerance=0.0,
    )


def curves(steps: int) -> dict[str, np.ndarray]:
    """Return loss by step for SSE with many and few features, and for cross-entropy."""
    rng = np.random.default_rng(0)
    many, few = rng.normal(size=(EXAMPLES, FEATURES)), rng.normal(size=(EXAMPLES, FEW_FEATURES))

    def all_three(many: Array, few: Array) -> dict[str, Array]:
        return {
            "SSE": descend(sse, many, steps),
            "SSE, too few features": descend(sse, few, steps),
            "cross-entropy": descend(cross_entropy, many, steps),
        }

    return in_double(all_three)(many, few)
