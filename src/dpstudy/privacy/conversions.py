"""Other measures of privacy than epsilon: zCDP's rho, Gaussian privacy's mu, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import dp_accounting
import numpy as np
from scipy import special

from dpstudy.errors import UserError
from dpstudy.privacy.accounting import check_delta, check_positive, check_probability, whole

if TYPE_CHECKING:
    from jaxtyping import Float


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return epsilon = rho + 2 sqrt(rho log(1/delta)) of a rho-zCDP mechanism.

    Bun & Steinke 2016, Proposition 1.3. A Gaussian with noise multiplier sigma is 1/(2 sigma^2)-
    zCDP, and rho adds up under composition.

    Raises:
        UserError: rho negative or not finite, or delta outside (0, 1).
    """
    if not (rho >= 0 and math.isfinite(rho)):
        raise UserError(f"rho must be >= 0 and finite, got {rho}")
    check_delta(delta)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the rho whose `zcdp_epsilon` at `delta` is `epsilon`.

    Raises:
        UserError: epsilon not positive and finite, or delta outside (0, 1).
    """
    check_positive("epsilon", epsilon)
    check_delta(delta)
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def gdp_mu(*, sampling_probability: float, noise_multiplier: float, steps: int) -> float:
    """Return mu = q sqrt(T (exp(1/sigma^2) - 1)), the central limit of Poisson-sampled Gaussians.

    Bu et al. 2020, from Dong, Roth & Su 2019. An approximation for many steps, and not a bound:
    with few steps or little noise the true epsilon lies above the one that follows from it. For
    unsampled Gaussians mu = sqrt(T) / sigma is exact; use that instead at q = 1.

    Args:
        sampling_probability: q in (0, 1].
        noise_multiplier: sigma > 0, noise standard deviation over l2 sensitivity.
        steps: T >= 0.

    Raises:
        UserError: an argument out of range.
    """
    check_probability(sampling_probability)
    check_positive("noise multiplier", noise_multiplier)
    steps = whole("steps", steps)
    return sampling_probability * math.sqrt(steps * math.expm1(noise_multiplier**-2))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at `delta` of a mu-GDP mechanism, exactly.

    Dong, Roth & Su 2019, Corollary 2.13: delta = Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2),
    solved for e. T unsampled Gaussians of noise multiplier sigma are sqrt(T)/sigma-GDP, no more
    and no less (Balle & Wang 2018).

    Raises:
        UserError: mu negative or not finite, or delta outside (0, 1).
    """
    if not (mu >= 0 and math.isfinite(mu)):
        raise UserError(f"mu must be >= 0 and finite, got {mu}")
    check_delta(delta)
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta)) if mu > 0 else 0.0


def gdp_noise_multiplier_for(
    epsilon: float, *, sampling_probability: float, steps: int, delta: float
) -> float:
    """Return the noise multiplier that the central limit of `gdp_mu` asks for.

    To reproduce work that calibrated by it. Being an approximation, it asks for too little: use
    `noise_multiplier_for` to train.

    Args:
        epsilon: the epsilon to spend, > 0.
        sampling_probability: q in (0, 1].
        steps: T >= 1.
        delta: in (0, 1).

    Raises:
        UserError: an argument out of range.
    """
    check_positive("epsilon", epsilon)
    check_probability(sampling_probability)
    check_delta(delta)
    if whole("steps", steps) < 1:
        raise UserError(f"steps must be at least 1 to calibrate noise, got {steps}")
    mu = 1 / dp_accounting.get_sigma_gaussian(epsilon, delta)
    return math.log1p((mu / sampling_probability) ** 2 / steps) ** -0.5


def gdp_delta(
    mu: Float[np.ndarray, "..."], epsilon: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return the delta at `epsilon` of a mu-GDP mechanism: Corollary 2.13, see `gdp_epsilon`.

    Raises:
        UserError: mu not positive and finite.
    """
    if not np.all(np.isfinite(mu) & (np.asarray(mu) > 0)):
        raise UserError(f"mu must be > 0 and finite, got {mu}")
    beyond = np.exp(epsilon + special.log_ndtr(-mu / 2 - epsilon / mu))
    return special.ndtr(mu / 2 - epsilon / mu) - beyond
