"""Run: what determines one training run.

A `Run` is frozen and validates itself. Its content hash is its identity: it names its result file,
so the same run asked for twice is stored once. Fields marked `number` may differ between the runs
of one cohort: they enter the compiled program as arguments. All others shape the program itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstudy.errors import UserError

# As a page prints them.
DATASETS = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar-10": "CIFAR-10",
    "mnist-5k": "MNIST-5k",
}
TRAINING_EXAMPLES = {
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "cifar-10": 50_000,
    "mnist-5k": 4_000,
}
IMAGE_SHAPE = {
    "mnist": (28, 28, 1),
    "fashion-mnist": (28, 28, 1),
    "cifar-10": (32, 32, 3),
    "mnist-5k": (28, 28, 1),
}
MODELS = {
    "tempered-mnist": (28, 28, 1),
    "losing-less-mnist": (28, 28, 1),
    "backprop-mnist": (28, 28, 1),
    "tempered-cifar": (32, 32, 3),
    "losing-less-cifar": (32, 32, 3),
}
ACTIVATIONS = ("tempered", "relu", "layer-wise", "none")
INITS = ("glorot", "he")
NORMALIZATIONS = ("", "imagenet")
LOSSES = ("cross-entropy",)
MECHANISMS = ("flat", "none")
SAMPLINGS = ("poisson", "shuffled")
OPTIMIZERS = ("sgd", "adam")
RECORDS = ("", "norms")


STEEPNESS = ("scale", "inverse_temperature")
# The numbers of the second and third hidden layers, where each layer has its own.
LATER_LAYERS = tuple(f"{name}_{layer}" for layer in (2, 3) for name in (*STEEPNESS, "offset"))


class SpecError(UserError):
    """A run that cannot be: the message names the field and its value."""


def number(default: float) -> Any:
    """Declare a field whose value does not change the compiled program."""
    return dataclasses.field(default=default, metadata={"number": True})


def choose(field: str, value: str, valid: tuple[str, ...] | Mapping[str, object]) -> None:
    """Raise SpecError unless `value` is one of the names in `valid`."""
    if value not in tuple(valid):
        raise SpecError(f"unknown {field} {value!r}; one of: {', '.join(valid)}")


@dataclass(frozen=True)
class Run:
    """One training run, complete: dataset, network, mechanism, sampling, optimiser, seed.

    The defaults are the MNIST row of Table 5 of "Losing less", the common configuration of the
    study. A default never changes: fields at their default are left out of the identity, so that
    a field added later does not rename the results stored before it.

    Attributes:
        dataset: name of the training and test set.
        model: name of the network (`models.py`).
        activation: "tempered" for s / (1 + exp(-T x)) - o (tempered sigmoids, Eq. 3), "layer-wise"
            for one of its own in each of three hidden layers, "relu", or "none".
        scale: s of the tempered sigmoid; ignored by others, and then kept at its default.
        inverse_temperature: T, likewise.
        offset: o, likewise.
        scale_2: s of the second hidden layer, layer-wise; else ignored, and kept at its default.
        inverse_temperature_2: T, likewise.
        offset_2: o, likewise.
        scale_3: s of the third hidden layer, likewise.
        inverse_temperature_3: T, likewise.
        offset_3: o, likewise.
        loss: per-example training loss.
        mechanism: "flat" clips each per-example gradient to `clip_norm` in the l2 norm and adds
            Gaussian noise; "none" trains without privacy.
        clip_norm: C, in units of the gradient's l2 norm.
        noise_multiplier: sigma; the noise on the sum has standard deviation sigma * sensitivity.
        sampling: "poisson" keeps each example with probability batch / examples at every step;
            "shuffled" cuts a fresh permutation into batches, as the papers did.
        batch: expected batch size (Poisson) or batch size (shuffled).
        epochs: passes over the data; an epoch is `steps_per_epoch` steps.
        optimizer: "sgd" (with momentum) or "adam".
        learning_rate: of the optimiser; the gradient is divided by the expected batch size.
        momentum: of SGD; ignored by adam, and then kept at its default.
        delta: the delta at which epsilon is reported.
        seed: of initialisation, sampling and noise together.
        width: filters of each convolution, as a multiple of the paper's: a multiple of 1/8.
        record: what to measure after each epoch beside accuracy and loss: "" for nothing more, or
            "norms" of gradients and activations (`diagnostics.py`).
        init: what weights are drawn from, "glorot" or "he": a normal distribution, truncated, whose
            variance follows from a layer's inputs and outputs, or from its inputs alone.
        normalization: of pixels: "" scales them to [0, 1]; "imagenet" then takes from each colour
            ImageNet's mean, and divides by its standard deviation: public constants.

    Raises:
        SpecError: a field has a value outside its range.
    """

    dataset: str = "mnist"
    model: str = "tempered-mnist"
    activation: str = "tempered"
    scale: float = number(2.0)
    inverse_temperature: float = number(2.0)
    offset: float = number(1.0)
    loss: str = "cross-entropy"
    mechanism: str = "flat"
    clip_norm: float = number(0.1)
    noise_multiplier: float = number(1.23)
    sampling: str = "poisson"
    batch: int = 512
    epochs: int = 40
    optimizer: str = "sgd"
    learning_rate: float = number(0.5)
    momentum: float = number(0.9)
    delta: float = 1e-5
    seed: int = number(0)
    width: float = 1.0
    record: str = ""
    scale_2: float = number(2.0)
    inverse_temperature_2: float = number(2.0)
    offset_2: float = number(1.0)
    scale_3: float = number(2.0)
    inverse_temperature_3: float = number(2.0)
    offset_3: float = number(1.0)
    init: str = "glorot"
    normalization: str = ""

    def __post_init__(self) -> None:
        self._check_names()
        self._check_types()
        self._check_ranges()
        self._check_privacy()
        self._check_ignored()

    def _check_names(self) -> None:
        choose("dataset", self.dataset, TRAINING_EXAMPLES)
        choose("model", self.model, MODELS)
        choose("activation", self.activation, ACTIVATIONS)
        choose("init", self.init, INITS)
        choose("normalization", self.normalization, NORMALIZATIONS)
        choose("loss", self.loss, LOSSES)
        choose("mechanism", self.mechanism, MECHANISMS)
        choose("sampling", self.sampling, SAMPLINGS)
        choose("optimizer", self.optimizer, OPTIMIZERS)
        choose("record", self.record, RECORDS)
        if MODELS[self.model] != IMAGE_SHAPE[self.dataset]:
            raise SpecError(f"model {self.model!r} does not take the images of {self.dataset!r}")
        if self.normalization == "imagenet" and IMAGE_SHAPE[self.dataset][-1] != 3:
            raise SpecError(f"normalization 'imagenet' is for colours; {self.dataset!r} has none")
        if self.activation == "layer-wise" and MODELS[self.model] != (28, 28, 1):
            raise SpecError(
                f"activation 'layer-wise' is for three hidden layers; {self.model!r} has more"
            )

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "float":
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise SpecError(f"{field.name} must be a number, got {value!r}")
                if not abs(value) <= sys.float_info.max:
                    raise SpecError(f"{field.name} must be finite, got {value!r}")
                # Plus zero: -0.0 is the same number, and must not be another identity.
                object.__setattr__(self, field.name, float(value) + 0.0)
            if field.type == "int" and (isinstance(value, bool) or not isinstance(value, int)):
                raise SpecError(f"{field.name} must be a whole number, got {value!r}")

    def _check_ranges(self) -> None:
        for name in ("batch", "epochs"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch > self.examples:
            raise SpecError(
                f"batch must be at most the {self.examples} examples of {self.dataset}, "
                f"got {self.batch}"
            )
        if self.learning_rate <= 0:
            raise SpecError(f"learning_rate must be > 0, got {self.learning_rate}")
        if not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum}")
        if not 0 <= self.seed < 2**31:
            raise SpecError(f"seed must be in [0, 2^31), got {self.seed}")
        if self.width <= 0 or self.width * 8 % 1:
            raise SpecError(f"width must be a positive multiple of 1/8, got {self.width}")
        for name in (*STEEPNESS, *(name for name in LATER_LAYERS if "offset" not in name)):
            # At 0 the activation is constant; below 0 it no longer commutes with max-pooling.
            if getattr(self, name) <= 0:
                raise SpecError(f"{name} must be > 0, got {getattr(self, name)}")

    def _check_privacy(self) -> None:
        if not 0 < self.delta < 1:
            raise SpecError(f"delta must be in (0, 1), got {self.delta}")
        if self.mechanism == "none":
            if self.noise_multiplier != 0:
                raise SpecError(
                    f"noise_multiplier must be 0 without a mechanism, got {self.noise_multiplier}"
                )
            return
        for name in ("noise_multiplier", "clip_norm"):
            if getattr(self, name) <= 0:
                raise SpecError(f"{name} must be > 0, got {getattr(self, name)}")

    def _check_ignored(self) -> None:
        """Two runs that train alike must not have two identities."""
        ignored: list[str] = []
        if self.activation in ("relu", "none"):
            ignored += ["scale", "inverse_temperature", "offset"]
        if self.activation != "layer-wise":
            ignored += LATER_LAYERS
        if self.optimizer == "adam":
            ignored += ["momentum"]
        if self.mechanism == "none":
            ignored += ["clip_norm"]
        for field in dataclasses.fields(self):
            if field.name in ignored and getattr(self, field.name) != field.default:
                raise SpecError(
                    f"{field.name} has no effect in this run; leave it at {field.default}, "
                    f"got {getattr(self, field.name)}"
                )

    @property
    def private(self) -> bool:
        """Whether the run clips and adds noise, so that an epsilon can be stated for it."""
        return self.mechanism != "none"

    @property
    def examples(self) -> int:
        """Number of training examples."""
        return TRAINING_EXAMPLES[self.dataset]

    @property
    def sampling_probability(self) -> float:
        """Probability q with which an example takes part in one step."""
        return self.batch / self.examples

    @property
    def steps_per_epoch(self) -> int:
        """Steps in one epoch: those of a shuffled one never see an example twice."""
        if self.sampling == "shuffled":
            return self.examples // self.batch
        return steps_per_epoch(self.examples, self.batch)

    @property
    def identity(self) -> str:
        """The run's content hash: 16 hexadecimal digits of SHA-256 over its canonical JSON."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def shape(self) -> Run:
        """The run with its numbers at their defaults: equal for all the runs of one cohort.

        So are its length, its delta and what it records, which no step of it depends on.
        """
        free = [f for f in dataclasses.fields(self) if "number" in f.metadata]
        free += [f for f in dataclasses.fields(self) if f.name in ("epochs", "delta", "record")]
        neutral = {f.name: f.default for f in free}
        if not self.private:
            neutral["noise_multiplier"] = 0.0
        return dataclasses.replace(self, **neutral)

    @property
    def cohort(self) -> tuple[Run, int, str]:
        """What the runs of one cohort share: their shape, their epochs, and what they record."""
        return self.shape, self.epochs, self.record

    @property
    def numbers(self) -> dict[str, float]:
        """The fields that enter the compiled program as arguments."""
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if "number" in f.metadata
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not at their default, as plain JSON values."""
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Run:
        """Build the run that `to_dict` describes.

        Raises:
            SpecError: an unknown field, or a value out of range.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise SpecError(f"unknown field {unknown[0]!r} in a run")
        return cls(**fields)


def steps_per_epoch(examples: int, batch: int) -> int:
    """Return the number of steps whose expected batches cover the data once, rounded."""
    return max(1, round(examples / batch))
