"""The chapter on performance: the code that it shows clips what it says, and cuts wrong patches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from results_for_tests import figures_in

chapter = figures_in("09_performance")


@pytest.mark.parametrize("way", [chapter.in_one_pass, chapter.one_by_one])
@pytest.mark.parametrize("clip", [0.01, 0.5, 1e6])
def test_both_ways_clip_the_gradients_of_the_examples(way, clip):
    keys = jax.random.split(jax.random.key(0), 5)
    shapes = (7, 5), (5, 4), (4, 3)
    weights = [jax.random.normal(*of) for of in zip(keys[:3], shapes, strict=True)]
    images = jax.random.normal(keys[3], (6, 7))
    labels = jax.random.randint(keys[4], 6, 0, 3)

    def loss(weights, image, label):
        for number, matrix in enumerate(weights):
            image = (jnp.tanh(image) if number else image) @ matrix
        return jax.nn.logsumexp(image) - image[label]

    each = [jax.grad(loss)(weights, *one) for one in zip(images, labels, strict=True)]
    wanted = np.array([sum(float((g**2).sum()) for g in gradients) for gradients in each])
    squares, total = way(weights, images, labels, clip)
    np.testing.assert_allclose(squares, wanted, rtol=1e-4)
    shares = np.minimum(1, clip / np.sqrt(wanted))
    for layer, found in enumerate(total):
        clipped = sum(share * one[layer] for share, one in zip(shares, each, strict=True))
        np.testing.assert_allclose(found, clipped, rtol=1e-3, atol=1e-5)


def test_patches_are_right_channels_first_and_wrong_channels_last():
    first = np.arange(32).reshape(2, 4, 4)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(first, 0, 2)), 2, 0)
    assert (first == last).all()
    np.testing.assert_array_equal(chapter.patch(first), first[:, :3, :3])
    # The text: all but the first number of the first channel are wrong.
    assert (chapter.patch(last)[0] == first[0, :3, :3]).sum() == 1
