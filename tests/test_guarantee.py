"""The engine's contract, on inputs of every kind.

For every example, of any type, shape or value, the sum with it and the sum without it differ by at
most the stated sensitivity.
"""

import math
import re
import warnings
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest
from flax import nnx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpstudy import gaussian_noise, poisson, private_gradient
from dpstudy.errors import UserError
from dpstudy.gradients import applicability, devices, layer_rules, layers, per_example
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping, Microbatch, PerLayerClipping
from dpstudy.parts.run import Run
from dpstudy.parts.sampling import Draw
from dpstudy.training import loop
from dpstudy.training.own_network import NotFiniteWarning
from under_the_clip.backpropagation_clipping.mechanism import BackpropagationClipping
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped, FilteredToNorm, TanhFilter

pytestmark = [
    pytest.mark.usefixtures("compiled_in_haste"),
    pytest.mark.filterwarnings("ignore::dpstudy.gradients.per_example.FallbackWarning"),
    pytest.mark.filterwarnings("ignore::dpstudy.training.own_network.NotFiniteWarning"),
]

COUNT, CLIP = 7, 0.1
# Of float32 sums; half precision rounds a row otherwise where it lies elsewhere in its microbatch.
ROUNDING, OF_HALF_PRECISION = 1e-4, 0.05


def cross_entropy(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x).astype(jnp.float32), y)


def dense(inputs, outputs, seed=0, **options):
    return nnx.Linear(inputs, outputs, rngs=nnx.Rngs(seed), **options)


class Prototypes(nnx.Module):
    """Scores by what a layer makes of fixed rows, as many as a microbatch has examples."""

    def __init__(self, rows, param_dtype):
        self.image, self.text = (dense(8, 4, k, param_dtype=param_dtype) for k in (0, 1))
        self.fixed = jnp.asarray(np.random.default_rng(1).normal(size=(rows, 8)), jnp.float32)

    def __call__(self, x):
        return self.image(x) @ self.text(self.fixed).T


class Between(nnx.Module):
    """Two layers, and what becomes of a batch in between and after."""

    def __init__(self, between, param_dtype, after=lambda h: h):
        self.first, self.last = (dense(8, 8, k, param_dtype=param_dtype) for k in (0, 1))
        self.between, self.after = between, after

    def __call__(self, x):
        return self.after(self.last(self.between(self.first(x))))


def convolving(param_dtype):
    conv = nnx.Conv(1, 3, (2, 2), rngs=nnx.Rngs(0), param_dtype=param_dtype)
    last = dense(24, 8, 1, param_dtype=param_dtype)
    images = lambda x: x.reshape(len(x), 4, 2, 1)  # noqa: E731
    return nnx.Sequential(images, conv, jnp.tanh, lambda h: h.reshape(len(h), -1), last)


class Attending(nnx.Module):
    """Words that lie in a vector of eight numbers, normalised, attended to and added up."""

    def __init__(self, param_dtype):
        options = {"param_dtype": param_dtype, "rngs": nnx.Rngs(0)}
        self.words, self.norm = nnx.Embed(5, 8, **options), nnx.LayerNorm(8, **options)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, **options)
        self.number, self.last = nnx.Linear(1, 8, **options), nnx.Linear(8, 8, **options)

    def __call__(self, x):
        words = jnp.clip(jnp.nan_to_num(x.astype(jnp.float32)), -6, 6).astype(int)
        h = self.norm(self.words(words) + self.number(x[:, :, None]))
        return self.last(h + self.attention(h)).mean(axis=1)


NETWORKS = {
    "one layer": lambda _, of: dense(8, 8, param_dtype=of),
    "two layers": lambda _, of: Between(jnp.tanh, of),
    "relu": lambda _, of: Between(jax.nn.relu, of),
    "convolution": lambda _, of: convolving(of),
    "normalised": lambda _, of: Between(nnx.LayerNorm(8, rngs=nnx.Rngs(2)), of),
    "over the batch": lambda _, of: Between(lambda h: h - h.mean(0), of),
    "turned round": lambda _, of: Between(lambda h: h[::-1], of, lambda h: h[::-1]),
    "by place": lambda _, of: Between(lambda h: h * jnp.arange(1.0, len(h) + 1)[:, None], of),
    "prototypes": Prototypes,
    "attention": lambda _, of: Attending(of),
}
LOSSES = {
    "cross-entropy": cross_entropy,
    "by index": lambda n, x, y: -jax.nn.log_softmax(n(x))[jnp.arange(len(y)), y],
    "squared": lambda n, x, y: ((n(x) - jax.nn.one_hot(y, 8)) ** 2).mean(1),
    "of pairs": lambda n, x, y: ((n(x)[:, None] - n(x)[None]) ** 2).mean((1, 2)),
}
TYPES = ("float32", "float16", "bfloat16", "uint8", "int32", "bool")
PARAMETERS = ("float32", "float16", "bfloat16")
ODD = (0.0, 1.0, 255.0, 1e-30, 1e5, 3e18, 1e19, 3e38, np.inf, -np.inf, np.nan)


class Plan(NamedTuple):
    """One case."""

    network: str = "two layers"
    loss: str = "cross-entropy"
    inputs: str = "float32"
    parameters: str = "float32"
    odd: float = 1.0
    where: tuple[int, ...] = (0, 3)
    microbatch: int = 3
    shared: bool = False
    by_vmap: bool = False

    def data(self):
        """Vectors of eight numbers, some of which are odd, and labels."""
        draw = np.random.default_rng(0)
        x = 2 * draw.normal(size=(COUNT, 8))
        x[list(self.where), 2:5] = self.odd
        if not jnp.issubdtype(self.inputs, jnp.floating):
            x = np.nan_to_num(100 * x, posinf=2**31 - 1, neginf=0).clip(0, 2**31 - 1)
            info = np.iinfo(self.inputs) if self.inputs != "bool" else None
            x = x % 2 if info is None else x.clip(info.min, info.max)
        with np.errstate(over="ignore"):
            return jnp.asarray(x).astype(self.inputs), jnp.arange(COUNT) % 7

    def tolerance(self):
        half = {"float16", "bfloat16"} & {self.inputs, self.parameters}
        return OF_HALF_PRECISION if half else ROUNDING


plans = st.builds(
    Plan,
    *(st.sampled_from(list(names)) for names in (NETWORKS, LOSSES, TYPES, PARAMETERS, ODD)),
    st.lists(st.integers(0, COUNT - 1), max_size=3).map(tuple),
    st.sampled_from((2, 3, 5)),
    st.booleans(),
    st.booleans(),
)


def among(chosen):
    """A draw of these examples, padded by the first."""
    padded = jnp.asarray([*chosen, *[0] * (COUNT - len(chosen))])
    return Draw(padded, jnp.int32(len(chosen)), jnp.bool_(False))


def flat(tree):
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def differences(total):
    """How far the sum moves with each example: `total` is a function of the chosen ones."""
    whole = total(range(COUNT))
    assert np.isfinite(whole).all()
    without = [total([k for k in range(COUNT) if k != left_out]) for left_out in range(COUNT)]
    return np.array([np.linalg.norm(whole - rest) for rest in without])


@settings(max_examples=8, deadline=None, derandomize=True)
@given(plans)
@example(Plan("one layer", inputs="uint8"))
@example(Plan(odd=np.nan, shared=True))
@example(Plan(odd=1e19, by_vmap=True))
@example(Plan(parameters="bfloat16", odd=1e5))
@example(Plan("prototypes"))
@example(Plan("attention", parameters="bfloat16", odd=np.nan))
@example(Plan("turned round", "by index"))
@example(Plan("over the batch", "of pairs"))
def test_an_example_changes_the_sum_by_at_most_the_sensitivity(plan):
    model = NETWORKS[plan.network](plan.microbatch, jnp.dtype(plan.parameters))
    mesh = devices.mesh_for(1) if plan.shared else None
    gradient, params = private_gradient(
        model, LOSSES[plan.loss], clip_norm=CLIP, microbatch=plan.microbatch, mesh=mesh
    )
    run = gradient if plan.shared else oracles.quick_jit(gradient)
    (x, y), patch = plan.data(), pytest.MonkeyPatch()
    with patch.context() as patched:
        if plan.by_vmap:
            patched.setattr(per_example, "why_not_by_rules", lambda *_: "as the test wants")
        found = differences(lambda chosen: flat(run(params, x, y, among(chosen))))
    assert found.max() <= gradient.sensitivity * (1 + plan.tolerance())


@pytest.mark.parametrize("by_vmap", [False, True])
@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_so_it_does_where_layers_compute_in_half_precision(half, by_vmap, monkeypatch):
    """Each gradient is added up in float32: one example's is as long as the clip."""
    model = nnx.Sequential(dense(8, 32, dtype=half), jnp.tanh, dense(32, 8, 1, dtype=half))
    gradient, params = private_gradient(model, cross_entropy, clip_norm=CLIP, microbatch=3)
    if by_vmap:
        monkeypatch.setattr(per_example, "why_not_by_rules", lambda *_: "as the test wants")
    run, (x, y) = oracles.quick_jit(gradient), Plan(odd=300.0).data()
    alone = [run(params, x, y, among([k])) for k in range(COUNT)]
    assert {leaf.dtype for leaf in jax.tree.leaves(alone)} == {jnp.dtype("float32")}
    lengths = np.array([np.linalg.norm(flat(one)) for one in alone])
    assert lengths.max() == pytest.approx(CLIP, rel=ROUNDING)
    found = differences(lambda chosen: flat(run(params, x, y, among(chosen))))
    assert found.max() <= CLIP * (1 + OF_HALF_PRECISION)


def test_a_row_that_places_of_one_example_look_up_and_cancel_is_added_up_before_it_is_clipped():
    rng = np.random.default_rng(0)
    a, b = (2.0**11 * rng.integers(2**22, 2**23, (COUNT, 32)) for _ in range(2))
    weight = np.stack([a / 2, b / 2, -(a / 2 + b / 2), np.ones((COUNT, 32))], 1)
    x = {"token": jnp.zeros((COUNT, 4), int), "weight": jnp.asarray(weight, jnp.float32)}
    table = nnx.Embed(3, 32, rngs=nnx.Rngs(0))

    def losses(network, x, y):
        return (network(x["token"]) * x["weight"]).sum((1, 2))

    gradient, params = private_gradient(table, losses, clip_norm=CLIP)
    run = oracles.quick_jit(gradient)
    found = differences(lambda chosen: flat(run(params, x, jnp.zeros(COUNT), among(chosen))))
    assert found.max() <= CLIP * (1 + ROUNDING)


def test_what_long_products_round_is_in_the_norm_of_positions_that_cancel():
    """Over constant rows all of it goes one way."""
    x = np.random.default_rng(0).normal(size=(COUNT, 2, 4096)).astype(np.float32)
    x[0] = np.array([1.51060016, 1.51060016 * 1.00471995])[:, None]
    y = jnp.ones(COUNT).at[0].set(1.6916492)

    def losses(network, x, y):
        scores = network(x)
        return (scores[:, 0] - scores[:, 1]).sum(-1) * y

    gradient, params = private_gradient(dense(4096, 16, use_bias=False), losses, clip_norm=CLIP)
    run = oracles.quick_jit(gradient)
    found = differences(lambda chosen: flat(run(params, jnp.asarray(x), y, among(chosen))))
    assert found.max() <= CLIP * (1 + ROUNDING)


def test_rounding_of_a_long_sum_moves_it_by_less_than_an_example():
    """Numbers by which each microbatch is rounded up with the first example, and down without."""
    count, size, x, total, first = 60_000, 32, np.zeros(60_000), 0.0, 0.95
    for k in range(0, count, size):
        unit = float(np.spacing(np.float32(max(total, 32.0))))
        rest = np.floor(30 / unit) * unit + 0.52 * unit
        x[k], x[k + 1 : k + size] = first, (rest - first) / (size - 1)
        total, first = total + rest, first - 0.04 * unit
    x = jnp.asarray(x[:, None], jnp.float32)
    layer = dense(1, 1, use_bias=False)
    gradient, params = private_gradient(layer, lambda net, x, y: net(x)[:, 0], clip_norm=1.0)
    run = jax.jit(gradient)

    def summed(x):
        draw = poisson(jax.random.key(0), len(x), len(x))
        return flat(run(params, x, jnp.zeros(len(x)), draw))

    unit = np.spacing(np.float32(count))  # of the sum, which is rounded once
    assert abs(summed(x) - summed(x[1:])) <= 1 + unit


def centred(method):
    """A layer whose host takes the mean of all examples that it is given away."""

    def losses(network, x, y):
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        x = jax.pure_callback(lambda v: v - v.mean(axis=0), like, x, vmap_method=method)
        return network(x)[:, 0]

    return losses


@jax.custom_batching.custom_vmap
def by_rule(x):
    return x


by_rule.def_vmap(lambda size, batched, x: (x - x.mean(axis=0), batched[0]))
MIXED = [
    (centred("expand_dims"), "'expand_dims': take 'sequential'"),
    (lambda network, x, y: network(jax.jit(by_rule)(x))[:, 0], "rule of its own for vmap"),
    (lambda network, x, y: network(x - jax.lax.pmean(x, "examples"))[:, 0], "psum.* over devices"),
]


@pytest.mark.parametrize(("losses", "said"), MIXED)
@pytest.mark.parametrize("dropped", [False, True])
def test_what_mixes_examples_even_under_vmap_is_refused(losses, said, dropped):
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    model = nnx.Sequential(drop, dense(8, 1)) if dropped else dense(8, 1)
    mesh = devices.mesh_for(1) if "devices" in said else None
    gradient, params = private_gradient(model, losses, clip_norm=CLIP, microbatch=4, mesh=mesh)
    arguments = jnp.ones((COUNT, 8)), jnp.zeros(COUNT), among(range(COUNT)), jax.random.key(0)
    with pytest.raises(ValueError, match=said):
        gradient(params, *arguments)


def test_a_key_by_which_rows_draw_alike_is_refused():
    model = nnx.Sequential(nnx.Dropout(0.5, rngs=nnx.Rngs(0)), dense(8, 1))
    gradient, params = private_gradient(model, lambda n, x, y: n(x)[:, 0], clip_norm=CLIP)
    with pytest.raises(ValueError, match="a threefry key is wanted, got one of rbg"):
        key = jax.random.key(0, impl="rbg")
        gradient(params, jnp.ones((COUNT, 8)), jnp.zeros(COUNT), among(range(COUNT)), key)


def test_a_loss_may_read_a_reference():
    ref = jax.new_ref(jnp.ones(8))
    gradient, params = private_gradient(
        dense(8, 1), lambda net, x, y: net(x * ref[...])[:, 0], clip_norm=CLIP
    )
    found = gradient(params, jnp.ones((COUNT, 8)), jnp.zeros(COUNT), among(range(COUNT)))
    assert np.linalg.norm(flat(found)) == pytest.approx(COUNT * CLIP, rel=ROUNDING)


class Small(nnx.Module):
    """A convolution and a dense layer without biases, which every mechanism takes."""

    def __init__(self, rngs, bias=False):
        self.conv = Conv(1, 3, (2, 2), use_bias=bias, rngs=rngs)
        self.last = Dense(48, 4, use_bias=bias, rngs=rngs)

    def __call__(self, x):
        return self.last(jnp.tanh(self.conv(x)).reshape(len(x), -1))


MECHANISMS = {
    "flat": (FlatClipping(0.1), 0.1),
    "automatic": (AutomaticClipping(0.1, stability=1e-6), 0.1),
    "per layer": (PerLayerClipping(0.1), 0.1),
    "filter": (TanhFilter(output_range=0.5, parameters=204), 0.5 * 204**0.5),
    "filter, clipped": (FilteredThenClipped(clip_norm=0.1), 0.1),
    "filter, to a norm": (FilteredToNorm(clip_norm=0.1, stability=1e-6), 0.1),
    "clips inside": (BackpropagationClipping(0.5, 0.2), 2**0.5 * 0.1),
}


@cache
def summed_by(name):
    """A mechanism's sum over images, as a function of these and a mask: compiled once."""
    mechanism, _ = MECHANISMS[name]
    graph, params = nnx.split(Small(nnx.Rngs(0)), nnx.Param)

    @oracles.quick_jit
    def summed(x, mask):
        batch = Microbatch(graph, cross_entropy, params, x, jnp.arange(COUNT) % 4)
        return mechanism.sum(batch, mask)

    return summed


def some_images():
    return np.random.default_rng(0).normal(size=(COUNT, 4, 4, 1)).astype(np.float32)


@pytest.mark.parametrize("odd", [1e-30, 1e19, np.inf, np.nan])
@pytest.mark.parametrize("name", MECHANISMS)
def test_so_it_does_whatever_the_mechanism(name, odd):
    _, sensitivity = MECHANISMS[name]
    x = some_images()
    x[[0, 3], 1, 1] = odd
    summed = partial(summed_by(name), x)

    def total(chosen):
        return flat(summed(jnp.zeros(COUNT).at[jnp.asarray(list(chosen))].set(1))[0])

    assert differences(total).max() <= sensitivity * (1 + ROUNDING)
    seen = summed(jnp.ones(COUNT))[1]
    assert np.isfinite([float(each) for each in seen]).all()
    if not name.startswith("filter"):  # tanh makes a number of infinity.
        expected = 0 if np.isfinite(odd) or name == "clips inside" else 2
        assert int(seen.not_finite) == expected or odd == 1e19


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - {"clips inside"}))
def test_a_mask_may_weigh_examples(name):
    """As in an audit, of mechanisms that bound examples one by one. Clips inside see the weight."""
    summed = partial(summed_by(name), some_images())
    weights = np.float32([0.25, -2.0, 0.0, 1.0, 0.0, 3.0, 0.0])
    each = [flat(summed(one)[0]) for one in np.eye(COUNT, dtype=np.float32)]
    expected = np.tensordot(weights, np.stack(each), 1)
    np.testing.assert_allclose(flat(summed(weights)[0]), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("network", "shape", "words"),
    [
        (lambda n, x: n(x.reshape(-1, 4, 4, 1)), (2, 4, 4, 1), "conv is not applied once to each"),
        (lambda n, x: n(x)[::-1], (4, 4, 1), "may depend on other examples"),
        (lambda n, x: n(x - x.mean(0)), (4, 4, 1), "may depend on other examples"),
        (lambda n, x: n(x) @ n.last.kernel.T, (4, 4, 1), "last.kernel is used outside its layer"),
        (lambda n, x: n(x) + n.conv.kernel.sum(), (4, 4, 1), "conv.kernel is used outside"),
    ],
    ids=["frames", "turned round", "mixed", "a decoder", "a penalty"],
)
def test_clips_inside_refuse_what_no_bound_is_proven_of(network, shape, words):
    graph, params = nnx.split(Small(nnx.Rngs(0)), nnx.Param)
    losses = lambda n, x, y: network(n, x).reshape(len(x), -1).sum(1)  # noqa: E731
    batch = Microbatch(graph, losses, params, jnp.ones((COUNT, *shape)), jnp.zeros(COUNT, int))
    with pytest.raises(ValueError, match=f"{words}.*the bound does not cover"):
        BackpropagationClipping().sum(batch, jnp.ones(COUNT))


def why_not(model, losses=cross_entropy, shape=(8,), count=COUNT):
    graph, params, rest = nnx.split(layers.tap(model), nnx.Param, ...)
    x, y = jnp.ones((count, *shape)), jnp.arange(count) % 7
    return applicability.why_not_by_rules(graph, losses, params, x, y, rest)


@pytest.mark.parametrize(
    "loss",
    [
        *(LOSSES[name] for name in ("cross-entropy", "by index", "squared")),
        lambda n, x, y: optax.sigmoid_binary_cross_entropy(n(x), jax.nn.one_hot(y, 8)).sum(-1),
        lambda n, x, y: (
            jnp.sort(n(x), axis=1)[:, -1] - jnp.take_along_axis(n(x), y[:, None], 1).T[0]
        ),
        lambda n, x, y: jax.lax.top_k(n(x), 2)[0].sum(1) + jnp.cumsum(n(x), axis=1)[:, 3],
        lambda n, x, y: jax.vmap(lambda logits, y: logits[y] ** 2)(n(x), y),
        lambda n, x, y: jax.lax.scan(lambda c, h: (c * h, h), jnp.ones(len(x)), n(x).T)[0],
        lambda n, x, y: jnp.where(y[:, None] > 2, n(x), jnp.zeros(8)).max(1),
        lambda n, x, y: n(x)[np.arange(len(y)), y] * np.ones(len(y), np.float32),
        lambda n, x, y: jnp.stack([n(x)[:, 1], n(x)[:, 2]], 1).at[:, 0].multiply(2.0).sum(1),
        lambda n, x, y: optax.sigmoid_focal_loss(n(x), jax.nn.one_hot(y, 8)).sum(1),
    ],
)
def test_a_loss_of_one_example_is_seen_to_be_so(loss):
    def once(network, x, y):
        logits = network(x)
        return loss(lambda _: logits, x, y)

    assert why_not(dense(8, 8), once) is None


def pooled(h):
    return nnx.max_pool(h, (2, 2), (2, 2)) + nnx.avg_pool(h, (2, 2), (2, 2))


@pytest.mark.parametrize(
    "between",
    [
        pooled,
        lambda h: jax.image.resize(h, (len(h), 2, 2, h.shape[-1]), "linear"),
        lambda h: jnp.pad(h, ((0, 0), (1, 1), (0, 0), (0, 0)), mode="reflect")[:, ::2],
        lambda h: jnp.concatenate([h, h[:, ::-1]], axis=-1)[..., ::2],
        lambda h: h - h.mean((1, 2), keepdims=True),
        lambda h: jnp.einsum("bijc,bijd->bcd", h, h),
        lambda h: jax.vmap(lambda one: one / (1 + jnp.linalg.norm(one)))(h),
        lambda h: jax.checkpoint(jnp.tanh)(h),
        lambda h: jax.lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h), h),
        lambda h: h.swapaxes(0, 1)[::-1].swapaxes(1, 0),
    ],
)
def test_so_is_what_lies_between_layers(between):
    class Network(nnx.Module):
        def __init__(self):
            self.conv = nnx.Conv(1, 3, (2, 2), rngs=nnx.Rngs(0))
            width = jax.eval_shape(lambda x: between(x).reshape(1, -1), jnp.ones((1, 4, 4, 3)))
            self.last = dense(width.shape[1], 8)

        def __call__(self, x):
            return self.last(between(self.conv(x)).reshape(len(x), -1))

    assert why_not(Network(), shape=(4, 4, 1)) is None


def weighted(weights):
    """Cross-entropy with a weight that may depend on an example's place, or on another's values."""
    return lambda n, x, y: cross_entropy(n, x, y) * weights(jax.lax.stop_gradient(x), y)


def written(x):
    place = jax.new_ref(jnp.zeros(()))
    place[...] = x[0, 0]
    return place[...]


def by_branch(x):
    """Two branches whose programs differ in what they close over alone."""
    one, other = (lambda h, c=c: jax.jit(lambda h: h * c)(h) for c in (CLOSED, -CLOSED))
    return jax.lax.cond(x[0, 0] > 0, one, other, jnp.ones(len(x)))


CLOSED = jnp.full((1,), 2.0)


@pytest.mark.parametrize(
    "loss",
    [
        weighted(lambda x, y: jnp.zeros(len(x)).at[jnp.arange(2)].set(1.0)),
        weighted(lambda x, y: jnp.zeros(len(x)).at[jnp.arange(1)].add(1.0)),
        weighted(lambda x, y: jnp.ones(2).at[jnp.arange(len(x))].get(mode="fill", fill_value=0)),
        weighted(lambda x, y: x[jnp.arange(len(x)), jnp.arange(len(x))]),
        weighted(lambda x, y: jnp.take_along_axis(x[:, :3].T, jnp.arange(3)[:, None], 1)[:, 0]),
        weighted(lambda x, y: jnp.asarray(np.arange(1.0, 4.0))),
        weighted(lambda x, y: jnp.tile(x[:1, 0], len(x))),
        weighted(lambda x, y: jnp.stack([x[1, 0], x[2, 0], x[0, 0]])),
        weighted(lambda x, y: by_branch(x)),
        weighted(lambda x, y: jax.jit(written)(x)),
        weighted(lambda x, y: jnp.cumsum(x, axis=0)[:, 0]),
        weighted(lambda x, y: jax.lax.scan(lambda c, row: (c + row[0], c), 0.0, x)[1]),
        weighted(lambda x, y: jax.lax.dynamic_slice(x, (0, y[0]), (len(x), 1))[:, 0]),
        weighted(lambda x, y: jnp.roll(x, 1, axis=0)[:, 0]),
        weighted(lambda x, y: x.T.reshape(-1)[: len(x)]),
        weighted(lambda x, y: jax.ops.segment_sum(x[:, 0], y, 7)[y]),
    ],
)
@pytest.mark.parametrize("inlined", [False, True])
def test_what_depends_on_place_or_on_others_goes_by_vmap(loss, inlined):
    """Also where JAX is set to write constants into programs."""
    before = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", inlined)
    try:
        assert "may depend on other examples" in why_not(dense(8, 8), loss, count=3)
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", before)


def test_so_does_a_gradient_that_is_written_to_mix():
    @jax.custom_vjp
    def idle(h):
        return h

    idle.defvjp(lambda h: (h, None), lambda _, g: (g - g.mean(0),))
    losses = lambda n, x, y: ((idle(n(x)) - 1) ** 2).sum(1)  # noqa: E731
    assert "may depend on other examples" in why_not(dense(8, 8), losses)


def test_squares_that_are_lost_do_not_make_a_gradient_short():
    """Inputs whose squares are nothing in float32, and output gradients of 4e18."""
    x = jnp.ones((COUNT, 128)).at[0].set(1e-19)
    y = jnp.zeros(COUNT).at[0].set(4e18)
    model = nnx.Linear(128, 1, use_bias=False, rngs=nnx.Rngs(0))
    losses = lambda n, x, y: (n(x)[:, 0] - y) ** 2  # noqa: E731
    gradient, params = private_gradient(model, losses, clip_norm=CLIP)
    run = oracles.quick_jit(gradient)
    found = differences(lambda chosen: flat(run(params, x, y, among(chosen))))
    assert found.max() <= CLIP * (1 + ROUNDING)
    rows = jnp.full((1, 1, 64), 3e-20), jnp.full((1, 1, 64), 3e17)
    squared = layer_rules.ByGram(*rows, None, None).squared_norms()
    assert float(squared[0]) >= (64 * 3e-20 * 3e17) ** 2 * (1 - 1e-5)


def replaced(name):
    if name == "dot_general":
        return dense(8, 8, dot_general=lambda x, k, *a, **o: jax.lax.dot_general(x, 2 * k, *a, **o))
    if name == "promote_dtype":
        return dense(8, 8, promote_dtype=lambda arrays, dtype=None: (3 * arrays[0], *arrays[1:]))
    if name == "conv_general_dilated":
        twice = lambda x, *a, **o: jax.lax.conv_general_dilated(2 * x, *a, **o)  # noqa: E731
        return nnx.Conv(1, 8, (4, 2), padding="VALID", rngs=nnx.Rngs(0), conv_general_dilated=twice)
    layer = dense(8, 8)
    layer.kernel = Doubled(layer.kernel[...])
    return layer


class Doubled(nnx.Param):
    """A parameter that is read as twice its value."""

    def get_value(self, **options):
        return 2 * super().get_value(**options)


def assert_sums_gradients(model, losses, rtol=1e-5, atol=1e-6):
    """Without a clip that bites, the sum is the gradient of the sum of losses."""
    (x, y), graph = Plan().data(), nnx.graphdef(model)
    gradient, params = private_gradient(model, losses, clip_norm=1e9)
    by_hand = jax.grad(lambda p: losses(nnx.merge(graph, p), x, y).sum())
    expected = oracles.quick_jit(by_hand)(params)
    found = flat(oracles.quick_jit(gradient)(params, x, y, among(range(COUNT))))
    np.testing.assert_allclose(found, flat(expected), rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "name", ["dot_general", "promote_dtype", "conv_general_dilated", "get_value"]
)
def test_a_layer_with_arithmetic_of_its_own_has_the_gradients_of_vmap(name):
    model = replaced(name)
    of_images = name == "conv_general_dilated"
    losses = lambda n, x, y: cross_entropy(  # noqa: E731
        lambda x: n(x.reshape(-1, 4, 2, 1))[:, 0, 0] if of_images else n(x), x, y
    )
    assert "of its own" in why_not(model, losses)
    assert_sums_gradients(model, losses)


def test_where_positions_cancel_the_norm_by_gram_matrices_is_no_smaller_than_the_gradient():
    """Two positions that see almost the same, with opposite gradients."""
    draw = np.random.default_rng(0)
    seen = draw.normal(size=(50, 1, 64)).repeat(2, axis=1)
    seen[:, 1] += 10.0 ** -draw.uniform(2, 7, size=(50, 1)) * draw.normal(size=(50, 64))
    added = draw.normal(size=(50, 1, 32)) * np.array([1, -1])[:, None]
    seen, added = np.float32(seen), np.float32(added)
    rule = layer_rules.ByGram(jnp.asarray(added), jnp.asarray(seen), None, None)
    exact = np.einsum("bpo,bpk->bok", np.float64(added), np.float64(seen))
    lengths = np.linalg.norm(exact.reshape(50, -1), axis=1)
    assert (np.sqrt(np.asarray(rule.squared_norms(), float)) >= lengths * (1 - 1e-6)).all()


def test_examples_without_a_finite_gradient_are_counted_and_reported():
    plan = Plan(odd=np.nan)
    gradient, params = private_gradient(dense(8, 8), cross_entropy, clip_norm=CLIP, microbatch=3)
    for run in (gradient, jax.jit(gradient)):
        with pytest.warns(NotFiniteWarning, match="^2 of a step's examples had no finite gradient"):
            total = flat(run(params, *plan.data(), among([0, 3, 5])))
            jax.effects_barrier()
        alone = flat(gradient(params, *plan.data(), among([5])))
        np.testing.assert_allclose(total, alone, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(params, *plan.data(), among([1, 2]))
        jax.effects_barrier()


def test_numbers_that_are_not_real_are_refused_by_name():
    layer = dense(8, 8, param_dtype=jnp.complex64)
    with pytest.raises(ValueError, match="is complex64: parameters of real numbers"):
        private_gradient(layer, cross_entropy, clip_norm=CLIP)
    noise = gaussian_noise(1.0, jax.random.key(0))
    for of, name in ((jnp.complex64, "complex64"), (jnp.int32, "int32")):
        sums = {"w": jnp.zeros(3, of)}
        with pytest.raises(ValueError, match=f"w is {name}"):
            noise.update(sums, noise.init(sums))


def test_noise_on_half_precision_is_drawn_in_float32():
    noise = gaussian_noise(3.0, jax.random.key(1))
    halves = (jnp.bfloat16, jnp.float16)
    sums = {half.__name__: jnp.full(100_000, 2, half) for half in halves}
    for noisy in noise.update(sums, noise.init(sums))[0].values():
        assert noisy.dtype == jnp.float32
        assert len(np.unique(noisy)) > 90_000
        assert oracles.stats.kstest((np.asarray(noisy) - 2) / 3, "norm").pvalue > oracles.SUSPICIOUS


def test_noise_goes_on_beyond_what_a_normal_in_float32_comes_to(monkeypatch):
    """JAX's ends at 5.2 deviations, where a run's delta is not yet spent."""
    monkeypatch.setattr(jax.random, "normal", lambda key, shape, dtype: jnp.full(shape, 5.2, dtype))
    noise = gaussian_noise(1.0, jax.random.key(0))
    noisy, _ = noise.update(jnp.zeros(3), noise.init(None))
    assert noisy.min() > 10


def test_how_to_read_says_what_noise_that_ended_could_show():
    least = np.nextafter(np.float32(-1), np.float32(0))  # as `jax.random.normal` draws
    last = np.float32(1 - 2.0**-23) * (np.float32(1) - least) + least
    most = math.sqrt(2) * float(jax.lax.erf_inv(last))
    q, sigma, steps = 512 / 60_000, 1.23, 40 * 117
    shown = 1 - (1 - q * stats.norm.sf(most - 1 / sigma)) ** steps
    page = " ".join((Path(__file__).parents[1] / "book/how_to_read.md").read_text().split())
    assert f"a chance of {10_000 * shown:.0f} in 10,000" in page
    assert f"noise ended at {most:.1f} standard deviations" in page


def test_groups_of_one_key_have_noise_of_their_own():
    one = partial(gaussian_noise, 1.0, jax.random.key(5))
    sums = {"head": jnp.zeros(9_000), "body": jnp.zeros(9_000)}
    groups = optax.multi_transform({"a": one(), "b": one()}, {"head": "a", "body": "b"})
    noisy = groups.update(sums, groups.init(sums))[0]
    apart = [one().update(t, one().init(t))[0] for t in ({"u": sums["head"]}, {"v": sums["body"]})]
    for a, b in ((noisy["head"], noisy["body"]), (apart[0]["u"], apart[1]["v"])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("losses", "got"),
    [
        (
            lambda n, x, y: cross_entropy(n, x, y).mean(),
            "[]; leave out the mean or sum over examples",
        ),
        (lambda n, x, y: cross_entropy(n, x, y).mean(keepdims=True), "float32[1]"),
        (lambda n, x, y: jnp.tile(cross_entropy(n, x, y), 2), "float32[6]"),
        (lambda n, x, y: n(x), "float32[3, 8]"),
        (lambda n, x, y: {"loss": cross_entropy(n, x, y)}, "dict of float32[3]"),
        (lambda n, x, y: n(x).argmax(1), "int32[3]"),
    ],
)
@pytest.mark.parametrize("fallback", [False, True])
def test_other_than_one_loss_an_example_is_refused(losses, got, fallback):
    model = Between(nnx.RMSNorm(8, rngs=nnx.Rngs(2)) if fallback else jnp.tanh, jnp.float32)
    gradient, params = private_gradient(model, losses, clip_norm=CLIP, microbatch=3)
    with pytest.raises(ValueError, match="one loss an example") as refused:
        gradient(params, *Plan().data(), among(range(COUNT)))
    assert str(refused.value).endswith(got)


def test_sizes_that_do_not_agree_are_refused():
    gradient, params = private_gradient(dense(8, 8), cross_entropy, clip_norm=CLIP)
    (x, y), key = Plan().data(), jax.random.key(0)
    with pytest.raises(ValueError, match=r"as many examples.*\(7, 8\), \(5,\)"):
        gradient(params, x, y[:5], poisson(key, COUNT, 3))
    for count in (COUNT - 1, COUNT + 1, 10 * COUNT):
        for run in (gradient, jax.jit(gradient)):
            with pytest.raises(ValueError, match=f"among {count} examples, where 7 are given"):
                run(params, x, y, poisson(key, count, 3))
    for indices, count in (([1, COUNT], 2), ([1, -2], 2), ([0, 1], 3)):
        beyond = Draw(jnp.array(indices), jnp.int32(count), jnp.bool_(False))
        assert np.isnan(flat(gradient(params, x, y, beyond))).all()
    # As one may do who is short of memory: the last place would count for all that are missing.
    cut = poisson(key, COUNT, COUNT)
    cut = cut._replace(indices=cut.indices[:2])
    for run in (gradient, jax.jit(gradient)):
        assert np.isnan(flat(run(params, x, y, cut))).all()
    with pytest.raises(ValueError, match="all devices share examples"):
        private_gradient(dense(8, 8), cross_entropy, clip_norm=CLIP, mesh=devices.mesh_for(2))
    with pytest.raises(ValueError, match="no parameters"):
        private_gradient(nnx.Sequential(jnp.tanh), cross_entropy, clip_norm=CLIP)
    for examples, batch in ((7, 8), (7, 0), (7, -1), (0, 0)):
        with pytest.raises(ValueError, match=f"batch must be from 1 to the {examples} examples"):
            poisson(key, examples, batch)


def test_images_and_labels_may_be_trees():
    x, y = Plan().data()
    plain, params = private_gradient(dense(8, 8), cross_entropy, clip_norm=CLIP, microbatch=3)
    trees, _ = private_gradient(
        dense(8, 8), lambda n, x, y: y[1] * cross_entropy(n, x["pixels"], y[0]), clip_norm=CLIP
    )
    found = trees(params, {"pixels": x}, (y, jnp.ones(COUNT)), among([1, 2, 5]))
    np.testing.assert_allclose(flat(found), flat(plain(params, x, y, among([1, 2, 5]))), rtol=1e-5)


def test_a_recurrent_network_trains_since_nothing_random_reaches_its_loss():
    class Network(nnx.Module):
        def __init__(self):
            self.rnn, self.head = nnx.RNN(nnx.LSTMCell(2, 5, rngs=nnx.Rngs(0))), dense(5, 8)

        def __call__(self, x):
            return self.head(self.rnn(x.reshape(-1, 4, 2))[:, -1])

    gradient, params = private_gradient(Network(), cross_entropy, clip_norm=CLIP)
    run = oracles.quick_jit(gradient)
    found = differences(lambda chosen: flat(run(params, *Plan().data(), among(chosen))))
    assert 0 < found.max() <= CLIP * (1 + ROUNDING)


@pytest.mark.parametrize(
    "losses",
    [
        lambda n, x, y: jax.jvp(lambda x: n(x).sum(1), (x,), (jnp.ones_like(x),))[1] ** 2,
        lambda n, x, y: jax.vmap(lambda x: (jax.jacfwd(lambda x: n(x[None])[0])(x) ** 2).sum())(x),
    ],
    ids=["jvp", "jacfwd"],
)
def test_a_loss_may_differentiate_a_convolution_forwards(losses):
    assert_sums_gradients(convolving(jnp.float32), losses, rtol=1e-4, atol=1e-5)


def test_products_keep_float32_whatever_the_caller_asks_for():
    gradient, params = private_gradient(convolving(jnp.float32), cross_entropy, clip_norm=CLIP)
    with jax.default_matmul_precision("bfloat16"):
        traced = str(jax.make_jaxpr(gradient)(params, *Plan().data(), among([0, 1])))
    assert set(re.findall(r"precision=(.*)", traced)) == {"(Precision.HIGHEST, Precision.HIGHEST)"}


def test_types_may_be_promoted_by_hand_alone():
    gradient, params = private_gradient(convolving(jnp.float32), cross_entropy, clip_norm=CLIP)
    noise = gaussian_noise(1.0, jax.random.key(0))
    with jax.numpy_dtype_promotion("strict"):
        x, y = Plan().data()
        total = gradient(params, x, y, poisson(jax.random.key(0), COUNT, 3))
        noise.update(total, noise.init(total))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_enable_x64", True),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_default_matmul_precision", "bfloat16"),
    ],
)
def test_a_run_is_not_trained_under_settings_that_change_its_numbers(name, value):
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        with pytest.raises(UserError, match=f"{name} = {before}, got {value}"):
            next(loop.train([Run()], None, 32))
    finally:
        jax.config.update(name, before)
