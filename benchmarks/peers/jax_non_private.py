"""JAX without privacy: flax as it comes, the gradient of the batch."""

from __future__ import annotations

import jax
from flax import nnx
from problem import Problem

from peers.jax_training import JaxContestant, each_loss, optimizer, stock_network


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it."""
    network = stock_network(problem)
    graph = nnx.split(network, nnx.Param)[0]

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        def summed(params: nnx.State) -> jax.Array:
            return each_loss(nnx.merge(graph, params), images[indices], labels[indices]).sum()

        return jax.grad(summed)(params)

    return JaxContestant(problem, network, total, optimizer(problem, private=False))
