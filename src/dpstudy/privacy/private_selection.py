"""Private selection: the best of a random number of trials, and what releasing it costs.

K is drawn first, from a law that nobody has looked at data for; K trials are trained, each with
noise of its own and with settings drawn from a list that was fixed before; the best by its score is
released, and nothing else: neither K nor what the other trials came to. The score is computed on
public data, or on the private data within the ε of a trial, or on held-out data whose use is
accounted for as well. A fixed number of trials has no such bound: it costs what composing all of
them does, k ε in the worst case.

Laws of K, by their mean m (Definition 1 of "Hyperparameter Tuning with Renyi Differential Privacy",
ICLR 2022, arXiv 2110.03620), of which the first two are truncated negative binomials of shape η:

- "logarithmic", η = 0: the cheapest, with the heaviest tail: mostly few trials, now and then many.
- "geometric", η = 1.
- "poisson", η = ∞: near its mean, and at times no trial at all, with nothing to release. It costs
  about m times what one trial may change the odds by: for means of two or three.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import dp_accounting
import numpy as np
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from jaxtyping import Float
from scipy import optimize

from dpstudy.errors import UserError, check_known

# By name, the shape η of the truncated negative binomial whose limit the law is.
LAWS = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}
# Beyond so many in the mean nobody trains, and numbers near 1 lose their digits.
MOST_TRIALS = 1e6


@dataclass(frozen=True)
class Trials:
    """A law of the number of trials.

    >>> trials = Trials(10, "geometric")
    >>> round(trials.chance_of_trying(1 / 10), 2)  # the best of ten settings
    0.53

    Attributes:
        mean: of the number of trials, at least 1.
        law: of `LAWS`.

    Raises:
        UserError: an unknown law, or a mean out of range.
    """

    mean: float
    law: str = "logarithmic"

    def __post_init__(self) -> None:
        check_known("law of the number of trials", self.law, LAWS)
        if not 1 <= self.mean <= MOST_TRIALS:
            raise UserError(
                f"the mean number of trials must be from 1 to {MOST_TRIALS:,.0f}, got {self.mean}"
            )

    @cached_property
    def stop(self) -> float:
        """γ in (0, 1], with which the truncated laws have their mean, to 1e-12 and no larger."""
        if self.law == "geometric" or self.mean == 1:
            return 1 / self.mean
        # The mean of the logarithmic law is (1/γ - 1) / log(1/γ), with 1/γ = exp(x) as follows.
        x = optimize.brentq(lambda x: math.expm1(x) / x - self.mean, 1e-12, 40.0, xtol=1e-13)
        return math.exp(-x) * (1 - 1e-12)

    def chance_of_trying(self, share: float | np.ndarray) -> float | np.ndarray:
        """Return how likely one of some settings is tried, which are a share of the list.

        Settings are drawn evenly and independently, as the bounds ask for: some come up twice. It
        is 1 - f(1 - share), f being the generating function of K, and so the chance that the best
        is above a score that one trial exceeds with a chance of `share`.
        """
        if self.law == "poisson":
            return -np.expm1(-self.mean * share)
        if self.mean == 1:
            return share
        # What is left of 1 - (1 - γ)(1 - share), over γ.
        times = 1 + (1 / self.stop - 1) * share
        if self.law == "geometric":
            return share / self.stop / times
        return -np.log(times) / math.log(self.stop)

    def chance_of_rank(self, settings: int) -> Float[np.ndarray, " settings"]:
        """Return how likely each of a list of settings is what is released, from the best on.

        The rest to 1 is the chance that there is no trial at all.

        >>> chances = Trials(3, "geometric").chance_of_rank(3)
        >>> [round(float(chance), 2) for chance in chances]
        [0.6, 0.26, 0.14]
        """
        return np.diff(self.chance_of_trying(np.arange(settings + 1) / settings))

    def draw(self, rng: np.random.Generator) -> int:
        """Draw the number of trials; of NumPy's generator, which is not cryptographic."""
        if self.law == "poisson":
            return int(rng.poisson(self.mean))
        if self.mean == 1:
            return 1
        draw = rng.geometric if self.law == "geometric" else rng.logseries
        return int(draw(self.stop if self.law == "geometric" else 1 - self.stop))


def by_divergence(trials: Trials, one: dp_accounting.DpEvent, delta: float) -> float:
    """Return the ε of releasing the best, by the Rényi divergence of one trial.

    Theorems 2 and 6 of "Hyperparameter Tuning with Renyi Differential Privacy", as dp-accounting
    has them.

    >>> one = dp_accounting.GaussianDpEvent(4.0)
    >>> round(by_divergence(Trials(10), one, 1e-5), 2)
    1.78

    Args:
        trials: how many are drawn.
        one: a trial, as dp-accounting has it.
        delta: of the best, in (0, 1).
    """
    event = RepeatAndSelectDpEvent(one, trials.mean, LAWS[trials.law])
    return float(RdpAccountant().compose(event).get_epsilon(delta))


def by_profile(
    trials: Trials, epsilon: Callable[[float], float], delta: Callable[[float], float], at: float
) -> float:
    """Return the ε at a δ of releasing the best, by the privacy profile of one trial.

    For the truncated laws (after "Privacy Profiles for Private Selection", ICML 2024,
    arXiv 2402.06701). Let p be the chance that a trial comes out better than what is released, and
    p' that on the neighbouring data. With f the generating function of K, the best has the density
    of one trial times f'(1 - p) = m (γ / (γ + (1 - γ) p))^(1 + η) ≤ m. So the best's δ at
    ε + (1 + η) log R is at most m times one trial's δ at ε, R being the largest ratio of
    γ + (1 - γ) p' to γ + (1 - γ) p. For any e, p' ≤ min(1, p exp(e) + δ(e)). In p the ratio is
    monotone until p' is 1, and falls from there: R is at most the larger of 1 + (1 - γ) δ(e) / γ,
    at p = 0, and 1 / (γ + (1 - γ) (1 - δ(e)) exp(-e)), where p' becomes 1. The best e is searched.

    Args:
        trials: of a truncated law.
        epsilon: from a δ to an ε of one trial.
        delta: from an ε to a δ of one trial, for either neighbour as the first.
        at: δ of the best.
    """
    stop, one = trials.stop, epsilon(at / trials.mean)
    if math.isinf(one):
        return one

    def ratio(e: float) -> float:
        lost = min(delta(e), 1.0)
        return max(
            1 + (1 - stop) * lost / stop, 1 / (stop + (1 - stop) * (1 - lost) * math.exp(-e))
        )

    found = optimize.minimize_scalar(
        ratio, bounds=(0.0, max(one, 1e-6)), method="bounded", options={"xatol": 1e-4}
    )
    return one + (1 + LAWS[trials.law]) * math.log(found.fun)


def by_poisson(
    mean: float,
    orders: Float[np.ndarray, " orders"],
    divergence: Float[np.ndarray, " orders"],
    delta: Callable[[float], float],
    at: float,
) -> float:
    """Return the ε at a δ of the best of a Poisson number of trials.

    Theorem 6 of "Hyperparameter Tuning with Renyi Differential Privacy": the divergence of order α
    grows by m δ(log(α / (α - 1))) + log(m) / (α - 1). `by_divergence` takes that δ from the
    divergences; here it may be a smaller one.

    Args:
        mean: m, of the number of trials.
        orders: α, above 1.
        divergence: of one trial, by order.
        delta: from an ε to a δ of one trial.
        at: δ of the best.
    """
    lost = np.array([delta(math.log1p(1 / (order - 1))) for order in orders])
    selected = divergence + mean * lost + math.log(mean) / (orders - 1)
    return float(dp_accounting.rdp.compute_epsilon(orders, selected, at)[0])
