"""Our step of several runs at once: one program, as a cohort is trained on an accelerator."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problem import Problem

from peers import ours
from peers.jax_training import JaxContestant, weights_of


class Cohort:
    """Runs that start from the same weights and take the same batches, each with its own state."""

    def __init__(self, alone: JaxContestant, runs: int):
        """Stack so many of it."""
        self.alone = alone
        self.state = jax.tree.map(lambda x: jnp.stack([x] * runs), alone.state)
        each = jax.vmap(alone.step_of, (0, None, *[None] * len(alone.set)))
        self.step_of_all = jax.jit(each, donate_argnums=0)

    def loss(self, indices: np.ndarray) -> float:
        return self.alone.loss(indices)

    def step(self, indices: np.ndarray) -> None:
        self.state = self.step_of_all(self.state, indices, *self.alone.set)

    def wait(self) -> None:
        jax.block_until_ready(self.state)

    def weights(self) -> list[dict[str, np.ndarray]]:
        return weights_of(jax.tree.map(lambda x: x[-1], self.state[0]))


def build(problem: Problem, variant: str) -> Cohort:
    """Build it of `variant` runs, in microbatches of 256 as the study's networks have there."""
    return Cohort(ours.build(problem, str(min(256, problem.batch))), int(variant))
