"""What a training guarantees, whom, against what, and what not: text and JSON.

In the terms in which Ponomareva et al. (2023), *How to DP-fy ML*, Section 5.3, ask for a guarantee:
setting, data accesses, output, unit, neighbours, accounting and its assumptions, verifiability.
"""

import dataclasses
import json
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Shuffled
from dpstudy.privacy.run_epsilon import LABELS, epsilon_curve

_WIDTH = 78
UNCOUNTED = (
    "settings may have been chosen by other trainings on these data: no part of this epsilon "
    "counts them"
)
THREEFRY = (
    "JAX's threefry, which is fast and no cryptographic generator; whoever knows its key can take "
    "the noise away again"
)
ADDED = "data sets that differ by adding or removing one example"
BLANKED = "data sets of which one has an example blanked, so that it adds nothing"
BESIDE = (
    "accuracies and losses that were measured on private examples",
    "what all examples together show, such as that a class looks like this",
    "people with several examples: for k of them it is k times this epsilon, at a delta that is "
    "larger, by a factor of (exp(k epsilon) - 1) / (exp(epsilon) - 1)",
)


@dataclass(frozen=True)
class Statement:
    """A privacy guarantee with all that it depends on; `str` of it is text.

    `epsilon` is None where nothing is guaranteed; `guarantee` says why.
    """

    epsilon: float | None
    delta: float
    guarantee: str
    setting: str
    unit: str
    neighbours: str
    data_accesses: str
    output: str
    accountant: str
    assumptions: str
    sampling: str
    steps: int
    bound: str
    noise: str
    released_besides: str
    searched: str
    randomness: str
    not_covered: tuple[str, ...]
    numbers: Mapping[str, float]
    """What the accountant was given, by the names of its arguments."""
    verifiable: str

    def __str__(self) -> str:
        lines = []
        for field in dataclasses.fields(self):
            if field.name in ("epsilon", "delta", "numbers"):
                continue
            value = getattr(self, field.name)
            each = value if isinstance(value, tuple) else (str(value),)
            label = field.name.replace("_", " ") + ": "
            for at, text in enumerate(each):
                first = label if at == 0 else ""
                indent = " " * 19
                lines += textwrap.wrap(
                    text, _WIDTH, initial_indent=f"{first:<19}", subsequent_indent=indent
                )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain JSON values."""
        found = dataclasses.asdict(self)
        return found | {"not_covered": list(self.not_covered), "numbers": dict(self.numbers)}

    def to_json(self) -> str:
        """Return the statement as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote down; TypeError or KeyError of anything else."""
        return cls(**{**written, "not_covered": tuple(written["not_covered"])})


def statement(run: Run) -> Statement:
    """State the privacy of a run: what was trained by its sampling, noise and number of steps.

    >>> from dpstudy.parts.mechanism import NoPrivacy
    >>> statement(Run(mechanism=NoPrivacy())).guarantee
    'none: what one example adds is not bounded, or no noise hides it'
    """
    steps = run.epochs * run.steps_per_epoch
    shuffled = isinstance(run.sampling, Shuffled)
    found = {name: curve[0] for name, curve in epsilon_curve(run, [steps]).items()}
    mechanism, released = run.mechanism, run.dataset.release_noise
    epsilon = found.get("shuffled-pld" if shuffled else "pld")
    numbers: dict[str, float] = {"steps": steps, "delta": run.delta}
    if run.private:
        numbers["noise_multiplier"] = float(mechanism.noise_over_sensitivity)
        numbers["sampling_probability"] = run.sampling_probability
        numbers |= {"release_noise": released} if released else {}
    settings = {f.name: getattr(mechanism, f.name) for f in dataclasses.fields(mechanism)}
    claimed = [
        f"{LABELS[name]} gives {value:.4g}"
        for name, value in found.items()
        if name.startswith("claimed") and value is not None
    ]
    return Statement(
        epsilon=epsilon,
        delta=run.delta,
        guarantee=guarantee_of(epsilon, run.delta, _why_none(run)),
        **COMMON,
        neighbours=BLANKED if shuffled else ADDED,
        accountant=LABELS["shuffled-pld" if shuffled else "pld"] if run.private else "none",
        assumptions=_assumptions(shuffled, claimed) if run.private else "none",
        sampling=sampling_of(run.dataset.examples, run.sampling.batch, shuffled),
        steps=steps,
        bound=", ".join(
            [
                f"mechanism {mechanism.kind!r}",
                *(
                    f"{name} {value}"
                    for name, value in settings.items()
                    if name != "noise_multiplier"
                ),
            ]
        ),
        noise=noise_of(numbers.get("noise_multiplier")),
        released_besides=released_of(released, run.dataset.draws),
        searched=UNCOUNTED,
        randomness=f"{THREEFRY}. The seed, {run.seed}, is part of the run: where the run is known "
        "the guarantee holds for those who do not use it",
        not_covered=BESIDE,
        numbers=numbers,
    )


COMMON = {
    "setting": "central: whoever trains sees the data, and all others what comes out",
    "unit": "one example: an image and its label",
    "data_accesses": "this training alone, all of its steps and what it releases before the first",
    "output": "the model, and all models on the way to it, once each, together",
    "verifiable": "the code is open; the accountant is Google's dp-accounting, and `numbers` are "
    "its arguments",
}


def guarantee_of(epsilon: float | None, delta: float, why_none: str = "") -> str:
    """Return the formal statement, epsilon rounded up."""
    if epsilon is None:
        return f"none: {why_none or 'its bound is infinite'}"
    return f"({math.ceil(epsilon * 1000) / 1000:.12g}, {delta})-differential privacy"


def sampling_of(examples: int, batch: int, shuffled: bool = False) -> str:
    """Say which examples take part in a step."""
    if shuffled:
        return f"batches of {batch:,}, cut from {examples:,} examples shuffled anew each epoch"
    if batch == examples:
        return f"all {examples:,} examples in each step"
    return (
        f"Poisson, truly performed: each of {examples:,} examples in each step with a probability "
        f"of {batch / examples:.4g}, independently"
    )


def noise_of(multiplier: float | None) -> str:
    """Say how much noise a step's sum gets."""
    if multiplier is None:
        return "none"
    return f"Gaussian, {multiplier:.5g} times what one example may add to a step's sum (l2)"


def released_of(noise: float | None, drawn: bool) -> str:
    """Say what else of the private examples is let out, and what is not of them at all."""
    public = "; filters and whitening of features are of images drawn from a seed" if drawn else ""
    if not noise:
        return f"nothing{public}"
    return (
        f"the mean of the examples' features, each of norm 1, once, with noise of {noise:g} times "
        f"that norm on the sum: epsilon counts it{public}"
    )


def _why_none(run: Run) -> str:
    if run.dataset.leaks:
        return "its features are fitted to private images without noise"
    if run.mechanism.noise_over_sensitivity is None:
        return "what one example adds is not bounded, or no noise hides it"
    return ""


def _assumptions(shuffled: bool, claimed: list[str]) -> str:
    text = "batches are as the accountant assumes, and the sum is divided by their expected size"
    if shuffled:
        text = "none of the sampling: an epoch counts as one step that sees every example"
    if claimed:
        text += (
            f". As published, {'; '.join(claimed)}, whose assumptions were not met or not proven"
        )
    return text
