"""The sums and their noise: by hand in double precision, and by statistics at a fixed seed."""

from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from flax import nnx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpstudy.parts.data.dataset import Images
from dpstudy.parts.mechanism import (
    FlatClipping,
    Microbatch,
    NoPrivacy,
    PerLayerClipping,
    gaussian_noise,
)
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.optimizer import Adam, Sgd, SgdWithDecay
from dpstudy.parts.run import Run, vary
from under_the_clip.networks import BackpropMnist

BATCH = 8
MODEL = "tempered-mnist"
NETWORKS = {MODEL: SmallCnn(), "backprop-mnist": BackpropMnist()}


@cache
def study(name=MODEL):
    """A batch, its losses and gradients in double precision, and the package's two sums of it."""
    run = Run(network=NETWORKS[name])
    graph, params = nnx.split(nnx.eval_shape(lambda: run.network.module(nnx.Rngs(params=0))))
    params = oracles.random_like(params)
    losses = run.losses(jnp.float32(1))
    images, labels = oracles.random_images(name, BATCH, seed=1)
    # Contrasts from faint to full: gradients of many sizes.
    stored = images * np.linspace(0.02, 1, BATCH)[:, None, None, None]
    oracle = oracles.per_example(oracles.NETWORKS[name], jnp.tanh)
    each, gradients = oracles.in_double_precision(oracle)(
        nnx.to_pure_dict(params), stored / 255, labels
    )

    @oracles.quick_jit
    def summed(mechanism, images, labels, mask):
        total, seen = mechanism.sum(Microbatch(graph, losses, params, images, labels), mask)
        return nnx.to_pure_dict(total), seen

    return np.float32(stored), labels, each, oracles.flat(gradients), summed


def as_tree(rows, name=MODEL):
    """Examples' gradients, flat, by layer and parameter again."""
    like = nnx.to_pure_dict(NETWORKS[name].shapes())
    ends = np.cumsum([leaf.size for leaf in jax.tree.leaves(like)])[:-1]
    leaves = np.split(rows, ends, axis=1)
    shapes = (leaf.shape for leaf in jax.tree.leaves(like))
    leaves = [x.reshape(BATCH, *shape) for x, shape in zip(leaves, shapes, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


EVERYONE = np.ones(BATCH, bool)
masks = hnp.arrays(bool, BATCH)
# Some of the gradients are shorter than this, others longer.
MIDDLE = 8.5
clip_norms = st.one_of(st.floats(-4, 4), st.floats(0.7, 1.2)).map(
    lambda exponent: float(np.float32(10**exponent))
)


def test_the_batch_has_gradients_to_clip_and_gradients_to_leave():
    norms = np.linalg.norm(study()[3], axis=1)
    assert 2 <= (norms > MIDDLE).sum() <= BATCH - 2


@settings(max_examples=25, deadline=None, derandomize=True)
@given(masks, clip_norms)
@example(EVERYONE, MIDDLE)
@example(~EVERYONE, MIDDLE)
def test_the_sum_is_vmap_grad_clipped_by_hand(mask, clip_norm):
    images, labels, each, gradients, summed = study()
    total, seen = summed(FlatClipping(clip_norm), images, labels, np.float32(mask))
    clipped = oracles.clipped(gradients, clip_norm)
    scale = np.linalg.norm(clipped[mask], axis=1).sum()
    assert np.linalg.norm(oracles.flat_sum(total) - clipped[mask].sum(axis=0)) <= 1e-5 * scale

    norms = np.linalg.norm(gradients, axis=1)
    assert seen.examples == mask.sum()
    assert seen.clipped == (norms[mask] > clip_norm).sum()
    np.testing.assert_allclose(seen.loss, each[mask].sum(), rtol=1e-5)
    np.testing.assert_allclose(seen.norm, norms[mask].sum(), rtol=1e-5)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(clip_norms)
@example(MIDDLE)
def test_removing_any_one_example_changes_the_sum_by_at_most_the_clipping_norm(clip_norm):
    """And by exactly that where the example's gradient is longer: the bound is not loose."""
    images, labels, _, gradients, summed = study()

    def total(mask: np.ndarray) -> np.ndarray:
        return oracles.flat_sum(
            summed(FlatClipping(clip_norm), images, labels, np.float32(mask))[0]
        )

    norms = np.linalg.norm(gradients, axis=1)
    rounding = 1e-6 * BATCH * min(clip_norm, norms.max())
    for left_out in range(BATCH):
        change = np.linalg.norm(total(EVERYONE) - total(np.arange(BATCH) != left_out))
        assert change <= clip_norm + rounding
        assert change == pytest.approx(min(clip_norm, norms[left_out]), rel=1e-5, abs=rounding)


def test_examples_outside_the_mask_contribute_nothing_whatever_they_are():
    images, labels, _, _, summed = study()
    mask = np.float32([1, 0, 1, 0, 0, 1, 1, 0])
    others = np.where(mask[:, None, None, None] > 0, images, 255 - images[::-1])
    other_labels = np.where(mask > 0, labels, 9 - labels)
    for mechanism in (FlatClipping(0.7), NoPrivacy()):
        jax.tree.map(
            np.testing.assert_array_equal,
            summed(mechanism, images, labels, mask),
            summed(mechanism, others, other_labels, mask),
        )
        nothing, _ = summed(mechanism, images, labels, 0 * mask)
        assert np.linalg.norm(oracles.flat_sum(nothing)) == 0


@pytest.mark.parametrize("mask", [EVERYONE, np.arange(BATCH) < 3], ids=["all", "three"])
def test_without_privacy_the_sum_is_that_of_the_gradients(mask):
    images, labels, each, gradients, summed = study()
    total, seen = summed(NoPrivacy(), images, labels, np.float32(mask))
    expected = gradients[mask].sum(axis=0)
    assert np.linalg.norm(oracles.flat_sum(total) - expected) <= 1e-5 * np.linalg.norm(expected)
    np.testing.assert_allclose(seen.loss, each[mask].sum(), rtol=1e-5)
    assert (seen.examples, seen.norm, seen.clipped) == (mask.sum(), 0, 0)


class Given:
    """Gradients that a test writes down."""

    def __init__(self, rows):
        self.rows = rows

    def norms(self):
        return jnp.linalg.norm(self.rows, axis=1)

    def weighted_sum(self, weights):
        return weights @ self.rows


@oracles.quick_jit
def sum_of_rows(mechanism, rows, mask):
    given = jnp.zeros(len(rows)), Given(rows)
    return mechanism.sum(SimpleNamespace(gradients=lambda: given), mask)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    hnp.arrays(
        np.float32, (4, 3), elements=st.sampled_from([0.0, -1e-12, 1e-6, 0.5, -2.0, 3e3, 1e12])
    ),
    st.sampled_from([1e-8, 0.1, 1.0, 1e8]),
)
@example(np.zeros((4, 3), np.float32), 0.1)
def test_gradients_that_vanish_or_explode_are_clipped_like_any_other(rows, clip_norm):
    """A zero gradient, as of an example learnt by heart, must not become 0/0."""
    total, _ = sum_of_rows(FlatClipping(clip_norm), rows, np.ones(4, np.float32))
    expected = oracles.clipped(rows.astype(np.float64), clip_norm)
    scale = np.linalg.norm(expected, axis=1).sum()
    assert np.linalg.norm(total - expected.sum(axis=0)) <= 1e-5 * scale
    assert np.linalg.norm(total) <= 4 * clip_norm * (1 + 1e-6)


STEPS, LIKE = 5_000, {"bias": np.zeros(4, np.float32), "kernel": np.zeros((2, 3), np.float32)}
DEVIATION = 0.123


def drawn(seed, deviation=DEVIATION):
    """The noise of many steps, one after the other: a row a step."""
    return oracles.flat(_noise(jax.random.key(seed), jax.tree.map(np.float32, deviation), LIKE))


@oracles.quick_jit
def _noise(key, deviation, like):
    transformation = gaussian_noise(deviation, key)

    def step(state, _):
        noise, state = transformation.update(like, state)
        return state, noise

    return jax.lax.scan(step, transformation.init(like), None, length=STEPS)[1]


def test_the_noise_is_gaussian_with_the_stated_covariance_and_mean_zero():
    assert not oracles.suspicious(oracles.gaussian_p_values(drawn(seed=0), DEVIATION))


def uniform(noise):
    draw = np.random.default_rng(0)
    return DEVIATION * np.sqrt(3) * draw.uniform(-1, 1, noise.shape)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda noise: 0.95 * noise, "variance"),
        (lambda noise: 1.05 * noise, "variance"),
        # One for all steps, or for both layers.
        (lambda noise: np.repeat(noise[:1], STEPS, axis=0), "between steps"),
        (lambda noise: np.tile(noise[:, :5], 2), "between coordinates"),
        (uniform, "shape"),
        (lambda noise: noise + 0.03 * DEVIATION, "mean"),
        (lambda noise: noise + 0.1 * DEVIATION * (np.arange(10) == 3), "means"),
    ],
)
def test_flaws_of_noise_are_caught(spoil, complaint):
    p_values = oracles.gaussian_p_values(spoil(drawn(seed=0)), DEVIATION)
    assert complaint in oracles.suspicious(p_values)


def test_noise_is_new_at_every_step_and_under_every_key_and_otherwise_the_same():
    noise = drawn(seed=0)
    np.testing.assert_array_equal(noise, drawn(seed=0))
    both = np.concatenate([noise, drawn(seed=1)])
    assert len(np.unique(both, axis=0)) == 2 * STEPS


def test_noise_is_added_to_the_sum_and_knows_nothing_of_it():
    transformation = gaussian_noise(np.float32(DEVIATION), jax.random.key(3))
    total = {"bias": np.float32([1, -2, 3, -4]), "kernel": np.ones((2, 3), np.float32)}
    state = transformation.init(total)
    update = oracles.quick_jit(transformation.update)
    for _ in range(2):
        noisy, after = update(total, state)
        alone, _ = update(LIKE, state)
        expected = jax.tree.map(np.add, total, alone)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), noisy, expected)
        assert after.count == state.count + 1
        state = after


OF_LEAVES = {"bias": np.float32(0.5), "kernel": np.float32(0.02)}


def test_each_leaf_has_the_deviation_that_a_tree_gives_it():
    noise = drawn(seed=0, deviation=OF_LEAVES)
    by_number = np.repeat([0.5, 0.02], [4, 6])
    assert not oracles.suspicious(oracles.gaussian_p_values(noise / by_number, 1.0))
    np.testing.assert_allclose(noise, by_number * drawn(seed=0, deviation=1.0), rtol=1e-6)
    swapped = oracles.gaussian_p_values(noise / np.repeat([0.02, 0.5], [4, 6]), 1.0)
    assert "variance" in oracles.suspicious(swapped)


def test_a_tree_of_one_deviation_adds_the_noise_of_that_deviation():
    one = np.float32(DEVIATION)
    for tree in ({"bias": one, "kernel": one}, {"bias": one, "kernel": one.copy()}):
        np.testing.assert_allclose(drawn(seed=0, deviation=tree), drawn(seed=0), rtol=1e-6)


def test_flat_clipping_adds_sigma_times_its_sensitivity_to_every_leaf_and_says_so():
    mechanism = FlatClipping(clip_norm=0.4, noise_multiplier=1.5)
    assert mechanism.sensitivity == 0.4
    deviations = mechanism.noise(LIKE)
    assert jax.tree.structure(deviations) == jax.tree.structure(LIKE)
    assert jax.tree.leaves(deviations) == [1.5 * 0.4] * 2
    # The noise over the sensitivity is what epsilon follows from.
    assert mechanism.noise_over_sensitivity == pytest.approx(1.5 * 0.4 / mechanism.sensitivity)
    assert mechanism.claimed_noise_over_sensitivity == mechanism.noise_over_sensitivity


def test_without_privacy_there_is_no_noise_and_none_is_stated():
    mechanism = NoPrivacy()
    assert mechanism.noise(LIKE) is None
    assert mechanism.noise_over_sensitivity is mechanism.claimed_noise_over_sensitivity is None
    assert not Run(mechanism=mechanism).private


WIDE = {"kernel": np.zeros((300, 100), np.float32)}
RUN = vary(Run(), dataset=Images("mnist-5k"), batch=250, learning_rate=0.3, momentum=0.8)


def updates(run, *totals):
    """What the optimiser makes of one sum after the other."""
    key = jax.random.key(11)

    @oracles.quick_jit
    def chain(run, totals):
        rule = run.update_rule(totals[0], key)
        state, made = rule.init(totals[0]), []
        for total in totals:
            update, state = rule.update(total, state)
            made.append(update)
        return made

    return [oracles.plain(update) for update in chain(run, totals)]


def some_sum(seed):
    return {"kernel": np.float32(np.random.default_rng(seed).normal(size=(300, 100)))}


def test_a_step_is_the_noisy_sum_over_the_expected_batch_size_times_the_learning_rate():
    """Whatever number of examples was drawn: the chain is never told."""
    run = vary(RUN, clip_norm=0.4, noise_multiplier=1.5)
    total = some_sum(0)
    (noise,), (step,) = updates(run, WIDE), updates(run, total)
    expected = -0.3 * np.float64(total["kernel"]) / 250
    np.testing.assert_allclose(step["kernel"] - noise["kernel"], expected, rtol=1e-3, atol=1e-8)

    deviation = 0.3 * 1.5 * 0.4 / 250  # learning rate x sigma x C / expected batch size
    assert not oracles.suspicious(oracles.gaussian_p_values(noise["kernel"], deviation))
    for wrong in (0.95, 1.05):
        flaws = oracles.suspicious(oracles.gaussian_p_values(noise["kernel"], wrong * deviation))
        assert "variance" in flaws


def test_momentum_and_adam_follow_their_closed_forms():
    first, second = some_sum(0), some_sum(1)
    one, two = (np.float64(g["kernel"]) / 250 for g in (first, second))
    free = vary(RUN, mechanism=NoPrivacy())

    steps = updates(free, first, second)
    np.testing.assert_allclose(steps[0]["kernel"], -0.3 * one, rtol=1e-5)
    np.testing.assert_allclose(steps[1]["kernel"], -0.3 * (two + 0.8 * one), rtol=1e-4, atol=1e-9)

    (step,) = updates(vary(free, optimizer=Adam(0.3)), first)
    np.testing.assert_allclose(step["kernel"], -0.3 * one / (np.abs(one) + 1e-8), rtol=1e-4)


def test_weight_decay_shrinks_kernels_by_a_share_of_themselves_beside_the_gradient():
    free = vary(RUN, mechanism=NoPrivacy())
    decaying = vary(free, optimizer=SgdWithDecay(0.3, 0.8, decay=0.01))
    params = {"kernel": jnp.array([[2.0, -1.0]]), "bias": jnp.array([3.0])}
    sums = {"kernel": jnp.array([[5.0, 0.0]]), "bias": jnp.array([5.0])}
    steps = {}
    for name, run in (("free", free), ("decaying", decaying)):
        rule = run.update_rule(params, jax.random.key(0))
        steps[name] = rule.update(sums, rule.init(params), params)[0]
    shrunk = steps["decaying"]["kernel"] - steps["free"]["kernel"]
    np.testing.assert_allclose(shrunk, -0.3 * 2 * 0.01 * params["kernel"], rtol=1e-4)
    np.testing.assert_array_equal(steps["decaying"]["bias"], steps["free"]["bias"])


def test_both_optimisers_get_the_same_noise():
    sgd = vary(RUN, clip_norm=0.4, optimizer=Sgd(0.3, momentum=0.0))
    adam = vary(sgd, optimizer=Adam(0.3))
    (by_sgd,), (by_adam,) = updates(sgd, WIDE), updates(adam, WIDE)
    np.testing.assert_array_equal(np.sign(by_sgd["kernel"]), np.sign(by_adam["kernel"]))


def test_products_keep_float32_wherever_they_are_computed():
    """An accelerator's faster formats would round the norm that clipping bounds by."""
    run = Run()
    images, labels = map(jnp.asarray, oracles.random_images("tempered-mnist", 2))
    params = oracles.random_like(run.network.shapes())
    batch = Microbatch(run.network.graph(), run.losses(1), params, images, labels)
    shown = str(jax.make_jaxpr(lambda: FlatClipping().sum(batch, jnp.ones(2))[0])())
    products = shown.count("dot_general[") + shown.count("conv_general_dilated[")
    assert products and shown.count("HIGHEST") >= products
    assert "DEFAULT" not in shown and "precision=None" not in shown


def norms_by_layer(gradients):
    """Each example's norm in each layer, kernel and bias together."""
    return {
        layer: np.sqrt(sum((g.reshape(len(g), -1) ** 2).sum(axis=1) for g in leaves.values()))
        for layer, leaves in gradients.items()
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_the_sum_is_each_layer_of_each_example_clipped_by_hand(name):
    images, labels, losses, gradients, summed = study(name)
    tree, mask = as_tree(gradients, name), np.float32(np.arange(BATCH) != 1)
    norms = norms_by_layer(tree)
    longest = np.max(list(norms.values()), axis=0)
    share = np.median(longest) * 1.01  # some examples have longer layers, others do not
    factors = {layer: mask * np.minimum(1, share / norm) for layer, norm in norms.items()}
    expected = {
        layer: jax.tree.map(lambda g, by=factors[layer]: np.tensordot(by, g, 1), leaves)
        for layer, leaves in tree.items()
    }
    clipped = longest > share
    assert (mask * clipped).any() and not clipped[mask > 0].all()

    total, seen = summed(PerLayerClipping(clip_norm=float(2 * share)), images, labels, mask)
    assert jax.tree.structure(total) == jax.tree.structure(expected)
    for leaf, same in zip(jax.tree.leaves(total), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, same, rtol=1e-4, atol=1e-5)
    assert seen.clipped == (mask * clipped).sum() and seen.examples == mask.sum()
    assert seen.norm == pytest.approx(mask @ np.linalg.norm(gradients, axis=1), rel=1e-5)
    assert seen.loss == pytest.approx(mask @ losses, rel=1e-5)


def test_the_whole_has_the_sensitivity_that_its_layers_share():
    """Shares are equal: no example adds more than C, and one long in all layers adds just that."""
    mechanism = PerLayerClipping(clip_norm=0.01, noise_multiplier=2.0)
    images, labels, *_, summed = study()
    total, _ = summed(mechanism, images, labels, np.float32(np.arange(BATCH) == BATCH - 1))
    by_layer = [np.linalg.norm(oracles.flat_sum(layer)) for layer in total.values()]
    np.testing.assert_allclose(by_layer, 0.01 / 4**0.5, rtol=1e-5)
    assert np.linalg.norm(by_layer) == pytest.approx(mechanism.sensitivity, rel=1e-5)
    assert mechanism.noise_over_sensitivity == 2.0
    assert set(jax.tree.leaves(mechanism.noise(total))) == {0.02}
