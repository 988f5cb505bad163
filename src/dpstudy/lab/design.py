"""Points that fill a space evenly: the settings of a sweep, the same on every machine for good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

Range = tuple[float, float]
# A point of the unit cube: what a setting is before its numbers have units.
Point = tuple[float, ...]
Level = TypeVar("Level")


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
    """Return the number at a position in [0, 1) between two bounds, spaced evenly in log.

    Rounded to three significant digits.
    """
    low, high = bounds
    return float(f"{low * (high / low) ** position:.3g}")


def among(position: float, levels: Sequence[Level]) -> Level:
    """Return the level at a position in [0, 1)."""
    return levels[math.floor(position * len(levels))]
