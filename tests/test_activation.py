"""The activations against their formulas in double precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dpstudy.parts.networks.activation import TANH, LayerWise, Linear, Relu, Tempered

X = np.linspace(-12, 12, 601, dtype=np.float32)
EXTREME = np.array([-1e4, -1e30, 1e4, 1e30, -np.inf, np.inf], np.float32)
positive = st.floats(2**-6, 10, width=32)


@jax.jit
def value_and_slope(x, s, t, o):
    return jax.vmap(jax.value_and_grad(Tempered(s, t, o)))(x)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(s=positive, t=positive, o=st.floats(-10, 10, width=32))
def test_the_value_is_equation_3_and_the_slope_its_derivative(s, t, o):
    value, slope = value_and_slope(X, np.float32(s), np.float32(t), np.float32(o))
    assert value.dtype == slope.dtype == np.float32
    gate = expit(t * X.astype(np.float64))
    np.testing.assert_allclose(value, s * gate - o, rtol=0, atol=1e-6 * (s + abs(o)))
    np.testing.assert_allclose(slope, s * t * gate * (1 - gate), rtol=0, atol=1e-6 * s * t)


def test_two_two_one_is_tanh_itself():
    assert Tempered(2.0, 2.0, 1.0) == TANH
    mine = TANH(jnp.asarray(X))
    np.testing.assert_array_equal(mine, jnp.tanh(jnp.asarray(X)))
    np.testing.assert_allclose(mine, np.tanh(X.astype(np.float64)), rtol=1e-6, atol=1e-7)


def test_it_stays_between_minus_o_and_s_minus_o_and_reaches_both():
    values, slopes = value_and_slope(EXTREME, np.float32(3), np.float32(5), np.float32(0.5))
    low, high = EXTREME < 0, EXTREME > 0
    np.testing.assert_array_equal(values[low], np.float32(-0.5))
    np.testing.assert_array_equal(values[high], np.float32(2.5))
    np.testing.assert_array_equal(slopes[np.isfinite(EXTREME)], 0)


@pytest.mark.parametrize("o", [-1.0, 0.0, 1.0])
def test_it_increases_so_that_pooling_may_come_first(o):
    values, _ = value_and_slope(X, np.float32(1.5), np.float32(0.7), np.float32(o))
    assert np.all(np.diff(values) >= 0)
    assert np.all(np.diff(values[np.abs(X) < 5]) > 0)


def test_relu_is_the_positive_part_and_its_slope_at_zero_is_zero():
    x = jnp.asarray([-1e4, -1.5, 0.0, 1e-30, 1.5, 1e4], jnp.float32)
    np.testing.assert_array_equal(Relu()(x), np.maximum(np.asarray(x), 0))
    np.testing.assert_array_equal(jax.vmap(jax.grad(Relu()))(x), [0, 0, 0, 1, 1, 1])


def test_without_an_activation_a_layer_hands_on_what_it_computes():
    x = jnp.linspace(-3, 3, 7)
    assert Linear()(x) is x


def test_each_layer_has_the_same_activation_or_its_own():
    each = (Tempered(1.7), Relu(), Tempered(offset=0.0))
    assert tuple(map(LayerWise(each).of_layer, range(3))) == each
    for shared in (TANH, Relu(), Linear()):
        assert shared.of_layer(0) == shared.of_layer(6) == shared
