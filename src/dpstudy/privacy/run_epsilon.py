"""The epsilon of a run: from what was sampled, bounded and noised to what its curve states.

Poisson-sampled runs carry the accountants' epsilon, which composes what their dataset releases
before the first step. Shuffled runs carry the papers' claim, the
same formula used where its assumption does not hold, and two bounds on what all gradients within
the clip cost at worst: the epsilon that is proven, of one unsampled step an epoch, and one that
some gradients exceed, see `shuffling.py`. Both are for neighbours of which one has an example
blanked, so that it contributes nothing. Adding or removing one would move others to other batches;
replacing one has twice the sensitivity.

A mechanism whose paper accounts for it otherwise carries that claim as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax

from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Shuffled
from dpstudy.privacy import accounting, shuffling
from dpstudy.privacy.conversions import gdp_epsilon, gdp_mu, zcdp_epsilon

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
    """
    if not run.private:
        return {}
    return _proven_curve(run, steps) | _claimed_curve(run, steps)


def _proven_curve(run: Run, steps: list[int]) -> dict[str, list[float | None]]:
    run_noise = {"noise_multiplier": run.mechanism.noise_over_sensitivity, "delta": run.delta}
    if isinstance(run.sampling, Shuffled):
        examples, batch = run.dataset.examples, run.sampling.batch
        return shuffled_curve(examples=examples, batch=batch, steps=steps, **run_noise)
    return {
        name: _rounded(
            accounting.epsilon_curve(
                sampling_probability=run.sampling_probability,
                steps=steps,
                accountant=name,
                release_noise=run.dataset.release_noise,
                **run_noise,
            )
        )
        for name in accounting.ACCOUNTANTS
    }


def _claimed_curve(run: Run, steps: list[int]) -> dict[str, list[float | None]]:
    claim, noise = run.mechanism.claimed_accountant, run.mechanism.claimed_noise_over_sensitivity
    if claim == "zcdp":
        epochs = [-(-count // run.steps_per_epoch) for count in steps]
        values = [zcdp_epsilon(count / (2 * noise**2), run.delta) for count in epochs]
    elif claim == "gdp":
        # Each layer as a step of its own: its noise over its sensitivity is √layers times that of
        # all together.
        layers = len(jax.tree.leaves(run.network.shapes()))
        of_a_layer = {"noise_multiplier": noise * math.sqrt(layers)}
        of_a_layer["sampling_probability"] = run.sampling_probability
        mus = [gdp_mu(steps=layers * count, **of_a_layer) for count in steps]
        values = [gdp_epsilon(mu, run.delta) for mu in mus]
    elif claim:
        values = accounting.epsilon_curve(
            sampling_probability=run.sampling_probability,
            steps=steps,
            accountant=claim,
            noise_multiplier=noise,
            delta=run.delta,
        )
    else:
        return {}
    return {f"claimed-{claim}": _rounded(tuple(values))}


def shuffled_curve(
    *, examples: int, batch: int, steps: list[int], noise_multiplier: float, delta: float
) -> dict[str, list[float | None]]:
    """Return what is claimed of shuffled batches, and what they cost at least and at most.

    An epoch has as many steps as the examples fill batches, and leaves the rest out.

    Args:
        examples: in the data set.
        batch: examples in a batch.
        steps: after which counts of steps, each >= 0.
        noise_multiplier: sigma > 0, noise standard deviation over clipping norm.
        delta: in (0, 1).

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
    at_least = shuffling.least_epsilon_curve(
        examples=examples,
        batch=batch,
        epochs=[count // batches for count in steps],
        **noise,
    )
    at_most = accounting.epsilon_curve(
        sampling_probability=1.0, steps=[-(-count // batches) for count in steps], **noise
    )
    return {
        "claimed-rdp-2019": _rounded(claimed),
        "shuffled-at-least": [_six_digits(value, math.floor) for value in at_least],
        "shuffled-pld": _rounded(at_most),
    }


def _rounded(values: tuple[float, ...]) -> list[float | None]:
    """Round to six significant digits: finer than the accountants' own discretisation.

    None where there is no finite epsilon, since JSON has no infinity.
    """
    return [_six_digits(value, round) if math.isfinite(value) else None for value in values]


def _six_digits(value: float, rounding: Callable[[float], int]) -> float:
    if value == 0:
        return 0.0
    shift = 5 - math.floor(math.log10(value))
    return float(f"{rounding(value * 10.0**shift)}e{-shift}")
