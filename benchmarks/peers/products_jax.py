"""The machine's rate of matrix products, by XLA: what no contestant can exceed by much."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problem import Problem

# From the most exact to the least, as `jax.default_matmul_precision` names them.
PRECISIONS = {
    "float32": "highest",
    "bf16 x 6": "BF16_BF16_F32_X6",
    "bf16 x 3": "BF16_BF16_F32_X3",
    "TF32": "TF32_TF32_F32",
    "bf16": "BF16_BF16_F32",
}


class Products:
    """A product of two square matrices is a step."""

    def __init__(self, size: int, precision: str):
        """Draw the matrices."""
        self.factors = jax.random.normal(jax.random.key(0), (2, size, size))
        self.multiply = jax.jit(jnp.matmul)
        with jax.default_matmul_precision(precision):
            self.multiply = self.multiply.lower(*self.factors).compile()
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
    """Return the product of two matrices of that size, in that precision: "2048, float32"."""
    size, _, precision = variant.partition(", ")
    return Products(int(size), PRECISIONS[precision or "float32"])
