"""What backpropagation clipping published: its settings, and those of its corrected code."""

from dataclasses import dataclass
from functools import cached_property

from dpstudy.lab.published import Accuracy, Number, Source, by_name
from dpstudy.privacy.accounting import effective_noise_multiplier, epsilon, least_epsilon
from dpstudy.privacy.conversions import gdp_noise_multiplier_for, zcdp_rho
from under_the_clip.published import DELTA

_BACKPROP = Source("stevens2022backpropagation", "Figure 2 and Table 1")
_CORRECTED = Source(
    "stevens2022code",
    "mnist_experiment.py, upstream_clipping.py and gdp.py, second correction (9c99855)",
)


@dataclass(frozen=True)
class BackpropagationClipping:
    """Backpropagation clipping as published: layer inputs and upstream gradients clipped.

    The paper gives sensitivity 0.01 for MNIST (Section 8), input clip x gradient clip. Its code
    divided that by the batch (the line is kept in github.com/davidslater/backpropagation-clipping),
    although the clipped gradients already were those of a mean loss: the noise was too small by the
    batch size. The noise parameter is not printed: it follows from the claimed epsilon.

    Attributes:
        input_clip: l2 bound on one example's input to a layer.
        gradient_clip: bound on one example's upstream gradient.
        layers: layers with weights (Figures 3 and 4), each of which gets its own noise.
        claimed_epsilon: Table 1, by zCDP over epochs and layers, batches in parallel.
    """

    dataset: str
    examples: int
    batch: int
    epochs: int
    input_clip: float
    gradient_clip: float
    layers: int
    claimed_epsilon: float
    source: Source

    @property
    def claimed_sensitivity(self) -> float:
        """What the noise was scaled to, for one layer's gradient, in the code of the time."""
        return self.input_clip * self.gradient_clip / self.batch

    @property
    def proven_sensitivity(self) -> float:
        """What clipping guarantees for one layer's gradient (Theorems 2 and 3)."""
        return self.input_clip * self.gradient_clip

    @cached_property
    def claimed_rho(self) -> float:
        """Total rho behind the claimed epsilon (zCDP over all layers and epochs)."""
        return zcdp_rho(self.claimed_epsilon, DELTA)

    @property
    def claimed_noise_multiplier(self) -> float:
        """Noise over claimed sensitivity, for one layer: rho / (layers epochs) = 1/(2 sigma^2)."""
        return (self.layers * self.epochs / (2 * self.claimed_rho)) ** 0.5

    @property
    def proven_noise_multiplier(self) -> float:
        """The same noise over the proven sensitivity, for one layer."""
        noise_std = self.claimed_noise_multiplier * self.claimed_sensitivity
        return effective_noise_multiplier(noise_std, self.proven_sensitivity)

    @property
    def proven_rho(self) -> float:
        """Total rho with the proven sensitivity: the claimed one times the batch squared."""
        return self.layers * self.epochs / (2 * self.proven_noise_multiplier**2)


@dataclass(frozen=True)
class CorrectedClipping:
    """Backpropagation clipping as the second correction of the authors' code has it, with gdp.py.

    The first correction (270964a) divides the clip by the batch as well, keeps batches and
    accounting, which then holds for an example blanked, and states no accuracy.

    The noise is calibrated by the central limit theorem of Gaussian differential privacy, no bound,
    over steps x layers as if each layer had drawn its own batch. All see the same batch: they are
    one Gaussian with sqrt(layers) times the sensitivity, which sampling amplifies less.
    """

    target_epsilon: float
    accuracy: float
    source: Source
    dataset: str = "mnist"
    examples: int = 60_000
    batch: int = 256
    epochs: int = 5
    input_clip: float = 3.0
    gradient_clip: float = 1e-7
    layers: int = 4

    @property
    def sampling_probability(self) -> float:
        """Poisson sampling, truly performed."""
        return self.batch / self.examples

    @property
    def steps(self) -> int:
        """Steps of the run, rounded down as in the code."""
        return self.epochs * (self.examples // self.batch)

    @property
    def noise_multiplier(self) -> float:
        """Noise over one layer's sensitivity, as the code calibrates it to the target."""
        return gdp_noise_multiplier_for(
            self.target_epsilon,
            sampling_probability=self.sampling_probability,
            steps=self.steps * self.layers,
            delta=DELTA,
        )

    @property
    def joint_noise_multiplier(self) -> float:
        """The same noise over the sensitivity of all layers together."""
        return effective_noise_multiplier(self.noise_multiplier, self.layers**0.5)

    def epsilon(self, shift: float = 1.0) -> float:
        """Return the proven epsilon, the layers of a step being one sampled Gaussian.

        Args:
            shift: how far an example moves a layer's sum, over the product of the clips: 1 where
                the divisor is constant, less than 2 where it is the size of the drawn batch
                (`layer-sensitivity-mean-loss`).
        """
        return epsilon(
            sampling_probability=self.sampling_probability,
            noise_multiplier=self.joint_noise_multiplier / shift,
            steps=self.steps,
            delta=DELTA,
        )

    @property
    def least_epsilon(self) -> float:
        """What the run costs at least: the others' inputs may be 0, and then only one moves."""
        return least_epsilon(
            sampling_probability=self.sampling_probability,
            noise_multiplier=self.joint_noise_multiplier,
            steps=self.steps,
            delta=DELTA,
        )


# Epochs, input clip, gradient clip from Figure 2; epsilon from Table 1; layers from Figures 3, 4.
BACKPROPAGATION_CLIPPING = (
    BackpropagationClipping("mnist", 60_000, 4096, 25, 1.0, 0.01, 4, 0.07, _BACKPROP),
    BackpropagationClipping("fashion-mnist", 60_000, 4096, 40, 10.0, 0.01, 4, 0.87, _BACKPROP),
    BackpropagationClipping("cifar-10", 50_000, 4096, 100, 5.0, 0.001, 10, 3.64, _BACKPROP),
)
# Accuracies as the code's comments give them ("~96 %").
CORRECTED_CLIPPING = (
    CorrectedClipping(3.0, 0.96, _CORRECTED),
    CorrectedClipping(1.0, 0.95, _CORRECTED),
    CorrectedClipping(0.2, 0.87, _CORRECTED),
    CorrectedClipping(0.1, 0.79, _CORRECTED),
)

_TABLE_1 = Source("stevens2022backpropagation", "Table 1")
ACCURACIES = tuple(
    Accuracy(dataset, method, accuracy, epsilon, _TABLE_1)
    for dataset, epsilon, *accuracies in (
        ("mnist", 0.07, 0.990, 0.989, 0.987),
        ("fashion-mnist", 0.87, 0.894, 0.887, 0.886),
        ("cifar-10", 3.64, 0.769, 0.744, 0.740),
    )
    for method, epsilon, accuracy in zip(
        ("no privacy", "clips without noise", "as published"),
        (None, None, epsilon),
        accuracies,
        strict=True,
    )
)

NUMBERS = by_name(
    *(Number(f"{a.dataset}, {a.method}", a.accuracy, a.source, accuracy=True) for a in ACCURACIES),
    *(
        Number(f"{p.dataset}, epsilon", p.claimed_epsilon, p.source)
        for p in BACKPROPAGATION_CLIPPING
    ),
    *(
        Number(f"corrected, aims at {c.target_epsilon:g}", c.accuracy, c.source, accuracy=True)
        for c in CORRECTED_CLIPPING
    ),
    *(
        Number(f"corrected, epsilon {c.target_epsilon:g}", c.target_epsilon, c.source, exact=True)
        for c in CORRECTED_CLIPPING
    ),
)
