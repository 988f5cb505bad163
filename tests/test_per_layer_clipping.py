"""Per-layer clipping against vmap(grad) of the networks in stock operations, clipped by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx

from dpstudy.parts.mechanism import Microbatch, PerLayerClipping
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.run import Run
from under_the_clip.networks import BackpropMnist

MASK = np.array([1, 0, 1, 1, 1], np.float32)
NETWORKS = {"tempered-mnist": SmallCnn(), "backprop-mnist": BackpropMnist()}


def norms_by_layer(gradients):
    """Each example's norm in each layer, kernel and bias together."""
    return {
        layer: np.sqrt(sum((g.reshape(len(g), -1) ** 2).sum(axis=1) for g in leaves.values()))
        for layer, leaves in gradients.items()
    }


def by_hand(gradients, share):
    """The sum over examples with each of their layers clipped to that norm."""
    factors = {
        layer: MASK * np.minimum(1, share / norms)
        for layer, norms in norms_by_layer(gradients).items()
    }
    return {
        layer: {name: np.tensordot(factors[layer], g, 1) for name, g in leaves.items()}
        for layer, leaves in gradients.items()
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_the_sum_is_each_layer_of_each_example_clipped_by_hand(name):
    run = Run(network=NETWORKS[name])
    params = oracles.random_like(
        nnx.state(nnx.eval_shape(lambda: run.network.module(nnx.Rngs(params=0))), nnx.Param)
    )
    images, labels = oracles.random_images(name, len(MASK), seed=1)
    stored = np.float32(images * np.linspace(0.02, 1, len(MASK))[:, None, None, None])
    oracle = oracles.in_double_precision(oracles.per_example(oracles.NETWORKS[name], jnp.tanh))
    losses, gradients = oracle(nnx.to_pure_dict(params), stored / 255, labels)
    longest = np.max(list(norms_by_layer(gradients).values()), axis=0)
    share = np.median(longest) * 1.01  # some examples have longer layers, others do not
    expected, clipped = by_hand(gradients, share), longest > share
    assert (MASK * clipped).any() and not clipped[MASK > 0].all()

    graph, mechanism = run.network.graph(), PerLayerClipping(clip_norm=float(2 * share))
    total, seen = oracles.quick_jit(
        lambda p: mechanism.sum(
            Microbatch(graph, run.losses(jnp.float32(1)), p, stored, labels), MASK
        )
    )(params)
    for leaf, same in zip(
        jax.tree.leaves(nnx.to_pure_dict(total)), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(leaf, same, rtol=1e-4, atol=1e-5)
    norms = np.linalg.norm(
        np.concatenate([g.reshape(len(MASK), -1) for g in jax.tree.leaves(gradients)], 1), axis=1
    )
    assert seen.clipped == (MASK * clipped).sum() and seen.examples == MASK.sum()
    assert seen.norm == pytest.approx(MASK @ norms, rel=1e-5)
    assert seen.loss == pytest.approx(MASK @ losses, rel=1e-5)


def test_the_whole_has_the_sensitivity_that_its_layers_share():
    """Shares are equal: no example adds more than C, and one long in all layers adds just that."""
    mechanism = PerLayerClipping(clip_norm=0.01, noise_multiplier=2.0)
    run = Run(mechanism=mechanism)
    params = oracles.random_like(run.network.initial(jax.random.key(0)))
    images, labels = oracles.random_images("tempered-mnist", 1)
    total, _ = oracles.quick_jit(
        lambda p: mechanism.sum(
            Microbatch(run.network.graph(), run.losses(jnp.float32(1)), p, images, labels),
            jnp.ones(1),
        )
    )(params)
    by_layer = [
        np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(layer)))
        for layer in nnx.to_pure_dict(total).values()
    ]
    np.testing.assert_allclose(by_layer, 0.01 / 4**0.5, rtol=1e-5)
    assert np.linalg.norm(by_layer) == pytest.approx(mechanism.sensitivity, rel=1e-5)
    assert mechanism.noise_over_sensitivity == 2.0
    assert set(jax.tree.leaves(mechanism.noise(params))) == {0.02}
