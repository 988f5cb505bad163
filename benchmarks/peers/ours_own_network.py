"""This package on a network of one's own: `private.private_gradient`, at any width."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from problem import Problem

from dpstudy import layers, models, pooling, private, sampling, training
from peers.jax_training import FlaxNetwork, JaxContestant, each_loss, optimizer, tanh


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build the described network from the package's layers."""

    def pool(x: jax.Array, stride: int) -> jax.Array:
        return pooling.max_pool(x, stride=stride)

    conv = partial(layers.Conv, conv_general_dilated=models.conv_general_dilated)
    network = FlaxNetwork(problem, conv, layers.Dense, pool, tanh)
    size = training.MICROBATCH[problem.network.image]
    clipped, _ = private.private_gradient(
        network, each_loss, clip_norm=problem.clip_norm, microbatch=size
    )

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        draw = sampling.Draw(indices, jnp.int32(problem.batch), jnp.bool_(False))
        return clipped(params, images, labels, draw)

    return JaxContestant(problem, network, total, optimizer(problem, private=True))
