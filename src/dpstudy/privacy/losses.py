"""Privacy losses as dp-accounting has them, to the last bit, all points of a grid at once.

The library goes from point to point, in Python: most of the time that an epsilon takes.
"""

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from jaxtyping import Float

# How close to the end of its range the library takes a loss to be at it.
_AT_THE_END = 1e-9
# From here on exp(-loss) loses digits, and numpy may round it otherwise than the library does.
_LARGE = 700.0


def gaussian(
    sigma: float, interval: float, q: float = 1.0, rarest: float = -50.0
) -> pld.PrivacyLossDistribution:
    """Return what `from_gaussian_mechanism` does, to the last bit.

    Of a noise multiplier, the interval that losses are rounded up to, a sampling probability, and
    the logarithm of the probability that may be left out.
    """

    def pmf(adjacency: AdjacencyType) -> pld_pmf.PLDPmf:
        loss = GaussianPrivacyLoss(
            sigma,
            log_mass_truncation_bound=rarest,
            sampling_prob=q,
            adjacency_type=adjacency,
        )
        bounds = loss.connect_dots_bounds()
        low = math.floor(bounds.epsilon_lower / interval)
        high = math.ceil(bounds.epsilon_upper / interval)
        deltas = _deltas(loss, sigma, np.arange(low, high + 1) * interval)
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, deltas)

    removed = pmf(AdjacencyType.REMOVE)
    if q == 1:
        return pld.PrivacyLossDistribution(removed)
    return pld.PrivacyLossDistribution(removed, pmf(AdjacencyType.ADD))


def _deltas(
    loss: GaussianPrivacyLoss, sigma: float, epsilons: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return the delta of each epsilon, as `get_delta_for_epsilon` does."""
    q, removed = loss.sampling_prob, loss.adjacency_type is AdjacencyType.REMOVE
    signed = epsilons if removed else -epsilons
    # From a loss of log(1 - q) on the inverse is known; with the example added, so is delta, 0.
    within = signed > math.log1p(-q) if q < 1 else np.full(len(epsilons), True)
    deltas = np.zeros(len(epsilons))
    if removed:
        deltas[~within] = -np.expm1(epsilons[~within])
    shift = _unsampled(signed[within], q) * sigma**2
    at = -0.5 - shift if removed else 1 + (-0.5 + shift)
    below = np.exp(epsilons[within] + loss.mu_lower_log_cdf(at))
    deltas[within] = loss.mu_upper_cdf(at) - below
    return np.clip(deltas, 0, 1)


def _unsampled(losses: Float[np.ndarray, " n"], q: float) -> Float[np.ndarray, " n"]:
    """Return log(1 + (exp(loss) - 1) / q), the loss where the example is in the batch for sure."""
    if q == 1:
        return losses
    least, rest, above = math.log(1 - q), np.log(1 / q - 1), losses + np.log(1 / q)
    gap = np.minimum(rest - above, 0)
    with np.errstate(divide="ignore"):
        found = np.where(losses == 0, np.log(1 / q + (1 - 1 / q)), above + np.log1p(-np.exp(gap)))
    far = _AT_THE_END * np.maximum(np.abs(losses), abs(least))
    return np.where(np.abs(losses - least) <= far, -np.inf, found)


def epsilon(loss: pld.PrivacyLossDistribution, delta: float) -> float:
    """Return what `loss.get_epsilon_for_delta` does."""
    return max(_epsilon(pmf, delta) for pmf in {loss._pmf_remove, loss._pmf_add})


def _epsilon(pmf: pld_pmf.PLDPmf, delta: float) -> float:
    if pmf._infinity_mass > delta:
        return math.inf
    if not isinstance(pmf, pld_pmf.DensePLDPmf):
        return float(pmf.get_epsilon_for_delta(delta))
    probabilities = pmf._probs[::-1]
    losses = np.full(pmf.size, -pmf._discretization)
    losses[0] = (pmf._lower_loss + pmf.size - 1) * pmf._discretization
    losses = np.cumsum(losses)  # the library adds them up too
    if losses[0] > _LARGE:
        return float(pmf.get_epsilon_for_delta(delta))
    # What lies above each loss, first the infinite one: with the example, and without it.
    more = np.cumsum(np.concatenate([[pmf._infinity_mass], probabilities]))
    with np.errstate(all="ignore"):
        less = np.cumsum(np.exp(-losses) * probabilities)
        beyond = np.log((more[1:-1] - delta) / less[:-1]) >= losses[1:]
    found = (more[1:-1] > delta) & (less[:-1] > 0) & beyond
    count = int(np.argmax(found)) + 1 if found.any() else pmf.size
    # With the library's exponentials, whose last digit may be another.
    exact = np.array(list(map(math.exp, (-losses[:count]).tolist()))) * probabilities[:count]
    above, below = more[count], np.cumsum(exact)[-1]
    return 0.0 if above <= below + delta else math.log((above - delta) / below)
