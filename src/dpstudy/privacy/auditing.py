"""Lower bounds on epsilon, from how well canaries that were in are told from those left out.

Guesses that are right more often than a given epsilon allows refute it, at 95 % confidence; the
bound is the largest one refuted. Four bounds are computed from the same scores:

- "clopper-pearson": true and false positives over many trials, with exact binomial intervals
  (Jagielski et al. 2020; Nasr et al. 2021). It assumes independent trials and nothing else, and
  shows no more than about the logarithm of their number: see `most_shown`.
- "gaussian": the same intervals, and the epsilon at delta of the Gaussian trade-off curve that they
  leave (Nasr et al. 2023). Tight, and a bound for mechanisms with such a curve: exactly for
  unsampled Gaussians, nearly for many sampled ones.
- "one-run": guesses about many canaries of one run (Steinke et al. 2023). It holds whatever the
  canaries of the run do to each other.
- "one-run-fdp": the same against a Gaussian trade-off curve (Mahloujifar et al. 2024).

The guess is "in" where a score reaches a threshold, which is chosen with its attack on one half of
the canaries and tested on the other. All but "gaussian" are those of jax-privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Explicit
from jaxtyping import Bool, Float
from scipy import stats

from dpstudy.errors import UserError
from dpstudy.privacy.conversions import gdp_epsilon

CONFIDENCE = 0.95
SIGNIFICANCE = 1 - CONFIDENCE
# Thresholds that are tried: each has half of the canaries above it, then fewer, down to so many.
_THRESHOLDS, _FEWEST_ABOVE = 32, 4
# A threshold is chosen as if one canary in so many had been tried: intervals are wider then, and
# one that few canaries are above is not chosen for its luck.
_PART = 2


@dataclass(frozen=True)
class Trials:
    """Canaries put in or left out by a fair coin, and how likely each looks to be in.

    >>> two_runs = Trials(np.ones((2, 100), bool), scores=np.zeros((6, 2, 100)), strength=1.0)
    >>> [of.shape for of in two_runs.flat]  # with six attacks
    [(200,), (6, 200)]

    Attributes:
        inside: whether it was in.
        scores: higher the more it looks so; first by attack where there are several.
        strength: the canary's gradient over the noise, what a step that it is in gives away.
    """

    inside: Bool[np.ndarray, "runs canaries"]
    scores: np.ndarray
    strength: float

    @property
    def flat(self) -> tuple[Bool[np.ndarray, "trials"], Float[np.ndarray, "*attacks trials"]]:
        """Whether each canary was in, one run after the other, and its scores."""
        return self.inside.ravel(), self.scores.reshape(*self.scores.shape[:-2], -1)


class Guesses(NamedTuple):
    """How often canaries were guessed to be in: of those that were, and of those that were not.

    >>> print(Guesses(true_positives=9, inside=10, false_positives=1, outside=12))
    9 of 10 that were in guessed to be, and 1 of 12 that were out
    """

    true_positives: int
    inside: int
    false_positives: int
    outside: int

    def of_fewer(self) -> Self:
        """Return what they would be of a part of the canaries, rounded for the worse."""
        missed = self.inside - self.true_positives
        parts = [-(-count // _PART) for count in (self.inside, missed, self[2], self[3])]
        return Guesses(parts[0] - parts[1], parts[0], *parts[2:])

    def __str__(self) -> str:
        return (
            f"{self.true_positives:,} of {self.inside:,} that were in guessed to be, and "
            f"{self.false_positives:,} of {self.outside:,} that were out"
        )


Bound = Callable[[Guesses, float], float]


def clopper_pearson(guesses: Guesses, delta: float) -> float:
    """Return the epsilon at `delta` that exact intervals of both rates refute; 0 if none.

    >>> round(clopper_pearson(Guesses(500, 500, 0, 500), delta=1e-5), 2)  # all guesses right
    4.91
    """
    return float(_auditor(guesses).epsilon_clopper_pearson(SIGNIFICANCE, delta, **_GUESSED))


def gaussian(guesses: Guesses, delta: float) -> float:
    """Return the epsilon at `delta` of the least Gaussian trade-off curve within both intervals.

    >>> round(gaussian(Guesses(500, 500, 0, 500), delta=1e-5), 1)  # more than they show alone
    32.0
    """
    # Not by jax-privacy 2.0: from rates no better than chance its `epsilon_from_gdp` takes the size
    # of a mu below 0, and so finds an epsilon where there is none (its pull request 270).
    missed = guesses.inside - guesses.true_positives
    false_negatives = _at_most(missed, guesses.inside)
    false_positives = _at_most(guesses.false_positives, guesses.outside)
    mu = stats.norm.isf(false_positives) - stats.norm.ppf(false_negatives)
    return gdp_epsilon(float(max(mu, 0.0)), delta)


def one_run(guesses: Guesses, delta: float) -> float:
    """Return the epsilon at `delta` that one run's guesses refute, for any mechanism.

    >>> one_run(Guesses(50, 100, 50, 100), delta=1e-5)  # no better than chance
    0.0
    """
    return float(_auditor(guesses).epsilon_one_run(SIGNIFICANCE, delta, **_GUESSED))


def one_run_fdp(guesses: Guesses, delta: float) -> float:
    """Return the epsilon at `delta` that one run's guesses refute, for Gaussian curves.

    >>> one_run_fdp(Guesses(50, 100, 50, 100), delta=1e-5)
    0.0
    """
    return float(_auditor(guesses).epsilon_one_run_fdp(SIGNIFICANCE, delta, **_GUESSED))


MANY_RUNS: dict[str, Bound] = {"clopper-pearson": clopper_pearson, "gaussian": gaussian}
ONE_RUN: dict[str, Bound] = {"one-run": one_run, "one-run-fdp": one_run_fdp}
# A guess is 1 for in and 0 for out.
_GUESSED = {"threshold_strategy": Explicit(1.0)}


def of_many_runs(
    inside: Bool[np.ndarray, "canaries"],
    scores: Float[np.ndarray, "*attacks canaries"],
    delta: float,
) -> dict[str, tuple[float, Guesses]]:
    """Return each bound of `MANY_RUNS`, with the guesses that it is from; see `epsilon`."""
    return {name: epsilon(bound, inside, scores, delta) for name, bound in MANY_RUNS.items()}


def bounds(trials: Trials, delta: float) -> dict[str, tuple[float, Guesses]]:
    """Return each bound on epsilon at `delta`, with the guesses that it is from, by its name.

    Those from one run are from the first. Each has the confidence for itself, the largest less.

    >>> bounds(Trials(np.ones((1, 3), bool), scores=np.zeros((1, 3)), strength=1.0), delta=1e-5)
    Traceback (most recent call last):
    dpstudy.errors.UserError: 3 canaries are too few: none in or none out in a half

    Raises:
        UserError: too few canaries to have some in and out in either half.
    """
    first = trials.inside[0], trials.scores[..., 0, :]
    return of_many_runs(*trials.flat, delta) | {
        name: epsilon(bound, *first, delta) for name, bound in ONE_RUN.items()
    }


def epsilon(
    bound: Bound,
    inside: Bool[np.ndarray, "canaries"],
    scores: Float[np.ndarray, "*attacks canaries"],
    delta: float,
) -> tuple[float, Guesses]:
    """Return a lower bound on epsilon at `CONFIDENCE`, and the guesses of the half it is from.

    Whether a canary is `inside` is for a fair coin of its own; `scores` as in `Trials`.

    >>> inside = np.arange(2_000) % 2 == 0
    >>> bound, guesses = epsilon(clopper_pearson, inside, scores=1.0 * inside, delta=1e-5)
    >>> guesses.false_positives, round(bound, 1)
    (0, 4.9)

    Raises:
        UserError: too few canaries to have some in and out in either half.
    """
    mixed = np.random.default_rng(0).permutation(len(inside))
    first, second = np.array_split(mixed, 2)
    for half in (first, second):
        if not 0 < inside[half].sum() < len(half):
            raise UserError(f"{len(inside)} canaries are too few: none in or none out in a half")
    scores = _most_telling(inside, np.atleast_2d(scores), first, delta)
    thresholds = _thresholds(inside[first], scores[first])
    tried = [_guessed(inside[first], scores[first], t).of_fewer() for t in thresholds]
    threshold = thresholds[int(np.argmax([bound(one, delta) for one in tried]))]
    guesses = _guessed(inside[second], scores[second], threshold)
    return bound(guesses, delta), guesses


def _most_telling(
    inside: np.ndarray,
    scores: Float[np.ndarray, "attacks canaries"],
    half: np.ndarray,
    delta: float,
) -> Float[np.ndarray, "canaries"]:
    """Return the scores of the attack that shows most in one half, in the mean over thresholds."""

    def shown(of: np.ndarray) -> float:
        tried = (_guessed(inside[half], of[half], t) for t in _thresholds(inside[half], of[half]))
        return np.mean([gaussian(one, delta) for one in tried])

    return max(scores, key=shown) if len(scores) > 1 else scores[0]


def _thresholds(inside: np.ndarray, scores: np.ndarray) -> Float[np.ndarray, "thresholds"]:
    most = len(scores) // 2
    above = np.geomspace(max(most, 1), min(_FEWEST_ABOVE, most), _THRESHOLDS)
    above = np.append(above, inside.sum())  # where scores tell the two apart, it is between them
    return np.unique(np.quantile(scores, 1 - above / len(scores)))


def most_shown(trials: int, delta: float) -> float:
    """Return the Clopper-Pearson bound at `delta` if all guesses of so many trials were right.

    >>> [round(most_shown(trials, delta=1e-5), 2) for trials in (10_000, 100_000)]
    [6.52, 8.82]
    """
    half = trials // 4
    return clopper_pearson(Guesses(half, half, 0, half), delta)


def _guessed(inside: np.ndarray, scores: np.ndarray, threshold: float) -> Guesses:
    guessed = scores >= threshold
    counts = (guessed & inside, inside, guessed & ~inside, ~inside)
    return Guesses(*(int(of.sum()) for of in counts))


def _auditor(guesses: Guesses) -> CanaryScoreAuditor:
    rates = ((guesses.true_positives, guesses.inside), (guesses.false_positives, guesses.outside))
    return CanaryScoreAuditor(*((np.arange(count) < hits) * 1.0 for hits, count in rates))


def _at_most(count: int, of: int) -> float:
    """Return the upper end of the exact interval of a rate; both rates share the significance."""
    return float(stats.beta.ppf(1 - SIGNIFICANCE / 2, count + 1, of - count)) if count < of else 1.0
