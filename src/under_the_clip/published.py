"""What the four papers share: δ, the size of their network for MNIST, and settings of DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass

from dpstudy.lab.published import Source
from dpstudy.parts.sampling import steps_per_epoch

DELTA = 1e-5

# Trainable parameters of the papers' network for MNIST. No paper prints the number: it follows from
# the layers, and the padding and strides of pooling.
MNIST_PARAMETERS = 26_010


@dataclass(frozen=True)
class Configuration:
    """One published configuration of DP-SGD.

    Attributes:
        paper: its short name.
        dataset: name as in `dpstudy.parts.data.images`.
        network: "end-to-end", or "ScatterNet" for a CNN on public features.
        examples: training examples.
        batch: batch size; shuffled in the paper, expected under Poisson sampling.
        epochs: passes over the data.
        noise_multiplier: sigma, noise standard deviation over clipping norm.
        clip_norm: C, l2 bound on a per-example gradient.
        learning_rate: of SGD, for the averaged gradient.
        momentum: of SGD.
        curriculum_epoch: e_t, at which a curriculum turns.
        beta: divisor of a regulariser.
        gamma: focusing parameter of the focal loss.
        claimed_epsilon: as quoted, at `DELTA`.
        source: where all of these are printed.
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
