"""What the four papers share: δ, the size of their network for MNIST, and settings of DP-SGD."""

from dataclasses import dataclass

from dpstudy.lab.published import Source
from dpstudy.parts.accountable import steps_per_epoch

DELTA = 1e-5

# Trainable parameters of the papers' network for MNIST. No paper prints the number: it follows from
# the layers, and the padding and strides of pooling.
MNIST_PARAMETERS = 26_010


@dataclass(frozen=True)
class Configuration:
    """One published configuration of DP-SGD.

    Attributes:
        network: "end-to-end", or "ScatterNet" for a CNN on public features.
        batch: batch size; shuffled in the paper, expected under Poisson sampling.
        noise_multiplier: sigma, noise standard deviation over clipping norm.
        clip_norm: C, l2 bound on a per-example gradient.
        curriculum_epoch: e_t, at which a curriculum turns.
        beta: divisor of a regulariser.
        gamma: focusing parameter of the focal loss.
        claimed_epsilon: as quoted, at `DELTA`.
    """

    paper: str
    dataset: str
    network: str
    examples: int
    batch: int
    epochs: int
    noise_multiplier: float
    clip_norm: float
    learning_rate: float
    momentum: float
    curriculum_epoch: int
    beta: float
    gamma: float
    claimed_epsilon: float
    source: Source

    @property
    def sampling_probability(self) -> float:
        """Expected batch size over training examples."""
        return self.batch / self.examples

    @property
    def steps(self) -> int:
        """Steps of the whole run, with the batches an epoch rounded to the nearest number."""
        return self.epochs * steps_per_epoch(self.examples, self.batch)
