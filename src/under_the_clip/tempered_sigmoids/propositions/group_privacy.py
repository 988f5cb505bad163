"""Several records a person: what a guarantee for one record becomes for k of them.

From a dataset to one that differs in k records are k steps. For each, Pr[A(D) in S] is at most
e^ε Pr[A(D') in S] + δ; one after the other, that makes kε, and δ times 1 + e^ε + ... +
e^((k - 1) ε). With δ = 0, of which the paper speaks, kε is all. With δ > 0, as in all of its
results, δ grows with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize

from dpstudy.privacy.conversions import gdp_delta
from dpstudy.propositions.proposition import Outcome, proposition, stated_in

if TYPE_CHECKING:
    from jaxtyping import Float

stated = partial(proposition, "papernot2021tempered")
_CHAINS, _OUTPUTS = 4_000, 6
_MOST_RECORDS = 8
# A chain whose steps change nothing has no loss to compare.
_NOTHING = 1e-9
# About what the paper quotes, to show what becomes of it.
_EPSILON, _DELTA = 3.0, 1e-5


@stated("text after Eq. 1", refuted_by="A mechanism whose loss over k records is larger.")
def group_privacy_pure(factor: float = 1.0) -> Outcome:
    """What is ε-private for one record is kε-private for whoever has k of them.

    Args:
        factor: the statement is that the loss is at most so many times kε.
    """
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
    """What is (ε, δ)-private for one record is (kε, δ)-private for k of them.

    Args:
        growth: by what δ is said to grow, by epsilon and k.
    """
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


STATEMENTS = stated_in(globals())
