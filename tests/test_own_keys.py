"""Random layers in `private_gradient`: a key of its own for each example.

The networks' gradients by their weights are what dropout let through, so that the sums show it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx

from dpstudy import poisson, private_gradient
from dpstudy.gradients import devices
from dpstudy.parts.sampling import Draw

pytestmark = [
    pytest.mark.usefixtures("compiled_in_haste"),
    pytest.mark.filterwarnings("ignore::dpstudy.gradients.per_example.FallbackWarning"),
]

COUNT, WIDTH, CLIP = 7, 200, 0.1
UNCLIPPED = 1e6
KEY = jax.random.key(3)
X, Y = jnp.ones((COUNT, WIDTH)), jnp.zeros(COUNT)


class Dropping(nnx.Module):
    """Two dropout layers of one stream, after a layer of weights each."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.drop, self.again = nnx.Dropout(0.25, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(WIDTH, 1, use_bias=False, rngs=rngs)
        self.other = nnx.Linear(WIDTH, 1, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return (self.last(self.drop(x)) + self.other(self.again(x)))[:, 0]


def losses(network, x, _):
    return network(x)


def among(chosen):
    padded = jnp.asarray([*chosen, *[0] * (COUNT - len(chosen))])
    return Draw(padded, jnp.int32(len(chosen)), jnp.bool_(False))


def summing(clip_norm, microbatch=3, mesh=None, model=None):
    gradient, params = private_gradient(
        model or Dropping(), losses, clip_norm=clip_norm, microbatch=microbatch, mesh=mesh
    )
    run = gradient if mesh else oracles.quick_jit(gradient)
    return lambda chosen, key=KEY: oracles.plain(run(params, X, Y, among(chosen), key))


def test_each_example_and_each_step_drops_by_chances_of_its_own():
    run = summing(UNCLIPPED)
    for layer, rate in (("last", 0.25), ("other", 0.5)):
        masks = np.stack([run([k])[layer]["kernel"].ravel() for k in range(COUNT)])
        np.testing.assert_allclose(np.unique(masks.round(4)), [0, 1 / (1 - rate)], rtol=1e-4)
        assert oracles.stats.binomtest(int((masks == 0).sum()), masks.size, rate).pvalue > 1e-4
        other_step = run([0], jax.random.key(4))[layer]["kernel"].ravel()
        apart = np.corrcoef(np.vstack([masks, other_step]) != 0) - np.eye(COUNT + 1)
        assert np.abs(apart).max() < 0.35  # five standard deviations of 200 pairs
    layers = [run([0])[layer]["kernel"].ravel() != 0 for layer in ("last", "other")]
    assert abs(np.corrcoef(layers)[0, 1]) < 0.35


def test_what_an_example_drops_depends_on_it_alone():
    """Not on its place, the others, the microbatch or the devices."""
    alone = summing(UNCLIPPED)
    each = [oracles.flat_sum(alone([k])) for k in range(COUNT)]
    for run in (
        alone,
        summing(UNCLIPPED, microbatch=1),
        summing(UNCLIPPED, microbatch=5, mesh=devices.mesh_for(1)),
    ):
        for chosen in ([4, 1], [6, 5, 4, 3, 2, 1, 0]):
            expected = sum(each[k] for k in chosen)
            np.testing.assert_allclose(oracles.flat_sum(run(chosen)), expected, rtol=1e-6)


def test_an_example_changes_the_sum_by_at_most_the_sensitivity():
    run = summing(CLIP)
    whole = oracles.flat_sum(run(range(COUNT)))
    for left_out in range(COUNT):
        rest = oracles.flat_sum(run([k for k in range(COUNT) if k != left_out]))
        assert np.linalg.norm(whole - rest) == pytest.approx(CLIP, rel=1e-4)


def test_streams_of_mapped_layers_have_as_many_keys_as_before():
    @nnx.split_rngs(splits=3)
    @nnx.vmap
    def members(rngs):
        return nnx.Dropout(0.5, rngs=rngs)

    class Network(nnx.Module):
        def __init__(self):
            self.drops = members(nnx.Rngs(0))
            self.last = nnx.Linear(WIDTH, 1, use_bias=False, rngs=nnx.Rngs(1))

        def __call__(self, x):
            each = nnx.vmap(lambda drop, x: drop(x), in_axes=(0, None))(self.drops, x)
            return self.last(each.mean(0))[:, 0]

    mask = summing(UNCLIPPED, model=Network())([2])["last"]["kernel"].ravel()
    # The mean of three that are independent, each 0 or 2.
    counts = np.bincount((mask * 3 / 2).round().astype(int), minlength=4)
    assert oracles.stats.chisquare(counts, WIDTH * np.array([1, 3, 3, 1]) / 8).pvalue > 1e-4


def test_attention_drops_too_and_a_loss_of_the_wrong_shape_is_still_refused():
    class Network(nnx.Module):
        def __init__(self):
            options = {
                "dropout_rate": 0.5,
                "deterministic": False,
                "decode": False,
                "rngs": nnx.Rngs(0),
            }
            self.attend = nnx.MultiHeadAttention(2, 4, **options)

        def __call__(self, x):
            return self.attend(x.reshape(len(x), -1, 4)).sum((1, 2))

    run = summing(UNCLIPPED, model=Network())
    found = [oracles.flat_sum(run([1], jax.random.key(k))) for k in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 0.1
    for wrong, got in (
        (lambda n, x, y: n(x).mean(), "leave out"),
        (lambda n, x, y: {"a": n(x)}, ""),
    ):
        gradient, params = private_gradient(Network(), wrong, clip_norm=CLIP)
        with pytest.raises(ValueError, match=f"one loss an example is wanted.*{got}"):
            gradient(params, X, Y, poisson(KEY, COUNT, 3), KEY)
