"""A step's sum over its examples, however they are cut into microbatches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import convolving

from dpstudy.parts.sampling import Draw
from dpstudy.training import accumulate

VALUES = np.random.default_rng(0).integers(-50, 50, 40).astype(np.float32)


@pytest.mark.parametrize("core_each", [True, False], ids=["core each", "cores abreast"])
@pytest.mark.parametrize("microbatch", [1, 4, 7, 100])
@pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 9, 19, 20])
def test_each_drawn_example_counts_once(count, microbatch, core_each):
    indices = np.random.default_rng(1).permutation(len(VALUES))[:20]

    def total(values, mask):
        return jnp.stack([values @ mask, mask.sum()])

    @jax.jit
    def summed(values):
        draw = Draw(jnp.asarray(indices), jnp.int32(count), jnp.bool_(False))
        return accumulate.over_examples(total, jnp.zeros(2), draw, (values,), microbatch)

    with convolving(core_each):
        found = summed(VALUES)
    assert found.tolist() == [VALUES[indices[:count]].sum(), count]
