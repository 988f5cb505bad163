"""This package without clipping or noise, in microbatches of several sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from problem import Problem

from dpstudy import accumulate, mechanisms
from peers.jax_training import JaxContestant, optimizer
from peers.ours import fixed, losses, network_of


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, with `variant` examples a microbatch."""
    network = network_of(problem)
    graph, _ = nnx.split(network, nnx.Param)
    size = problem.batch if variant == "whole batch" else int(variant)

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        def part(*examples: jax.Array) -> nnx.State:
            return mechanisms.plain_sum(graph, losses, params, *examples)[0]

        nothing = jax.tree.map(jnp.zeros_like, params)
        arrays = (images, labels)
        return accumulate.over_examples(part, nothing, fixed(problem, indices), arrays, size)

    return JaxContestant(problem, network, total, optimizer(problem, private=False), losses)
