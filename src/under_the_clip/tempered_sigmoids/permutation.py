"""How often as many points of a sweep, chosen blindly, lie as the best do: bunched, or on average.

The one null hypothesis of the study for "the best are here": that their settings do not matter.
Distances have each axis in standard deviations of the sweep.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int

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
