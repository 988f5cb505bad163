"""The public engine: any flax network, in an optax loop."""

import re
import runpy
import warnings
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from dpstudy import gaussian_noise, poisson, private_gradient
from dpstudy.gradients import applicability, devices, layer_rules, per_example
from dpstudy.sampling import Draw

BOOK = Path(__file__).parents[1] / "book"
SCRIPT = BOOK / "own_network.py"
CLIP = 0.5


def losses(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x), y)


def small_network():
    conv = nnx.Conv(2, 3, (3, 3), strides=2, rngs=nnx.Rngs(0))
    dense = nnx.Linear(27, 4, rngs=nnx.Rngs(1))
    return nnx.Sequential(conv, jnp.tanh, lambda h: h.reshape(len(h), -1), dense)


def normalised_network():
    """A network with a layer that has parameters and no rule."""
    return nnx.Sequential(
        lambda h: h.reshape(len(h), -1),
        nnx.Linear(50, 6, rngs=nnx.Rngs(0)),
        nnx.LayerNorm(6, rngs=nnx.Rngs(1)),
        nnx.Linear(6, 4, rngs=nnx.Rngs(2)),
    )


class TwiceApplied(nnx.Module):
    """A network that applies one layer twice: its gradient is the sum of two."""

    def __init__(self):
        self.first = nnx.Linear(50, 6, rngs=nnx.Rngs(0))
        self.again = nnx.Linear(6, 6, rngs=nnx.Rngs(1))

    def __call__(self, x):
        return self.again(jnp.tanh(self.again(jnp.tanh(self.first(x.reshape(len(x), -1))))))


def examples():
    x = jax.random.normal(jax.random.key(3), (9, 5, 5, 2))
    return 3 * x, jnp.arange(9) % 4


def by_hand(model, x, y, chosen, losses=losses):
    """The clipped sum, one example at a time, on the model as the user wrote it."""
    graph, params = nnx.split(model, nnx.Param)
    total = np.zeros(sum(leaf.size for leaf in jax.tree.leaves(params)))
    for i in chosen:
        gradient = jax.grad(
            lambda p, i=i: losses(nnx.merge(graph, p), x[i : i + 1], y[i : i + 1])[0]
        )(params)
        flat = np.concatenate(
            [np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(gradient)]
        )
        total += flat * min(1.0, CLIP / np.linalg.norm(flat))
    return total


def flat(tree):
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize("build", [small_network, normalised_network, TwiceApplied])
@pytest.mark.filterwarnings("ignore::dpstudy.gradients.per_example.FallbackWarning")
def test_the_sum_is_that_of_gradients_clipped_one_by_one(build):
    x, y = examples()
    gradient, params = private_gradient(build(), losses, clip_norm=CLIP, microbatch=2)
    draw = Draw(jnp.array([0, 3, 4, 7, 8, 0, 0]), jnp.int32(5), jnp.bool_(False))
    expected = by_hand(build(), x, y, [0, 3, 4, 7, 8])
    np.testing.assert_allclose(flat(gradient(params, x, y, draw)), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore::dpstudy.gradients.per_example.FallbackWarning")
def test_a_penalty_on_weights_is_clipped_with_the_rest_of_each_example_s_loss():
    def penalised(network, x, y):
        weights = jax.tree.leaves(nnx.state(network, nnx.Param))
        return losses(network, x, y) + sum((w**2).sum() for w in weights) / 2

    x, y = examples()
    gradient, params = private_gradient(small_network(), penalised, clip_norm=CLIP, microbatch=2)
    draw = Draw(jnp.array([0, 3, 4, 7, 8, 0, 0]), jnp.int32(5), jnp.bool_(False))
    expected = by_hand(small_network(), x, y, [0, 3, 4, 7, 8], penalised)
    np.testing.assert_allclose(flat(gradient(params, x, y, draw)), expected, rtol=1e-4, atol=1e-6)


def test_its_sensitivity_is_the_clipping_norm_and_is_reached():
    x, y = examples()
    gradient, params = private_gradient(small_network(), losses, clip_norm=CLIP)
    with_all = Draw(jnp.arange(9), jnp.int32(9), jnp.bool_(False))
    without_last = with_all._replace(count=jnp.int32(8))
    difference = flat(gradient(params, x, y, with_all)) - flat(gradient(params, x, y, without_last))
    assert np.linalg.norm(difference) == pytest.approx(gradient.sensitivity, rel=1e-4)


def test_an_overflowing_draw_poisons_the_sum():
    x, y = examples()
    gradient, params = private_gradient(small_network(), losses, clip_norm=CLIP)
    draw = poisson(jax.random.key(0), examples=9, batch=6, capacity=1)
    assert np.isnan(flat(gradient(params, x, y, draw))).all()


@pytest.mark.parametrize(
    ("build", "names"), [(normalised_network, "LayerNorm"), (TwiceApplied, "again")]
)
def test_a_layer_without_a_rule_falls_back_and_says_so_once(build, names):
    x, y = examples()
    per_example._warn_once.cache_clear()
    gradient, params = private_gradient(build(), losses, clip_norm=CLIP)
    draw = Draw(jnp.arange(9), jnp.int32(9), jnp.bool_(False))
    with pytest.warns(per_example.FallbackWarning, match=names):
        gradient(params, x, y, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(params, x, y, draw)


def test_a_network_of_convolutions_and_dense_layers_does_not_fall_back():
    gradient, params = private_gradient(small_network(), losses, clip_norm=CLIP)
    assert applicability.why_not_by_rules(gradient.graph, losses, params, *examples()) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be > 0, got 0.0"),
        ({"clip_norm": -1.0}, "clip_norm must be > 0, got -1.0"),
        ({"clip_norm": np.inf}, "clip_norm must be finite, got inf"),
        ({"clip_norm": np.nan}, "clip_norm must be finite, got nan"),
        ({"clip_norm": 1.0, "microbatch": 0}, "microbatch must be at least 1, got 0"),
    ],
)
def test_a_wrong_bound_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        private_gradient(small_network(), losses, **wrong)


def test_noise_drops_into_an_optax_chain():
    noise = gaussian_noise(2.0, jax.random.key(0))
    optimizer = optax.chain(noise, optax.scale(0.5), optax.sgd(1.0))
    params = {"w": jnp.zeros(20_000)}
    updates, _ = optimizer.update(params, optimizer.init(params))
    assert float(updates["w"].std()) == pytest.approx(1.0, rel=0.03)


def test_the_script_of_the_book_trains_a_network_in_under_forty_lines(capsys):
    assert len(SCRIPT.read_text().splitlines()) < 40
    runpy.run_path(str(SCRIPT))
    accuracy = float(re.search(r"test accuracy (\d\.\d+)", capsys.readouterr().out)[1])
    assert accuracy > 0.8


def test_all_devices_share_a_step_s_examples():
    """An odd number of examples, over the two devices of conftest.py."""
    x, y = examples()
    mesh = devices.mesh_for(1)
    assert mesh.devices.size == 2
    drawn = Draw(jnp.array([1, 4, 5, 7, 8, 0, 0, 0]), jnp.int32(5), jnp.bool_(False))
    gradient, params = private_gradient(
        small_network(), losses, clip_norm=CLIP, microbatch=2, mesh=mesh
    )
    x, y = devices.everywhere((x, y), mesh)
    total = flat(gradient(params, x, y, drawn))
    expected = by_hand(small_network(), *examples(), [1, 4, 5, 7, 8])
    assert np.linalg.norm(total - expected) < 1e-5 * np.linalg.norm(expected)
    overflowed = gradient(params, x, y, drawn._replace(overflow=jnp.bool_(True)))
    assert np.isnan(flat(overflowed)).all()
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(gradient)(params, x, y, drawn)


def test_the_script_of_the_book_gives_a_layer_a_rule_that_agrees_with_vmap(capsys):
    with mock.patch.dict(layer_rules.RULES):
        runpy.run_path(str(BOOK / "own_layer.py"))
    difference = re.fullmatch(r"largest difference of norms (\S+)\n", capsys.readouterr().out)
    assert float(difference[1]) < 1e-5
