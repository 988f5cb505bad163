"""How the chapters lay experiments out: the noise for an ε, points that fill a space, rates tried.

A learning rate is chosen the same way wherever methods are compared: three tried, and more beyond
them until the best rate is not the outermost; with 10,000 training examples held out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dpstudy.lab.search import Search
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import RELEASED

Range = tuple[float, float]
# A point of the unit cube: what a setting is before its numbers have units.
Point = tuple[float, ...]
Level = TypeVar("Level")

EPSILON, HELD_OUT = 3.0, 10_000
# Multiples of a learning rate that are tried, and the factor of further ones: see `Search.beyond`.
MULTIPLES, BEYOND = (0.5, 1.0, 2.0), 2.0

# The least noise multipliers for an ε, by PLD with Poisson sampling, at δ = 1e-5: typed in, as
# machines that train have no accounting. By training examples, ε, and the noise of a release before
# them; then by batch size and epochs.
NOISE = {
    (60_000, 1.0, None): {
        256: {10: 1.05, 20: 1.3058, 40: 1.7042},
        512: {10: 1.3314, 20: 1.7213, 40: 2.3109},
        1024: {10: 1.7605, 20: 2.3431, 40: 3.2054},
        2048: {10: 2.3707, 20: 3.2122, 40: 4.4408},
        4096: {40: 6.3409},
    },
    (60_000, 2.7, None): {
        256: {20: 0.78838, 40: 0.91465, 60: 1.0241},
        512: {20: 0.93491, 40: 1.134, 60: 1.3012},
        1024: {20: 1.1606, 40: 1.4688, 60: 1.7216},
        2048: {20: 1.4893, 40: 1.9485, 60: 2.318},
    },
    (60_000, 2.93, None): {
        256: {20: 0.76568, 40: 0.88037, 60: 0.98008},
        512: {20: 0.90075, 40: 1.0819, 60: 1.2348},
        1024: {20: 1.1082, 40: 1.3899, 60: 1.6222},
        2048: {20: 1.4108, 40: 1.8325, 60: 2.1733},
    },
    (60_000, 3.0, None): {
        256: {10: 0.6936, 20: 0.75942, 40: 0.87102},
        512: {10: 0.78673, 20: 0.89141, 40: 1.0677},
        1024: {10: 0.92516, 20: 1.0939, 40: 1.3684},
        2048: {10: 1.1277, 20: 1.3894, 40: 1.8008},
        4096: {40: 2.4849},
        8192: {60: 4.0169},
    },
    (60_000, 8.0, None): {1024: {20: 0.71126, 40: 0.81474}, 4096: {40: 1.2443}},
    (50_000, 3.0, None): {1024: {30: 1.3231}, 8192: {60: 4.4452}},
    # Of the recipe's rule, on so few examples that each step takes all of them, and on more.
    (200, 3.0, None): {200: {100: 13.906}},
    (1_000, 3.0, None): {1_000: {100: 13.906}},
    (5_000, 3.0, RELEASED): {5_000: {100: 13.94}},
    (20_000, 3.0, RELEASED): {8192: {60: 6.3689}},
    (40_000, 3.0, RELEASED): {8192: {60: 5.0622}},
    (50_000, 7.53, None): {
        256: {15: 0.5695, 30: 0.62111, 45: 0.65943},
        512: {15: 0.63259, 30: 0.70362, 45: 0.75857},
        1024: {15: 0.71769, 30: 0.81979, 45: 0.90148},
        2048: {15: 0.83408, 30: 0.98447, 45: 1.1069},
    },
    (60_000, 1.0, RELEASED): {8192: {60: 10.717}, 25_000: {20: 10.176, 60: 17.431}},
    (60_000, 2.0, RELEASED): {8192: {60: 5.7173}, 25_000: {20: 5.4617, 60: 9.2531}},
    (60_000, 3.0, RELEASED): {8192: {60: 4.026}, 25_000: {20: 3.8615, 60: 6.4751}},
    (60_000, 8.0, RELEASED): {8192: {60: 1.8584}, 25_000: {20: 1.7828, 60: 2.8695}},
    (50_000, 1.0, RELEASED): {8192: {60: 11.897}, 25_000: {20: 12.152, 60: 20.882}},
    (50_000, 2.0, RELEASED): {8192: {60: 6.3381}, 25_000: {20: 6.489, 60: 11.065}},
    (50_000, 3.0, RELEASED): {8192: {60: 4.4554}, 25_000: {20: 4.5654, 60: 7.7286}},
    (50_000, 8.0, RELEASED): {8192: {60: 2.0344}, 25_000: {20: 2.0648, 60: 3.3934}},
}


def noise_multiplier(
    epsilon: float, examples: int, batch: int, epochs: int, release: float | None = None
) -> float:
    """Return the noise multiplier for an ε, of what the table has."""
    return NOISE[examples, epsilon, release][batch][epochs]


def at_epsilon(epsilon: float, run: Run) -> Run:
    """Return the run at the noise multiplier for an ε."""
    data, length = run.dataset, (run.sampling.batch, run.epochs)
    noise = noise_multiplier(epsilon, data.examples, *length, data.release_noise)
    return vary(run, noise_multiplier=noise)


def with_rate(run: Run, multiple: float, epsilon: float = EPSILON) -> Run:
    """Return the run at the ε of a search, on fewer examples, at a multiple of its rate.

    The noise is that of all examples: on fewer, the same noise costs a little more.
    """
    rate = multiple * run.optimizer.learning_rate
    return vary(at_epsilon(epsilon, run), learning_rate=rate, held_out=HELD_OUT)


def on_all(epsilon: float, best: Run) -> Run:
    """Return the best run on all examples, at an ε."""
    return at_epsilon(epsilon, vary(best, held_out=0))


def rate_search(starts: Mapping[str, tuple[Run, ...]], **others: Any) -> Search:
    """Return the search of the best rate about that of each start.

    The `starts` are by label a run for each dataset, from `with_rate`; `others` are of a `Search`.
    """
    tried = {
        label: {
            f"{label}, rate x {by:g}": tuple(
                vary(run, learning_rate=by * run.optimizer.learning_rate) for run in runs
            )
            for by in MULTIPLES
        }
        for label, runs in starts.items()
    }
    seeds = {run.dataset.name: 1 for run in next(iter(starts.values()))}
    return Search(**grouped(tried), seeds=seeds, beyond=BEYOND, **others)


def grouped(tried: Mapping[str, Mapping[str, tuple[Run, ...]]]) -> dict[str, Any]:
    """Return the `variants` and `groups` of a `Search`, which finds the best run of each name."""
    return {
        "variants": {label: runs for of_one in tried.values() for label, runs in of_one.items()},
        "groups": {f"{name}, best": tuple(of_one) for name, of_one in tried.items()},
    }


def fill(count: int, dimensions: int) -> list[Point]:
    """Return points of the unit cube by the additive recurrence u_n = (1/2 + n a) mod 1.

    a_j = g^-j with g the root of g^(d+1) = g + 1 (Roberts' generalisation of the golden ratio).
    Written out, not taken from a library: the points name stored results, and must not change with
    a library's version; and machines that only train need none.
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = [root ** -(axis + 1) for axis in range(dimensions)]
    return [tuple((0.5 + n * step) % 1 for step in steps) for n in range(1, count + 1)]


def between(position: float, bounds: Range) -> float:
    """Return the number at a position in [0, 1) between two bounds, rounded to two decimals."""
    low, high = bounds
    return round(low + position * (high - low), 2)


def between_in_log(position: float, bounds: Range) -> float:
    """Return the same spaced evenly in log, rounded to three significant digits."""
    low, high = bounds
    return float(f"{low * (high / low) ** position:.3g}")


def among(position: float, levels: Sequence[Level]) -> Level:
    """Return the level at a position in [0, 1)."""
    return levels[math.floor(position * len(levels))]
