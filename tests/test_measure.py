"""Measures against networks in stock `lax` operations and `vmap(grad)`, and when they are taken."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from results_for_tests import NARROW
from scipy.sparse.linalg import LinearOperator, eigsh
from test_network import ACTIVATIONS, parts

from dpstudy.gradients import devices
from dpstudy.lab import campaign, checkpoints
from dpstudy.parts import measure
from dpstudy.parts.data import images as data
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.measure import CHUNK, Examples, Norms
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy, PerLayerClipping
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.part import SpecError, checked
from dpstudy.parts.run import Run, vary
from dpstudy.training import loop
from under_the_clip.losing_less import measures as papers
from under_the_clip.networks import LosingLessMnist
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped

COUNT = 2 * measure.CHUNK


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_norms_are_those_of_vmap_grad_and_of_the_first_convolution(activation):
    mine, by_hand = ACTIVATIONS[activation]
    run = Run(network=SmallCnn(mine), measures=(Norms(),))
    _, params = parts(run.network.kind)
    examples = Examples(*oracles.random_images(run.network.kind, COUNT))

    mesh = devices.mesh_for(1, jax.local_devices()[:1])
    cohort = loop.stack([run]), loop.stack([params]), jnp.ones(1)
    found = loop.measure(mesh, *cohort, examples)

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


def test_the_same_thousand_examples_are_seen_spread_over_the_training_set():
    for length in (4_000, 50_000, 60_000):
        probed = measure.probe(Examples(np.arange(length), np.arange(length)))
        assert len(probed.labels) == measure.EXAMPLES == 1_000
        assert (np.diff(probed.images) == length // 1_000).all()
        np.testing.assert_array_equal(probed.images, probed.labels)
    # Of fewer it is all.
    assert len(measure.probe(Examples(np.arange(200), np.arange(200))).labels) == 200


RUN = vary(
    Run(), dataset=Images("mnist-5k"), batch=2_000, epochs=1, measures=(Norms(),), width=NARROW
)


@pytest.mark.smoke
def test_a_measured_run_trains_as_one_that_is_not_and_is_measured_from_before_the_first_step():
    images, run = data.load("mnist-5k"), RUN

    def trained(run):
        return [
            (seen.row, jax.tree.map(np.array, states))
            for (seen,), states in loop.train([run], images, microbatch=50)
        ]

    measured, plain = trained(run), trained(replace(run, measures=()))
    examples = Examples(images.train_images, images.train_labels)
    for epoch, ((row, states), (other_row, others)) in enumerate(zip(measured, plain, strict=True)):
        jax.tree.map(np.testing.assert_array_equal, states, others)
        again = loop.measure(
            devices.mesh_for(1),
            loop.stack([run]),
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


CLIP = 2.0
LOSING_LESS = vary(Run(network=LosingLessMnist(), mechanism=FlatClipping(clip_norm=CLIP)))
GIVEN = Examples(*map(jnp.asarray, oracles.random_images("losing-less-mnist", 2 * CHUNK)))
PIXELS = np.float32(GIVEN.images) / 255


def drawn_for(run):
    drawn = nnx.eval_shape(lambda: run.network.module(nnx.Rngs(params=0)))
    return oracles.random_like(nnx.state(drawn, nnx.Param))


@pytest.fixture(scope="module")
def params():
    return drawn_for(LOSING_LESS)


@pytest.fixture(scope="module")
def outputs(params):
    """Logits and hidden pre-activations, by hand."""
    network = oracles.NETWORKS["losing-less-mnist"]
    return oracles.quick_jit(lambda p, x: network(p, x, jnp.tanh))(nnx.to_pure_dict(params), PIXELS)


@pytest.fixture(scope="module")
def gradients(params):
    """Each example's gradient by vmap(grad), flat."""
    by_hand = oracles.per_example(oracles.NETWORKS["losing-less-mnist"], jnp.tanh)
    each = oracles.quick_jit(by_hand)(nnx.to_pure_dict(params), PIXELS, GIVEN.labels)[1]
    return oracles.flat(each)


@pytest.mark.parametrize("mechanism", [NoPrivacy(), PerLayerClipping(), FilteredThenClipped()])
def test_what_clips_otherwise_than_by_norm_has_no_clipping_bias(mechanism):
    with pytest.raises(SpecError, match=r"'clipping-bias' is of clips by norm, got "):
        checked(replace(LOSING_LESS, mechanism=mechanism, measures=(papers.ClippingBias(),)))


def measured(measure, params, run=LOSING_LESS):
    def found(params):
        return measure(run.snapshot(params, jnp.float32(1), GIVEN))

    return oracles.quick_jit(found)(params)


def test_norms_of_weights_hidden_layers_and_logits(params, outputs):
    found = measured(papers.LayerNorms(), params)
    logits, hidden = outputs
    layers = nnx.to_pure_dict(params)
    weights = [
        np.linalg.norm([np.linalg.norm(leaf) for leaf in one.values()]) for one in layers.values()
    ]
    np.testing.assert_allclose(found["weights"], weights, rtol=1e-5)
    assert found["logits"] == pytest.approx(np.linalg.norm(logits, axis=1).mean(), rel=1e-5)
    norms = [
        np.linalg.norm(h.reshape(len(h), -1), axis=1).mean() for h in list(hidden.values())[:-1]
    ]
    np.testing.assert_allclose(found["hidden"], norms, rtol=1e-5)
    assert list(layers) == sorted(layers) == ["conv1", "conv2", "dense1", "dense2"]


def test_clipping_turns_the_mean_gradient(params, gradients):
    found = measured(papers.ClippingBias(), params)
    norms = np.linalg.norm(gradients, axis=1)
    clipped = (gradients * np.minimum(1, CLIP / norms)[:, None]).mean(axis=0)
    plain = gradients.mean(axis=0)
    cosine = clipped @ plain / np.linalg.norm(clipped) / np.linalg.norm(plain)
    assert found["cosine"] == pytest.approx(cosine, rel=1e-5)
    assert cosine < 0.999
    assert found["counts"].tolist() == np.histogram(norms, np.logspace(-3, 3, 61))[0].tolist()


def test_training_examples_are_counted_by_class_and_answer(params, outputs):
    expected = np.zeros((10, 10), int)
    np.add.at(expected, (GIVEN.labels, np.argmax(outputs[0], axis=1)), 1)
    assert measured(papers.Confusion(), params)["counts"].tolist() == expected.tolist()
    assert np.count_nonzero(expected) > 10


def test_lanczos_finds_the_largest_eigenvalue_of_either_sign():
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.normal(size=(60, 60)))
    for top in (9.0, -9.0):
        values = np.append(rng.uniform(-4, 4, 59), top)
        matrix = jnp.asarray(turned @ np.diag(values) @ turned.T)
        few, found = (
            float(papers.largest_eigenvalue(lambda v, m=matrix: m @ v, 60, k)) for k in (2, 12)
        )
        assert few < 9.0 and found == pytest.approx(9.0, rel=1e-4)


@pytest.mark.smoke
def test_the_hessian_s_products_are_those_of_finite_differences():
    """Of which ARPACK finds the largest eigenvalue."""
    examples, narrow = 5, vary(LOSING_LESS, width=NARROW)
    run = vary(narrow, measures=(papers.Smoothness(examples=examples, steps=25),))
    params = drawn_for(run)
    pixels, labels = np.float64(PIXELS[:examples]), np.asarray(GIVEN.labels[:examples])
    network = oracles.NETWORKS["losing-less-mnist"]

    def loss(p):
        logits = network(p, pixels, jnp.tanh)[0]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()

    with jax.enable_x64(True):
        at = jax.tree.map(lambda x: jnp.asarray(np.float64(x)), nnx.to_pure_dict(params))
        flat, shaped = jax.flatten_util.ravel_pytree(at)
        slope = oracles.quick_jit(
            lambda v: jax.flatten_util.ravel_pytree(jax.grad(loss)(shaped(v)))[0]
        )

        def product(v):
            # So near that no maximum of a pooling window changes places.
            step = 1e-8 * v.ravel() / np.linalg.norm(v)
            return np.asarray(slope(flat + step) - slope(flat - step)) * np.linalg.norm(v) / 2e-8

        hessian = LinearOperator((flat.size, flat.size), product, dtype=np.float64)
        [value] = eigsh(hessian, 1, ncv=10, tol=1e-3, return_eigenvectors=False)
    found = measured(run.measures[0], params, run)
    assert found["largest"] == pytest.approx(abs(value), rel=1e-2)
    assert abs(value) > 0.1
