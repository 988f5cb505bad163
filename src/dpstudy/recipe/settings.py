"""How the head is trained on images of one's own: a rule in the place of a search.

A step moves a score by at most R C / (1 - m), of an image that all gradients agree with, where R is
the rate, C the clip and m the momentum. After T steps of batch B the noise σ in each has given a
score a standard deviation of

    R C σ √T / ((1 - m) B),

however many features there are, since each image has norm 1. The best rates that searches on
Fashion-MNIST and CIFAR-10 found make that about 1, at an epsilon of 1, 3 and 8 alike; and so does
the rule, for any number of images and classes. What is left to choose hardly matters: the signal
over the noise of T steps together is B √T / σ, which epsilon and the number of images determine,
but for 3 % between batches of 8,192 and of all 60,000.
"""

import math
from dataclasses import dataclass, field

from dpstudy.parts.accountable import steps_per_epoch
from dpstudy.privacy import accounting

CLIP_NORM = 0.25
MOMENTUM = 0.9
# The noise of a score at the end of training; and the longest step, for a clip of 1: that of the
# recipe at an epsilon of 8.
_NOISE_OF_A_SCORE = 1.0
_MOST_RATE = 27.5
_LARGEST_BATCH = 8_192
_PASSES, _LEAST_STEPS = 60, 100
# Of the mean: noise over sensitivity; and up to what length of its noise it is taken away, the mean
# of photographs' and clothes' features being 0.3 to 0.4 long.
_RELEASED = 20.0
_MOST_NOISE_OF_MEAN = 0.2
_OF_MEAN = {"sampling_probability": 1.0, "noise_multiplier": _RELEASED, "steps": 1}
# Below so much signal for each class over the noise of all steps little is learnt.
LEAST_SIGNAL = 10.0
_USUAL_DELTA = 1e-5


@dataclass(frozen=True)
class Settings:
    """How the head is trained."""

    examples: int
    batch: int
    steps: int
    delta: float
    noise_multiplier: float
    learning_rate: float
    release_noise: float | None
    """Of the mean of the features, over its sensitivity; None where none is released."""
    clip_norm: float = field(default=CLIP_NORM)
    momentum: float = field(default=MOMENTUM)

    @property
    def signal(self) -> float:
        """What all examples agree on, over the noise, of all steps together: B √T / σ."""
        return self.batch * math.sqrt(self.steps) / self.noise_multiplier

    @property
    def spent(self) -> dict[str, float]:
        """What is accounted for, as the arguments of `accounting.epsilon`."""
        found = {
            "sampling_probability": self.batch / self.examples,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.steps,
            "delta": self.delta,
        }
        return found | ({"release_noise": self.release_noise} if self.release_noise else {})


def delta_for(examples: int) -> float:
    """Return 1e-5, or the largest power of ten below one over the number of examples.

    >>> delta_for(200), delta_for(60_000), delta_for(200_000)
    (1e-05, 1e-05, 1e-06)
    """
    return min(_USUAL_DELTA, float(f"1e-{len(str(examples))}"))


def settings_for(
    epsilon: float,
    *,
    examples: int,
    features: int,
    delta: float | None = None,
) -> Settings:
    """Return the settings for so many examples, of so many features.

    >>> found = settings_for(3.0, examples=1_000, features=8_000)
    >>> found.batch, found.steps, round(found.learning_rate, 1), found.release_noise
    (1000, 100, 2.9, None)

    Raises:
        UserError: an argument out of range, or an epsilon that no noise gives.
    """
    accounting.whole("examples", examples, least=1)
    delta = delta_for(examples) if delta is None else delta
    accounting.check_delta(delta)
    batch = min(examples, _LARGEST_BATCH)
    steps = max(_LEAST_STEPS, _PASSES * steps_per_epoch(examples, batch))
    length = _RELEASED * math.sqrt(features) / examples
    released = _RELEASED if length <= _MOST_NOISE_OF_MEAN else None
    if released and 2 * accounting.epsilon(**_OF_MEAN, delta=delta) > epsilon:
        released = None  # it would take most of what may be spent
    sampled = {"sampling_probability": batch / examples, "steps": steps, "delta": delta}
    noise = accounting.noise_multiplier_for(epsilon, **sampled, release_noise=released)
    of_steps = noise * math.sqrt(steps) / batch
    rate = min(_NOISE_OF_A_SCORE * (1 - MOMENTUM) / of_steps, _MOST_RATE) / CLIP_NORM
    return Settings(
        examples=examples,
        batch=batch,
        steps=steps,
        delta=delta,
        noise_multiplier=noise,
        learning_rate=rate,
        release_noise=released,
    )


def too_little(settings: Settings, epsilon: float, classes: int) -> str | None:
    """Return a sentence where noise will drown what is learnt, and what would help; or None."""
    signal = settings.signal / classes
    if signal >= LEAST_SIGNAL:
        return None
    by = LEAST_SIGNAL / signal
    return (
        f"{settings.examples:,} images of {classes} classes are too few for an epsilon of "
        f"{epsilon:g}: noise will drown most of what they say. It takes about "
        f"{math.ceil(by * settings.examples / 10) * 10:,} images, or {by:.1f} times the epsilon"
    )
