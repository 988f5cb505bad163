"""jax-privacy: `clipped_grad`, the whole batch at once or in microbatches."""

from __future__ import annotations

import jax
import jax_privacy
from flax import nnx
from problem import Problem

from peers.jax_training import JaxContestant, each_loss, optimizer, stock_network


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, with `variant` examples a microbatch."""
    network = stock_network(problem)
    graph = nnx.split(network, nnx.Param)[0]

    def loss(params: nnx.State, images: jax.Array, labels: jax.Array) -> jax.Array:
        return each_loss(nnx.merge(graph, params), images, labels).mean()

    clipped = jax_privacy.clipped_grad(
        loss,
        l2_clip_norm=problem.clip_norm,
        batch_argnums=(1, 2),
        microbatch_size=None if variant == "whole batch" else int(variant),
    )

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        return clipped(params, images[indices], labels[indices])

    return JaxContestant(problem, network, total, optimizer(problem, private=True))
