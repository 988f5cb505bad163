"""The machine's rate of matrix products, float32, by PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from problem import Problem


class Products:
    """A product of two square matrices is a step."""

    def __init__(self, size: int):
        """Draw the matrices."""
        self.factors = torch.randn(2, size, size)

    def loss(self, indices: np.ndarray) -> float:
        """Return nothing of interest."""
        return 0.0

    def step(self, indices: np.ndarray) -> None:
        """Multiply."""
        self.result = self.factors[0] @ self.factors[1]

    def wait(self) -> None:
        """See `Contestant`."""


def build(problem: Problem, variant: str) -> Products:
    """Return the product of two matrices of that size."""
    return Products(int(variant))
