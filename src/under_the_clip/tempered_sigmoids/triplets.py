"""What a sweep over the family says: which triplets (s, T, o) are best, and whether by chance.

The null hypothesis is that settings do not matter; axes are in standard deviations of the sweep.
tanh and the paper's triplet have several seeds. The best of MNIST are far apart in s, T and o, and
alike as functions around 0: seen after that sweep, and tested on the other datasets.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from math import comb
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import stats

from dpstudy.lab.readings import Reading
from dpstudy.parts.networks.activation import TANH
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids import published
from under_the_clip.tempered_sigmoids.experiments import TRIPLET

# A chance of 1 % is drawn to within 0.03 points of it.
_DRAWS, _AT_ONCE = 100_000, 20_000
_STEPS = 100_000


def as_bunched(
    settings: Float[np.ndarray, "n axes"],
    chosen: Int[np.ndarray, "count"],
    centre: Float[np.ndarray, "axes"] | None = None,
) -> float:
    """Return the chance that blind choice is bunched as closely around a centre as the chosen are.

    By the mean squared distance of the points. Around a given centre all choices are counted;
    around their own average (no centre) some are drawn.
    """
    scaled, middle = _scaled(settings, centre)
    if middle is None:
        return _share(scaled, chosen, _scatter)
    return _counted(((scaled - middle) ** 2).sum(axis=1), chosen)


def average_as_near(
    settings: Float[np.ndarray, "n axes"],
    chosen: Int[np.ndarray, "count"],
    centre: Float[np.ndarray, "axes"],
) -> float:
    """Return the chance that blind choice averages as near to a centre as the chosen points do."""
    scaled, middle = _scaled(settings, centre)

    def distance(points: Float[np.ndarray, "draws count axes"]) -> Float[np.ndarray, "draws"]:
        return ((points.mean(axis=1) - middle) ** 2).sum(axis=1)

    return _share(scaled, chosen, distance)


def _scaled(
    settings: Float[np.ndarray, "n axes"], centre: Float[np.ndarray, "axes"] | None
) -> tuple[Float[np.ndarray, "n axes"], Float[np.ndarray, "axes"] | None]:
    spread = settings.std(axis=0)
    # An axis on which all points are alike makes none nearer.
    spread = np.where(spread > 0, spread, 1)
    return settings / spread, None if centre is None else centre / spread


def _counted(squares: Float[np.ndarray, "n"], chosen: Int[np.ndarray, "count"]) -> float:
    """Return the share of all choices of as many whose squared distances add up to no more.

    Counted as subset sums, each distance rounded down, so that none as near is missed.
    """
    count, total = len(chosen), squares[chosen].sum()
    if total == 0:
        return comb(int((squares == 0).sum()), count) / comb(len(squares), count)
    within = squares[squares <= total * (1 + 1e-9)]
    # ways[k, t]: how many choices of k points add up to t steps.
    ways = np.zeros((count + 1, _STEPS + 1))
    ways[0, 0] = 1
    for steps in np.floor(within / total * _STEPS).astype(int):
        ways[1:, steps:] += ways[:-1, : _STEPS + 1 - steps]
    return float(ways[count].sum() / comb(len(squares), count))


def _scatter(points: Float[np.ndarray, "draws count axes"]) -> Float[np.ndarray, "draws"]:
    return ((points - points.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)


def _share(
    scaled: Float[np.ndarray, "n axes"],
    chosen: Int[np.ndarray, "count"],
    distance: Callable[[np.ndarray], np.ndarray],
) -> float:
    most = distance(scaled[chosen][None])[0] * (1 + 1e-9)
    near = int((distance(scaled[_drawn(len(scaled), len(chosen))]) <= most).sum())
    # The choice itself is one of the draws, so that no chance is 0.
    return (1 + near) / (1 + _DRAWS)


@lru_cache(maxsize=4)
def _drawn(points: int, count: int) -> Int[np.ndarray, "draws count"]:
    rng, parts = np.random.default_rng(0), []
    for _ in range(_DRAWS // _AT_ONCE):
        mixed = rng.random((_AT_ONCE, points)).argpartition(count - 1, axis=1)
        parts.append(mixed[:, :count].astype(np.int32))
    return np.concatenate(parts)


# Of the gradients before clipping, in the last epoch.
NORMS = ("gradient_norm", "clipped_fraction")
# "best" is the winner among the triplets, trained again.
REPEATED = ("tanh", "published", "best")
DRAWS = 4_000


class AtZero(NamedTuple):
    """A tempered sigmoid around 0."""

    slope: float
    value: float

    @classmethod
    def of(cls, triplet: Sequence[float]) -> Self:
        """Return s T / 4 and s / 2 - o."""
        scale, inverse_temperature, offset = triplet
        return cls(scale * inverse_temperature / 4, scale / 2 - offset)


@dataclass(frozen=True)
class Sweep:
    """What is stored of a sweep on one dataset.

    Attributes:
        triplets: one row a triplet: s, T, o, `slope` and `value` at 0, `test_accuracy`, `NORMS`,
            and whether it is among the `best`.
        repeated: one row a run of the triplets with several seeds.
    """

    triplets: pd.DataFrame
    repeated: pd.DataFrame

    @classmethod
    def of(cls, reading: Reading) -> Self:
        """Take a reading apart; where triplets have several seeds, their medians."""
        finals = reading.finals
        for name in TRIPLET:
            finals[name] = [setting(result.run, name) for _, result in reading.found]
        finals.loc[finals.diverged, list(NORMS)] = math.nan  # At chance, and after no last step.
        several = finals.label.isin(REPEATED)
        # In the order of the design, so that of equals the ledger takes the same.
        groups = finals[~several].groupby([*TRIPLET, "label"], as_index=False, sort=False)
        triplets = groups[["test_accuracy", *NORMS]].median()
        shapes = [AtZero.of(triplet) for triplet in triplets[list(TRIPLET)].to_numpy()]
        triplets[list(AtZero._fields)] = shapes
        count = math.ceil(published.NUMBERS["share of best triplets"].value * len(triplets))
        best = triplets.nlargest(count, "test_accuracy").index
        return cls(triplets.assign(best=triplets.index.isin(best)), finals[several])

    @property
    def count(self) -> int:
        """How many triplets are best."""
        return int(self.triplets.best.sum())

    @cached_property
    def best(self) -> pd.DataFrame:
        """The best triplets, best first."""
        return self.triplets.nlargest(self.count, "test_accuracy")

    @property
    def mean(self) -> pd.Series:
        """The average (s, T, o) of the best."""
        return self.best[list(TRIPLET)].mean()

    @property
    def noise(self) -> float:
        """Standard deviation of the accuracy over seeds, pooled; NaN without repeated seeds."""
        groups = self.repeated.groupby("label").test_accuracy
        freedom = groups.size() - 1
        if not freedom.sum():
            return math.nan
        return math.sqrt((groups.var() * freedom).sum() / freedom.sum())

    @property
    def again(self) -> pd.Series:
        """Accuracies of the best triplet, trained again; empty until it is."""
        return self.repeated[self.repeated.label == "best"].test_accuracy

    @property
    def rivals(self) -> int:
        """How many others come within two seeds' deviations of the best."""
        others = self.triplets.test_accuracy.drop(self.best.index[0])
        height = self.again.median() if len(self.again) else self.triplets.test_accuracy.max()
        return int((others >= height - 2 * self.noise).sum())

    def under_noise(self) -> np.ndarray:
        """Return roughly what the best triplets average to with more noise of a seed: draws x 3."""
        rng = np.random.default_rng(0)
        accuracy = self.triplets.test_accuracy.to_numpy()
        drawn = accuracy + self.noise * rng.standard_normal((DRAWS, len(accuracy)))
        best = np.argsort(-drawn, axis=1)[:, : self.count]
        return self.triplets[list(TRIPLET)].to_numpy()[best].mean(axis=1)

    def by_chance(self, centre: Sequence[float] | None = None) -> float | None:
        """Return how often as many triplets, chosen blindly, average as near to a centre.

        Without one, how often they lie as near to each other; None of one triplet alone.
        """
        if self.count < 2:
            return None
        settings, chosen = self.triplets[list(TRIPLET)].to_numpy(), self.best.index.to_numpy()
        if centre is None:
            return as_bunched(settings, chosen)
        return average_as_near(settings, chosen, np.array(centre))

    def rank_with_errors(self, column: str) -> float:
        """Return Spearman's correlation of a column with the error, without what diverged."""
        lived = self.triplets.dropna(subset=column)
        return _spearman(lived[column], -lived.test_accuracy)

    def near_tanh_at_zero(self) -> float | None:
        """Return how often triplets, chosen blindly, are as near to tanh's slope and value at 0."""
        if self.count < 2:
            return None
        return as_bunched(self._shapes, self.best.index.to_numpy(), _shape(astuple(TANH)))

    def ranks_by_distance(self) -> tuple[float, float]:
        """Return Spearman's correlation of the error with both distances from tanh."""
        if self.count < 2:
            return math.nan, math.nan
        errors = 1 - self.triplets.test_accuracy
        near, apart = (_spearman(squares, errors) for squares in self.distances())
        return near, apart

    def distances(self) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances from tanh, by slope and value at 0, and by (s, T, o).

        Axes are in standard deviations of the sweep.
        """
        settings = self.triplets[list(TRIPLET)].to_numpy(), np.array(astuple(TANH))
        near, apart = (
            (((points - centre) / points.std(axis=0)) ** 2).sum(axis=1)
            for points, centre in ((self._shapes, _shape(astuple(TANH))), settings)
        )
        return near, apart

    @property
    def _shapes(self) -> np.ndarray:
        return np.array([_shape(triplet) for triplet in self.triplets[list(TRIPLET)].to_numpy()])


def swept(reading: Reading) -> bool:
    """Return whether any triplet of the sweep is stored, beside those with several seeds."""
    return any(label not in REPEATED for label in reading.labels)


def _shape(triplet: Sequence[float]) -> np.ndarray:
    """Return slope and value at 0, as they are compared: slopes by their ratio."""
    slope, value = AtZero.of(triplet)
    return np.array([math.log(slope), value])


def _spearman(values: Sequence[float], errors: pd.Series) -> float:
    if len(set(values)) < 2 or errors.nunique() < 2:
        return math.nan
    return float(stats.spearmanr(values, errors).statistic)
