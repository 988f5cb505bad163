"""This package, Poisson sampling from a full-size training set included.

The other contestants are told which examples to take.
"""

from __future__ import annotations

import jax
import numpy as np
from problem import Problem

from dpstudy.parts import sampling
from peers.jax_training import JaxContestant
from peers.ours import clipping, layout, network_of

# The larger of the study's training sets.
EXAMPLES = 60_000


def drawn(problem: Problem, indices: jax.Array) -> sampling.Draw:
    """Return a Poisson sample; what it is told to take serves as a seed."""
    key = jax.random.fold_in(jax.random.key(0), indices[0])
    return sampling.poisson(key, EXAMPLES, problem.batch)


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, as `ours.layout` says."""
    microbatch, mesh = layout(variant)
    # The others' examples over and over.
    whole = tuple(np.resize(array, (EXAMPLES, *array.shape[1:])) for array in problem.data())
    network = network_of(problem)
    return clipping(problem, network, drawn, microbatch or problem.batch, mesh, whole)
