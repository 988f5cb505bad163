"""JAX as any user would write it: flax as it comes, `vmap(grad)`, norms, weighted sum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from problem import Problem

from dpstudy import mechanisms
from dpstudy.gradients import per_example
from peers.jax_training import JaxContestant, each_loss, optimizer, stock_network


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, over the whole batch at once."""
    network = stock_network(problem)
    graph = nnx.split(network, nnx.Param)[0]
    mechanism = mechanisms.FlatClipping(problem.clip_norm)

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        batch = images[indices], labels[indices]
        each = per_example.by_vmap(graph, each_loss, params, *batch)
        return mechanism.sum(*each, jnp.ones(len(indices)))[0]

    return JaxContestant(problem, network, total, optimizer(problem, private=True))
