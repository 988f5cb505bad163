"""What shuffled batches cost at least.

An epoch deals the examples into batches by a permutation, and releases each batch's clipped sum
with Gaussian noise. Here is what that gives away for one choice of gradients that clipping permits
(Chua et al. 2024, "How private are DP-SGD implementations?"): all examples have a gradient of norm
C in one direction, but for the one in question, which has it in the other. In units of C, and
counted from minus the batch size, every batch sums to 0 but for the one with that example: it sums
to 2, or to 1 if the example is blanked. Over T batches, with noise sigma,

    with the example:    P = mean over t of N(2 e_t, sigma^2 I),
    with it blanked:     Q = mean over t of N(1 e_t, sigma^2 I).

Where examples are left over, both are mixed with N(0, sigma^2 I) in the same proportion.

From a function of what is released one learns no more than from all of it. The better bound of two:

- the largest of the batches, as Chua et al. do, which is all there is to see with little noise;
- the sum over batches of p(y_t) - q(y_t), where p and q are the likelihood ratios of N(2, sigma^2)
  and N(1, sigma^2) to N(0, sigma^2). It is positive exactly where P is likelier than Q. Its terms
  are independent, and rounded to a grid, so its distribution is a product of Fourier transforms.

Epochs are shuffled independently, and compose as privacy loss distributions, rounded down.

So where every noisy sum is seen, no accountant that knows of clipping, noise and shuffling alone
can certify a smaller epsilon. That a given network's gradients come near it is not said.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from jaxtyping import Float, Int
from scipy import stats

from dpstudy.privacy import accounting

_WITH_EXAMPLE, _BLANKED = 2.0, 1.0

# Points at which a batch's distribution is looked at, as far out as so many standard deviations.
_POINTS, _OUTERMOST = 400_000, 9.0
# Values that one batch's term in the sum may take. Batches further above the larger mean than so
# many standard deviations count alike, or one rare batch would be all that the grid can tell.
_VALUES, _FAR = 4_000, 4.0
# Sums of terms from here on are counted from zero again: that too is a function of what is seen.
_SUMS = 2**19
# With less noise the sum has no more to say than the largest batch, and its terms leave the range.
_LEAST_SUMMED = 0.5
# What is seen is merged into cells: so many to either side of the middle, down to so rare a tail.
_RAREST, _CELLS = 1e-9, 1_000
# With next to no noise, losses are still no larger than the logarithm of what is rarest.
_COARSEST = 1e-3
# Composition rounds, and counts what it cuts off as an infinite loss: for the delta asked for to be
# reached in truth, this much more is asked for.
_ROUNDING = 1e-10

# The probabilities of what is looked at: with the example, and with it blanked.
Pair = tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]
# From the batches, the share of epochs that the example takes part in, and the noise.
Look = Callable[[int, float, float], Pair]


def least_epsilon_curve(
    *, examples: int, batch: int, noise_multiplier: float, epochs: Sequence[int], delta: float
) -> tuple[float, ...]:
    """Return a lower bound on epsilon after each of several numbers of shuffled epochs.

    No guarantee for all gradients within the clip, and for data sets of which one has an example
    blanked, has a smaller one. Examples that fill no batch are left over. The `noise_multiplier`
    is over the clipping norm.

    >>> least_epsilon_curve(examples=6, batch=7, noise_multiplier=1.0, epochs=[1], delta=1e-5)
    Traceback (most recent call last):
    dpstudy.errors.UserError: batch must be at most the 6 examples, got 7

    Raises:
        UserError: an argument out of range.
    """
    accounting.sampling_probability_of(examples=examples, batch=batch)  # checks both
    batches = examples // batch
    participation = batches * batch / examples
    accounting.check_positive("noise multiplier", noise_multiplier)
    accounting.check_delta(delta)
    counts = tuple(accounting.whole("epochs", count) for count in epochs)
    wanted = min(delta + _ROUNDING, 1.0)
    looks = [largest_batch] + [summed_ratios] * (noise_multiplier >= _LEAST_SUMMED)

    def composed(look: Look, count: int) -> pld.PrivacyLossDistribution:
        return one_epoch(look, batches, participation, noise_multiplier).self_compose(count)

    curves = [accounting.composed_along(partial(composed, look), counts, wanted) for look in looks]
    found = list(zip(counts, map(max, zip(*curves, strict=True)), strict=True))
    # With next to no noise a quotient of nearly nothing overflows now and then: what fewer epochs
    # give away stands in, since more give away no less.
    return tuple(
        max((least for e, least in found if e <= count and math.isfinite(least)), default=0.0)
        for count in counts
    )


@lru_cache(maxsize=16)
def one_epoch(
    look: Look, batches: int, participation: float, noise_multiplier: float
) -> pld.PrivacyLossDistribution:
    """Return the privacy loss of what is looked at of one epoch, rounded down."""
    with_example, blanked = look(batches, participation, noise_multiplier)
    return pld.from_two_probability_mass_functions(
        dict(enumerate(np.log(blanked))),
        dict(enumerate(np.log(with_example))),
        pessimistic_estimate=False,
        value_discretization_interval=min(accounting.discretization(noise_multiplier), _COARSEST),
        symmetric=False,
    )


def largest_batch(batches: int, participation: float, noise_multiplier: float) -> Pair:
    """Return how the largest of an epoch's batches is distributed."""
    furthest = _OUTERMOST * noise_multiplier
    points = np.linspace(-furthest, _WITH_EXAMPLE + furthest, _POINTS)
    other = stats.norm.cdf(points, 0, noise_multiplier)

    def distribution(mean: float) -> np.ndarray:
        its = stats.norm.cdf(points, mean, noise_multiplier)
        below = other ** (batches - 1) * (participation * its + (1 - participation) * other)
        return np.diff(below, prepend=0, append=1)

    return _merged(distribution)


def summed_ratios(batches: int, participation: float, noise_multiplier: float) -> Pair:
    """Return how the sum over an epoch's batches of p(y_t) - q(y_t) is distributed."""
    points, values = _terms(noise_multiplier)

    def transform(mean: float) -> np.ndarray:
        below = stats.norm.cdf(points, mean, noise_multiplier)
        return np.fft.rfft(np.bincount(values, np.diff(below, prepend=0, append=1)), _SUMS)

    other = transform(0.0)

    def distribution(mean: float) -> np.ndarray:
        its = participation * transform(mean) + (1 - participation) * other
        return np.fft.irfft(other ** (batches - 1) * its, _SUMS)

    return _merged(distribution)


def _terms(sigma: float) -> tuple[Float[np.ndarray, " points"], Int[np.ndarray, " intervals"]]:
    """Return points along one batch's release, and what each interval's term is rounded to."""
    most = _WITH_EXAMPLE + _FAR * sigma
    points = np.linspace(-_OUTERMOST * sigma, most, _POINTS)
    middles = np.append(points - (points[1] - points[0]) / 2, most)
    with_example, blanked = (
        np.exp(mean * (2 * middles - mean) / (2 * sigma**2)) for mean in (_WITH_EXAMPLE, _BLANKED)
    )
    term = with_example - blanked
    fraction = (term - term.min()) / (term.max() - term.min())
    return points, (fraction * (_VALUES - 1)).astype(int)


def _merged(distribution: Callable[[float], np.ndarray]) -> Pair:
    # Once in a billion times any cell is shown instead: that makes nothing easier to tell, and
    # drowns the rounding errors of what is rarer.
    both = [distribution(mean) for mean in (_WITH_EXAMPLE, _BLANKED)]
    both = np.maximum(both, 0)  # a transform rounds to either side of nothing
    tail = np.geomspace(_RAREST, 0.5, _CELLS)
    edges = np.unique(np.concatenate([tail, 1 - tail]))
    cell = np.searchsorted(edges, np.cumsum(both.mean(axis=0)))
    merged = np.array([np.bincount(cell, one, len(edges) + 1) for one in both])
    shown = (1 - _RAREST) * merged / merged.sum(axis=1, keepdims=True) + _RAREST / merged.shape[1]
    return shown[0], shown[1]
