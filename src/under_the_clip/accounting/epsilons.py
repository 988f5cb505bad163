"""What a run costs by noise, batch and epochs: made once, since it takes minutes, and stored.

`python -m under_the_clip.accounting.epsilons` makes the table anew.
"""

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from dpstudy.page.sliders import Sliders
from dpstudy.parts.accountable import steps_per_epoch
from dpstudy.privacy.accounting import epsilon_curve
from dpstudy.privacy.shuffling import least_epsilon_curve
from under_the_clip.accounting.curves import AT_DELTA
from under_the_clip.published import DELTA

STORED = Path(__file__).with_suffix(".json")
EXAMPLES = 60_000
NOISES = (0.7, 0.85, 1.0, 1.23, 1.5, 2.0, 3.0, 5.0)
BATCHES = (128, 256, 512, 1024, 2048)
EPOCHS = (5, 10, 20, 40, 60, 100)
STARTS = {"σ": 1.23, "batch": 512, "epochs": 40}
SAMPLED, SHUFFLED = "ε, each example by its own coin", "ε, shuffled batches: at least"
BLUR = "noise in the mean gradient, in thousandths of the clip"


def rows(sigma: float, batch: int, epochs: Sequence[int] = EPOCHS) -> list[tuple[float, ...]]:
    """Return σ, batch, epochs, ε by PLD rounded up, and what shuffled batches cost at least."""
    run = {"noise_multiplier": sigma, "delta": DELTA}
    steps = [count * steps_per_epoch(EXAMPLES, batch) for count in epochs]
    sampled = epsilon_curve(sampling_probability=batch / EXAMPLES, steps=steps, **run)
    least = least_epsilon_curve(examples=EXAMPLES, batch=batch, epochs=epochs, **run)
    return [
        (sigma, batch, count, math.ceil(1000 * cost) / 1000, math.floor(1000 * leaked) / 1000)
        for count, cost, leaked in zip(epochs, sampled, least, strict=True)
    ]


def by_sliders() -> Sliders:
    """Return ε by noise, batch and epochs, as stored."""
    data = pd.DataFrame(json.loads(STORED.read_text()), columns=[*STARTS, SAMPLED, SHUFFLED])
    data[BLUR] = 1000 * data["σ"] / data["batch"]
    return Sliders(
        name="epsilon-by-noise-batch-epochs",
        caption=f"ε of {EXAMPLES:,} examples at {AT_DELTA}: by PLD, rounded up, and what batches "
        "of a shuffled data set give away at least.",
        data=data,
        inputs=STARTS,
        formats={
            **dict.fromkeys(STARTS, "{:g}"),
            **dict.fromkeys((SAMPLED, SHUFFLED), "{:.3f}"),
            BLUR: "{:.2f}",
        },
    )


if __name__ == "__main__":
    lines = [json.dumps(row) for pair in product(NOISES, BATCHES) for row in rows(*pair)]
    STORED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
