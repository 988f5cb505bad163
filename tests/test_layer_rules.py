"""Rules of layers for sequences and attention, and of normalisations, against float64's vjp."""

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
@example(Case("embed", places=(5,)))
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
