"""What the tanh filter's paper published: its settings."""

from dataclasses import dataclass

from dpstudy.lab.published import Source
from dpstudy.privacy.accounting import effective_noise_multiplier

_TANH = Source("amian2022tanh", "Table I")


@dataclass(frozen=True)
class TanhFilter:
    """The tanh filter's setting: each gradient entry through tanh, no clipping, then noise.

    The paper proves an l2 sensitivity of sqrt(n) for n parameters (Section III.A) and accounts
    with 1, because gradients turn small in practice; its epsilon and steps are not stated.

    Attributes:
        noise_std: of the noise on the sum. Table I prints σ as "noise covariance"; read as a
            standard deviation, which σ is in the paper's algorithm.
        claimed_sensitivity: the l2 sensitivity that the paper's epsilon is computed with.
    """

    dataset: str
    examples: int
    batch: int
    noise_std: float
    source: Source
    claimed_sensitivity: float = 1.0
    claimed_epsilon: None = None

    @property
    def sampling_probability(self) -> float:
        """Batch size over training examples, before the paper rounds it."""
        return self.batch / self.examples

    def noise_multiplier(self, parameters: int) -> float:
        """Noise over the proven sensitivity sqrt(n), for a network of n parameters."""
        return effective_noise_multiplier(self.noise_std, parameters**0.5)


TANH_FILTER = (
    TanhFilter("mnist", 60_000, 256, noise_std=1.1, source=_TANH),
    TanhFilter("cifar-10", 50_000, 256, noise_std=1.1, source=_TANH),
)
