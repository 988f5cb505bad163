"""This package, as the study trains: `training.sum_over` and `training.optimizer`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from problem import STUDY_MODEL, Problem

from dpstudy import models, sampling, training
from dpstudy.spec import Run
from peers.jax_training import JaxContestant


def run_of(problem: Problem, **fields: object) -> Run:
    """Return the run whose steps are timed."""
    dataset, model = problem.name, STUDY_MODEL[problem.name]
    fields = {"sampling": "shuffled", "batch": problem.batch} | fields
    return Run(dataset=dataset, model=model, clip_norm=problem.clip_norm, **fields)


def numbers_of(problem: Problem, run: Run) -> training.Numbers:
    """Return the run's numbers: the problem's where it states one, noise 0 included."""
    names = ("clip_norm", "noise_multiplier", "learning_rate", "momentum")
    stated = {name: jnp.float32(getattr(problem, name)) for name in names}
    return training.traced_numbers(run) | stated


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build the network of the study; its width cannot be changed."""
    assert problem.width == 1
    run = run_of(problem)
    numbers = numbers_of(problem, run)

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        draw = sampling.Draw(indices, jnp.int32(problem.batch), jnp.bool_(False))
        return training.sum_over(run.shape, numbers, params, draw, images, labels)[0]

    return JaxContestant(
        problem,
        models.build(run.model, jax.random.key(0)),
        total,
        training.optimizer(run.shape, numbers, jax.random.key(0)),
        training.objective(run.shape, numbers),
    )
