"""The fast convolution and the pooling against `jax.lax`, in value and in gradients."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from conftest import convolving
from flax import nnx
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpstudy.gradients import convolution
from dpstudy.gradients.pooling import average_pool, max_pool

DIMENSIONS = ("NHWC", "HWIO", "NHWC")


class Case(NamedTuple):
    """A convolution: its image's and kernel's height and width, and how the kernel moves."""

    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    channels: tuple[int, int] = (2, 3)
    batch: int = 2

    def draw(self, seed=0):
        draw = np.random.default_rng(seed)
        images = draw.normal(size=(self.batch, *self.image, self.channels[0]))
        kernel = draw.normal(size=(*self.kernel, *self.channels))
        return np.float32(images), np.float32(kernel)


def pair(values):
    return st.tuples(values, values)


cases = st.builds(
    Case,
    image=pair(st.integers(1, 9)),
    kernel=pair(st.integers(1, 5)),
    strides=pair(st.integers(1, 4)),
    padding=pair(pair(st.integers(0, 7))),
    channels=st.tuples(st.integers(1, 5), st.integers(1, 3)),
    batch=st.integers(1, 3),
)


def value_and_gradients(convolve, images, kernel):
    value, backward = jax.vjp(convolve, images, kernel)
    # Any fixed output gradient does, as long as no two entries are alike.
    weights = jnp.cos(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape)
    return {"value": value, "gradients": backward(weights)}


@settings(max_examples=8, deadline=None, derandomize=True)
@given(cases)
# The study's own layers: MNIST's first with both paddings and none, its second, CIFAR-10's.
@example(Case((28, 28), (8, 8), (2, 2), ((3, 3), (3, 3)), (1, 16)))
@example(Case((28, 28), (8, 8), (2, 2), ((2, 2), (2, 2)), (1, 16)))
@example(Case((28, 28), (8, 8), (2, 2), ((0, 0), (0, 0)), (1, 16)))
@example(Case((13, 13), (4, 4), (2, 2), ((0, 0), (0, 0)), (16, 32)))
@example(Case((32, 32), (3, 3), (1, 1), ((1, 1), (1, 1)), (3, 32)))
# Windows that do not reach the last rows or columns.
@example(Case((9, 8), (2, 3), (4, 4), ((0, 0), (0, 0))))
# Padding on one side only, wider than the kernel: outputs that see nothing but zeros.
@example(Case((5, 4), (3, 2), (1, 1), ((7, 0), (0, 6))))
@example(Case((5, 4), (3, 2), (2, 3), ((0, 7), (6, 1))))
# A stride longer than the kernel; a kernel as large as the image; a single pixel.
@example(Case((9, 9), (1, 2), (3, 4), ((1, 0), (0, 2)), (1, 1)))
@example(Case((6, 5), (6, 5), (1, 2), ((0, 0), (0, 0)), (1, 2)))
@example(Case((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1))
# A kernel that is not a multiple of its stride.
@example(Case((9, 9), (5, 3), (3, 2), ((2, 1), (0, 1)), (4, 3)))
def test_value_and_gradients_are_those_of_lax(case):
    padded = [n + sum(p) for n, p in zip(case.image, case.padding, strict=True)]
    assume(all(n >= k for n, k in zip(padded, case.kernel, strict=True)))

    def mine(images, kernel):
        return convolution.conv2d(images, kernel, case.strides, case.padding)

    def stock(images, kernel):
        return jax.lax.conv_general_dilated(
            images, kernel, case.strides, case.padding, dimension_numbers=DIMENSIONS
        )

    arguments = case.draw()
    expected = oracles.in_double_precision(lambda *a: value_and_gradients(stock, *a))(*arguments)
    for direct in (False, True) if case.strides == (1, 1) else (False,):
        with convolving(direct):
            found = oracles.quick_jit(lambda *a: value_and_gradients(mine, *a))(*arguments)
        assert oracles.distance(found, expected) < 1e-5, f"direct: {direct}"


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "SAME", "strides": 3},
        {"padding": "VALID", "strides": (2, 1)},
        {"padding": 2, "strides": 2},
        {"padding": (1, 0), "strides": None},
        {"padding": ((3, 0), (0, 1)), "strides": (1, 2)},
        # Not ordinary: these must reach XLA with their meaning intact.
        {"kernel_dilation": 2},
        {"input_dilation": (1, 2), "padding": 1},
        {"padding": "CIRCULAR"},
        {"padding": "REFLECT", "kernel_dilation": 2},
        {"feature_group_count": 2},
    ],
    ids=str,
)
def test_in_a_layer_it_stands_in_for_lax_whatever_the_layer_asks_for(options):
    images = np.float32(np.random.default_rng(1).normal(size=(2, 9, 8, 4)))

    def layer(**how):
        make = lambda: nnx.Conv(4, 6, (3, 2), rngs=nnx.Rngs(0), **options, **how)  # noqa: E731
        return nnx.split(nnx.eval_shape(make))

    mine = layer(conv_general_dilated=convolution.conv_general_dilated)
    stock = layer()
    params = oracles.random_like(mine[1])

    @oracles.quick_jit
    def both(params, images):
        return [nnx.merge(graph, params)(images) for graph, _ in (mine, stock)]

    found, expected = both(params, images)
    assert oracles.distance(found, expected) < 1e-5


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
