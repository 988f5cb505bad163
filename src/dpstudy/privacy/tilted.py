"""Epsilon where delta is so small that a plain composition of privacy losses has no answer.

Losses compose by Fourier transforms, whose errors are small next to 1, not next to a probability.
So the losses are tilted first (Esscher 1932): a loss l of probability p gets p exp(t l) / M, where
M is the sum of p exp(t l) over all of them. Tilted losses compose like others, and those of T steps
are tilted back by M^T exp(-t l). With a tilt t that suits delta the errors come out in proportion
to M^T exp(-t epsilon), Chernoff's bound on the probability of losses above epsilon, and not many
times delta. They are added to the delta of an upper bound and taken off that of a lower one.
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from jaxtyping import Float
from scipy import optimize, signal, special

# By how much a transform may get delta wrong, a step: over three times the largest error that was
# found, against transforms of extended precision, at up to a million steps.
_ROUNDING = 4 * float(np.finfo(float).eps)
# The probability of what is cut off before a transform, or wraps around in it.
_CUT_OFF = 1e-15

# Logarithms of the tilts per interval that are tried: beyond, two neighbouring losses already
# differ by more than double precision tells apart.
_TILTS = (-25.0, 4.0)
_PRECISION = 1e-10
_LARGEST_EXPONENT = 700.0

# Privacy losses on one grid, and how many times each is composed.
Parts = Sequence[tuple[pld.PrivacyLossDistribution, int]]


def error_of(steps: int) -> float:
    """Return by how much delta may be wrong where losses that are not tilted are composed."""
    return _CUT_OFF + _ROUNDING * steps if steps > 1 else 0.0


def upper_epsilon(parts: Parts, delta: float) -> float:
    """Return an epsilon that is at least that of losses, each rounded up, composed; maybe inf."""
    return max(_Composed(losses, delta).bracket(1)[1] for losses in _directions(parts))


def lower_epsilon(parts: Parts, delta: float) -> float:
    """Return an epsilon that is at most that of losses, each rounded down; as `upper_epsilon`."""
    return max(_Composed(losses, delta).bracket(-1)[0] for losses in _directions(parts))


class _Losses:
    """Losses for one of a pair of neighbours, in intervals, and how many times they compose."""

    def __init__(self, pmf: pld.pld_pmf.DensePLDPmf, times: int):
        self.times, self.interval, self.infinite = times, pmf._discretization, pmf._infinity_mass
        self._lowest = pmf._lower_loss
        self._values = self._lowest + np.arange(len(pmf._probs), dtype=float)
        with np.errstate(divide="ignore"):  # where there is no probability
            self._logarithms = np.log(np.maximum(pmf._probs, 0))

    def log_moment(self, tilt: float) -> float:
        return float(special.logsumexp(tilt * self._values + self._logarithms))

    def composed(self, tilt: float) -> tuple[int, Float[np.ndarray, " losses"]]:
        """Return the lowest tilted loss after all times, and the probabilities from there on."""
        tilted = np.exp(tilt * self._values + self._logarithms - self.log_moment(tilt))
        if self.times == 1:
            return self._lowest, tilted
        with np.errstate(over="ignore"):  # in a bound of what to cut off, which is left out then
            above, composed = common.self_convolve(tilted, self.times, _CUT_OFF)
        return self.times * self._lowest + above, np.asarray(composed)


def _directions(parts: Parts) -> Iterable[list[_Losses]]:
    """Return the losses of an example removed, and of one added where those are others."""
    symmetric = all(losses._symmetric for losses, _ in parts)
    for name in ("_pmf_remove",) if symmetric else ("_pmf_remove", "_pmf_add"):
        yield [_Losses(getattr(losses, name).to_dense_pmf(), times) for losses, times in parts]


class _Composed:
    """Losses for one of a pair of neighbours, tilted as suits delta, and composed."""

    def __init__(self, parts: list[_Losses], delta: float):
        self._delta = delta
        self._interval = parts[0].interval
        self._tilt = tilt = _tilt_for(parts, delta)
        self._log_moment = sum(part.times * part.log_moment(tilt) for part in parts)
        composed = [part.composed(tilt) for part in parts]
        self._lowest = sum(lowest for lowest, _ in composed)
        self._probabilities = reduce(signal.fftconvolve, [losses for _, losses in composed])
        self._infinite = -math.expm1(sum(part.times * math.log1p(-part.infinite) for part in parts))
        self._error = error_of(sum(part.times for part in parts))

    def bracket(self, sign: int) -> tuple[float, float]:
        """Return epsilons with more and with at most delta, the errors having that sign.

        (0, 0) where no epsilon is needed, and an infinite end where none is enough.
        """
        high = max((self._log_moment - math.log(self._delta)) / self._tilt, 0.0)
        if self._excess(high, sign) > 0:
            return high * self._interval, math.inf
        stride = 1e-3 * high
        low = max(high - stride, 0.0)
        while self._excess(low, sign) <= 0:
            if low == 0:
                return 0.0, 0.0
            high, stride = low, 2 * stride
            low = max(high - stride, 0.0)
        while high - low > _PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._excess(middle, sign) > 0 else (low, middle)
        return low * self._interval, high * self._interval

    def _excess(self, epsilon: float, sign: int) -> float:
        """Return by how much delta is exceeded at an epsilon, which is in intervals."""
        first = max(math.floor(epsilon) + 1 - self._lowest, 0)
        losses = self._lowest + np.arange(first, len(self._probabilities), dtype=float)
        beyond = -np.expm1(self._interval * (epsilon - losses)) * self._back(losses)
        finite = float(np.dot(beyond, self._probabilities[first:]))
        error = sign * self._error * float(self._back(epsilon))
        return self._infinite + finite + error - self._delta

    def _back(self, losses: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "..."]:
        """Return what tilts back, at most what exp gives: less than that is above every delta."""
        return np.exp(np.minimum(self._log_moment - self._tilt * losses, _LARGEST_EXPONENT))


def _tilt_for(parts: list[_Losses], delta: float) -> float:
    """Return the tilt, per interval, by which the Renyi divergence gives the least epsilon."""

    def epsilon(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        order = tilt / parts[0].interval + 1
        moment = sum(part.times * part.log_moment(tilt) for part in parts)
        # Canonne, Kamath & Steinke 2020, Proposition 12.
        return (moment - math.log(delta * order)) / (order - 1) + math.log1p(-1 / order)

    how = {"method": "bounded", "options": {"xatol": 0.01}}
    return math.exp(optimize.minimize_scalar(epsilon, bounds=_TILTS, **how).x)
