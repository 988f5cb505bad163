"""This package, Poisson sampling included: `training.train_step` on a full-size training set.

The other contestants are told which examples to take.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from problem import Problem

from dpstudy import training
from peers import ours
from peers.jax_training import weights_of, with_weights


class WholeStep:
    """Runs the study's own step; the examples that it is given are not the ones it takes."""

    def __init__(self, problem: Problem):
        """Start the run."""
        run = ours.run_of(problem, sampling="poisson")
        self.problem, self.shape = problem, run.shape
        self.numbers, self.key = ours.numbers_of(problem, run), jax.random.key(0)
        state = training.start(run)
        self.state = state._replace(params=with_weights(state.params, problem.weights()))
        whole = replace(problem, examples=run.examples).data()
        self.set = tuple(jnp.asarray(array) for array in whole)
        self._step = jax.jit(partial(training.train_step, self.shape), donate_argnums=2)

    def loss(self, indices: np.ndarray) -> float:
        """See `Contestant`."""
        return ours.build(self.problem, "").loss(indices)

    def step(self, indices: np.ndarray) -> None:
        """See `Contestant`."""
        self.state = self._step(self.numbers, self.key, self.state, *self.set)[0]

    def wait(self) -> None:
        """See `Contestant`."""
        jax.block_until_ready(self.state)

    def weights(self) -> list[dict[str, np.ndarray]]:
        """See `Contestant`."""
        return weights_of(self.state.params)


def build(problem: Problem, variant: str) -> WholeStep:
    """Build the study's step on a training set of full size."""
    return WholeStep(problem)
