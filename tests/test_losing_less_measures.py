"""The measures of "Losing less" against the network in stock `lax` operations and `vmap(grad)`."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from scipy.sparse.linalg import LinearOperator, eigsh

from dpstudy.parts.measure import CHUNK, Examples
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy, PerLayerClipping
from dpstudy.parts.part import SpecError, checked
from dpstudy.parts.run import Run, vary
from under_the_clip.losing_less.measures import (
    ClippingBias,
    Confusion,
    LayerNorms,
    Smoothness,
    largest_eigenvalue,
)
from under_the_clip.networks import LosingLessMnist
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped

CLIP = 2.0
RUN = vary(Run(network=LosingLessMnist(), mechanism=FlatClipping(clip_norm=CLIP)))
EXAMPLES = Examples(*map(jnp.asarray, oracles.random_images("losing-less-mnist", 2 * CHUNK)))
PIXELS = np.float32(EXAMPLES.images) / 255


@pytest.fixture(scope="module")
def params():
    drawn = nnx.eval_shape(lambda: RUN.network.module(nnx.Rngs(params=0)))
    return oracles.random_like(nnx.state(drawn, nnx.Param))


@pytest.fixture(scope="module")
def outputs(params):
    """Logits and hidden pre-activations, by hand."""
    network = oracles.NETWORKS["losing-less-mnist"]
    return oracles.quick_jit(lambda p, x: network(p, x, jnp.tanh))(nnx.to_pure_dict(params), PIXELS)


@pytest.fixture(scope="module")
def gradients(params):
    """Each example's gradient by vmap(grad), flat."""
    by_hand = oracles.per_example(oracles.NETWORKS["losing-less-mnist"], jnp.tanh)
    each = oracles.quick_jit(by_hand)(nnx.to_pure_dict(params), PIXELS, EXAMPLES.labels)[1]
    return oracles.flat(each)


@pytest.mark.parametrize("mechanism", [NoPrivacy(), PerLayerClipping(), FilteredThenClipped()])
def test_what_clips_otherwise_than_by_norm_has_no_clipping_bias(mechanism):
    with pytest.raises(SpecError, match=r"'clipping-bias' is of clips by norm, got "):
        checked(replace(RUN, mechanism=mechanism, measures=(ClippingBias(),)))


def measured(measure, params):
    def found(params):
        return measure(RUN.snapshot(params, jnp.float32(1), EXAMPLES))

    return oracles.quick_jit(found)(params)


def test_norms_of_weights_hidden_layers_and_logits(params, outputs):
    found = measured(LayerNorms(), params)
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
    found = measured(ClippingBias(), params)
    norms = np.linalg.norm(gradients, axis=1)
    clipped = (gradients * np.minimum(1, CLIP / norms)[:, None]).mean(axis=0)
    plain = gradients.mean(axis=0)
    cosine = clipped @ plain / np.linalg.norm(clipped) / np.linalg.norm(plain)
    assert found["cosine"] == pytest.approx(cosine, rel=1e-5)
    assert cosine < 0.999
    assert found["counts"].tolist() == np.histogram(norms, np.logspace(-3, 3, 61))[0].tolist()


def test_training_examples_are_counted_by_class_and_answer(params, outputs):
    expected = np.zeros((10, 10), int)
    np.add.at(expected, (EXAMPLES.labels, np.argmax(outputs[0], axis=1)), 1)
    assert measured(Confusion(), params)["counts"].tolist() == expected.tolist()
    assert np.count_nonzero(expected) > 10


def test_lanczos_finds_the_largest_eigenvalue_of_either_sign():
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.normal(size=(60, 60)))
    for top in (9.0, -9.0):
        values = np.append(rng.uniform(-4, 4, 59), top)
        matrix = jnp.asarray(turned @ np.diag(values) @ turned.T)
        found = [float(largest_eigenvalue(lambda v, m=matrix: m @ v, 60, k)) for k in (2, 12, 60)]
        assert found[1:] == pytest.approx([9.0, 9.0], rel=1e-4)
        assert found[0] < 9.0


def test_the_hessian_s_products_are_those_of_finite_differences(params):
    """Of which ARPACK finds the largest eigenvalue."""
    examples = 10
    run = vary(RUN, measures=(Smoothness(examples=examples, steps=25),))
    pixels, labels = np.float64(PIXELS[:examples]), np.asarray(EXAMPLES.labels[:examples])
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
    assert measured(run.measures[0], params)["largest"] == pytest.approx(abs(value), rel=1e-2)
    assert abs(value) > 0.1
