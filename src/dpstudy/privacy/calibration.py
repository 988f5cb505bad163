"""The least noise with which no more than a wanted epsilon is spent."""

import math
from collections.abc import Callable

from scipy import optimize

from dpstudy.errors import UserError
from dpstudy.parts.accountable import LEAST_NOISE

Spent = Callable[[float], float]
"""From a noise multiplier to an epsilon, which falls as noise grows."""


def least_noise(spent: Spent, wanted: float, start: float, most: float) -> float | None:
    """Return about the least noise multiplier that spends at most the wanted epsilon.

    To five digits, the last of which may be a few units too large; looked for about `start`, up to
    `most`. None where `most` spends more. UserError where the wanted epsilon is so large that none
    of the noise that can be accounted for spends it.

    >>> 3 <= least_noise(lambda sigma: 3 / sigma, wanted=1.0, start=2.0, most=1e6) < 3.0002
    True
    """

    def excess(log_sigma: float) -> float:
        # On logarithms the curve is almost a line, which spares half the evaluations.
        return math.log(max(spent(math.exp(log_sigma)), 1e-12) / wanted)

    little, enough = _bracket(excess, math.log(min(start, most)), math.log(most))
    if enough is None:
        return None
    if little is None:
        raise UserError(f"epsilon {wanted} is too large to calibrate noise for")
    sigma = round_up(math.exp(optimize.brentq(excess, little, enough, xtol=2e-5)))
    while spent(sigma) > wanted:
        sigma = round_up(sigma * (1 + 1e-6))
    return sigma


def round_up(value: float) -> float:
    """Round to five significant digits, upwards.

    >>> round_up(1.234501)
    1.2346
    """
    digits = 4 - math.floor(math.log10(value))
    return round(math.ceil(value * 10**digits) / 10**digits, max(digits, 0))


def _bracket(excess: Spent, start: float, most: float) -> tuple[float | None, float | None]:
    """Return logarithms of too little and of enough noise; None where there is none in range."""
    up = excess(start) > 0
    stride, here, end = 0.1, start, most if up else math.log(LEAST_NOISE)
    while here != end:
        there = min(here + stride, end) if up else max(here - stride, end)
        if (excess(there) > 0) != up:
            return (here, there) if up else (there, here)
        here, stride = there, 2 * stride
    return (here, None) if up else (None, here)
