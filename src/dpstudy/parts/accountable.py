"""What is accounted for: the noise, the steps and the passes for which an epsilon can be stated.

Within, an answer takes seconds and under 1 GB, and was no less than the exact one where that is
known. No accountant is needed to tell, so that a machine without one refuses the same runs.
"""

from dpstudy.errors import UserError

LEAST_NOISE, MOST_NOISE = 1e-3, 1e6
_MOST_STEPS = 1_000_000
# Passes over the data, q x steps, drive the memory: more so below so much noise.
_MOST_PASSES, _MOST_PASSES_OF_LITTLE_NOISE, _LITTLE_NOISE = 5_000, 1_000, 0.1


def check_range(q: float, sigma: float, steps: int) -> None:
    """Raise UserError where a run is beyond what is accounted for, and name what is.

    An example takes part in a step with probability `q`; `sigma` is noise over proven sensitivity.
    """
    if not LEAST_NOISE <= sigma <= MOST_NOISE:
        raise UserError(
            f"noise multiplier must be between {LEAST_NOISE:g} and {MOST_NOISE:,.0f} to be "
            f"accounted for, got {sigma:g}"
        )
    if steps > _MOST_STEPS:
        raise UserError(f"steps must be at most {_MOST_STEPS:,} to be accounted for, got {steps:,}")
    little = sigma < _LITTLE_NOISE
    most = _MOST_PASSES_OF_LITTLE_NOISE if little else _MOST_PASSES
    if q * steps > most:
        raise UserError(
            f"passes over the data must be at most {most:,} to be accounted for"
            f"{f' with a noise multiplier below {_LITTLE_NOISE}' if little else ''}, got "
            f"{q * steps:,.0f}"
        )


def steps_per_epoch(examples: int, batch: int) -> int:
    """Return the number of steps whose expected batches cover the data once, rounded."""
    return max(1, round(examples / batch))
