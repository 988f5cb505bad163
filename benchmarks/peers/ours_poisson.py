"""This package, Poisson sampling from a full-size training set included.

The other contestants are told which examples to take.
"""

from __future__ import annotations

import jax
import numpy as np
from flax import nnx
from problem import Problem

from dpstudy import private, sampling
from peers.jax_training import JaxContestant, optimizer
from peers.ours import layout, losses, network_of, on_all_devices

# The larger of the study's training sets.
EXAMPLES = 60_000


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, as `ours.layout` says."""
    microbatch, mesh = layout(variant)
    network = network_of(problem)
    clipped, _ = private.private_gradient(
        network, losses, clip_norm=problem.clip_norm, microbatch=microbatch, mesh=mesh
    )

    def total(
        params: nnx.State, indices: jax.Array, images: jax.Array, labels: jax.Array
    ) -> nnx.State:
        # What it is told to take serves as a seed.
        key = jax.random.fold_in(jax.random.key(0), indices[0])
        return clipped(params, images, labels, sampling.poisson(key, EXAMPLES, problem.batch))

    # The others' examples over and over.
    whole = tuple(np.resize(array, (EXAMPLES, *array.shape[1:])) for array in problem.data())
    update = optimizer(problem, private=True)
    return on_all_devices(JaxContestant(problem, network, total, update, losses, whole), mesh)
