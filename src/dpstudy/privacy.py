"""The epsilon of a run: from what was sampled, bounded and noised to what its curve states.

Poisson-sampled runs carry the accountants' epsilon. Shuffled runs carry the papers' claim, the
same formula used where its assumption does not hold, and the epsilon that does hold for them: of
one unsampled step an epoch. The latter is for neighbours of which one has an example blanked, so
that it contributes nothing. Adding or removing one would move others to other batches; replacing
one has twice the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpstudy import accounting
from dpstudy.spec import Run
from dpstudy.store import Result

LABELS = {
    "pld": "PLD",
    "rdp": "RDP",
    "rdp-2019": "RDP with the conversion of 2017, as in the papers",
    "claimed-rdp-2019": accounting.CLAIMED_LABEL,
    "shuffled-pld": "PLD without amplification, shuffled batches, one example blanked",
}


def epsilon_curve(run: Run, steps: list[int]) -> dict[str, list[float | None]]:
    """Return, by accountant, the run's epsilon at `run.delta` after each number of steps.

    Empty for a run without privacy.
    """
    if not run.private:
        return {}
    common = {"noise_multiplier": run.noise_multiplier, "delta": run.delta}
    sampled = common | {"sampling_probability": run.sampling_probability, "steps": steps}
    if run.sampling == "poisson":
        return {
            name: _rounded(accounting.epsilon_curve(**sampled, accountant=name))
            for name in accounting.ACCOUNTANTS
        }
    # In an epoch an example is in one batch at most: `Run.steps_per_epoch` sees to that.
    passes = [-(-count // run.steps_per_epoch) for count in steps]
    return {
        "claimed-rdp-2019": _rounded(accounting.epsilon_curve(**sampled, accountant="rdp-2019")),
        "shuffled-pld": _rounded(
            accounting.epsilon_curve(**common, sampling_probability=1.0, steps=passes)
        ),
    }


def _rounded(values: tuple[float, ...]) -> list[float | None]:
    """Round to six significant digits: finer than the accountants' own discretisation.

    None where there is no finite epsilon, since JSON has no infinity.
    """
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def with_epsilon(result: Result) -> Result:
    """Return the result with its epsilon at each epoch of its curve filled in."""
    return replace(result, epsilon=epsilon_curve(result.run, result.curve["step"]))
