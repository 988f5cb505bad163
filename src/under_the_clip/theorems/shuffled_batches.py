"""Batches cut from a shuffled data set, accounted for as if they had been sampled.

Libraries have long done so, among them those that three of the four papers build on. For gradients
of the clipping norm, all in one direction but for the example's own in the other, an epoch of
shuffled batches releases P = mean over t of N(2 e_t, σ² I), and with the example blanked
Q = mean over t of N(e_t, σ² I), both mixed with N(0, σ² I) where examples are left over; see
`dpstudy.privacy.shuffling`. The privacy loss log P/Q can be drawn, epoch by epoch, without
accounting.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dpstudy.lab.published import DELTA, Setting
from dpstudy.parts.data.images import DATASETS
from dpstudy.privacy.accounting import epsilon
from dpstudy.privacy.conversions import gdp_epsilon
from dpstudy.propositions.statement import Outcome, Statement
from under_the_clip.losing_less.published import END_TO_END

_DRAWS, _AT_ONCE = 10_000, 2_000
# The δ at which what does hold is looked at: draws can see these.
_SEEN = (0.5, 0.1, 0.01)
# A δ is taken as exceeded when the estimate is above it by so many standard errors.
_ERRORS = 5.0


def drawn_delta(losses: np.ndarray, at: float) -> tuple[float, float]:
    """Return the δ at an ε, estimated from drawn privacy losses, and its standard error."""
    excess = np.maximum(-np.expm1(at - losses), 0)
    return float(excess.mean()), float(excess.std() / math.sqrt(len(excess)))


@cache
def drawn_losses(setting: Setting, sampled: bool = False) -> np.ndarray:
    """Draw the privacy loss of a setting's epochs, shuffled or Poisson-sampled."""
    rng = np.random.default_rng(0)
    return np.concatenate([_losses(rng, setting, sampled) for _ in range(_DRAWS // _AT_ONCE)])


def _losses(rng: np.random.Generator, setting: Setting, sampled: bool) -> np.ndarray:
    """Draw the privacy loss of a whole run some thousand times, with the example in it."""
    batches, sigma = setting.examples // setting.batch, setting.noise_multiplier
    total = np.zeros(_AT_ONCE)
    for _ in range(setting.epochs):
        seen = sigma * rng.standard_normal((_AT_ONCE, batches))
        if sampled:
            q = setting.sampling_probability
            seen += rng.random(seen.shape) < q
            total += np.log1p(q * np.expm1((2 * seen - 1) / (2 * sigma**2))).sum(axis=1)
        else:
            # Which batch has the example makes no difference; in the rest of the data none has.
            taking_part = batches * setting.batch / setting.examples
            seen[:, 0] += 2 * (rng.random(_AT_ONCE) < taking_part)
            with_example, blanked = (
                np.exp(mean * (2 * seen - mean) / (2 * sigma**2)).mean(axis=1) for mean in (2, 1)
            )
            absent = 1 - taking_part
            total += np.log(
                (taking_part * with_example + absent) / (taking_part * blanked + absent)
            )
    return total


def as_if_sampled(sampled: bool = False) -> Outcome:
    """Compare what shuffled epochs give away with what the formula for Poisson sampling says.

    Args:
        sampled: the statement is about Poisson-sampled batches instead.
    """
    worst, corrected, found = -np.inf, -np.inf, []
    for setting in END_TO_END:
        losses = drawn_losses(setting, sampled)
        formula = epsilon(
            sampling_probability=setting.sampling_probability,
            noise_multiplier=setting.noise_multiplier,
            steps=setting.steps,
            delta=DELTA,
            accountant="rdp-2019",
        )
        drawn, error = drawn_delta(losses, formula)
        excess = (drawn - _ERRORS * error) / DELTA - 1
        worst = max(worst, excess)
        told = f"{drawn:.1e} ± {error:.0e}" if excess > 0 else "no more can be told by drawing"
        found.append(f"{DATASETS[setting.dataset]}, ε = {formula:.2f}: {told}")
        for delta in _SEEN:
            unsampled = math.sqrt(setting.epochs) / setting.noise_multiplier
            drawn, error = drawn_delta(losses, gdp_epsilon(unsampled, delta))
            corrected = max(corrected, (drawn - _ERRORS * error) / delta - 1)
    return Outcome(
        worst=worst,
        corrected=corrected,
        looked=f"the {len(END_TO_END)} end-to-end settings of losing less, {_DRAWS:,} draws each",
        finding=(
            f"δ drawn at the ε that the formula gives for δ = {DELTA:.0e}. {'; '.join(found)}."
        ),
    )


STATEMENTS = (
    Statement(
        name="shuffled-as-if-sampled",
        ours=True,
        paper="abadi2016deep",
        where="Theorem 1 and what followed it, used without its assumption of sampling",
        says="The formula for Poisson sampling holds for batches cut from a shuffled data set.",
        refuted_by="Gradients within the clip that give away more, one example being blanked.",
        instead="They cost no more than one unsampled step an epoch, for one example blanked.",
        check=as_if_sampled,
    ),
)
