"""Rules of layers for sequences and attention, and of normalisations, against float64's vjp."""

import re
from functools import partial
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest
from flax import nnx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpstudy.gradients import applicability, layer_rules, layers, per_example

pytestmark = pytest.mark.usefixtures("compiled_in_haste")

BATCH, TOLERANCE = 3, 1e-5
WEIGHTS = np.array([0.25, -3.0, 0.0])


def made(kind, *sizes, seed=0, **options):
    return kind(*sizes, rngs=nnx.Rngs(seed), **options)


# --- each rule --------------------------------------------------------------------------------


def product(params, x, axes):
    y = jnp.tensordot(x, params["kernel"], axes)
    return y + params["bias"] if "bias" in params else y


def normalised(params, x, axes, groups=1):
    """By the mean and the variance over `axes` of the last axis in groups."""
    parts = x.reshape(*x.shape[:-1], groups, -1)
    mean, variance = parts.mean(axes, keepdims=True), parts.var(axes, keepdims=True)
    y = ((parts - mean) / jnp.sqrt(variance + 1e-6)).reshape(x.shape)
    return y * params.get("scale", 1) + params.get("bias", 0)


def looked_up(params, tokens):
    """Numbers below 0 count from the end; beyond the table there is nothing."""
    one_hot = tokens[..., None] % len(params["embedding"]) == jnp.arange(len(params["embedding"]))
    inside = (tokens >= -len(params["embedding"])) & (tokens < len(params["embedding"]))
    return (one_hot & inside[..., None]) @ params["embedding"]


class Case(NamedTuple):
    """A layer, the shape of its input, and the same as a function of its parameters."""

    kind: str
    places: tuple[int, ...] = (4,)
    inputs: tuple[int, ...] = (6,)
    outputs: tuple[int, ...] = (5,)
    bias: bool = True
    scale: bool = True
    other: bool = False  # by Gram matrices; statistics also over the last place

    def layer(self):
        (*_, m), (*_, n), options = self.inputs, self.outputs, {"use_bias": self.bias}
        if self.kind == "dense":
            return made(nnx.Linear, m, n, **options)
        if self.kind == "general":
            axes = tuple(range(-len(self.inputs), 0))
            return made(nnx.LinearGeneral, self.inputs, self.outputs, axis=axes, **options)
        if self.kind == "embed":
            return made(nnx.Embed, m, n)
        options |= {"use_scale": self.scale or not self.bias}
        if self.kind == "layer norm":
            over = (-2, -1) if self.other else -1
            return made(nnx.LayerNorm, m, reduction_axes=over, **options)
        return made(nnx.GroupNorm, 2 * m, 2, **options)

    def shape(self):
        last = {"general": self.inputs, "embed": (), "group norm": (2 * self.inputs[-1],)}
        return (BATCH, *self.places, *last.get(self.kind, self.inputs[-1:]))

    def function(self):
        every = (*range(len(self.places)), -1)
        return {
            "dense": partial(product, axes=1),
            "general": partial(product, axes=len(self.inputs)),
            "layer norm": partial(normalised, axes=(-3, -1) if self.other else -1),
            "group norm": partial(normalised, axes=every, groups=2),
            "embed": looked_up,
        }[self.kind]


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=2).map(tuple)
cases = st.builds(
    Case,
    st.sampled_from(["dense", "general", "layer norm", "group norm", "embed"]),
    *[sizes] * 3,
    *[st.booleans()] * 3,
)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(cases)
@example(Case("dense"))
@example(Case("general", inputs=(2, 3), outputs=(2, 2), other=True))
@example(Case("layer norm", other=True))
@example(Case("group norm", bias=False))
@example(Case("embed", places=(3, 3)))  # more than there are rows
def test_a_rule_gives_what_float64_gives_example_by_example(case):
    layer, draw = layers.tap(case.layer()), np.random.default_rng(0)
    params = oracles.random_like(nnx.to_pure_dict(nnx.state(layer)))
    nnx.update(layer, params)
    if case.kind == "embed":  # Few rows, so that some are looked up twice, and some beyond.
        entries = case.inputs[-1]
        x = draw.integers(-entries - 1, entries + (entries > 1), case.shape())
        x = x * (entries > 1)  # One row is given whatever it is asked for.
    else:
        x = draw.normal(size=case.shape())
    given = x if case.kind == "embed" else np.float32(x)
    g = draw.normal(size=jax.eval_shape(layer, given).shape)

    def by_rule(x, g, weights):
        with mock.patch.object(layer_rules, "gram_is_less", lambda *_: case.other):
            found = layer_rules.RULES[type(layer)](layer, x, g)
        return found.squared_norms(), found.weighted_sum(weights), found.written_out()

    def by_hand(params, x, g):
        def one(x, g):
            return jax.vjp(lambda params: case.function()(params, x), params)[1](g)[0]

        return jax.vmap(one)(x, g)

    squares, total, each = oracles.quick_jit(by_rule)(given, np.float32(g), np.float32(WEIGHTS))
    expected = oracles.in_double_precision(by_hand)(params, x, g)
    assert oracles.distance(each, expected) < TOLERANCE
    lengths = np.linalg.norm(oracles.flat(expected), axis=1)
    np.testing.assert_allclose(np.sqrt(squares), lengths, rtol=TOLERANCE, atol=1e-7)
    summed = jax.tree.map(lambda leaf: np.tensordot(WEIGHTS, leaf, 1), expected)
    assert oracles.distance(total, summed) < TOLERANCE


# --- a network --------------------------------------------------------------------------------


class Transformer(nnx.Module):
    """Words and their places, one block of attention and two dense layers, and the mean."""

    def __init__(self):
        self.words, self.places = made(nnx.Embed, 9, 4), made(nnx.Embed, 5, 4, seed=1)
        self.before, self.between = made(nnx.LayerNorm, 4), made(nnx.GroupNorm, 4, 2)
        self.attention = made(nnx.MultiHeadAttention, 2, 4, decode=False, normalize_qk=True)
        self.up, self.down = made(nnx.Linear, 4, 6), made(nnx.Linear, 6, 4)

    def __call__(self, tokens):
        places = jnp.broadcast_to(jnp.arange(5), tokens.shape)
        x = self.words(tokens) + self.places(places)
        mask = nnx.make_attention_mask(tokens > 0, tokens > 0)
        x = x + self.attention(self.before(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.between(x))))


def loss(network, tokens, labels):
    logits = network(tokens).mean(axis=1)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


TOKENS = np.array([[1, 2, 2, 0, 0], [3, 3, 3, 3, 1], [8, 4, 5, 6, 7]])


def why_not(model, losses=loss):
    graph, params, rest = nnx.split(layers.tap(model), nnx.Param, ...)
    labels = jnp.arange(BATCH)
    return applicability.why_not_by_rules(graph, losses, params, jnp.asarray(TOKENS), labels, rest)


def test_a_transformer_has_the_gradients_of_vmap_grad_in_float64():
    (graph, params), labels = nnx.split(Transformer()), np.arange(BATCH)
    tapped, params = nnx.graphdef(layers.tap(Transformer())), oracles.random_like(params)
    assert why_not(Transformer()) is None

    def by_rules(params, weights):
        _, found = per_example.by_rules(tapped, loss, params, jnp.asarray(TOKENS), labels)
        return found.norms(), nnx.to_pure_dict(found.weighted_sum(weights))

    def by_hand(params):
        def one(params, tokens, label):
            return loss(nnx.merge(graph, params), tokens[None], label[None])[0]

        return jax.vmap(jax.grad(one), (None, 0, 0))(params, jnp.asarray(TOKENS), labels)

    norms, total = oracles.quick_jit(by_rules)(params, np.float32(WEIGHTS))
    each = oracles.in_double_precision(by_hand)(nnx.to_pure_dict(params))
    np.testing.assert_allclose(norms, np.linalg.norm(oracles.flat(each), axis=1), rtol=TOLERANCE)
    expected = np.tensordot(WEIGHTS, oracles.flat(each), 1)
    difference = np.linalg.norm(oracles.flat_sum(total) - expected)
    assert difference < TOLERANCE * np.linalg.norm(expected)


# --- what the rules do not hold for ------------------------------------------------------------


class Own(nnx.LayerNorm):
    """A layer of one's own, of which nothing is known."""


class Parts(nnx.Module):
    """A table of words, and a layer that is applied to what it gives."""

    def __init__(self, layer, dtype=None):
        self.words, self.layer = made(nnx.Embed, 9, 4, dtype=dtype), layer


def applied(network, h):
    return network.layer(h)


def with_other_options(network, h):
    """As in a network that changes a layer's options while it is applied: no number shows it."""
    network.layer.reduction_axes = -2
    found = network.layer(h[:, :4])
    network.layer.reduction_axes = -1
    return found


def with_one_more_weight():
    layer = made(nnx.LayerNorm, 4)
    layer.power = nnx.Param(jnp.ones(()))
    return layer


def norm(**options):
    return lambda: made(nnx.LayerNorm, 4, **options)


def general(*sizes, **options):
    return lambda: made(nnx.LinearGeneral, *sizes, **options)


def table():
    return made(nnx.Embed, 5, 4)


def nothing():
    return None


NOT_EACH, NOT_LAST = "not an ordinary normalisation of each", "not an ordinary product over the"
NOT_SIMPLY, NOT_ONCE = "layer is not simply applied", "layer is not applied once to each example"
BEYOND = {
    "statistics of a batch": (norm(reduction_axes=(0, -1)), applied, NOT_EACH),
    "weights of places": (
        *(lambda: made(nnx.LayerNorm, 5, feature_axes=1), applied),
        NOT_EACH,
    ),
    "groups over a batch": (
        *(lambda: made(nnx.GroupNorm, 4, 2, reduction_axes=(0, 2)), applied),
        NOT_EACH,
    ),
    "a mask": (norm(), lambda n, h: n.layer(h, mask=h > 0), NOT_SIMPLY),
    "options of the moment": (norm(), with_other_options, NOT_SIMPLY),
    "a layer of one's own": (lambda: made(Own, 4), applied, r"no rule for Own \(layer\)"),
    "another promotion": (
        *(norm(promote_dtype=lambda arrays, dtype=None: arrays), applied),
        "a promote_dtype of its own",
    ),
    "one more weight": (with_one_more_weight, applied, r"a parameter \(power\) of its own"),
    "another product": (
        *(general(4, 4, dot_general=lambda *a, **o: 2 * jax.lax.dot_general(*a, **o)), applied),
        "a dot_general of its own",
    ),
    "a product over places": (general(5, 4, axis=1), applied, NOT_LAST),
    "a product for each example": (general(4, 4, batch_axis={0: BATCH}), applied, NOT_LAST),
    "a product over the batch": (
        *(general(BATCH, BATCH), lambda n, h: n.layer(jnp.moveaxis(h, 0, -1))),
        NOT_ONCE,
    ),
    "a number of each example as one vector": (
        *(general(BATCH, 4), lambda n, h: jnp.tile(n.layer(h[:, 0, 0]), (BATCH, 1))),
        NOT_ONCE,
    ),
    "places without examples": (table, lambda n, h: h + n.layer(jnp.arange(5)), NOT_ONCE),
    "a decoder": (nothing, lambda n, h: n.words.attend(h), "words.embedding is used outside"),
    "looked up twice": (
        *(table, lambda n, h: n.layer(h[:, 0, :2].astype(int)) + n.layer(h[:, :2, 0].astype(int))),
        "layer is applied 2 times",
    ),
    "words of others": (
        *(nothing, lambda n, h: h[::-1]),
        "may depend on other examples than its own",
    ),
}


def squares(apply):
    return lambda n, x, y: (apply(n, n.words(x)) ** 2).reshape(len(x), -1).sum(1)


@pytest.mark.parametrize(("make", "apply", "reason"), BEYOND.values(), ids=BEYOND)
def test_what_is_beyond_these_rules_is_said_by_name(make, apply, reason):
    assert re.search(reason, why_not(Parts(make()), squares(apply)))


def test_a_table_of_whole_numbers_is_beyond_the_rules():
    losses = lambda n, x, y: n.words(x).sum((1, 2)).astype(float)  # noqa: E731
    assert "outputs are not real numbers" in why_not(Parts(None, jnp.int32), losses)


def test_statistics_of_several_devices_are_beyond_the_rules():
    found = []

    def on_one(x):
        found.append(why_not(Parts(norm(axis_name="devices")()), squares(applied)))
        return x

    jax.vmap(on_one, axis_name="devices")(jnp.ones(2))
    assert re.search(NOT_EACH, found[0])
