"""Measures: norms against networks in stock `lax` operations and `vmap(grad)`, and when taken."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from results_for_tests import NARROW
from test_network import ACTIVATIONS, NETWORKS, parts

from dpstudy.gradients import devices
from dpstudy.lab import campaign, checkpoints
from dpstudy.parts import measure
from dpstudy.parts.data import images as data
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.measure import Examples, Norms
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.run import Run, vary
from dpstudy.training import evaluation, loop

COUNT = 2 * measure.CHUNK


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_norms_are_those_of_vmap_grad_and_of_the_first_convolution(activation):
    mine, by_hand = ACTIVATIONS[activation]
    run = Run(network=SmallCnn(mine), measures=(Norms(),))
    _, params = parts(run.network.kind)
    examples = Examples(*oracles.random_images(run.network.kind, COUNT))

    mesh = devices.mesh_for(1, jax.local_devices()[:1])
    cohort = loop.stack([run]), loop.stack([params]), jnp.ones(1)
    found = evaluation.measure(mesh, *cohort, examples)

    network = oracles.NETWORKS[run.network.kind]

    @oracles.quick_jit
    def expected(params, x):
        _, gradients = oracles.per_example(network, by_hand)(params, x, examples.labels)
        squares = [jnp.sum(g.reshape(COUNT, -1) ** 2, axis=1) for g in jax.tree.leaves(gradients)]
        first = by_hand(network(params, x, by_hand)[1]["conv1",]).reshape(COUNT, -1)
        return jnp.sqrt(sum(squares)).mean(), jnp.linalg.norm(first, axis=1).mean()

    gradient, active = expected(nnx.to_pure_dict(params), np.float32(examples.images) / 255)
    assert found.keys() == {"norms.gradient", "norms.activation"}
    assert found["norms.gradient"].shape == (1,)
    assert float(found["norms.gradient"][0]) == pytest.approx(float(gradient), rel=1e-4)
    assert float(found["norms.activation"][0]) == pytest.approx(float(active), rel=1e-5)


ON_IMAGES = [name for name, one in NETWORKS.items() if len(one().image_shape) == 3]


@pytest.mark.parametrize("model", [name for name in ON_IMAGES if "scattering" not in name])
def test_norms_can_be_taken_of_every_network_on_images_by_its_first_convolution_before_pooling(
    model,
):
    network = NETWORKS[model]()
    name = "mnist-5k" if "mnist" in model else "cifar-10"
    run = vary(Run(), network=network, dataset=Images(name))
    examples = Examples(jnp.zeros((COUNT, *network.image_shape)), jnp.zeros(COUNT, jnp.int32))
    graph, params = parts(model)

    def first(params):
        module, images = nnx.merge(graph, params), examples.images
        return network.outputs(module, images).hidden[0]

    sides = {"tempered-mnist": (14, 14, 16), "losing-less-mnist": (13, 13, 16)}
    sides |= {"backprop-mnist": (11, 11, 16)}
    assert jax.eval_shape(first, params).shape == (COUNT, *sides.get(model, (32, 32, 32)))
    snapshot = run.snapshot(params, jnp.float32(0), examples)
    found = jax.eval_shape(lambda params: Norms()(snapshot._replace(params=params)), params)
    assert {name: array.shape for name, array in found.items()} == {
        "gradient": (),
        "activation": (),
    }


def test_the_same_thousand_examples_are_seen_spread_over_the_training_set():
    for length in (4_000, 50_000, 60_000):
        probed = measure.probe(Examples(np.arange(length), np.arange(length)))
        assert len(probed.labels) == measure.EXAMPLES == 1_000
        assert (np.diff(probed.images) == length // 1_000).all()
        np.testing.assert_array_equal(probed.images, probed.labels)


RUN = vary(
    Run(), dataset=Images("mnist-5k"), batch=2_000, epochs=1, measures=(Norms(),), width=NARROW
)


def test_a_measured_run_trains_as_one_that_is_not_and_is_measured_from_before_the_first_step():
    images = data.load("mnist-5k")

    def trained(run):
        return [
            (seen.row, jax.tree.map(np.array, states))
            for (seen,), states in loop.train([run], images, microbatch=50)
        ]

    measured, plain = trained(RUN), trained(replace(RUN, measures=()))
    examples = Examples(images.train_images, images.train_labels)
    for epoch, ((row, states), (other_row, others)) in enumerate(zip(measured, plain, strict=True)):
        jax.tree.map(np.testing.assert_array_equal, states, others)
        again = evaluation.measure(
            devices.mesh_for(1),
            loop.stack([RUN]),
            states.params,
            np.float32([epoch]),
            jax.tree.map(jnp.asarray, measure.probe(examples)),
        )
        again = {name: float(array[0]) for name, array in again.items()}
        assert row == other_row | again
        assert (row["epoch"], row["step"]) == (epoch, 2 * epoch)
        assert min(again.values()) > 0
    assert [row["train_loss"] is None for row, _ in measured] == [True, False]


@pytest.mark.parametrize("measures", [(), (Norms(),)], ids=["none", "norms"])
def test_what_is_measured_is_a_column_of_the_stored_curve_after_those_of_every_run(measures):
    plain = ("epoch", "step", "test_accuracy", "test_loss", "train_loss", "gradient_norm",
             "clipped_fraction")  # fmt: skip
    row = dict.fromkeys(plain, 1) | ({"norms.gradient": 2.5} if measures else {})
    epoch = loop.Epoch(row, class_accuracy=(0.5,) * 10)
    begun = checkpoints.Checkpoint([replace(RUN, measures=measures)], 32, [[epoch]], [{}], "data")
    stored = campaign._result(begun, 0, "a fingerprint").curve
    assert tuple(stored) == plain + (("norms.gradient",) if measures else ())
    assert stored.get("norms.gradient") == ([2.5] if measures else None)
