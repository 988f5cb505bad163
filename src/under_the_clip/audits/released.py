"""A run whose features lack a mean that was released with noise: both are seen, and add up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpstudy.parts.data.released_statistics import release_mean
from under_the_clip.audits.white_box import Audit

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from dpstudy.privacy.canaries import Trials


@dataclass(frozen=True, kw_only=True)
class ReleasedAudit(Audit):
    """White box: the released mean is seen, and after it every noisy sum of the head.

    A canary is one example in both: features of norm 1 at right angles to those of all others, and
    a gradient likewise.
    """

    def trials(self) -> Trials:
        """See `Audit`. There are at most as many canaries as features."""
        seen = super().trials()
        noise = self.run.dataset.release_noise
        scores = [
            scores_of_the_mean(noise, inside, seed) for seed, inside in enumerate(seen.inside)
        ]
        return replace(seen, scores=seen.scores + np.stack(scores))


def scores_of_the_mean(
    noise_multiplier: float, inside: Bool[np.ndarray, "canaries"], seed: int
) -> Float[np.ndarray, "canaries"]:
    """Return by how much a released mean speaks for each canary: logarithms of likelihood ratios.

    Canary k has feature k alone, and the other examples have none.

    Args:
        noise_multiplier: noise over sensitivity, as it is claimed.
        inside: whether each canary was in.
        seed: of the noise.
    """
    features = np.diag(inside.astype(np.float16))
    total = len(features) * release_mean(features, noise_multiplier, seed)
    return (total - 1 / 2) / noise_multiplier**2
