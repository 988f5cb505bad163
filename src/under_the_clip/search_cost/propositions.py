"""The best of k trials, released as if it were one; and what a random number of trials costs.

A trial is here the score that it releases, a Gaussian that an example moves, or one of a few
outcomes in order. The best is not above y if no trial is.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import optimize, stats

from dpstudy.privacy.conversions import gdp_delta, gdp_epsilon
from dpstudy.privacy.private_selection import LAWS, Trials, by_profile
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import search_box, searched
from under_the_clip.designs import EPSILON
from under_the_clip.published import DELTA

stated = partial(proposition, "papernot2022hyperparameter")

TRIALS, _OUTCOMES = 10, 4
_TINY = 1e-12


def _draw(rng: np.random.Generator, n: int) -> Any:
    return {"one": rng.normal(size=(n, _OUTCOMES)), "tilt": rng.normal(size=(n, _OUTCOMES))}


def _log_of_best(logs: Float[Array, " outcomes"], trials: int) -> Float[Array, " outcomes"]:
    """Return the logarithms of the chances of the best's outcomes, from one trial's, in order."""
    below = jnp.cumsum(jnp.exp(logs - jax.nn.logsumexp(logs)))
    return jnp.log(jnp.diff(below**trials, prepend=0.0) + _TINY**3)


@searched(_draw, climbers=8, steps=600)
def most_lost(case: Any, trials: int) -> tuple[Array, Array]:
    """Search for outcomes of which the best of some trials loses most, over what one loses."""
    pair = case["one"], case["one"] + case["tilt"]
    one, other = (logs - jax.nn.logsumexp(logs) for logs in pair)
    best = _log_of_best(one, trials) - _log_of_best(other, trials)
    return jnp.max(jnp.abs(best)), jnp.max(jnp.abs(one - other)) + _TINY


def noise_for(epsilon: float) -> float:
    """Return the noise of a released score that an example moves by 1, for an ε at `DELTA`."""
    return float(optimize.brentq(lambda s: gdp_epsilon(1 / s, DELTA) - epsilon, 0.05, 100))


def least_of_best(sigma: float, trials: int) -> float:
    """Return an ε that the best of so many noisy scores is proven to lose at `DELTA`, at least.

    The events are "no score is above t": with the example a score has mean 0, without it 1, or the
    other way round. Each bounds δ from below by its chance minus exp(ε) times the other's.
    """
    at = np.linspace(-8 * sigma, 1 + 8 * sigma, 20_001)
    low, high = (stats.norm.logcdf(at, mean, sigma) for mean in (1.0, 0.0))
    pairs = [(trials * high, trials * low)]
    # The complements, of the other mean.
    pairs += [tuple(np.log(-np.expm1(trials * one) + 1e-300) for one in (low, high))]
    shown = []
    for likely, rare in pairs:
        enough = likely > math.log(DELTA) + 1e-9
        # ε = log((P - δ) / Q), at each t.
        shown.append((np.log(np.exp(likely[enough]) - DELTA) - rare[enough]).max())
    return float(max(shown))


@stated(
    "asked of all four papers: what they release, and the ε that they state",
    refuted_by="A trial whose best of ten loses more.",
    instead=f"{TRIALS} ε, as composing the {TRIALS} trials has it; some mechanism loses all of it.",
    ours=True,
)
def best_of_trials(bound: float = 1.0) -> Outcome:
    """The best of ten trials, each ε-private, is ε-private."""
    found, sigma = most_lost(TRIALS), noise_for(EPSILON)
    return judge(
        found,
        bound=bound,
        corrected=found.ratio - TRIALS,
        looked=f"{{}}, of trials with {_OUTCOMES} outcomes in order",
        finding=(
            f"The best of {TRIALS} loses up to {found.ratio:.4f} times what one does: where the "
            "worst outcome is the likely one with an example, and not without it, that all trials "
            f"show it tells as much as {TRIALS} answers. Of {TRIALS} noisy scores, each with ε = "
            f"{EPSILON:g} at δ = {DELTA:g}, the best alone has an ε of at least "
            f"{least_of_best(sigma, TRIALS):.4f}."
        ),
    )


# --- a random number of trials ------------------------------------------------------------------

_TRUNCATED = [law for law, shape in LAWS.items() if math.isfinite(shape)]
_SCORES = np.linspace(-14, 20, 6_001)


def _log_density(trials: Trials, mean: float) -> np.ndarray:
    """Return the best's log density over `_SCORES`, of scores with noise of deviation 1."""
    above = stats.norm.sf(_SCORES, mean)
    denser = math.log(trials.mean) + (1 + LAWS[trials.law]) * (
        math.log(trials.stop) - np.log(trials.stop + (1 - trials.stop) * above)
    )
    return stats.norm.logpdf(_SCORES, mean) + denser


def divergence_of_best(trials: Trials, apart: float, order: float) -> float:
    """Return the Rényi divergence of the best of scores, the larger way round, by its integral."""
    pair = _log_density(trials, 0.0), _log_density(trials, apart)
    step = _SCORES[1] - _SCORES[0]
    sums = []
    for p, q in (pair, pair[::-1]):
        logs = order * p + (1 - order) * q
        sums.append(logs.max() + math.log(np.exp(logs - logs.max()).sum() * step))
    return max(sums) / (order - 1)


def theorem_2(trials: Trials, apart: float, order: float, other: float) -> float:
    """Return the theorem's bound, of orders α and α̂, for a score that an example moves by `apart`.

    Its divergence of order α is α apart² / 2.
    """
    one, hat = (of * apart**2 / 2 for of in (order, other))
    more = (1 - 1 / other) * hat + math.log(1 / trials.stop) / other
    return one + (1 + LAWS[trials.law]) * more + math.log(trials.mean) / (order - 1)


def _for_both(sides: Callable[..., tuple[float, float]], box: Any, **options: int) -> list[Any]:
    return [search_box(partial(sides, law=law), box, **options) for law in _TRUNCATED]


# An order too large for the scores' range would be integrated beyond it.
_BOX = {"mean": (2.0, 300.0), "apart": (0.02, 2.0), "order": (1.05, 6.0), "other": (1.0, 60.0)}


@stated("Theorem 2", refuted_by="A best whose divergence is larger.", ours=True)
def selection_by_divergence(bound: Callable[..., float] = theorem_2) -> Outcome:
    """The best of K trials has a Rényi divergence of order α of at most
    D(α) + (1 + η) ((1 - 1/α̂) D(α̂) + log(1/γ)/α̂) + log(E[K])/(α - 1), D being that of one trial
    and K a truncated negative binomial.
    """

    def sides(
        mean: float, apart: float, order: float, other: float, law: str
    ) -> tuple[float, float]:
        trials = Trials(mean, law)
        return divergence_of_best(trials, apart, order), bound(trials, apart, order, other)

    found = _for_both(sides, _BOX, cases=250, refinements=80)
    most = [f"{one.ratio:.4f} ({law})" for one, law in zip(found, _TRUNCATED, strict=True)]
    return judge(
        *found,
        bound=1.0,
        looked="{}, each, of noisy scores",
        finding=f"The best's divergence, integrated, comes to {' and '.join(most)} of the bound.",
        tolerance=1e-6,
    )


def epsilon_of_best(trials: Trials, apart: float, delta: float) -> float:
    """Return the ε at a δ of the best of scores with noise of deviation 1, by integration."""
    pair = _log_density(trials, 0.0), _log_density(trials, apart)
    step = _SCORES[1] - _SCORES[0]

    def excess(epsilon: float) -> float:
        ways = [
            np.exp(p) @ np.maximum(-np.expm1(epsilon + q - p), 0) for p, q in (pair, pair[::-1])
        ]
        return step * max(ways) - delta

    return float(optimize.brentq(excess, 0.0, 100.0, xtol=1e-9)) if excess(0.0) > 0 else 0.0


def profile_bound(trials: Trials, apart: float, delta: float) -> float:
    """Return the bound of `private_selection.by_profile` for the best of such scores."""
    of_one = partial(gdp_epsilon, apart), partial(gdp_delta, apart)
    return by_profile(trials, *of_one, delta)


@proposition(
    "koskela2024privacy",
    "its bound for tuning, in the form that this study uses",
    refuted_by="A best that loses more.",
    ours=True,
)
def selection_by_profile(bound: Callable[..., float] = profile_bound) -> Outcome:
    """The best of K trials has a δ at ε + (1 + η) log R of at most E[K] times one trial's at ε, R
    bounding how much likelier an example makes it that K trials hold a better one.
    """

    def sides(mean: float, apart: float, delta: float, law: str) -> tuple[float, float]:
        trials = Trials(mean, law)
        return epsilon_of_best(trials, apart, delta), bound(trials, apart, delta)

    box = {"mean": (2.0, 300.0), "apart": (0.05, 3.0), "delta": (1e-8, 1e-2)}
    found = _for_both(sides, box, cases=60, refinements=40)
    most = [f"{one.ratio:.4f} ({law})" for one, law in zip(found, _TRUNCATED, strict=True)]
    return judge(
        *found,
        bound=1.0,
        looked="{}, each, of noisy scores",
        finding=f"The best's ε, integrated, comes to {' and '.join(most)} of the bound.",
        tolerance=1e-6,
    )
