"""Privacy accounting: the epsilon of a run, and the noise that buys a wanted epsilon.

Of the Poisson-sampled Gaussian mechanism of DP-SGD: at each step every example takes part
independently with sampling probability q, and noise of standard deviation sigma x sensitivity is
added to the sum of contributions, whose l2 norm is at most the sensitivity. Neighbours differ by
adding or removing one example. Epsilons use the natural logarithm.

Sharp edge: the formula is computed whatever was run. For shuffled batches it is a claim, to be
labelled `CLAIMED_LABEL`, and can be far too small (`shuffling.py`). What holds for them is
`epsilon(sampling_probability=1, steps=epochs, ...)`, for neighbours of which one has an example
blanked: in one epoch an example enters one batch.

Three accountants, from tight to loose, by Google's dp-accounting wherever it has them:

- "pld" composes privacy loss distributions numerically (Koskela et al. 2020; Doroshenko et al.
  2022, "connect the dots"): an upper bound, tight up to discretisation; for the smallest deltas as
  in `tilted.py`. Where the next accountant proves less, that is the result; without sampling, the
  epsilon of one Gaussian, exactly.
- "rdp" bounds the Renyi divergence (Mironov et al. 2019) and converts it by Balle et al. 2020.
- "rdp-2019" has the same divergence and the conversion of Mironov 2017, Proposition 3, minimised
  over the orders of the TensorFlow Privacy tutorials of 2019. Papers of those years report it.

With a `search` the epsilon is that of the best of a random number of such runs, on the conditions
of `private_selection.py`: by "pld" from one run's privacy profile, by "rdp" from its divergences.
"""

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

import dp_accounting
import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

from dpstudy.errors import UserError, check_known
from dpstudy.parts.accountable import MOST_NOISE, check_range
from dpstudy.privacy import calibration, private_selection, renyi, tilted
from dpstudy.privacy.private_selection import Trials

ACCOUNTANTS = ("pld", "rdp", "rdp-2019")
OF_A_SEARCH = ("pld", "rdp")
CLAIMED_LABEL = "claimed (Poisson formula on shuffled batches)"

# Discretisation of the privacy loss, as a fraction of the loss of one unsampled step.
_INTERVAL = 2e-4
# From so many times the error of plain composition on, delta is as good as free of it.
_FAR_ABOVE = 1e4
# An epsilon of so many intervals is next to free of their rounding, and no other bound is below it.
_FINE = 1e3
# The logarithm of the rarest loss that is told from an infinite one: double precision ends soon
# after.
_RAREST = -600.0


class _Run(NamedTuple):
    """What is accounted for, but for the number of steps; as the arguments of `epsilon`."""

    q: float
    sigma: float
    delta: float
    accountant: str = "pld"
    release: float | None = None
    search: Trials | None = None


def epsilon(
    *,
    sampling_probability: float,
    noise_multiplier: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    release_noise: float | None = None,
    search: Trials | None = None,
) -> float:
    """Return the epsilon of `steps` steps of the Poisson-sampled Gaussian mechanism.

    A guarantee if the batches were Poisson-sampled; else see the module's documentation.

    >>> run = {"sampling_probability": 256 / 60_000, "noise_multiplier": 1.1, "delta": 1e-5}
    >>> spent = epsilon(**run, steps=14_063, accountant="rdp-2019")
    >>> round(spent, 2)  # as TensorFlow Privacy's tutorial of 2019 states
    3.01

    Args:
        sampling_probability: q in (0, 1], expected batch size over number of examples.
        noise_multiplier: sigma > 0, noise standard deviation over *proven* l2 sensitivity.
        steps: T >= 0.
        delta: in (0, 1).
        accountant: of `ACCOUNTANTS`; see the module's documentation.
        release_noise: noise over sensitivity of a Gaussian release before the first step, if any.
        search: how many such runs are tried, where the best of them is all that is released.

    Raises:
        UserError: an argument out of range, or an unknown accountant.
    """
    run = _checked(sampling_probability, noise_multiplier, delta, accountant, release_noise, search)
    return _curve(run, _counts(run, [steps]))[0]


def epsilon_curve(
    *,
    sampling_probability: float,
    noise_multiplier: float,
    steps: Sequence[int],
    delta: float,
    accountant: str = "pld",
    release_noise: float | None = None,
) -> tuple[float, ...]:
    """Return epsilon after each of several step counts, in the order given.

    Arguments and errors as `epsilon`, to 1e-7 for "pld", which is composed once along the run.

    >>> run = {"sampling_probability": 256 / 60_000, "noise_multiplier": 1.1, "delta": 1e-5}
    >>> curve = epsilon_curve(**run, steps=[0, 14_063], accountant="rdp-2019")
    >>> [round(spent, 2) for spent in curve]
    [0.0, 3.01]
    """
    run = _checked(sampling_probability, noise_multiplier, delta, accountant, release_noise)
    return _curve(run, _counts(run, steps))


def least_epsilon(
    *, sampling_probability: float, noise_multiplier: float, steps: int, delta: float
) -> float:
    """Return a lower bound on the epsilon of a run: "pld", with privacy losses rounded down.

    What floating point may add is taken off. Without sampling it is the epsilon. Arguments and
    errors as `epsilon`.
    """
    run = _checked(sampling_probability, noise_multiplier, delta)
    _counts(run, [steps])
    if run.q == 1 or not steps:
        return _gaussian_epsilon(run, steps)
    # Optimistic rounding is coarser than what connects the dots.
    step = pld.from_gaussian_mechanism(
        run.sigma,
        sampling_prob=run.q,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=discretization(run.sigma) / 20,
        log_mass_truncation_bound=_rarest(delta, steps),
    )
    return tilted.lower_epsilon([(step, steps)], delta)


def noise_multiplier_for(
    epsilon: float,
    *,
    sampling_probability: float,
    steps: int,
    delta: float,
    accountant: str = "pld",
    release_noise: float | None = None,
    search: Trials | None = None,
) -> float:
    """Return about the least noise multiplier with which `steps` steps cost at most `epsilon`.

    To five digits, the last of which may be a few units too large; its epsilon, by the same
    accountant, never exceeds the one wanted. Arguments as for `epsilon`.

    >>> one = {"sampling_probability": 1.0, "steps": 1, "delta": 1e-5}
    >>> noise_multiplier_for(1.0, **one, accountant="rdp")
    4.0454

    Raises:
        UserError: an argument out of range, or an epsilon that the accountant cannot certify
            ("rdp-2019" has a floor of log(1/delta) / 62, its highest order being 63).
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UserError(f"epsilon must be > 0 and finite, got {epsilon}")
    run = _checked(sampling_probability, 1.0, delta, accountant, release_noise, search)
    steps = whole("steps", steps, least=1)
    check_range(run.q, run.sigma, steps)
    if release_noise and epsilon <= dp_accounting.get_epsilon_gaussian(release_noise, delta):
        _check_reached(epsilon, run, steps)  # Told at once: the search for noise takes long.
    try:
        found = _calibrate(epsilon, run, steps)
    except UserError:
        if release_noise is not None:
            _check_reached(epsilon, run, steps)
        raise
    check_range(run.q, found, steps)
    return found


def _check_reached(epsilon: float, run: _Run, steps: int) -> None:
    """Raise UserError if what is released leaves no epsilon for the steps, however noisy."""
    most = _most_noise(run)
    [least] = _curve(run._replace(sigma=most), (steps,))
    if epsilon <= least:
        raise UserError(
            f"epsilon must be above {calibration.round_up(least)}, which what is released before "
            f"training and steps with a noise of {most:g} spend, got {epsilon:g}"
        )


def sampling_probability_of(*, examples: int, batch: int) -> float:
    """Return q = batch / examples for an expected batch size.

    >>> sampling_probability_of(examples=60_000, batch=600)
    0.01

    Raises:
        UserError: a batch larger than the data set, or either below 1.
    """
    whole("examples", examples, least=1)
    whole("batch", batch, least=1)
    if batch > examples:
        raise UserError(f"batch must be at most the {examples} examples, got {batch}")
    return batch / examples


def effective_noise_multiplier(noise_std: float, sensitivity: float) -> float:
    """Return the noise multiplier that counts: noise over proven sensitivity.

    Both `noise_std` and the l2 `sensitivity` are of the sum, in units of the gradient.

    >>> effective_noise_multiplier(1.1, 100**0.5)  # where 1 was believed
    0.11000000000000001

    Raises:
        UserError: either is not positive and finite.
    """
    check_positive("noise standard deviation", noise_std)
    check_positive("sensitivity", sensitivity)
    return noise_std / sensitivity


@lru_cache(maxsize=4096)
def _curve(run: _Run, steps: tuple[int, ...]) -> tuple[float, ...]:
    if run.search:
        return tuple(_of_the_best(run, count) for count in steps)
    if run.accountant != "pld":
        return tuple(_rdp_epsilon(run, count) for count in steps)
    far = run.delta / _FAR_ABOVE
    plain = [count for count in steps if run.q < 1 and tilted.error_of(count + 1) <= far]
    first = _released(run) if run.release and plain else None
    curve = composed_along(partial(_composed, run.q, run.sigma), plain, run.delta, first)
    found = dict(zip(plain, curve, strict=True))
    return tuple(_least_proven(run, count, found.get(count)) for count in steps)


def _least_proven(run: _Run, steps: int, plain: float | None) -> float:
    """Return the least epsilon proven of some steps; `plain` composition gives this one or none."""
    if run.q == 1 or not steps:
        return _gaussian_epsilon(run, steps)
    if plain is not None and _FINE * discretization(run.sigma) < plain < math.inf:
        return plain
    if plain is None or math.isinf(plain):  # as it may be with next to no noise at any delta
        plain = _tilted_epsilon(run, steps)
    return min(plain, _rdp_epsilon(run._replace(accountant="rdp"), steps))


def _gaussian_epsilon(run: _Run, steps: int) -> float:
    """Return the epsilon of steps without sampling, and of a release before them, exactly."""
    mu = _gaussian_mu(run, steps)
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, run.delta)) if mu else 0.0


def _gaussian_mu(run: _Run, steps: int) -> float:
    return math.hypot(math.sqrt(steps) / run.sigma, 1 / run.release if run.release else 0.0)


def _released(run: _Run) -> pld.PrivacyLossDistribution:
    # To the interval of the steps: others do not compose with them.
    return pld.from_gaussian_mechanism(
        run.release, value_discretization_interval=discretization(run.sigma)
    )


def _of_the_best(run: _Run, steps: int) -> float:
    """Return the epsilon of the best of a random number of runs."""
    if not steps and not run.release:
        return 0.0
    one = renyi.event(run.q, run.sigma, steps, run.release)
    with renyi.quiet():
        proven = private_selection.by_divergence(run.search, one, run.delta)
    if run.accountant == "rdp":
        return proven
    profile = _profile(run, steps)
    if run.search.law == "poisson":
        # Any orders hold, and every fourth comes to the same within a thousandth.
        of_one = renyi.divergence(run.q, run.sigma, steps, run.release, renyi.ORDERS[::4])
        by = private_selection.by_poisson(run.search.mean, *of_one, profile, run.delta)
    else:
        by = private_selection.by_profile(
            run.search,
            lambda delta: _curve(run._replace(delta=delta, search=None), (steps,))[0],
            profile,
            run.delta,
        )
    return min(by, proven)


def _profile(run: _Run, steps: int) -> Callable[[float], float]:
    """Return the function from an epsilon to the delta of one run, an upper bound."""
    if run.q == 1 or not steps:
        return GaussianPrivacyLoss(1 / _gaussian_mu(run, steps)).get_delta_for_epsilon
    loss = _composed(run.q, run.sigma, steps)
    loss = _released(run).compose(loss) if run.release else loss
    error = tilted.error_of(steps + 1)
    return lambda epsilon: float(loss.get_delta_for_epsilon(epsilon)) + error


def _tilted_epsilon(run: _Run, steps: int) -> float:
    loss = partial(
        pld.from_gaussian_mechanism,
        value_discretization_interval=discretization(run.sigma),
        log_mass_truncation_bound=_rarest(run.delta, steps),
    )
    parts = [(loss(run.sigma, sampling_prob=run.q), steps)]
    parts += [(loss(run.release), 1)] if run.release else []
    return tilted.upper_epsilon(parts, run.delta)


def _rarest(delta: float, steps: int) -> float:
    """Return the logarithm of a probability that over all steps adds nothing to delta."""
    return max(min(math.log(delta) - math.log(steps) - 20, -50.0), _RAREST)


def composed_along(
    composed: Callable[[int], pld.PrivacyLossDistribution],
    counts: Sequence[int],
    delta: float,
    first: pld.PrivacyLossDistribution | None = None,
) -> tuple[float, ...]:
    """Return the epsilon of several counts of one mechanism, composed once along them.

    Counts of equal distance share one increment; `first` is the loss of what came before, if any.
    """
    at, done, loss = {0: float(first.get_epsilon_for_delta(delta)) if first else 0.0}, 0, first
    for count in sorted({count for count in counts if count > 0}):
        increment = composed(count - done)
        loss, done = increment if loss is None else loss.compose(increment), count
        at[count] = float(loss.get_epsilon_for_delta(delta))
    return tuple(at[count] for count in counts)


def discretization(noise_multiplier: float) -> float:
    """Return the interval to which privacy losses are rounded: it follows one step's loss.

    A fixed one is too coarse for much noise, and runs out of memory for little.
    """
    return _INTERVAL * (1 / (2 * noise_multiplier**2) + 1 / noise_multiplier)


@lru_cache(maxsize=4)
def _one_step(q: float, sigma: float) -> pld.PrivacyLossDistribution:
    return pld.from_gaussian_mechanism(
        sigma, sampling_prob=q, value_discretization_interval=discretization(sigma)
    )


@lru_cache(maxsize=4)  # each may take a good part of a gigabyte
def _composed(q: float, sigma: float, steps: int) -> pld.PrivacyLossDistribution:
    return _one_step(q, sigma).self_compose(steps)


def _rdp_epsilon(run: _Run, steps: int) -> float:
    if not steps and not run.release:
        return 0.0
    old = run.accountant == "rdp-2019"
    of = renyi.ORDERS_2019 if old else renyi.ORDERS
    orders, divergence = renyi.divergence(run.q, run.sigma, steps, run.release, of)
    if old:
        # Mironov 2017, Proposition 3.
        return float(np.min(divergence + math.log(1 / run.delta) / (orders - 1)))
    return float(dp_accounting.rdp.compute_epsilon(orders, divergence, run.delta)[0])


@lru_cache(maxsize=256)
def _calibrate(wanted: float, run: _Run, steps: int) -> float:
    def spent(sigma: float) -> float:
        return _curve(run._replace(sigma=sigma), (steps,))[0]

    start = 2.0
    if run.accountant == "pld":
        # Renyi accounting is quick, and asks for a little more noise than the PLD.
        with suppress(UserError):
            start = _calibrate(wanted, run._replace(accountant="rdp", release=None), steps)
    found = calibration.least_noise(spent, wanted, start, _most_noise(run))
    if found is None:
        raise UserError(f"epsilon {wanted} cannot be certified by {run.accountant} with any noise")
    return found


def _most_noise(run: _Run) -> float:
    # The loss of a release is rounded to the interval of the steps', which must not be far smaller.
    return min(MOST_NOISE, 25 * run.release) if run.release else MOST_NOISE


def _checked(
    q: float,
    sigma: float,
    delta: float,
    accountant: str = "pld",
    release: float | None = None,
    search: Trials | None = None,
) -> _Run:
    check_probability(q)
    check_positive("noise multiplier", sigma)
    check_delta(delta)
    check_known("accountant", accountant, ACCOUNTANTS)
    if release is not None:
        check_positive("release noise", release)
    if search is not None and accountant not in OF_A_SEARCH:
        raise UserError(f"{accountant} has no bound for a search: take {' or '.join(OF_A_SEARCH)}")
    return _Run(q, sigma, delta, accountant, release, search)


def _counts(run: _Run, steps: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(whole("steps", count) for count in steps)
    check_range(run.q, run.sigma, max(counts, default=0))
    return counts


def check_probability(q: float) -> None:
    """Raise UserError unless q is in (0, 1]."""
    if not 0 < q <= 1:
        raise UserError(f"sampling probability must be in (0, 1], got {q}")


def check_delta(delta: float) -> None:
    """Raise UserError where delta is outside (0, 1)."""
    if not 0 < delta < 1:
        raise UserError(f"delta must be in (0, 1), got {delta}")


def check_positive(name: str, value: float) -> None:
    """Raise UserError where a value, of that name, is not positive and finite."""
    if not 0 < value < math.inf:
        raise UserError(f"{name} must be {'finite' if value > 0 else '> 0'}, got {value}")


def whole(name: str, value: int, least: int = 0) -> int:
    """Return a whole number, `least` or more and below 2^63, or raise UserError that names it."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise UserError(f"{name} must be a whole number, got {value!r}") from None
    if whole < least:
        raise UserError(f"{name} must be at least {least}, got {value}")
    if whole >= 2**63:  # a ratio of larger ones may be no float, and JAX draws by no such seed
        raise UserError(f"{name} must be below 2^63, got more")
    return whole
