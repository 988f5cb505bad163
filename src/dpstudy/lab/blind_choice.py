"""How often as many points of a sweep, chosen blindly, lie as near to a centre as the best do.

The one null hypothesis of the study for "the best are here": that their settings do not matter.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_DRAWS = 20_000
_STEPS = 100_000


def as_near(
    settings: Float[np.ndarray, "n axes"],
    chosen: Int[np.ndarray, "count"],
    centre: Float[np.ndarray, "axes"] | None = None,
) -> float:
    """Return the chance that blind choice lies as near to a centre as the chosen points do.

    Nearness is the mean squared distance, each axis in standard deviations of the sweep. Small
    where the chosen are bunched around the centre, wherever in the sweep that is. Around a given
    centre all choices are counted; around their own average some are drawn.

    Args:
        settings: one row a point of the sweep.
        chosen: the rows that were chosen.
        centre: one number an axis; None for the chosen points' own average, so that only how
            closely they are bunched counts.
    """
    spread = settings.std(axis=0)
    # An axis on which all points are alike makes none nearer.
    spread = np.where(spread > 0, spread, 1)
    if centre is None:
        return _drawn(settings / spread, chosen)
    return _counted((((settings - centre) / spread) ** 2).sum(axis=1), chosen)


def _counted(squares: Float[np.ndarray, "n"], chosen: Int[np.ndarray, "count"]) -> float:
    """Return the share of all choices of as many whose squared distances add up to no more.

    Counted as subset sums, in steps of a hundred thousandth of the chosen points' sum. Each
    distance is rounded down, so that none as near is missed.
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


def _drawn(scaled: Float[np.ndarray, "n axes"], chosen: Int[np.ndarray, "count"]) -> float:
    """Return the share of draws that lie as near to their own average as the chosen to theirs."""

    def distance(points: Float[np.ndarray, "draws count axes"]) -> Float[np.ndarray, "draws"]:
        return ((points - points.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)

    order = np.random.default_rng(0).random((_DRAWS, len(scaled))).argsort(axis=1)
    blind = distance(scaled[order[:, : len(chosen)]])
    near = blind <= distance(scaled[chosen][None])[0] * (1 + 1e-9)
    # The choice itself is one of the draws, so that no chance is 0.
    return float((1 + near.sum()) / (1 + _DRAWS))
