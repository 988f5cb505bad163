"""Pooling against `jax.lax.reduce_window`, and what a gradient must be where corners tie."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from dpstudy.gradients.pooling import average_pool, max_pool

SHAPES = [(2, 6, 6, 3), (1, 7, 5, 1), (2, 2, 2, 4)]
MINE = {stride: partial(max_pool, stride=stride) for stride in (1, 2)}
STOCK = {stride: partial(oracles.max_pool, stride=stride) for stride in (1, 2)}
both_strides = pytest.mark.parametrize("stride", [1, 2])
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def without_ties(shape):
    values = np.random.default_rng(0).permutation(np.prod(shape)) - np.prod(shape) / 2
    return np.float32(values.reshape(shape))


def with_ties(shape):
    """Few values, and a flat patch: as on the background of MNIST."""
    values = np.random.default_rng(0).integers(-1, 2, shape)
    values[:, :3, :3] = 0
    return np.float32(values)


@partial(oracles.quick_jit, static_argnums=0)
def value_and_gradient(pool, x):
    value, backward = jax.vjp(pool, x)
    weights = 1 + jnp.arange(value.size, dtype=value.dtype).reshape(value.shape)
    return {"value": value, "gradient": backward(weights)[0]}


@both_strides
@every_shape
def test_without_ties_max_pooling_is_that_of_lax_in_value_and_gradient(shape, stride):
    x = without_ties(shape)
    found = value_and_gradient(MINE[stride], x)
    expected = value_and_gradient(STOCK[stride], x)
    np.testing.assert_array_equal(found["value"], expected["value"])
    assert oracles.distance(found, expected) < 1e-6


@every_shape
def test_average_pooling_is_that_of_lax_in_value_and_gradient(shape):
    x = without_ties(shape)
    found = value_and_gradient(average_pool, x)
    assert oracles.distance(found, value_and_gradient(oracles.average_pool, x)) < 1e-6


@both_strides
@every_shape
def test_with_ties_each_window_shares_its_gradient_among_its_largest_corners(shape, stride):
    """However it is shared: one of them or several, in all exactly once, and no one else."""
    x = with_ties(shape)

    @oracles.quick_jit
    def value_and_shares(x):
        value, backward = jax.vjp(MINE[stride], x)
        windows = np.eye(value[0, ..., 0].size, dtype=np.float32)
        windows = windows.reshape(-1, 1, *value.shape[1:3], 1) + jnp.zeros_like(value)
        return value, jax.vmap(lambda one: backward(one)[0])(windows)

    value, shares = map(np.asarray, value_and_shares(x))
    x = np.asarray(x)
    ties = 0
    for window, share in enumerate(shares):
        row, column = (stride * at for at in np.unravel_index(window, value.shape[1:3]))
        corners = np.s_[:, row : row + 2, column : column + 2]
        largest = x[corners] == x[corners].max(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose(share[corners].sum(axis=(1, 2)), 1, rtol=1e-6)
        np.testing.assert_allclose(np.abs(share).sum(axis=(1, 2)), 1, rtol=1e-6)
        assert not share[corners][~largest].any(), "a smaller corner got a share"
        ties += np.count_nonzero(largest.sum(axis=(1, 2)) > 1)
    assert ties, "the case has no ties"


@both_strides
def test_infinite_and_missing_values_are_not_hidden(stride):
    """A network that diverges must be seen to diverge."""
    x = np.zeros((1, 4, 4, 3), np.float32)
    x[0, 1, 1] = [np.inf, np.nan, -np.inf]
    value = np.asarray(max_pool(jnp.asarray(x), stride=stride))[0, 0, 0]
    np.testing.assert_array_equal(value, [np.inf, np.nan, 0])
