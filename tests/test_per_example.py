"""Per-example gradients by the layers' rules against `jax.vmap(jax.grad(...))` in stock `lax`."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from conftest import convolving
from flax import nnx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpstudy import models, per_example
from dpstudy.convolution import conv_general_dilated
from dpstudy.layers import Conv, Dense, tap
from dpstudy.losses import cross_entropy

BATCH = 3
TOLERANCE = 1e-5
# Positive, negative and zero; by hand, a mechanism's are never negative.
WEIGHTS = np.array([0.25, -3.0, 0.0])


def losses_with(activation):
    return lambda network, images, labels: cross_entropy(network(images, activation), labels)


def everything(way, graph, losses):
    """All that a way of computing per-example gradients answers, compiled."""

    def run(params, images, labels, weights):
        each, gradients = way(graph, losses, params, images, labels)
        return {
            "losses": each,
            "norms": gradients.norms(),
            "sum": nnx.to_pure_dict(gradients.weighted_sum(weights)),
            "gradients": nnx.to_pure_dict(gradients.written_out()),
        }

    return oracles.quick_jit(run)


def assert_same(found, losses, gradients, weights=WEIGHTS):
    """Everything found agrees with the oracle's losses and gradients, each example for itself."""
    found = oracles.plain(found)
    assert oracles.distance(found["losses"], losses) < TOLERANCE
    norms = np.linalg.norm(oracles.flat(gradients), axis=1)
    np.testing.assert_allclose(found["norms"], norms, rtol=TOLERANCE)
    total = jax.tree.map(lambda g: np.tensordot(weights, g, 1), gradients)
    assert oracles.distance(found["sum"], total) < TOLERANCE
    for index in range(len(norms)):
        mine, theirs = (
            jax.tree.map(lambda g, at=index: g[at], tree)
            for tree in (found["gradients"], gradients)
        )
        assert oracles.distance(mine, theirs) < TOLERANCE, f"example {index}"


# --- the papers' networks ---------------------------------------------------------------------


@cache
def oracle_of(model):
    oracle = oracles.per_example(oracles.NETWORKS[model], jnp.tanh)
    return oracles.in_double_precision(oracle)


def check(model, images, labels, direct=False):
    network = nnx.eval_shape(lambda: models.build(model, jax.random.key(0)))
    graph, params = nnx.split(network, nnx.Param)
    params, x = oracles.random_like(params), images / 255
    with convolving(direct):
        found = everything(per_example.by_rules, graph, losses_with(jnp.tanh))(
            params, np.float32(x), labels, np.float32(WEIGHTS)
        )
    assert_same(found, *oracle_of(model)(nnx.to_pure_dict(params), x, labels))


@pytest.mark.parametrize("model", models.NETWORKS)
def test_the_papers_networks_have_the_gradients_of_vmap_grad(model):
    # An image where two corners of a pooling window differ by less than float32 can tell has two
    # right gradients; among random ones that is rare, and not so at this seed.
    check(model, *oracles.random_images(model, BATCH, seed=1))


@pytest.mark.parametrize("model", ["tempered-cifar", "losing-less-cifar"])
def test_so_they_have_where_xla_convolves(model):
    check(model, *oracles.random_images(model, BATCH, seed=1), direct=True)


def test_flat_images_whose_pooling_windows_tie_have_the_gradients_of_vmap_grad():
    images = np.zeros((BATCH, 28, 28, 1), np.uint8)
    images[0, 8:20, 12:17] = 255
    images[1, 4:24:6] = 128
    check("tempered-mnist", images, np.array([1, 3, 0]))


# --- any network of such layers ---------------------------------------------------------------


class ConvPlan(NamedTuple):
    kernel: tuple[int, int]
    strides: Any
    padding: Any
    width: int
    use_bias: bool
    fast: bool


class Plan(NamedTuple):
    """A network: convolutions, then dense layers, each as (width, whether it has a bias)."""

    image: tuple[int, int, int]
    convs: tuple[ConvPlan, ...]
    dense: tuple[tuple[int, bool], ...]
    activation: str
    by_gram: bool = False
    direct: bool = False


ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid}


def pair(values):
    return st.tuples(values, values)


edge = st.integers(0, 3)
convolutions = st.builds(
    ConvPlan,
    kernel=pair(st.integers(1, 4)),
    strides=st.one_of(st.integers(1, 3), pair(st.integers(1, 3))),
    padding=st.one_of(st.sampled_from(["SAME", "VALID"]), edge, pair(edge), pair(pair(edge))),
    width=st.integers(1, 5),
    use_bias=st.booleans(),
    fast=st.booleans(),
)
any_plan = st.builds(
    Plan,
    image=st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 3)),
    convs=st.lists(convolutions, max_size=2).map(tuple),
    dense=st.lists(st.tuples(st.integers(2, 6), st.booleans()), min_size=1, max_size=2).map(tuple),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    by_gram=st.booleans(),
    direct=st.booleans(),
)


def strides_and_padding(conv):
    """In the form that lax takes, from any of those that flax takes."""
    strides = (conv.strides, conv.strides) if isinstance(conv.strides, int) else conv.strides
    padding = conv.padding
    if isinstance(padding, str):
        return strides, padding
    rows, columns = (padding, padding) if isinstance(padding, int) else padding
    both = [(edge, edge) if isinstance(edge, int) else edge for edge in (rows, columns)]
    return strides, both


def invented(plan):
    """The plan's network as a function in stock lax."""

    def network(params, x, activation):
        for index, conv in enumerate(plan.convs):
            x = activation(oracles.conv(x, params["convs"][index], *strides_and_padding(conv)))
        x = x.reshape(len(x), -1)
        for index in range(len(plan.dense)):
            x = oracles.dense(activation(x) if index else x, params["dense"][index])
        return x, {}

    return network


class Invented(nnx.Module):
    """The plan's network in the package's layers."""

    def __init__(self, plan, features, rngs):
        channels = [plan.image[2], *(conv.width for conv in plan.convs)]
        self.convs = nnx.List(
            Conv(
                channels[index],
                conv.width,
                conv.kernel,
                conv.strides,
                padding=conv.padding,
                use_bias=conv.use_bias,
                rngs=rngs,
                **({"conv_general_dilated": conv_general_dilated} if conv.fast else {}),
            )
            for index, conv in enumerate(plan.convs)
        )
        widths = [features, *(width for width, _ in plan.dense)]
        self.dense = nnx.List(
            Dense(widths[index], width, use_bias=use_bias, rngs=rngs)
            for index, (width, use_bias) in enumerate(plan.dense)
        )

    def __call__(self, x, activation):
        for conv in self.convs:
            x = activation(conv(x))
        x = x.reshape(len(x), -1)
        for index, dense in enumerate(self.dense):
            x = dense(activation(x) if index else x)
        return x


def features_of(plan):
    """The numbers that the plan's convolutions leave of an image; 0 where one does not fit."""
    shape = (1, *plan.image)
    for conv in plan.convs:
        strides, padding = strides_and_padding(conv)
        kernel = jax.ShapeDtypeStruct((*conv.kernel, shape[3], conv.width), jnp.float32)
        shape = jax.eval_shape(
            lambda x, k, s=strides, p=padding: oracles.conv(x, {"kernel": k}, s, p),
            jax.ShapeDtypeStruct(shape, jnp.float32),
            kernel,
        ).shape
        if 0 in shape:
            return 0
    return int(np.prod(shape))


def invent(plan):
    """The plan's structure, parameters, images and labels."""
    features = features_of(plan)
    network = nnx.eval_shape(lambda: Invented(plan, features, nnx.Rngs(0)))
    graph, params = nnx.split(network, nnx.Param)
    draw = np.random.default_rng(0)
    images = draw.uniform(size=(BATCH, *plan.image))
    return graph, oracles.random_like(params), images, draw.integers(0, plan.dense[-1][0], BATCH)


def check_invented(plan, way):
    graph, params, images, labels = invent(plan)
    activation = ACTIVATIONS[plan.activation]
    # As if the smallest gradient were too large to keep, or none.
    gram_above = mock.patch.object(per_example, "GRAM_ABOVE", 0 if plan.by_gram else 2**18)
    with gram_above, convolving(plan.direct):
        found = everything(way, graph, losses_with(activation))(
            params, np.float32(images), labels, np.float32(WEIGHTS)
        )
    oracle = oracles.in_double_precision(oracles.per_example(invented(plan), activation))
    assert_same(found, *oracle(nnx.to_pure_dict(params), images, labels))


UNEVEN = Plan(
    (9, 7, 2),
    (
        ConvPlan((3, 4), (2, 3), ((2, 0), (1, 3)), 3, True, True),
        ConvPlan((2, 1), 1, (1, 0), 2, False, True),
    ),
    ((4, True), (3, False)),
    "sigmoid",
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(any_plan.filter(features_of))
@example(UNEVEN)
@example(UNEVEN._replace(by_gram=True))
@example(UNEVEN._replace(direct=True))
@example(Plan((3, 3, 1), (), ((2, False),), "tanh"))
def test_any_network_of_such_layers_has_the_gradients_of_vmap_grad(plan):
    check_invented(plan, per_example.by_rules)


def test_the_plain_way_has_them_too():
    check_invented(UNEVEN, per_example.by_vmap)


# --- networks that the rules do not cover -----------------------------------------------------


class Small(nnx.Module):
    """Two dense layers that a test applies as it likes."""

    def __init__(self, second=Dense):
        self.first = Dense(4, 4, rngs=nnx.Rngs(0))
        self.second = second(4, 4, rngs=nnx.Rngs(1))

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


class OneConv(nnx.Module):
    """A single convolution, of a kind that the test chooses."""

    def __init__(self, **options):
        self.conv = Conv(4, 4, (2, 2), rngs=nnx.Rngs(0), **options)

    def __call__(self, x):
        return self.conv(jnp.broadcast_to(x[:, None, None], (len(x), 3, 3, 4))).mean((1, 2))


def norms_and_sum(way, make, apply):
    graph, params = nnx.split(nnx.eval_shape(make), nnx.Param)
    images = np.random.default_rng(0).normal(size=(BATCH, 4))

    def losses(network, images, labels):
        return cross_entropy(apply(network, images), labels)

    def run(params, images, labels):
        _, gradients = way(graph, losses, params, images, labels)
        return gradients.norms(), nnx.to_pure_dict(gradients.weighted_sum(jnp.ones(BATCH)))

    params = oracles.random_like(params)
    return oracles.quick_jit(run)(params, np.float32(images), np.arange(BATCH))


def call(network, x):
    return network(x)


@pytest.mark.parametrize(
    ("make", "apply"),
    [
        pytest.param(lambda: Small(nnx.Linear), call, id="an untapped layer"),
        pytest.param(
            Small, lambda n, x: n.second(n.first(jnp.tanh(n.first(x)))), id="a layer applied twice"
        ),
        pytest.param(Small, lambda n, x: n.first(x), id="a layer not applied"),
        pytest.param(
            Small, lambda n, x: n(jnp.stack([x, -x], 1)).sum(1), id="a dense layer along a sequence"
        ),
        pytest.param(lambda: OneConv(kernel_dilation=2), call, id="a dilated convolution"),
        pytest.param(lambda: OneConv(feature_group_count=2), call, id="a grouped convolution"),
        pytest.param(lambda: OneConv(padding="CIRCULAR"), call, id="a wrapped convolution"),
    ],
)
def test_a_network_beyond_the_rules_falls_back_to_vmap_and_says_so(make, apply):
    """By the rules its norms would come out wrong, and with them its privacy."""
    per_example._warn_once.cache_clear()
    with pytest.warns(per_example.FallbackWarning):
        found = norms_and_sum(per_example.gradients, make, apply)
    expected = norms_and_sum(per_example.by_vmap, make, apply)
    assert oracles.distance(found, expected) < TOLERANCE


def test_a_network_within_the_rules_does_not_fall_back(monkeypatch):
    monkeypatch.setattr(per_example, "by_vmap", None)
    for make in (Small, OneConv):
        norms, _ = norms_and_sum(per_example.gradients, make, call)
        assert np.all(norms > 0)


def test_an_example_without_gradient_has_norm_zero():
    norms, total = norms_and_sum(per_example.by_rules, Small, lambda n, x: 0 * n(x))
    np.testing.assert_array_equal(norms, 0)
    assert not oracles.flat_sum(total).any()


def test_a_tapped_copy_is_the_same_network_with_rules():
    class Stock(nnx.Module):
        def __init__(self):
            self.conv = nnx.Conv(1, 3, (2, 2), 2, rngs=nnx.Rngs(0))
            self.dense = nnx.Linear(12, 4, rngs=nnx.Rngs(1))

        def __call__(self, x):
            x = jnp.tanh(self.conv(x[:, :, None, None] * x[:, None, :, None]))
            return self.dense(x.reshape(len(x), -1))

    def tapped():
        stock = Stock()
        copy = tap(stock)
        assert {type(x) for _, x in nnx.iter_modules(stock)} == {Stock, nnx.Conv, nnx.Linear}
        assert {type(x) for _, x in nnx.iter_modules(copy)} == {Stock, Conv, Dense}
        return copy

    found = norms_and_sum(per_example.by_rules, tapped, call)
    assert oracles.distance(found, norms_and_sum(per_example.by_vmap, Stock, call)) < TOLERANCE
