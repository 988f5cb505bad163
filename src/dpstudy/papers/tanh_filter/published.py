"""What the tanh filter's paper published: its settings."""

from __future__ import annotations

from dataclasses import dataclass

from dpstudy.ledger.published import DELTA, Source
from dpstudy.privacy.accounting import effective_noise_multiplier

_TANH = Source("amian2022tanh", "Table I")


@dataclass(frozen=True)
class TanhFilter:
    """The tanh filter's setting: each gradient entry through tanh, no clipping, then noise.

    Attributes:
        noise_std: standard deviation of the noise on the sum. Table I prints σ as "noise
            covariance"; read as a standard deviation, which σ is in the paper's algorithm.
        sampling_rate: as printed; batch / examples to three digits.
        claimed_sensitivity: the l2 sensitivity that the paper's epsilon is computed with.
        claimed_epsilon: not stated, and neither are the steps.
        wrong: what is wrong.
    """

    dataset: str
    examples: int
    batch: int
    noise_std: float
    sampling_rate: float
    source: Source
    claimed_sensitivity: float = 1.0
    epochs: None = None
    claimed_epsilon: None = None
    delta: float = DELTA
    wrong: str = (
        "The paper proves an l2 sensitivity of sqrt(n) for n parameters (Section III.A) and "
        "accounts with 1, because gradients turn small in practice. Differential privacy bounds "
        "the worst case, and the noise was never raised to it. For small gradients tanh(g) is "
        "about g: the filter then bounds nothing that clipping would have."
    )

    @property
    def sampling_probability(self) -> float:
        """Batch size over training examples, before the paper rounds it."""
        return self.batch / self.examples

    def noise_multiplier(self, parameters: int) -> float:
        """Noise over the proven sensitivity sqrt(n), for a network of n parameters."""
        return effective_noise_multiplier(self.noise_std, parameters**0.5)


TANH_FILTER = (
    TanhFilter("mnist", 60_000, 256, noise_std=1.1, sampling_rate=0.00427, source=_TANH),
    TanhFilter("cifar-10", 50_000, 256, noise_std=1.1, sampling_rate=0.00512, source=_TANH),
)
