"""Scores on the test set, against networks in stock `lax` operations."""

from __future__ import annotations

import jax
import numpy as np
import oracles
import pytest
from flax import nnx

from dpstudy import models, objectives
from dpstudy.gradients import devices
from dpstudy.spec import Run
from dpstudy.training import evaluation
from dpstudy.training import loop as training

RUN = Run(dataset="mnist-5k")


@pytest.mark.parametrize("batches", [2, 3], ids=["shared by two devices", "cannot be shared"])
def test_every_test_example_is_scored_in_its_place(batches):
    network = nnx.eval_shape(lambda: models.build(RUN.model, jax.random.key(0)))
    params = oracles.random_like(nnx.split(network, nnx.Param)[1])
    rng = np.random.default_rng(0)
    count = batches * evaluation.BATCH
    images = rng.integers(0, 256, (count, 28, 28, 1), dtype=np.uint8)
    labels = rng.integers(0, 10, count).astype(np.int32)
    numbers = training.stack([training.traced_numbers(RUN)])

    mesh = devices.mesh_for(1)
    assert mesh.shape[devices.EXAMPLES] == 2
    found = evaluation.evaluate(
        RUN.shape,
        mesh,
        numbers,
        training.stack([params]),
        *devices.everywhere((images, labels), mesh),
    )
    logits, _ = jax.jit(oracles.NETWORKS[RUN.model], static_argnums=2)(
        nnx.to_pure_dict(params), np.float32(images) / 255, jax.numpy.tanh
    )
    expected = -jax.nn.log_softmax(logits)[np.arange(count), labels]
    assert found.losses.shape == found.correct.shape == (1, batches, evaluation.BATCH)
    np.testing.assert_allclose(found.losses.reshape(-1), expected, rtol=1e-3, atol=1e-3)
    right = np.asarray(logits).argmax(axis=1) == labels
    assert (np.asarray(found.correct).reshape(-1) == right).mean() > 0.999


def test_normalised_pixels_have_imagenet_s_mean_and_deviation_taken_out_on_the_test_set_too():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 4).astype(np.int32)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (images / 255 - mean) / deviation
    np.testing.assert_allclose(objectives.normalized(images, "imagenet"), expected, atol=1e-5)
    np.testing.assert_allclose(objectives.normalized(images, ""), images / 255, rtol=1e-6)

    run = Run(dataset="cifar-10", model="losing-less-cifar", normalization="imagenet", width=0.125)
    network = models.build(run.model, jax.random.key(0), run.width)
    numbers = training.traced_numbers(run)
    found = objectives.objective(run, numbers)(network, images, labels)
    logits = network(np.float32(expected), jax.numpy.tanh)
    by_hand = -jax.nn.log_softmax(logits)[np.arange(4), labels]
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)

    params = nnx.state(network, nnx.Param)
    mesh = devices.mesh_for(1)
    count = evaluation.BATCH
    scores = evaluation.evaluate(
        run.shape,
        mesh,
        training.stack([numbers]),
        training.stack([params]),
        *devices.everywhere(
            (np.resize(images, (count, 32, 32, 3)), np.resize(labels, count)), mesh
        ),
    )
    np.testing.assert_allclose(scores.losses.reshape(-1)[:4], by_hand, rtol=1e-4)
