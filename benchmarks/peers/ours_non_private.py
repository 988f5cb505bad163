"""This package without clipping or noise, in microbatches of several sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from problem import Problem

from dpstudy import accumulate, devices, mechanisms, sampling
from peers.jax_training import JaxContestant, optimizer
from peers.ours import fixed, layout, losses, network_of, on_all_devices


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, as `ours.layout` says."""
    microbatch, mesh = layout(variant)
    network = network_of(problem)
    graph, _ = nnx.split(network, nnx.Param)
    size = microbatch or problem.batch

    def sum_of(params: nnx.State, draw: sampling.Draw, *arrays: jax.Array) -> nnx.State:
        def part(*examples: jax.Array) -> nnx.State:
            return mechanisms.plain_sum(graph, losses, params, *examples)[0]

        nothing = jax.tree.map(jnp.zeros_like, params)
        return accumulate.over_examples(part, nothing, draw, arrays, size)

    def shared(params: nnx.State, draw: sampling.Draw, *arrays: jax.Array) -> nnx.State:
        mine = devices.my_share(draw, mesh)
        return devices.sum_of_shares(sum_of(params, mine, *arrays), mesh)

    everywhere = {"in_specs": devices.EVERYWHERE, "out_specs": devices.EVERYWHERE}
    chosen = jax.shard_map(shared, mesh=mesh, check_vma=False, **everywhere) if mesh else sum_of

    def total(params: nnx.State, indices: jax.Array, *arrays: jax.Array) -> nnx.State:
        return chosen(params, fixed(problem, indices), *arrays)

    update = optimizer(problem, private=False)
    return on_all_devices(JaxContestant(problem, network, total, update, losses), mesh)
