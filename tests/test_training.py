"""The training loop against loops written out by hand, on the 5,000 embedded images."""

import itertools
import re
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree
from results_for_tests import OneDense
from scipy.special import log_softmax, softmax

from dpstudy.gradients import devices
from dpstudy.parts import sampling
from dpstudy.parts.data import images as data
from dpstudy.parts.data.dataset import AT_ONCE, Images
from dpstudy.parts.measure import EDGES, BoundedNorms, Examples
from dpstudy.parts.mechanism import NoPrivacy, nothing_seen
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Shuffled
from dpstudy.training import loop as training
from under_the_clip.networks import LosingLessCifar

pytestmark = pytest.mark.usefixtures("compiled_in_haste")

EPOCHS, STEPS_PER_EPOCH = 5, 4
COMMON = vary(Run(), dataset=Images("mnist-5k"), batch=1_000, epochs=EPOCHS, width=0.125)
# Each of these three is one compiled program; numbers alone change within each.
PRIVATE = vary(COMMON, clip_norm=1.0, learning_rate=2.0)
SHUFFLED = vary(COMMON, activation=Relu(), sampling=Shuffled(1_000), clip_norm=1.0)
FREE = vary(COMMON, mechanism=NoPrivacy(), learning_rate=0.2)
MICROBATCH = 32
CHUNK = 50
# In single precision tanh makes corners tie that differ: pooling first keeps them apart.
NETWORK = partial(oracles.NETWORKS["tempered-mnist"], pool_first=True)


@cache
def images():
    return data.load("mnist-5k")


def kept(state):
    """A copy of a state: the loop goes on in the memory of the one it yielded."""
    return jax.tree.map(np.array, state)


def same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def trained(run, state=None, epochs=EPOCHS):
    """What training yields of a single run after its first epochs, or those after `state`."""
    states = None if state is None else training.stack([state])
    steps = training.train([run], images(), MICROBATCH, states)
    first = 1 if state is None else 0
    return [
        (seen[0], training.item(0, kept(states)))
        for seen, states in itertools.islice(steps, first, first + epochs)
    ]


@cache
def whole_run():
    return trained(PRIVATE)


def vector(params):
    """All parameters end to end, in float64, and the way back."""
    flat, unravel = ravel_pytree(oracles.plain(params))
    return np.float64(flat), lambda x: jax.tree.map(np.float32, unravel(np.float32(x)))


def drawn(run, step):
    """The examples that the loop draws at a step (0 for the first)."""
    key = jax.random.key(run.seed)
    order = training.order_of_epoch(run, key, jnp.int32(step))
    draw = training.draw_examples(run, key, order, jnp.int32(step))
    return np.asarray(draw.indices)[: int(draw.count)]


@jax.jit
def chunk_by_hand(params, pixels, labels, mask, clip_norm):
    one = oracles.per_example(NETWORK, jnp.tanh)
    losses, gradients = one(params, pixels.astype(jnp.float32) / 255, labels)
    rows = jax.vmap(lambda gradient: ravel_pytree(gradient)[0])(gradients)
    norms = jnp.sqrt(jnp.sum(rows**2, axis=1))
    return losses, norms, (mask * jnp.minimum(1, clip_norm / norms)) @ rows


def by_hand(params, chosen, clip_norm):
    """Losses, norms and the clipped sum of the chosen examples' gradients, in stock lax."""
    losses, norms, total = [], [], 0.0
    for start in range(0, len(chosen), CHUNK):
        some = chosen[start : start + CHUNK]
        rows = np.pad(some, (0, CHUNK - len(some)))
        pixels, labels = images().train_images[rows], images().train_labels[rows]
        mask = np.float32(np.arange(CHUNK) < len(some))
        one, norm, part = chunk_by_hand(params, pixels, labels, mask, np.float32(clip_norm))
        losses.append(np.asarray(one)[: len(some)])
        norms.append(np.asarray(norm)[: len(some)])
        total = total + np.float64(part)
    return np.concatenate(losses), np.concatenate(norms), total


@pytest.mark.smoke
def test_a_private_run_learns():
    curve = [seen for seen, _ in whole_run()]
    assert [seen.number for seen in curve] == list(range(1, EPOCHS + 1))
    assert [seen.row["step"] for seen in curve] == [STEPS_PER_EPOCH * e.number for e in curve]
    assert curve[1].row["test_accuracy"] > 0.5  # by chance, 0.1
    assert curve[-1].row["test_accuracy"] > 0.8
    assert curve[-1].row["test_loss"] < curve[0].row["test_loss"]


def test_epoch_0_is_the_network_before_its_first_step():
    """Equally spread classes: a network that knows nothing is near a loss of log 10."""
    (seen,), states = next(training.train([PRIVATE], images(), MICROBATCH))
    assert (seen.number, seen.row["step"]) == (0, 0)
    assert seen.row["test_loss"] == pytest.approx(np.log(10), rel=0.1)
    assert {name for name, value in seen.row.items() if value is None} == {
        "train_loss",
        "gradient_norm",
        "clipped_fraction",
    }
    same(training.item(0, kept(states)), kept(training.start(PRIVATE)))


@pytest.mark.smoke
def test_shuffled_batches_train_too():
    curve = [seen for seen, _ in trained(SHUFFLED, epochs=2)]
    assert curve[-1].row["test_accuracy"] > 0.25
    assert curve[-1].row["train_loss"] < curve[0].row["train_loss"]


def test_accuracies_and_loss_are_those_of_a_recount():
    seen, state = whole_run()[-1]
    params = nnx.to_pure_dict(state.params)
    forward = oracles.quick_jit(
        lambda params, x: oracles.NETWORKS["tempered-mnist"](params, x, jnp.tanh)[0]
    )
    test = images()
    logits = np.float64(forward(params, np.float32(test.test_images) / 255))
    right = logits.argmax(axis=1) == test.test_labels
    assert seen.row["test_accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    by_class = [np.mean(right[test.test_labels == digit]) for digit in range(10)]
    assert seen.class_accuracy == pytest.approx(by_class, abs=1e-6)
    assert min(by_class) < max(by_class)
    losses = -log_softmax(logits, axis=1)[np.arange(len(right)), test.test_labels]
    assert seen.row["test_loss"] == pytest.approx(losses.mean(), rel=1e-5)


def test_a_resumed_run_repeats_an_undisturbed_one_bit_for_bit():
    whole = whole_run()
    rest = trained(PRIVATE, state=whole[2][1])
    assert [seen for seen, _ in rest] == [seen for seen, _ in whole[3:]]
    same(rest[-1][1], whole[-1][1])


@pytest.mark.smoke
def test_a_resumed_cohort_with_measures_repeats_an_undisturbed_one_bit_for_bit():
    one = vary(GENTLE, network=OneDense(), clip_norm=12.0, learning_rate=0.02, epochs=2)
    measured = vary(one, measures=(BoundedNorms(),))
    cohort = [measured, vary(measured, seed=1, clip_norm=15.0)]
    whole = [(seen, kept(s)) for seen, s in training.train(cohort, images(), MICROBATCH)]
    assert [seen[0].number for seen, _ in whole] == [0, 1, 2]
    again = training.train(cohort, images(), MICROBATCH, whole[1][1])
    [(seen, state)] = [(seen, kept(s)) for seen, s in again]
    assert seen == whole[-1][0]
    same(state, whole[-1][1])
    epochs, states = whole[1]
    for index, epoch in enumerate(epochs):
        [layer] = oracles.plain(training.item(index, states).params).values()
        pixels = images().train_images[::4].reshape(1_000, -1) / 255
        errors = softmax(pixels @ layer["kernel"] + layer["bias"], axis=1)
        errors[np.arange(1_000), images().train_labels[::4]] -= 1
        # A gradient is the outer product of an error with the pixels, and a 1 for the bias.
        norms = np.linalg.norm(errors, axis=1) * np.sqrt(np.sum(pixels**2, axis=1) + 1)
        bounded = np.minimum(norms, cohort[index].mechanism.clip_norm)
        expected, _ = np.histogram(bounded, EDGES)
        assert np.count_nonzero(expected) > 3 and bounded.max() > norms.mean()
        assert np.abs(epoch.row["bounded-norms.counts"] - expected).sum() <= 4  # by rounding


def test_a_finished_run_has_nothing_to_resume():
    assert trained(PRIVATE, state=whole_run()[-1][1]) == []


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    ((first, state),) = trained(PRIVATE, epochs=1)
    assert first == whole_run()[0][0]
    same(state, whole_run()[0][1])
    ((other, elsewhere),) = trained(vary(PRIVATE, seed=1), epochs=1)
    assert other != first
    assert oracles.distance(elsewhere.params, state.params) > 0.1


def test_without_privacy_it_is_an_optax_loop_over_the_same_examples():
    ((seen, state),) = trained(FREE, epochs=1)
    before, unravel = vector(training.start(FREE).params)
    params, rule = unravel(before), optax.sgd(0.2, momentum=0.9)
    memory = rule.init(params)
    losses = []
    for step in range(STEPS_PER_EPOCH):
        each, _, total = by_hand(params, drawn(FREE, step), np.inf)
        losses.append(each)
        # By the expected batch size, 1,000, whatever was drawn.
        updates, memory = rule.update(unravel(total / 1_000), memory, params)
        params = optax.apply_updates(params, updates)
    assert 1_000 not in map(len, losses)

    moved, expected = vector(state.params)[0] - before, vector(params)[0] - before
    assert np.linalg.norm(moved - expected) < 1e-4 * np.linalg.norm(expected)
    assert seen.row["train_loss"] == pytest.approx(np.concatenate(losses).mean(), rel=1e-5)


def test_with_privacy_it_is_dp_sgd_by_hand_but_for_the_noise():
    """Noise so small that it does not show; `test_mechanisms.py` has its size and its shape."""
    run = vary(PRIVATE, noise_multiplier=1e-7, clip_norm=5.0, learning_rate=0.3)
    ((seen, state),) = trained(run, epochs=1)
    before, unravel = vector(training.start(run).params)
    after, velocity = before, np.zeros_like(before)
    norms, losses = [], []
    for step in range(STEPS_PER_EPOCH):
        each, lengths, total = by_hand(unravel(after), drawn(run, step), 5.0)
        losses.append(each)
        norms.append(lengths)
        velocity = 0.9 * velocity + total / 1_000  # the expected batch size
        after = after - 0.3 * velocity
    moved, expected = vector(state.params)[0] - before, after - before
    # Rounding is the processor's: 4e-4 apart without AVX-512, below 1e-4 with it. To divide by the
    # drawn batch in place of the expected one makes 1.3e-2.
    assert np.linalg.norm(moved - expected) < 1e-3 * np.linalg.norm(expected)

    norms, losses = np.concatenate(norms), np.concatenate(losses)
    clipped = np.mean(norms > 5)
    assert 0.1 < clipped < 0.9
    assert seen.row["train_loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert seen.row["gradient_norm"] == pytest.approx(norms.mean(), rel=1e-5)
    assert seen.row["clipped_fraction"] == pytest.approx(clipped, abs=2 / len(norms))


def test_the_second_epoch_uses_the_program_of_the_first(caplog):
    trained(FREE, epochs=1)
    with jax.log_compiles():
        trained(FREE, epochs=2)
    messages = " ".join(record.getMessage() for record in caplog.records)
    assert not re.search(r"XLA compilation of jit\((train_epoch|_order|_share|_finish)\)", messages)


def assert_as_close_as_rounding(one, other):
    (seen, state), (seen_other, state_other) = one, other
    assert oracles.distance(state.params, state_other.params) < 1e-4
    for name in ("test_loss", "train_loss", "gradient_norm", "clipped_fraction"):
        assert seen.row[name] == pytest.approx(seen_other.row[name], rel=1e-3)


# Steps so small that rounding does not grow.
GENTLE = vary(PRIVATE, learning_rate=0.2)


@pytest.mark.parametrize(
    ("count", "network"),
    [(2, OneDense()), pytest.param(3, PRIVATE.network, marks=pytest.mark.smoke)],
)
def test_a_cohort_is_its_runs_done_singly(count, network):
    """Two runs, one a device; three, which two devices cannot share, vmapped on one."""
    assert jax.local_device_count() == 2, "set in conftest.py"
    one = vary(GENTLE, network=network)
    runs = [vary(one, seed=seed, clip_norm=1.0 + seed) for seed in range(count)]
    assert devices.mesh_for(count).shape == {"runs": 3 - count + 1, "examples": 1}
    _, (seen, states) = itertools.islice(training.train(runs, images(), MICROBATCH), 2)
    states = kept(states)
    for index, run in enumerate(runs):
        ((alone, state),) = trained(run, epochs=1)
        together = (seen[index], training.item(index, states))
        assert_as_close_as_rounding(together, (alone, state))
        # Not the same bits: of a run by itself the devices share the examples.
        assert oracles.distance(together[1].params, state.params) > 0


def test_one_run_that_diverges_leaves_the_others_of_its_cohort_alone():
    good = vary(GENTLE, network=OneDense())
    bad = vary(good, learning_rate=1e38, clip_norm=1e4)
    steps = itertools.islice(training.train([good, bad], images(), MICROBATCH), 1, 3)
    first, second = [seen for seen, _ in steps]
    assert first[1] == second[1] == training.Divergence(step=1)
    alone, _ = trained(good, epochs=2)[1]
    assert second[0].row["test_loss"] == pytest.approx(alone.row["test_loss"], rel=1e-3)


def test_runs_that_differ_in_more_than_numbers_are_no_cohort():
    runs = [PRIVATE, SHUFFLED]
    with pytest.raises(ValueError, match="differ in more than numbers"):
        next(training.train(runs, images(), MICROBATCH))


@pytest.mark.smoke
def test_a_run_whose_loss_overflows_ends_with_the_step_at_which_it_did():
    """Parameters of 1e10 in four relu layers make logits beyond float32 at the step after."""
    exploding = vary(SHUFFLED, learning_rate=1e10)
    ((end, state),) = trained(exploding)
    assert end == training.Divergence(step=2)
    assert state.diverged_at == 2
    after, before = trained(SHUFFLED, epochs=1)[0][1], STEPS_PER_EPOCH
    ((end, _),) = trained(exploding, state=after)
    assert end == training.Divergence(step=before + 2)
    # One whose first update overflows has diverged at once.
    ((end, state),) = trained(vary(SHUFFLED, learning_rate=1e38, clip_norm=1e4))
    assert end == training.Divergence(step=1)
    assert not np.all(np.isfinite(vector(state.params)[0]))


def test_a_draw_beyond_the_capacity_voids_the_run(monkeypatch):
    """Never is it quietly cut short: the accountants' sampling is no longer what was done."""
    monkeypatch.setattr(sampling, "capacity_for", lambda examples, batch: batch - 50)

    def nothing(run, microbatch, state, draw, train):
        return jax.tree.map(jnp.zeros_like, state.params), nothing_seen()

    monkeypatch.setattr(training, "sum_over", nothing)
    # A batch of its own: a program compiled for another test would not have the small capacity.
    run = vary(PRIVATE, batch=900)
    with pytest.raises(training.TrainingError, match="capacity by step"):
        trained(run)


def scores_of(run, params, images, labels):
    """What `evaluate` finds of one run on the two devices of conftest.py."""
    mesh = devices.mesh_for(1)
    assert mesh.shape[devices.EXAMPLES] == 2
    cohort, stacked = training.stack([run.of_a_step()]), training.stack([params])
    test = devices.everywhere(Examples(images, labels), mesh)
    return training.evaluate(mesh, cohort, stacked, np.zeros(1, np.float32), test)


@pytest.mark.parametrize("batches", [2, 3], ids=["shared by two devices", "cannot be shared"])
def test_every_test_example_is_scored_in_its_place(batches):
    params = oracles.random_like(training.start(PRIVATE).params)
    count = batches * AT_ONCE
    images, labels = oracles.random_images("mnist", count)
    found = scores_of(PRIVATE, params, images, np.int32(labels))
    logits, _ = jax.jit(oracles.NETWORKS["tempered-mnist"], static_argnums=2)(
        nnx.to_pure_dict(params), np.float32(images) / 255, jax.numpy.tanh
    )
    expected = -jax.nn.log_softmax(logits)[np.arange(count), labels]
    assert found.losses.shape == found.correct.shape == (1, batches, AT_ONCE)
    np.testing.assert_allclose(found.losses.reshape(-1), expected, rtol=1e-3, atol=1e-3)
    right = np.asarray(logits).argmax(axis=1) == labels
    assert (np.asarray(found.correct).reshape(-1) == right).mean() > 0.999


def test_normalised_pixels_have_imagenet_s_mean_and_deviation_taken_out_on_the_test_set_too():
    images, labels = oracles.random_images("cifar", 4)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (images / 255 - mean) / deviation
    colours = Images("cifar-10", normalization="imagenet")
    np.testing.assert_allclose(colours.prepare(images), expected, atol=1e-5)
    np.testing.assert_allclose(Images("cifar-10").prepare(images), images / 255, rtol=1e-6)

    run = vary(Run(), dataset=colours, network=LosingLessCifar(width=0.125))
    params = training.start(run).params

    @oracles.quick_jit
    def losses_and_logits(params):
        network = nnx.merge(run.network.graph(), params)
        logits = run.network.outputs(network, np.float32(expected)).logits
        return run.losses(np.float32(0))(network, images, labels), logits

    found, logits = losses_and_logits(params)
    by_hand = -jax.nn.log_softmax(logits)[np.arange(4), labels]
    np.testing.assert_allclose(found, by_hand, rtol=1e-4)

    count = AT_ONCE
    many = np.resize(images, (count, 32, 32, 3)), np.resize(np.int32(labels), count)
    scores = scores_of(run, params, *many)
    np.testing.assert_allclose(scores.losses.reshape(-1)[:4], by_hand, rtol=1e-4)
