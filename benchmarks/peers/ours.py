"""This package: `private.private_gradient`, the same parts that the study trains with."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from problem import STUDY_MODEL, Problem

from dpstudy import activations, convolution, layers, models, pooling, private, sampling
from peers.jax_training import FlaxNetwork, JaxContestant, loss_with, optimizer

tanh = partial(activations.tempered_sigmoid, scale=2.0, inverse_temperature=2.0, offset=1.0)
losses = loss_with(tanh)


def network_of(problem: Problem) -> nnx.Module:
    """Return the study's network or, at another width, one of the same layers; no weights yet."""
    if problem.width == 1:
        name = STUDY_MODEL[problem.name]
        return nnx.eval_shape(lambda: models.build(name, jax.random.key(0)))

    def pool(x: jax.Array, stride: int) -> jax.Array:
        return pooling.max_pool(x, stride=stride)

    conv = partial(layers.Conv, conv_general_dilated=convolution.conv_general_dilated)
    return nnx.eval_shape(lambda: FlaxNetwork(problem, conv, layers.Dense, pool))


def fixed(problem: Problem, indices: jax.Array) -> sampling.Draw:
    """Return the given examples as the ones drawn."""
    return sampling.Draw(indices, jnp.int32(problem.batch), jnp.bool_(False))


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, with `variant` examples a microbatch."""
    network = network_of(problem)
    clipped, _ = private.private_gradient(
        network, losses, clip_norm=problem.clip_norm, microbatch=int(variant)
    )

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        return clipped(params, images, labels, fixed(problem, indices))

    return JaxContestant(problem, network, total, optimizer(problem, private=True), losses)
