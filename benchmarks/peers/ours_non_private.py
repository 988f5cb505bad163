"""This package without clipping or noise, in microbatches of several sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec
from problem import Problem

from dpstudy.gradients import devices
from dpstudy.parts.mechanism import Microbatch, NoPrivacy
from dpstudy.parts.sampling import Draw
from dpstudy.training import accumulate
from peers.jax_training import JaxContestant, optimizer
from peers.ours import fixed, layout, losses, network_of


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, as `ours.layout` says."""
    microbatch, mesh = layout(variant)
    network = network_of(problem)
    graph, _ = nnx.split(network, nnx.Param)
    size = microbatch or problem.batch

    def sum_of(params: nnx.State, draw: Draw, *arrays: jax.Array) -> nnx.State:
        def part(*examples: jax.Array) -> nnx.State:
            *arrays, mask = examples
            return NoPrivacy().sum(Microbatch(graph, losses, params, *arrays), mask)[0]

        nothing = jax.tree.map(jnp.zeros_like, params)
        return accumulate.over_examples(part, nothing, draw, arrays, size)

    def share(params: nnx.State, indices: jax.Array, *arrays: jax.Array) -> jax.Array:
        mine = accumulate.mine(fixed(problem, indices), mesh)
        return accumulate.flat(sum_of(params, mine, *arrays))

    def alone(params: nnx.State, indices: jax.Array, *arrays: jax.Array) -> nnx.State:
        return sum_of(params, fixed(problem, indices), *arrays)

    update = optimizer(problem, private=False)
    if mesh is None:
        return JaxContestant(problem, network, alone, update, losses)
    each = devices.on_each(share, mesh, PartitionSpec(devices.EXAMPLES))
    added = devices.on_each(lambda params, parts: accumulate.added(parts, params), mesh)

    def total(params: nnx.State, indices: jax.Array, *arrays: jax.Array) -> nnx.State:
        return added(params, accumulate.exchanged(each(params, indices, *arrays), mesh))

    return JaxContestant(problem, network, total, update, losses, mesh=mesh)
