"""How curved the loss is: the largest singular value of its Hessian (losing less, Figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import nnx
from jax.flatten_util import ravel_pytree

from dpstudy.parts.measure import Measure, Moment
from dpstudy.parts.part import part, positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Array, Float

    Vector = Float[Array, "numbers"]


@part("smoothness")
class Smoothness(Measure):
    """`largest`: the largest absolute eigenvalue of the mean loss' Hessian, by Lanczos.

    A lower bound that is near it: after k steps, the largest within a space of k dimensions.

    Attributes:
        examples: of the training examples that measures are given, so many.
        steps: products of the Hessian with a vector.
    """

    examples: int = 200
    steps: int = 12

    def check(self) -> None:
        positive(self, "examples", "steps")

    def __call__(self, moment: Moment) -> dict[str, Float[Array, ""]]:
        graph, seen = (
            moment.network.graph(),
            jax.tree.map(lambda x: x[: self.examples], moment.train),
        )
        flat, shaped = ravel_pytree(moment.params)

        def slope(flat: Vector) -> Vector:
            def loss(flat: Vector) -> Array:
                return moment.losses(nnx.merge(graph, shaped(flat)), *seen).mean()

            return jax.grad(loss)(flat)

        def product(direction: Vector) -> Vector:
            # Twice backwards: the layers' own rules have no forward derivative.
            return jax.grad(lambda at: jnp.vdot(slope(at), direction))(flat)

        return {"largest": largest_eigenvalue(product, flat.size, self.steps)}


def largest_eigenvalue(
    product: Callable[[Vector], Vector], size: int, steps: int
) -> Float[Array, ""]:
    """Return the largest absolute eigenvalue of a symmetric matrix, by `steps` of Lanczos.

    Args:
        product: of the matrix with a vector.
        size: of the vector.
        steps: at most `size`.
    """
    first = jax.random.normal(jax.random.key(0), (size,))
    basis = jnp.zeros((steps + 1, size)).at[0].set(first / jnp.linalg.norm(first))

    def step(basis: Array, at: Array) -> tuple[Array, Array]:
        image = product(basis[at])
        row = basis @ image
        # Twice, or rounding lets eigenvectors already found come back.
        rest = image - basis.T @ row
        rest = rest - basis.T @ (basis @ rest)
        length = jnp.linalg.norm(rest)
        return basis.at[at + 1].set(rest / jnp.maximum(length, 1e-30)), row[:-1]

    _, projected = jax.lax.scan(step, basis, jnp.arange(steps))
    # What lies above the diagonal was not known yet when its row was taken.
    lower = jnp.tril(projected)
    symmetric = lower + lower.T - jnp.diag(jnp.diag(lower))
    return jnp.abs(jnp.linalg.eigvalsh(symmetric)).max()
