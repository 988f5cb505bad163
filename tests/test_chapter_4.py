"""The chapter on backpropagation clipping: the clips that it shows are the package's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from results_for_tests import figures_in

from under_the_clip.backpropagation_clipping.clipped_layers import clip_layers

pytestmark = pytest.mark.usefixtures("of_the_study")


@pytest.mark.parametrize("mean", [False, True])
def test_the_clips_in_the_text_are_those_that_were_trained(mean):
    shown = figures_in("04_backpropagation_clipping").clipped_loss
    x = jax.random.normal(jax.random.key(1), (6, 5)) * jnp.array([[0.01], [1], [9]] * 2)
    graph, params = nnx.split(nnx.Linear(5, 3, use_bias=False, rngs=nnx.Rngs(0)))

    def loss(params):
        layer = nnx.merge(graph, params)
        clip_layers(layer, 1.0, 0.01, examples=len(x))
        errors = jnp.sum((layer(x) - 50) ** 2, axis=1)
        return errors.mean() if mean else errors.sum()

    package = jax.grad(loss)(params)["kernel"][...]
    ours = jax.grad(shown)(params["kernel"][...], x, mean)
    np.testing.assert_allclose(ours, package, rtol=1e-5)
