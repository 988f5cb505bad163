"""The contestants, one file each.

A contestant's module has `build(problem, variant)`, which returns a `Contestant`; `roster.py` lists
them with the variants that each may be measured in.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Contestant(Protocol):
    """A network being trained."""

    def loss(self, indices: np.ndarray) -> float:
        """Return the mean loss of those examples under the current weights."""

    def step(self, indices: np.ndarray) -> None:
        """Train one step on those examples; may return before it is done."""

    def wait(self) -> None:
        """Return when all steps are done."""

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Return the weights as `Problem.weights` lays them out."""
