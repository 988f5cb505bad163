"""The machine's rate of matrix products, float32, by XLA: what no contestant can exceed by much."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problem import Problem


class Products:
    """A product of two square matrices is a step."""

    def __init__(self, size: int):
        """Draw the matrices."""
        self.factors = jax.random.normal(jax.random.key(0), (2, size, size))
        self.multiply = jax.jit(jnp.matmul)
        self.result = self.multiply(*self.factors)

    def loss(self, indices: np.ndarray) -> float:
        """Return nothing of interest."""
        return 0.0

    def step(self, indices: np.ndarray) -> None:
        """Multiply."""
        self.result = self.multiply(*self.factors)
        self.result.block_until_ready()

    def wait(self) -> None:
        """See `Contestant`."""


def build(problem: Problem, variant: str) -> Products:
    """Return the product of two matrices of that size."""
    return Products(int(variant))
