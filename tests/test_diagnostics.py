"""Norms inside a network, against networks in stock `lax` operations and `vmap(grad)`."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx

from dpstudy import activations, diagnostics, models, objectives
from dpstudy.gradients import devices
from dpstudy.lab import campaign
from dpstudy.parts import images as data
from dpstudy.spec import Run
from dpstudy.training import evaluation
from dpstudy.training import loop as training

COUNT = 2 * diagnostics.CHUNK
ACTIVATIONS = {
    "tempered": (
        {"scale": 2.5, "inverse_temperature": 1.5, "offset": -0.15},
        lambda x: 2.5 / (1 + jnp.exp(-1.5 * x)) + 0.15,
    ),
    "relu": ({}, lambda x: jnp.where(x > 0, x, 0)),
}


def parts(model):
    network = nnx.eval_shape(lambda: models.build(model, jax.random.key(0)))
    graph, params = nnx.split(network, nnx.Param)
    return graph, oracles.random_like(params)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_norms_are_those_of_vmap_grad_and_of_the_first_convolution(activation):
    fields, by_hand = ACTIVATIONS[activation]
    run = Run(activation=activation, **fields)
    _, params = parts(run.model)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (COUNT, 28, 28, 1), dtype=np.uint8)
    labels = rng.integers(0, 10, COUNT).astype(np.int32)

    mesh = devices.mesh_for(1, jax.local_devices()[:1])
    numbers = training.stack([training.traced_numbers(run)])
    found = evaluation.measure_norms(
        run.shape, mesh, numbers, training.stack([params]), pixels, labels
    )

    network = oracles.NETWORKS[run.model]

    @oracles.quick_jit
    def expected(params, x):
        _, gradients = oracles.per_example(network, by_hand)(params, x, labels)
        squares = [jnp.sum(g.reshape(COUNT, -1) ** 2, axis=1) for g in jax.tree.leaves(gradients)]
        first = by_hand(network(params, x, by_hand)[1]["conv1",]).reshape(COUNT, -1)
        return jnp.sqrt(sum(squares)).mean(), jnp.linalg.norm(first, axis=1).mean()

    gradient, activation_norm = expected(nnx.to_pure_dict(params), np.float32(pixels) / 255)
    assert found.gradient.shape == (1,)
    assert float(found.gradient[0]) == pytest.approx(float(gradient), rel=1e-4)
    assert float(found.activation[0]) == pytest.approx(float(activation_norm), rel=1e-5)


@pytest.mark.parametrize("model", models.NETWORKS)
def test_the_first_layer_is_the_first_convolution_of_every_network(model):
    """Its outputs are counted in a trace: 1 / (2 n) for n of them, all of them 1."""
    graph, params = parts(model)
    side = {"mnist": 28, "cifar": 32}[model.split("-")[-1]]
    outputs = []

    def seen(x):
        outputs.append(x.shape)
        return jnp.tanh(x)

    def losses(network, images, labels):
        return network(images, jnp.tanh).sum(axis=1)

    images = jnp.zeros((diagnostics.CHUNK, side, side, 1 if side == 28 else 3))
    labels = jnp.zeros(diagnostics.CHUNK, jnp.int32)
    measure = partial(diagnostics.norms, graph, losses, seen)
    jax.eval_shape(measure, params, images, labels)
    after = {"tempered-mnist": (14, 14, 16), "losing-less-mnist": (13, 13, 16)}
    after |= {"backprop-mnist": (11, 11, 16)}
    assert outputs == [(diagnostics.CHUNK, *after.get(model, (32, 32, 32)))]


def test_the_same_thousand_examples_are_seen_spread_over_the_training_set():
    for length in (4_000, 50_000, 60_000):
        probed = diagnostics.probe(np.arange(length))
        assert len(probed) == diagnostics.EXAMPLES == 1_000
        assert (np.diff(probed) == length // 1_000).all()


COMMON = {"dataset": "mnist-5k", "batch": 2_000, "epochs": 1, "record": "norms"}
FREE = COMMON | {"mechanism": "none", "noise_multiplier": 0.0, "learning_rate": 0.1}


@pytest.mark.parametrize("fields", [COMMON, FREE], ids=["private", "not private"])
def test_a_run_that_records_norms_stores_them_and_trains_as_one_that_does_not(fields):
    images, method = data.load("mnist-5k"), training.Method(microbatch=50)
    ((seen, states),) = training.train([Run(**fields)], images, method)
    states = jax.tree.map(np.array, states)
    ((plain, others),) = training.train([Run(**fields | {"record": ""})], images, method)
    jax.tree.map(np.testing.assert_array_equal, states, jax.tree.map(np.array, others))
    assert plain[0].activation_norm is None
    assert seen[0].test_loss == plain[0].test_loss

    numbers = training.stack([training.traced_numbers(Run(**fields))])
    probe = (diagnostics.probe(x) for x in (images.train_images, images.train_labels))
    shape, mesh = Run(**fields).shape, devices.mesh_for(1)
    again = evaluation.measure_norms(shape, mesh, numbers, states.params, *map(jnp.asarray, probe))
    assert seen[0].gradient_norm == float(again.gradient[0]) > 0
    assert seen[0].activation_norm == float(again.activation[0]) > 0


def test_a_layer_wise_run_with_one_triplet_is_the_run_that_shares_it():
    triplet = (1.7, 3.0, 0.6)
    named = dict(zip(("scale", "inverse_temperature", "offset"), triplet, strict=True))
    shared = Run(**named)
    layered = Run(
        activation="layer-wise",
        **named,
        **{f"{name}_{layer}": value for layer in (2, 3) for name, value in named.items()},
    )
    other = Run(**layered.to_dict() | {"offset_3": 0.0})
    x = jnp.linspace(-3, 3, 50)

    def of(run):
        activation = objectives.activation_of(run.shape, training.traced_numbers(run))
        return [each(x) for each in models.in_layers(activation, 3)]

    expected = activations.tempered_sigmoid(x, *triplet)
    for found in (*of(shared), *of(layered), *of(other)[:2]):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(of(other)[2], expected + 0.6, rtol=1e-6)


@pytest.mark.parametrize("record", ["", "norms"])
def test_the_column_is_stored_for_runs_that_record_norms_alone(record):
    run = Run(**COMMON | {"record": record})
    measured = {"gradient_norm": 2.5, "activation_norm": 3.5 if record else None}
    names = ("step", "test_accuracy", "test_loss", "train_loss", "clipped_fraction")
    others = dict.fromkeys(names, 1)
    epoch = training.Epoch(epoch=1, class_accuracy=(0.5,) * 10, **others, **measured)
    begun = campaign.Begun([run], training.Method(32), [[epoch]], [True])
    stored = campaign._result(begun, 0, epoch, "a fingerprint").curve
    assert tuple(stored) == campaign.CURVE + (("activation_norm",) if record else ())
    assert stored["gradient_norm"] == [2.5]
    assert stored.get("activation_norm") == ([3.5] if record else None)
