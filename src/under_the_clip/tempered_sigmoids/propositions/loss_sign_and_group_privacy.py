"""Tempered sigmoids: two statements of its text, on a loss of several classes and on groups.

Before Eq. 5 the loss is printed without a minus. After Eq. 1, each of k records multiplies by e^ε
and adds δ: kε, and δ times 1 + e^ε + ... + e^((k - 1) ε).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize

from dpstudy.privacy.conversions import gdp_delta
from dpstudy.propositions.proposition import Outcome, proposition
from dpstudy.propositions.search import searched
from under_the_clip.tempered_sigmoids.propositions.gradient_norms import multiclass_loss

Loss = Callable[[Array, Array, Array], Array]
"""From theta, z and T to a loss, class 0 being right."""

stated = partial(proposition, "papernot2021tempered")
_CLASSES, _FEATURES = 3, 3
_TINY = 1e-300


def _draw(rng: np.random.Generator, n: int) -> Any:
    theta = rng.normal(size=(n, _CLASSES, _FEATURES))
    return theta, rng.normal(size=(n, _FEATURES)), 3 * rng.normal(size=n)


@searched(_draw, climbers=4)
def furthest_below_zero(case: Any, loss: Loss) -> tuple[Array, Array]:
    """Search for the most negative loss."""
    return -loss(*case), jnp.ones(())


@searched(_draw, steps=0)
def wrong_way(case: Any, loss: Loss) -> tuple[Array, Array]:
    """Search for the largest cosine of the gradients of the loss and of the class' log share."""
    ours, share = jax.grad(loss)(*case), -jax.grad(multiclass_loss)(*case)
    return jnp.sum(ours * share), jnp.linalg.norm(ours) * jnp.linalg.norm(share) + _TINY


@stated(
    "text before Eq. 5, as printed",
    refuted_by="T, z, θ where it is negative, or where descent leads away from the class.",
    instead="Minus that logarithm is, and minus Eq. 5 its gradient.",
    misprint=True,
)
def multiclass_loss_sign(loss: Loss = lambda *case: -multiclass_loss(*case)) -> Outcome:
    """ln of the right class' tempered softmax is a loss: at least 0, and descent on it
    makes that class likelier.
    """
    below, away = furthest_below_zero(loss), wrong_way(loss)
    mended = furthest_below_zero(multiclass_loss), wrong_way(multiclass_loss)
    return Outcome(
        worst=max(below.ratio, away.ratio),
        corrected=max(found.ratio for found in mended),
        looked=f"below 0: {below.looked}; descent: {away.looked}, for {_CLASSES} classes",
        finding=(
            f"The printed loss falls to {-below.ratio:.4g} and further the longer it is climbed; "
            f"the cosine between it and the right class' share is {away.ratio:.3f}, so that "
            f"descent leads away from that class. With a minus in front it is {mended[1].ratio:.3f}"
            ". Eq. 5 is the gradient of what is printed; no norm depends on the sign."
        ),
    )


_CHAINS, _OUTPUTS = 4_000, 6
_MOST_RECORDS = 8
# A chain whose steps change nothing has no loss to compare.
_NOTHING = 1e-9
# About what the paper quotes, to show what becomes of it.
_EPSILON, _DELTA = 3.0, 1e-5


@stated("text after Eq. 1", refuted_by="A mechanism whose loss over k records is larger.")
def group_privacy_pure(factor: float = 1.0) -> Outcome:
    """What is ε-private for one record is kε-private for whoever has k of them."""
    rng = np.random.default_rng(0)
    worst, tightness = -np.inf, 0.0
    for records in range(2, _MOST_RECORDS + 1):
        start = np.log(rng.dirichlet(np.full(_OUTPUTS, 0.3), _CHAINS) + 1e-12)
        tilt = rng.uniform(-1, 1, (_CHAINS, records, _OUTPUTS))
        # Half of the chains go on as they began: so a loss adds up.
        tilt[::2] = np.sign(tilt[::2, :1])
        tilt *= rng.uniform(0.05, 3, (_CHAINS, 1, 1))
        logs = np.concatenate([start[:, None], start[:, None] + np.cumsum(tilt, axis=1)], axis=1)
        logs -= np.logaddexp.reduce(logs, axis=-1, keepdims=True)
        epsilon = np.abs(np.diff(logs, axis=1)).max(axis=(1, 2))
        loss = np.abs(logs[:, -1] - logs[:, 0]).max(axis=1)
        worst = max(worst, float((loss - factor * records * epsilon).max()))
        reached = loss / np.maximum(factor * records * epsilon, _NOTHING)
        tightness = max(tightness, float(reached.max()))
    return Outcome(
        worst=worst,
        tightness=tightness,
        looked=f"{(_MOST_RECORDS - 1) * _CHAINS:,} chains of 2 to {_MOST_RECORDS} random steps",
        finding=f"The loss comes to {tightness:.3f} of k times that of the worst step.",
    )


def geometric(epsilon: Float[np.ndarray, "..."], records: Any) -> Float[np.ndarray, "..."]:
    """Return 1 + e^ε + ... + e^((k - 1) ε): by what δ grows for k records."""
    return np.expm1(records * epsilon) / np.expm1(epsilon)


@stated(
    "text after Eq. 1, read for its results, which have δ > 0",
    refuted_by="A Gaussian mechanism with a larger δ at kε.",
    instead="It is (kε, δ (e^(kε) - 1) / (e^ε - 1))-private.",
)
def group_privacy(growth: Callable[[Any, Any], Any] = lambda epsilon, records: 1) -> Outcome:
    """What is (ε, δ)-private for one record is (kε, δ)-private for k of them."""
    epsilon, shift, records = np.meshgrid(
        np.geomspace(0.05, 8, 40),
        np.geomspace(0.05, 5, 60),
        np.arange(2, _MOST_RECORDS + 1),
        indexing="ij",
    )
    one = gdp_delta(shift, epsilon)
    several = gdp_delta(records * shift, records * epsilon)
    # Below that there is nothing left of the difference that it is computed as.
    known = (one > 1e-12) & (several > 1e-12)
    excess = (several - one * growth(epsilon, records))[known]
    corrected = (several - one * geometric(epsilon, records))[known]
    stated = optimize.brentq(lambda shift: gdp_delta(shift, _EPSILON) - _DELTA, 0.01, 5)
    said = ", and ".join(
        f"{k} records have δ = {gdp_delta(k * stated, k * _EPSILON):.1e} at ε = {k * _EPSILON:g}"
        for k in (2, 5)
    )
    return Outcome(
        worst=float(excess.max()),
        corrected=float(corrected.max()),
        looked=(
            f"the Gaussian mechanism at {int(known.sum()):,} settings of ε, noise, and 2 to "
            f"{_MOST_RECORDS} records"
        ),
        finding=(
            f"With noise that gives ε = {_EPSILON:g} at δ = {_DELTA:.1e} for one record, {said}."
        ),
    )
