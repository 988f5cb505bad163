"""The epsilon of a run: from what was sampled, bounded and noised to what its curve states.

Poisson-sampled runs carry the accountants' epsilon, with what their dataset releases before the
first step. Shuffled runs carry the papers' claim, the same formula used where its assumption does
not hold, the epsilon that is proven, of one unsampled step an epoch, and one that some gradients
exceed (`shuffling.py`); both bounds are for neighbours of which one has an example blanked. Adding
or removing one would move others to other batches; replacing one has twice the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dpstudy.privacy import accounting, shuffling
from dpstudy.privacy.conversions import gdp_epsilon, gdp_mu, zcdp_epsilon

if TYPE_CHECKING:  # It loads JAX; `dpstudy epsilon` asks for numbers of no run.
    from dpstudy.parts.run import Run

LABELS = {
    "pld": "PLD",
    "rdp": "RDP",
    "rdp-2019": "RDP with the conversion of 2017, as in the papers",
    "claimed-rdp-2019": accounting.CLAIMED_LABEL,
    "claimed-zcdp": "zCDP over epochs of disjoint batches, with the sensitivity of the paper",
    "claimed-gdp": "the central limit of Gaussian privacy, over steps times layers",
    "shuffled-at-least": "at least, for some gradients within the clip: shuffled batches, one "
    "example blanked",
    "shuffled-pld": "at most: PLD without amplification, shuffled batches, one example blanked",
}


def epsilon_curve(run: Run, steps: list[int]) -> dict[str, list[float | None]]:
    """Return, by accountant, the run's epsilon at `run.delta` after each number of steps.

    Empty for a run without privacy.

    >>> from dpstudy.parts.run import Run
    >>> epsilon_curve(Run(), [])
    {'pld': [], 'rdp': [], 'rdp-2019': []}
    """
    from dpstudy.parts.sampling import Shuffled

    if not run.private:
        return {}
    noise = {"noise_multiplier": run.mechanism.noise_over_sensitivity, "delta": run.delta}
    if isinstance(run.sampling, Shuffled):
        examples, batch = run.dataset.examples, run.sampling.batch
        proven = shuffled_curve(examples=examples, batch=batch, steps=steps, **noise)
    else:
        noise |= {"sampling_probability": run.sampling_probability, "steps": steps}
        noise["release_noise"] = run.dataset.release_noise
        proven = {
            name: _rounded(accounting.epsilon_curve(accountant=name, **noise))
            for name in accounting.ACCOUNTANTS
        }
    claim = run.mechanism.claimed_accountant
    return proven | ({f"claimed-{claim}": _rounded(_claimed(run, steps))} if claim else {})


def _claimed(run: Run, steps: list[int]) -> Iterable[float]:
    claim, noise = run.mechanism.claimed_accountant, run.mechanism.claimed_noise_over_sensitivity
    if claim == "zcdp":
        epochs = [-(-count // run.steps_per_epoch) for count in steps]
        return [zcdp_epsilon(count / (2 * noise**2), run.delta) for count in epochs]
    sampling = {"sampling_probability": run.sampling_probability}
    if claim == "gdp":
        # Each layer as a step of its own: its noise over its sensitivity is √layers times that of
        # all together.
        import jax

        layers = len(jax.tree.leaves(run.network.shapes()))
        sampling["noise_multiplier"] = noise * math.sqrt(layers)
        mus = [gdp_mu(steps=layers * count, **sampling) for count in steps]
        return [gdp_epsilon(mu, run.delta) for mu in mus]
    return accounting.epsilon_curve(
        **sampling, steps=steps, accountant=claim, noise_multiplier=noise, delta=run.delta
    )


def shuffled_curve(
    *, examples: int, batch: int, steps: list[int], noise_multiplier: float, delta: float
) -> dict[str, list[float | None]]:
    """Return what is claimed of shuffled batches, and what they cost at least and at most.

    An epoch has as many steps as the examples fill batches, and leaves the rest out. The
    `noise_multiplier` is over the clipping norm.

    >>> run = {"examples": 60_000, "batch": 60_000, "noise_multiplier": 2.0, "delta": 1e-5}
    >>> list(shuffled_curve(**run, steps=[0]).values())
    [[0.0], [0.0], [0.0]]

    Raises:
        UserError: an argument out of range.
    """
    probability = accounting.sampling_probability_of(examples=examples, batch=batch)
    noise = {"noise_multiplier": noise_multiplier, "delta": delta}
    batches = examples // batch
    claimed = accounting.epsilon_curve(
        sampling_probability=probability, steps=steps, accountant="rdp-2019", **noise
    )
    # In an epoch an example is in one batch at most. An epoch counts in the lower bound once it is
    # over, in the upper one as soon as it begins.
    over, begun = [count // batches for count in steps], [-(-count // batches) for count in steps]
    at_least = shuffling.least_epsilon_curve(examples=examples, batch=batch, epochs=over, **noise)
    at_most = accounting.epsilon_curve(sampling_probability=1.0, steps=begun, **noise)
    return {
        "claimed-rdp-2019": _rounded(claimed),
        "shuffled-at-least": [_six_digits(value, math.floor) for value in at_least],
        "shuffled-pld": _rounded(at_most),
    }


def _rounded(values: Iterable[float]) -> list[float | None]:
    # Finer than the accountants' own discretisation; JSON has no infinity.
    return [_six_digits(value, round) if math.isfinite(value) else None for value in values]


def _six_digits(value: float, rounding: Callable[[float], int]) -> float:
    if value == 0:
        return 0.0
    shift = 5 - math.floor(math.log10(value))
    return float(f"{rounding(value * 10.0**shift)}e{-shift}")
