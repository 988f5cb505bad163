"""This package: `private_gradient`, the same parts that the study trains with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh
from problem import Problem

from dpstudy.gradients import convolution, devices, layers, pooling
from dpstudy.parts.networks.activation import TANH
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.sampling import Draw
from dpstudy.training.own_network import private_gradient
from peers.jax_training import FlaxNetwork, JaxContestant, loss_with, optimizer
from under_the_clip.networks import LosingLessCifar

losses = loss_with(TANH)
STUDY_NETWORK = {"mnist": SmallCnn(), "cifar-10": LosingLessCifar()}


def network_of(problem: Problem) -> nnx.Module:
    """Return the study's network or, at another width, one of the same layers; no weights yet."""
    if problem.width == 1:
        return nnx.eval_shape(lambda: STUDY_NETWORK[problem.name].module(nnx.Rngs(0)))

    def pool(x: jax.Array, stride: int) -> jax.Array:
        return pooling.max_pool(x, stride=stride)

    conv = partial(layers.Conv, conv_general_dilated=convolution.conv_general_dilated)
    return nnx.eval_shape(lambda: FlaxNetwork(problem, conv, layers.Dense, pool))


def fixed(problem: Problem, indices: jax.Array) -> Draw:
    """Return the given examples as the ones drawn."""
    return Draw(indices, jnp.int32(problem.batch), jnp.bool_(False))


def layout(variant: str) -> tuple[int | None, Mesh | None]:
    """Return examples a microbatch (None: the whole batch) and the devices that share a step.

    A variant that ends in "a device a core" has JAX take each core as a device; otherwise the
    process is one device, whose threads share each operation.
    """
    size, _, spread = variant.partition(", ")
    if spread:
        devices.one_device_a_core()
    return (
        None if size == "whole batch" else int(size),
        devices.mesh_for(1) if spread else None,
    )


def clipping(
    problem: Problem,
    network: nnx.Module,
    draw: Callable[[Problem, jax.Array], Draw],
    microbatch: int,
    mesh: Mesh | None = None,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> JaxContestant:
    """Return our private step on a network, taking the examples that `draw` makes of the given."""
    clipped, _ = private_gradient(
        network, losses, clip_norm=problem.clip_norm, microbatch=microbatch, mesh=mesh
    )

    drawn = partial(draw, problem)
    if mesh is not None:
        drawn = devices.on_each(drawn, mesh)

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        return clipped(params, images, labels, drawn(indices))

    update = optimizer(problem, private=True)
    return JaxContestant(problem, network, total, update, losses, data, mesh)


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, as `layout` says."""
    microbatch, mesh = layout(variant)
    return clipping(problem, network_of(problem), fixed, microbatch or problem.batch, mesh)
