"""Batches cut from a shuffled data set, accounted for as if they had been sampled.

All four papers and the libraries behind them do so. For gradients of the clipping norm, all in one
direction but for the example's own in the other, an epoch of shuffled batches releases
P = mean over t of N(2 e_t, σ² I), and with the example blanked Q = mean over t of N(e_t, σ² I); see
`dpstudy.shuffling`. The privacy loss log P/Q can be drawn, epoch by epoch, without accounting.
"""

from __future__ import annotations

import math

import numpy as np

from dpstudy.accounting import epsilon
from dpstudy.published import END_TO_END, Setting
from dpstudy.shuffling import least_epsilon_curve
from dpstudy.spec import DATASETS
from dpstudy.theorems.statement import Outcome, Statement

_DRAWS, _AT_ONCE = 10_000, 2_000
# A δ is taken as exceeded when the estimate is above it by so many standard errors.
_ERRORS = 5.0


def drawn_delta(setting: Setting, at: float, sampled: bool = False) -> tuple[float, float]:
    """Return the δ at an ε of a setting's epochs, estimated from draws, and its standard error.

    Args:
        setting: its noise, batch, examples and epochs.
        at: the ε.
        sampled: draw Poisson-sampled batches instead.
    """
    rng = np.random.default_rng(0)
    losses = np.concatenate(
        [_losses(rng, setting, sampled) for _ in range(_DRAWS // _AT_ONCE)], dtype=float
    )
    excess = np.maximum(-np.expm1(at - losses), 0)
    return float(excess.mean()), float(excess.std() / math.sqrt(len(excess)))


def _losses(rng: np.random.Generator, setting: Setting, sampled: bool) -> np.ndarray:
    """Draw the privacy loss of a whole run some thousand times, with the example in it."""
    batches, sigma = setting.examples // setting.batch, setting.noise_multiplier
    total = np.zeros(_AT_ONCE)
    for _ in range(setting.epochs):
        seen = sigma * rng.standard_normal((_AT_ONCE, batches), dtype=np.float32)
        if sampled:
            q = setting.sampling_probability
            seen += rng.random(seen.shape, dtype=np.float32) < q
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
    exceeded, above, found = [], [], []
    for setting in END_TO_END:
        common = {"noise_multiplier": setting.noise_multiplier, "delta": setting.delta}
        formula = epsilon(
            sampling_probability=setting.sampling_probability,
            steps=setting.steps,
            accountant="rdp-2019",
            **common,
        )
        estimate, error = drawn_delta(setting, formula, sampled)
        exceeded.append((estimate - _ERRORS * error) / setting.delta - 1)
        [least] = least_epsilon_curve(
            examples=setting.examples, batch=setting.batch, epochs=[setting.epochs], **common
        )
        above.append(least - epsilon(sampling_probability=1.0, steps=setting.epochs, **common))
        found.append(
            f"{DATASETS[setting.dataset]}: {estimate:.1e} ± {error:.0e} at "
            f"ε = {formula:.2f}, and {setting.delta:.0e} at no less than ε = {least:.2f}"
        )
    return Outcome(
        worst=max(exceeded),
        corrected=max(above),
        looked=f"the {len(END_TO_END)} end-to-end settings of losing less, {_DRAWS:,} draws each",
        finding="δ drawn (± standard error) at the formula's ε, and the least ε of the δ asked "
        f"for. {'; '.join(found)}.",
    )


STATEMENTS = (
    Statement(
        name="shuffled-as-if-sampled",
        paper="abadi2016deep",
        where="as the four papers' libraries use it",
        says="Batches cut from a shuffled data set cost no more than the formula for Poisson "
        "sampling says.",
        refuted_by="Gradients within the clip that give away more, one example being blanked.",
        instead="They cost no more than one unsampled step an epoch.",
        check=as_if_sampled,
    ),
)
