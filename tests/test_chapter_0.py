"""The twelve lines are DP-SGD: they clip and draw each example by itself, and add the noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from results_for_tests import figures_in

N, PIXELS = 60, 5


@pytest.fixture(scope="module")
def step():
    """The chapter's step, on a few small images."""
    step = figures_in("00_dp_sgd").private_step
    keys = jax.random.split(jax.random.key(7), 3)
    images = 3 * jax.random.normal(keys[0], (N, PIXELS))
    labels = jax.random.randint(keys[1], N, 0, 10)
    step.__wrapped__.__globals__.update(q=0.5, images=images, labels=labels)
    return step


def drawn_and_gradients(step, weights, key):
    known = step.__wrapped__.__globals__
    chosen = np.asarray(jax.random.bernoulli(jax.random.split(key)[0], 0.5, (N,)))
    one = jax.grad(known["loss"])
    of_each = [one(weights, *pair) for pair in zip(known["images"], known["labels"], strict=True)]
    return chosen, np.stack(of_each)


@pytest.mark.parametrize("clip", [0.1, 2.0, 1e6])
def test_what_is_summed_is_clipped_one_by_one(step, clip):
    key, weights = jax.random.key(3), jnp.ones((PIXELS, 10))
    chosen, gradients = drawn_and_gradients(step, weights, key)
    norms = np.linalg.norm(gradients.reshape(N, -1), axis=1)
    clipped = gradients * np.minimum(1, clip / norms)[:, None, None]
    wanted = weights - 2.0 * clipped[chosen].sum(axis=0) / (0.5 * N)
    np.testing.assert_allclose(step(weights, key, clip, 0.0), wanted, rtol=2e-5, atol=1e-5)


def test_the_noise_is_sigma_times_the_clip(step):
    key, weights = jax.random.key(5), jnp.zeros((PIXELS, 10))
    quiet, noisy = (step(weights, key, 2.0, sigma) for sigma in (0.0, 1.5))
    drawn = (quiet - noisy) * (0.5 * N) / 2.0
    wanted = 1.5 * 2.0 * jax.random.normal(jax.random.split(key)[1], (PIXELS, 10))
    np.testing.assert_allclose(drawn, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.smoke
def test_either_end_of_the_slider_costs_accuracy_and_noise_is_longer_than_the_gradient():
    page = figures_in("00_dp_sgd")
    shown = {"CLIPS": (0.1, 3.0, 30.0), "RELATIVE": "noise", "RIGHT": "right"}
    page.kept.__globals__.update(q=0.1, steps=100, **shown)
    data = page.Images("mnist-5k").load()
    train, tested = (
        (page.small(photos), jnp.asarray(labels))
        for photos, labels in (
            (data.train_images, data.train_labels),
            (data.test_images, data.test_labels),
        )
    )
    sigma = page.noise_multiplier_for(3.0, sampling_probability=0.1, steps=100, delta=1e-5)
    small, middle, large = page.kept(page.loss, *train, 0.1, sigma, tested).data.to_dict("records")
    assert max(small["right"], large["right"]) < middle["right"] - 0.1
    assert middle["noise"] > 1 and small["gradients that are cut"] == 1
    assert large["gradients that are cut"] == 0
