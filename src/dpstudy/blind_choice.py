"""How often as many points of a sweep, chosen blindly, lie as near to a centre as the best do.

The one null hypothesis of the study for "the best are here": that their settings do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_DRAWS = 20_000


def as_near(
    settings: Float[np.ndarray, "n axes"],
    chosen: Int[np.ndarray, "count"],
    centre: Float[np.ndarray, "axes"] | None = None,
) -> float:
    """Return the chance that blind choice lies as near to a centre as the chosen points do.

    Nearness is the mean squared distance, each axis in standard deviations of the sweep. Small
    where the chosen are bunched around the centre, wherever in the sweep that is.

    Args:
        settings: one row a point of the sweep.
        chosen: the rows that were chosen.
        centre: one number an axis; None for the chosen points' own average, so that only how
            closely they are bunched counts.
    """
    spread = settings.std(axis=0)
    # An axis on which all points are alike makes none nearer.
    spread = np.where(spread > 0, spread, 1)

    def distance(points: Float[np.ndarray, "draws count axes"]) -> Float[np.ndarray, "draws"]:
        middle = points.mean(axis=1, keepdims=True) if centre is None else centre
        return (((points - middle) / spread) ** 2).sum(axis=2).mean(axis=1)

    order = np.random.default_rng(0).random((_DRAWS, len(settings))).argsort(axis=1)
    blind = distance(settings[order[:, : len(chosen)]])
    near = blind <= distance(settings[chosen][None])[0] * (1 + 1e-9)
    # The choice itself is one of the draws, so that no chance is 0.
    return float((1 + near.sum()) / (1 + _DRAWS))
