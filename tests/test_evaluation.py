"""Scores on the test set, against networks in stock `lax` operations."""

from __future__ import annotations

import jax
import numpy as np
import oracles
import pytest
from flax import nnx

from dpstudy.gradients import devices
from dpstudy.parts.data.dataset import AT_ONCE, Images
from dpstudy.parts.measure import Examples
from dpstudy.parts.run import Run, vary
from dpstudy.training import evaluation
from dpstudy.training import loop as training
from under_the_clip.networks import LosingLessCifar

RUN = vary(Run(), dataset=Images("mnist-5k"))


def scores_of(run, params, images, labels):
    """What `evaluate` finds of one run on the two devices of conftest.py."""
    mesh = devices.mesh_for(1)
    assert mesh.shape[devices.EXAMPLES] == 2
    cohort, stacked = training.stack([run.of_a_step()]), training.stack([params])
    test = devices.everywhere(Examples(images, labels), mesh)
    return evaluation.evaluate(mesh, cohort, stacked, np.zeros(1, np.float32), test)


@pytest.mark.parametrize("batches", [2, 3], ids=["shared by two devices", "cannot be shared"])
def test_every_test_example_is_scored_in_its_place(batches):
    params = oracles.random_like(training.start(RUN).params)
    count = batches * AT_ONCE
    images, labels = oracles.random_images("mnist", count)
    found = scores_of(RUN, params, images, np.int32(labels))
    logits, _ = jax.jit(oracles.NETWORKS["tempered-mnist"], static_argnums=2)(
        nnx.to_pure_dict(params), np.float32(images) / 255, jax.numpy.tanh
    )
    expected = -jax.nn.log_softmax(logits)[np.arange(count), labels]
    assert found.losses.shape == found.correct.shape == (1, batches, AT_ONCE)
    np.testing.assert_allclose(found.losses.reshape(-1), expected, rtol=1e-3, atol=1e-3)
    right = np.asarray(logits).argmax(axis=1) == labels
    assert (np.asarray(found.correct).reshape(-1) == right).mean() > 0.999


def test_normalised_pixels_have_imagenet_s_mean_and_deviation_taken_out_on_the_test_set_too():
    images, labels = oracles.random_images("cifar", 4)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (images / 255 - mean) / deviation
    colours = Images("cifar-10", normalization="imagenet")
    np.testing.assert_allclose(colours.prepare(images), expected, atol=1e-5)
    np.testing.assert_allclose(Images("cifar-10").prepare(images), images / 255, rtol=1e-6)

    run = vary(Run(), dataset=colours, network=LosingLessCifar(width=0.125))
    params = training.start(run).params

    @oracles.quick_jit
    def losses_and_logits(params):
        network = nnx.merge(run.network.graph(), params)
        logits = run.network.outputs(network, np.float32(expected)).logits
        return run.losses(np.float32(0))(network, images, labels), logits

    found, logits = losses_and_logits(params)
    by_hand = -jax.nn.log_softmax(logits)[np.arange(4), labels]
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)

    count = AT_ONCE
    many = np.resize(images, (count, 32, 32, 3)), np.resize(np.int32(labels), count)
    scores = scores_of(run, params, *many)
    np.testing.assert_allclose(scores.losses.reshape(-1)[:4], by_hand, rtol=1e-4)
