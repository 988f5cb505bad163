"""The networks against the same in stock `lax` operations, activations against their formulas."""

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dpstudy.gradients.layers import LayerInput, OutputZero, PreActivation
from dpstudy.kinds import declare_all
from dpstudy.parts.networks.activation import TANH, LayerWise, Relu, Tempered
from dpstudy.parts.networks.network import Network, SmallCnn
from dpstudy.parts.part import KINDS
from under_the_clip.networks import TemperedCifar

BATCH = 3
PARAMETERS = {
    "tempered-mnist": 26_010,
    "losing-less-mnist": 26_010,
    "backprop-mnist": 18_752,
    "tempered-cifar": 605_226,
    "losing-less-cifar": 550_570,
    "backprop-cifar": 29_424_512,
    "scattering-mnist": 20_778,
    "scattering-cifar": 253_386,
    "scattering-linear-mnist": 39_700,
    "scattering-linear-cifar": 155_530,
    "linear-head": 80_000,
    "hidden-head": 801_000,
}
declare_all()
NETWORKS = {kind: one for kind, one in KINDS.items() if issubclass(one, Network)}
every_model = pytest.mark.parametrize("model", PARAMETERS)
# The package's and the same by hand. 1.4 at 0, unlike tanh: padding after it would show.
ACTIVATIONS = {
    "tempered": (
        Tempered(scale=2.5, inverse_temperature=1.5, offset=-0.15),
        lambda x: 2.5 / (1 + jnp.exp(-1.5 * x)) + 0.15,
    ),
    "relu": (Relu(), lambda x: jnp.where(x > 0, x, 0)),
}


@cache
def parts(model):
    """A network's structure, and weights and biases as after training."""
    graph, params = nnx.split(untrained(NETWORKS[model]()))
    return graph, oracles.random_like(params)


def untrained(network):
    return nnx.eval_shape(lambda: network.module(nnx.Rngs(params=0)))


def size(network):
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(untrained(network), nnx.Param)))


@cache
def compiled(model, activation):
    def run(params, images):
        network = NETWORKS[model](ACTIVATIONS[activation][0])
        tapped = nnx.capture(lambda module: network.outputs(module, images), PreActivation)
        return tapped(nnx.merge(parts(model)[0], params))

    return oracles.quick_jit(run)


@cache
def oracle(model, activation):
    return oracles.in_double_precision(
        lambda params, images: oracles.NETWORKS[model](params, images, ACTIVATIONS[activation][1])
    )


@every_model
def test_the_networks_have_the_papers_parameters(model):
    network = NETWORKS[model]()
    assert size(network) == PARAMETERS[model]
    assert oracles.random_images(model, 1)[0].shape[1:] == network.image_shape


def test_no_network_is_left_untested():
    assert set(PARAMETERS) == set(NETWORKS) == set(oracles.NETWORKS)


@pytest.mark.parametrize(
    ("model", "activation"),
    [*((model, "tempered") for model in PARAMETERS), ("tempered-mnist", "relu")],
)
def test_logits_and_every_pre_activation_are_those_of_the_network_written_in_lax(model, activation):
    """The oracle pools after the activation, as the papers do; the package pools before it."""
    images, _ = oracles.random_images(model, BATCH)
    _, params = parts(model)
    x = images / 255
    (logits, hidden), seen = compiled(model, activation)(params, np.float32(x))
    expected, before = oracle(model, activation)(nnx.to_pure_dict(params), x)
    assert oracles.distance(logits, expected) < 1e-5

    found = {path: value[0] for path, value in nnx.to_flat_state(seen)}
    named = {(*path, "pre_activation"): value for path, value in before.items()}
    assert found.keys() == named.keys()
    for path, value in named.items():
        assert oracles.distance(found[path], value) < 1e-5, path

    # What losses and measures are given: all of these but the outputs, before any pooling.
    layers = list(before.values())[:-1]
    assert len(hidden) == len(layers) == NETWORKS[model].hidden
    for index, (layer, value) in enumerate(zip(hidden, layers, strict=True)):
        assert oracles.distance(layer, value) < 1e-5, index


@every_model
def test_structure_is_the_network_without_its_weights(model):
    graph, params = parts(model)
    assert NETWORKS[model]().graph() == graph
    # The width of a network without convolutions is refused: see the bad values of a run.
    alone = "linear" in model or model == "hidden-head"
    assert alone or NETWORKS[model](width=2.0).graph() != graph
    network = nnx.merge(NETWORKS[model]().graph(), params)
    assert oracles.distance(nnx.state(network, nnx.Param), params) == 0


def test_weights_start_as_glorot_normal_and_biases_at_zero():
    """Whose deviation is sqrt(2 / (fan in + fan out)), truncated at two of its own."""
    params, other = (SmallCnn().initial(jax.random.key(seed)) for seed in (3, 4))
    for path, value in nnx.to_flat_state(params):
        value = np.asarray(value[...])
        if path[-1] == "bias":
            assert not value.any()
            continue
        window = np.prod(value.shape[:-2])
        deviation = np.sqrt(2 / (window * sum(value.shape[-2:])))
        assert abs(value.std() / deviation - 1) < 4 / np.sqrt(2 * value.size)
        assert abs(value).max() < 2.3 * deviation
    assert oracles.distance(params, other) > 1


def test_the_width_multiplies_the_filters_of_every_convolution():
    """By hand: kernels, biases, and a dense layer on what the convolutions leave."""
    for width, k in ((0.5, 8), (1.0, 16), (2.0, 32)):
        mnist = (64 + 1) * k + (16 * k + 1) * 2 * k + (16 * 2 * k + 1) * 32 + 33 * 10
        assert size(SmallCnn(width=width)) == mnist
        filters = [3, *(2 * k * times for times in (1, 1, 2, 2, 4, 4, 8)), 10]
        expected = sum((9 * a + 1) * b for a, b in pairwise(filters))
        assert size(TemperedCifar(width=width)) == expected


def test_each_hidden_layer_can_have_an_activation_of_its_own():
    model = "tempered-mnist"
    graph, params = parts(model)
    images, _ = oracles.random_images(model, BATCH)
    x = np.float32(images / 255)
    steps = [lambda x, by=by: jnp.tanh(by * x) for by in (0.5, 1.0, 3.0)]
    network = SmallCnn(LayerWise(tuple(Tempered(2.0, 2 * by, 1.0) for by in (0.5, 1.0, 3.0))))
    found = oracles.quick_jit(lambda p, x: network.outputs(nnx.merge(graph, p), x).logits)(
        params, x
    )

    @oracles.quick_jit
    def by_hand(p, x):
        y = oracles.conv(x, p["conv1"], (2, 2), ((3, 3), (3, 3)))
        y = oracles.conv(oracles.max_pool(steps[0](y), 1), p["conv2"], (2, 2), "VALID")
        y = oracles.max_pool(steps[1](y), 1).reshape(BATCH, -1)
        return oracles.dense(steps[2](oracles.dense(y, p["dense1"])), p["dense2"])

    assert oracles.distance(found, by_hand(nnx.to_pure_dict(params), x)) < 1e-5


def test_outside_a_capture_the_taps_do_nothing():
    graph, params = parts("backprop-mnist")
    network = nnx.merge(graph, params)
    images, _ = oracles.random_images("backprop-mnist", 2)
    nnx.eval_shape(lambda: network(np.float32(images), Relu()))
    kinds = {type(variable) for _, variable in nnx.to_flat_state(nnx.state(network))}
    assert kinds == {nnx.Param}
    assert not {LayerInput, PreActivation, OutputZero} & kinds


def test_initial_weights_by_he_have_a_variance_of_one_over_half_the_inputs():
    params = SmallCnn(init="he").initial(jax.random.key(0))
    kernel = np.asarray(params["conv2"]["kernel"][...])  # 4 x 4 positions, 16 channels to 32
    assert kernel.std() == pytest.approx(128**-0.5, rel=0.05)


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


def test_relu_is_the_positive_part_and_its_slope_at_zero_is_zero():
    x = jnp.asarray([-1e4, -1.5, 0.0, 1e-30, 1.5, 1e4], jnp.float32)
    np.testing.assert_array_equal(Relu()(x), np.maximum(np.asarray(x), 0))
    np.testing.assert_array_equal(jax.vmap(jax.grad(Relu()))(x), [0, 0, 0, 1, 1, 1])
