"""Clips inside backpropagation: what they do to one example, and what bound they keep."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from results_for_tests import NARROW, TINY, spent_by, sum_by

from dpstudy.gradients import devices
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.parts.mechanism import Microbatch
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.optimizer import Adam
from dpstudy.parts.run import Run, vary
from dpstudy.privacy.run_epsilon import epsilon_curve
from dpstudy.training import loop
from under_the_clip.backpropagation_clipping import experiments
from under_the_clip.backpropagation_clipping.clipped_layers import clip_layers, l2, l15
from under_the_clip.backpropagation_clipping.mechanism import (
    BackpropagationClipping,
    ClippedWithoutNoise,
)
from under_the_clip.backpropagation_clipping.published import (
    BACKPROPAGATION_CLIPPING,
    CORRECTED_CLIPPING,
)
from under_the_clip.networks import BackpropMnist

MECHANISM = BackpropagationClipping(input_bound=1.5, upstream_bound=0.05, noise_multiplier=2.0)
RUN = vary(Run(network=BackpropMnist(Relu()), mechanism=MECHANISM), **TINY)


def images(count, seed=0):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (count, 28, 28, 1)).astype(np.uint8)
    return jnp.asarray(pixels), jnp.asarray(rng.integers(0, 10, count))


def summed(mechanism, params, pixels, labels, mask=None):
    """The sum over examples; always of four, the rest masked, so that it is compiled once."""
    count = len(labels)
    mask = jnp.ones(count) if mask is None else mask
    padded = [
        jnp.concatenate([x, jnp.zeros((4 - count, *x.shape[1:]), x.dtype)])
        for x in (pixels, labels, mask)
    ]
    return sum_by(RUN)(mechanism, params, *padded)


@pytest.fixture(scope="module")
def params():
    # Three times as large as drawn, so that clips bite.
    return jax.tree.map(lambda x: 3 * x, RUN.network.initial(jax.random.key(0)))


@oracles.quick_jit
def by_hand(params, image, label, a, b):
    """One example's gradients of the MNIST network, by numpy-like steps and the chain rule."""

    def scale(x, bound, norm):
        return x * jnp.minimum(1.0, bound / norm)

    kernels = [params[n]["kernel"][...] for n in ("conv1", "conv2", "dense1", "dense2")]

    def conv(x, kernel):
        options = {"window_strides": (2, 2), "padding": "VALID"}
        return jax.lax.conv_general_dilated(
            x[None], kernel, **options, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )[0]

    def pooled(x):
        windows = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2, 1), (1, 1, 1), "VALID")
        return jax.nn.relu(windows)

    layers = [
        (conv, pooled),
        (conv, lambda x: pooled(x).reshape(-1)),
        (lambda x, w: x @ w, jax.nn.relu),
        (lambda x, w: x @ w, lambda x: -jax.nn.log_softmax(x)[label]),
    ]
    tape, x = [], image / 255.0
    for (product, after), kernel in zip(layers, kernels, strict=True):
        size = jnp.sqrt((x**2).sum())
        clipped, back = jax.vjp(lambda x: x * jnp.minimum(1, a / jnp.sqrt((x**2).sum())), x)
        out, product_back = jax.vjp(product, clipped, kernel)
        x, after_back = jax.vjp(after, out)
        tape.append((back, size > a, product_back, after_back, out.ndim))
    gradients, upstream = [], jnp.ones(())
    for back, cut, product_back, after_back, rank in reversed(tape):
        [upstream] = after_back(upstream)
        norm = jnp.sqrt((upstream**2).sum())
        if rank == 3:
            norm = jnp.sqrt((jnp.abs(upstream).sum(axis=(0, 1)) ** 2).sum())
        upstream, gradient = product_back(scale(upstream, b, norm))
        gradients.append(gradient)
        upstream = jnp.where(cut, *back(upstream), upstream)
    return gradients[::-1]


@pytest.mark.parametrize("bounds", [(1.5, 0.05), (0.3, 10.0), (100.0, 0.2), (100.0, 100.0)])
def test_an_example_s_gradient_is_what_the_chain_rule_with_clips_gives(params, bounds):
    mechanism = BackpropagationClipping(*bounds)
    pixels, labels = images(3)
    for index in range(3):
        one = slice(index, index + 1)
        total, _ = summed(mechanism, params, pixels[one], labels[one])
        expected = by_hand(params, pixels[index], labels[index], *bounds)
        for leaf, other in zip(jax.tree.leaves(total), expected, strict=True):
            np.testing.assert_allclose(leaf, other, rtol=2e-4, atol=2e-5)


def test_wide_bounds_leave_the_gradient_and_the_sum_is_over_the_mask(params):
    pixels, labels = images(4)
    wide = BackpropagationClipping(1e6, 1e6)
    graph, losses = RUN.network.graph(), RUN.losses(jnp.float32(1))
    mask = jnp.array([1.0, 0.0, 1.0, 0.0])

    @oracles.quick_jit
    @jax.grad
    def plain(params):
        return jnp.vdot(mask, losses(nnx.merge(graph, params), pixels, labels))

    total, seen = summed(wide, params, pixels, labels, mask)
    for leaf, other in zip(jax.tree.leaves(total), jax.tree.leaves(plain(params)), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=1e-5)
    assert float(seen.examples) == 2


def test_no_example_s_gradient_is_longer_than_a_b_in_any_layer(params):
    """Of images, weights and labels at random, and of images that fill the clips."""
    for seed in range(8):
        pixels, labels = images(1, seed)
        scaled = jax.tree.map(lambda x, s=seed: x * (0.1 + s), params)
        total, _ = summed(MECHANISM, scaled, pixels, labels)
        for leaf in jax.tree.leaves(total):
            assert float(jnp.linalg.norm(leaf)) <= 1.5 * 0.05 * (1 + 1e-5)


def test_norms_are_those_of_the_theorems():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4, 5)), jnp.float32)
    np.testing.assert_allclose(l2(x), jnp.linalg.norm(x.reshape(2, -1), axis=1), rtol=1e-6)
    by_channel = jnp.abs(x).sum(axis=(1, 2))
    np.testing.assert_allclose(l15(x), jnp.linalg.norm(by_channel, axis=1), rtol=1e-6)
    assert jnp.isfinite(jax.grad(lambda x: l2(x).sum())(jnp.zeros((1, 3)))).all()


def test_all_layers_of_a_step_are_one_gaussian_of_the_stated_noise(params):
    """Noise over sensitivity: 1 / √(Σ (a b / σ_l)²), whatever the shares."""
    for shares in ((), (0.1, 0.2, 0.3, 0.4)):
        mechanism = replace(MECHANISM, shares=shares)
        deviations = np.array([float(x) for x in jax.tree.leaves(mechanism.noise(params))])
        joint = 1 / np.sqrt(((1.5 * 0.05 / deviations) ** 2).sum())
        assert joint == pytest.approx(mechanism.noise_over_sensitivity, rel=1e-5)
        assert (len(set(deviations)) == 1) == (shares == ())


def test_the_claim_is_larger_by_the_factor_and_without_noise_there_is_none(params):
    claimed = replace(MECHANISM, claimed_factor=256.0)
    assert claimed.claimed_noise_over_sensitivity == 512.0
    assert claimed.noise_over_sensitivity == 2.0
    bare = ClippedWithoutNoise(1.5, 0.05)
    assert bare.noise_over_sensitivity is None and bare.noise(params) is None
    pixels, labels = images(2)
    pair = (summed(mechanism, params, pixels, labels)[0] for mechanism in (bare, MECHANISM))
    for leaf, other in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_array_equal(leaf, other)


class Twice(nnx.Module):
    def __init__(self, rngs):
        self.layer = Dense(4, 4, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.layer(self.layer(x))


def test_a_network_of_which_no_bound_is_proven_is_refused():
    rngs = nnx.Rngs(0)
    cases = [
        (Dense(4, 2, rngs=rngs), "has a bias"),
        (Conv(1, 2, (3, 3), padding="CIRCULAR", use_bias=False, rngs=rngs), "pads with CIRCULAR"),
        (nnx.LayerNorm(4, rngs=rngs), "cannot be clipped"),
    ]
    for layer, words in cases:
        with pytest.raises(ValueError, match=words):
            clip_layers(layer, 1.0, 1.0, 1)
    network = Twice(rngs)
    clip_layers(network, 1.0, 1.0, 1)
    with pytest.raises(ValueError, match="applied twice"):
        network(jnp.ones((1, 4)))
    biased = vary(RUN, network=SmallCnn())
    pixels, labels = images(2)
    params = biased.network.initial(jax.random.key(0))
    graph, losses = biased.network.graph(), biased.losses(jnp.float32(1))
    with pytest.raises(ValueError, match="layer conv1 has a bias"):
        MECHANISM.sum(Microbatch(graph, losses, params, pixels, labels), jnp.ones(2))


@pytest.mark.smoke
def test_it_trains_and_its_bounds_are_traced():
    """Adam does not mind how small the gradients are that the clips leave."""
    run = vary(RUN, optimizer=Adam(0.01), noise_multiplier=0.5, width=NARROW)
    other = vary(run, upstream_bound=0.1)
    looks = [look for look, _ in loop.train([run, other], run.dataset.load(), 100)]
    first, second = looks[-1]
    assert first.row["test_loss"] < looks[0][0].row["test_loss"] - 0.05
    assert first.row["test_loss"] != second.row["test_loss"]


def test_the_published_runs_claim_what_the_paper_prints_and_truly_cost_far_more():
    for published in BACKPROPAGATION_CLIPPING[:2]:
        run = experiments.as_published(published.dataset)
        steps = [run.epochs * run.steps_per_epoch]
        spent = {name: values[0] for name, values in epsilon_curve(run, steps).items()}
        assert spent["claimed-zcdp"] == pytest.approx(published.claimed_epsilon, rel=1e-5)
        joint = published.proven_noise_multiplier / 2  # √4 layers
        assert run.mechanism.noise_over_sensitivity == pytest.approx(joint, rel=1e-6)
        assert spent["shuffled-pld"] > 1000 * published.claimed_epsilon


def test_the_corrected_runs_claim_their_targets_by_the_central_limit():
    for published in CORRECTED_CLIPPING:
        run = experiments.corrected(published.target_epsilon)
        spent = {k: v[0] for k, v in epsilon_curve(run, [published.steps]).items()}
        assert spent["claimed-gdp"] == pytest.approx(published.target_epsilon, rel=1e-4)
        joint = published.joint_noise_multiplier
        assert run.mechanism.noise_multiplier == pytest.approx(joint, rel=1e-6)
        assert spent["pld"] > published.target_epsilon


def test_the_sound_noise_is_the_least_that_costs_the_epsilon():
    for target, noise in experiments.SOUND_NOISE.items():
        run = experiments.CORRECTED.variants[f"spends {target:g}"][0]
        assert run.mechanism.noise_over_sensitivity == pytest.approx(noise, rel=1e-12)
        assert 0.9995 * target < spent_by(run) <= target


def test_weights_that_training_left_on_a_mesh_are_clipped_as_others_are():
    """JAX says for these where gradients lie, which mixes no examples."""
    run = replace(RUN, mechanism=BackpropagationClipping(1.0, 0.01, 1.0))
    mesh = jax.sharding.NamedSharding(devices.mesh_for(1), jax.sharding.PartitionSpec())
    params = loop.start(run).params
    images, labels = jnp.ones((4, 28, 28, 1)), jnp.zeros(4, jnp.int32)

    left, right = (
        sum_by(run)(run.mechanism, one, images, labels, jnp.ones(4))[0]
        for one in (jax.device_put(params, mesh), params)
    )
    jax.tree.map(np.testing.assert_allclose, left, right)
