"""Other measures of privacy than epsilon: zCDP's rho, Gaussian privacy's mu, and back."""

import math

import dp_accounting
import numpy as np
from jaxtyping import Float
from scipy import special

from dpstudy.errors import UserError
from dpstudy.privacy.accounting import check_delta, check_positive, check_probability, whole


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return epsilon = rho + 2 sqrt(rho log(1/delta)) of a rho-zCDP mechanism.

    Bun & Steinke 2016, Proposition 1.3. A Gaussian with noise multiplier sigma is 1/(2 sigma^2)-
    zCDP, and rho adds up under composition.

    >>> round(zcdp_epsilon(1 / 2, delta=1e-5), 3)  # sigma = 1; `gdp_epsilon` is exact
    5.299

    Raises:
        UserError: rho negative or not finite, or delta outside (0, 1).
    """
    _check_not_negative("rho", rho)
    check_delta(delta)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the rho whose `zcdp_epsilon` at `delta` is `epsilon`.

    >>> round(zcdp_rho(0.07, delta=1e-5), 6)
    0.000106

    Raises:
        UserError: epsilon not positive and finite, or delta outside (0, 1).
    """
    check_positive("epsilon", epsilon)
    check_delta(delta)
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def gdp_mu(*, sampling_probability: float, noise_multiplier: float, steps: int) -> float:
    """Return mu = q sqrt(T (exp(1/sigma^2) - 1)), the central limit of Poisson-sampled Gaussians.

    Bu et al. 2020, from Dong, Roth & Su 2019. Not a bound: with few steps or little noise the true
    epsilon lies above the one that follows. At q = 1 use mu = sqrt(T) / sigma, which is exact.

    >>> mu = gdp_mu(sampling_probability=256 / 60_000, noise_multiplier=0.638, steps=16_406)
    >>> round(mu, 2)  # Bu et al. 2020, Figure 5: 70 epochs of MNIST
    1.78

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

    >>> round(gdp_epsilon(1.78, delta=1e-5), 1)  # Bu et al. 2020 give 8.68
    8.7

    Raises:
        UserError: mu negative or not finite, or delta outside (0, 1).
    """
    _check_not_negative("mu", mu)
    check_delta(delta)
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta)) if mu > 0 else 0.0


def gdp_noise_multiplier_for(
    epsilon: float, *, sampling_probability: float, steps: int, delta: float
) -> float:
    """Return the noise multiplier that the central limit of `gdp_mu` asks for.

    To reproduce work that calibrated by it. It asks for too little: `epsilon` is not met, but by
    `noise_multiplier_for`.

    >>> run = {"sampling_probability": 0.01, "steps": 1_000}
    >>> sigma = gdp_noise_multiplier_for(3.0, **run, delta=1e-5)
    >>> round(gdp_epsilon(gdp_mu(**run, noise_multiplier=sigma), delta=1e-5), 6)
    3.0

    Raises:
        UserError: an argument out of range.
    """
    check_positive("epsilon", epsilon)
    check_probability(sampling_probability)
    check_delta(delta)
    steps = whole("steps", steps, least=1)
    mu = 1 / dp_accounting.get_sigma_gaussian(epsilon, delta)
    return math.log1p((mu / sampling_probability) ** 2 / steps) ** -0.5


def gdp_delta(
    mu: Float[np.ndarray, "..."], epsilon: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return the delta at `epsilon` of a mu-GDP mechanism: Corollary 2.13, see `gdp_epsilon`.

    >>> float(gdp_delta(1.0, 0.0).round(4))  # 2 Phi(1/2) - 1
    0.3829

    Raises:
        UserError: mu not positive and finite.
    """
    if not np.all(np.isfinite(mu) & (np.asarray(mu) > 0)):
        raise UserError(f"mu must be > 0 and finite, got {mu}")
    beyond = np.exp(epsilon + special.log_ndtr(-mu / 2 - epsilon / mu))
    return special.ndtr(mu / 2 - epsilon / mu) - beyond


def _check_not_negative(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise UserError(f"{name} must be >= 0 and finite, got {value}")
