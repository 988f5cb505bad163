"""This package without clipping or noise, in microbatches of several sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from problem import Problem

from dpstudy import accumulate, mechanisms, models, sampling, training
from peers import ours
from peers.jax_training import JaxContestant


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build the network of the study, with `variant` examples a microbatch."""
    run = ours.run_of(problem, mechanism="none", noise_multiplier=0.0)
    numbers = training.traced_numbers(run)
    graph, losses = models.structure(run.model), training.objective(run.shape, numbers)
    size = problem.batch if variant == "whole batch" else int(variant)

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        draw = sampling.Draw(indices, jnp.int32(problem.batch), jnp.bool_(False))

        def part(*examples: jax.Array) -> tuple[nnx.State, mechanisms.Seen]:
            return mechanisms.plain_sum(graph, losses, params, *examples)

        nothing = jax.tree.map(jnp.zeros_like, params), mechanisms.nothing_seen()
        return accumulate.over_examples(part, nothing, draw, (images, labels), size)[0]

    numbers |= {name: jnp.float32(getattr(problem, name)) for name in ("learning_rate", "momentum")}
    return JaxContestant(
        problem,
        models.build(run.model, jax.random.key(0)),
        total,
        training.optimizer(run.shape, numbers, jax.random.key(0)),
        losses,
    )
