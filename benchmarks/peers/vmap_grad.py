"""JAX as any user would write it: flax as it comes, `vmap(grad)`, norms, weighted sum."""

from __future__ import annotations

import jax
from flax import nnx
from problem import Problem

from dpstudy.gradients import per_example
from dpstudy.parts.mechanism import clip_coefficients
from peers.jax_training import JaxContestant, each_loss, optimizer, stock_network


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, over the whole batch at once."""
    network = stock_network(problem)
    graph = nnx.split(network, nnx.Param)[0]

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        batch = images[indices], labels[indices]
        _, each = per_example.by_vmap(graph, each_loss, params, *batch)
        return each.weighted_sum(clip_coefficients(each.norms(), problem.clip_norm))

    return JaxContestant(problem, network, total, optimizer(problem, private=True))
