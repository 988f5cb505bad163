"""The losses against their formulas, and the slopes of losing less's against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from results_for_tests import TINY
from scipy.special import expit, log_softmax, logsumexp, softmax
from test_backpropagation_clipping import images

from dpstudy.gradients import per_example
from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.run import Run, vary
from under_the_clip.losing_less.loss import AbsoluteError, Composite, Focal, Huber, SquaredError

BATCH, CLASSES = 4, 10


def logits_up_to(*widths):
    return st.sampled_from(widths).flatmap(
        lambda width: hnp.arrays(
            np.float32, (BATCH, CLASSES), elements=st.floats(-width, width, width=32)
        )
    )


logits = logits_up_to(0.125, 3.0, 1e3)
labels = hnp.arrays(np.int32, BATCH, elements=st.integers(0, CLASSES - 1))
RNG = np.random.default_rng(0)
HIDDEN = tuple(RNG.normal(size=(BATCH, *units)).astype(np.float32) for units in ((3, 3, 2), (5,)))


@oracles.quick_jit
def losses_of(loss, z, hidden, y, epoch):
    return loss(z, hidden, y, epoch)


def by_formula(z, y, hidden, epoch, *, gamma, turning, beta, squared):
    """Eq. 7 to 10, written down once more."""
    one_hot = np.eye(CLASSES)[y]
    p = np.exp(log_softmax(z, axis=1))
    truth = (p * one_hot).sum(axis=1)
    sse = 0.5 * ((z - one_hot) ** 2).sum(axis=1)
    focal = -((1 - truth) ** gamma) * (log_softmax(z, axis=1) * one_hot).sum(axis=1)
    reg = 0
    for layer in hidden:
        flat = layer.astype(np.float64).reshape(BATCH, -1)
        reg = reg + np.linalg.norm(flat, axis=1) ** (2 if squared else 1) / flat.shape[1]
    alpha = expit(max(epoch - 1, 0) - turning)
    return alpha * focal + (1 - alpha) * sse + (1 - alpha) / beta * reg


@settings(max_examples=60, deadline=None, derandomize=True)
@given(logits, labels, st.sampled_from([0.0, 1.0, 8.0]), st.booleans())
def test_it_is_what_the_equations_say(z, y, epoch, squared):
    loss = Composite(focusing=2.0, turning_epoch=3.0, divisor=11.0, squared=squared)
    expected = by_formula(
        z.astype(np.float64), y, HIDDEN, epoch, gamma=2.0, turning=3.0, beta=11.0, squared=squared
    )
    np.testing.assert_allclose(losses_of(loss, z, HIDDEN, y, epoch), expected, rtol=3e-5, atol=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(logits, labels)
def test_without_focus_it_is_cross_entropy_and_a_late_turn_leaves_errors_and_penalty(z, y):
    plain = CrossEntropy()(z, (), y, 1.0)
    np.testing.assert_allclose(Focal(0.0)(z, (), y, 1.0), plain, rtol=1e-6)
    over = Composite(focusing=0.0, turning_epoch=-100.0)(z, HIDDEN, y, 1.0)
    np.testing.assert_allclose(over, plain, rtol=1e-6)
    late = Composite(turning_epoch=100.0, divisor=2.0)(z, HIDDEN, y, 5.0)
    reg = sum((layer.reshape(BATCH, -1) ** 2).mean(axis=1) for layer in HIDDEN)
    np.testing.assert_allclose(late, SquaredError()(z, (), y, 5.0) + reg / 2, rtol=1e-6)
    bare = Composite(turning_epoch=100.0, penalised=False)(z, HIDDEN, y, 5.0)
    np.testing.assert_allclose(bare, SquaredError()(z, (), y, 5.0), rtol=1e-6)


def test_errors_far_out_are_absolute_and_near_ones_squared():
    z = np.zeros((1, CLASSES), np.float32)
    z[0, :3] = 0.25, -3.0, 2.0
    y = np.array([2])  # errors 0.25, -3 and 1
    assert AbsoluteError()(z, (), y, 1.0) == pytest.approx([4.25])
    assert SquaredError()(z, (), y, 1.0) == pytest.approx([0.5 * (0.0625 + 9 + 1)])
    assert Huber(0.5)(z, (), y, 1.0) == pytest.approx([0.5 * 0.0625 / 0.5 + 2.75 + 0.75])


LOSSES = (
    *(Composite(focusing=5.0, turning_epoch=1.0, divisor=11.0), Composite(squared=False)),
    *(Focal(2.0), Focal(0.5), SquaredError(), AbsoluteError(), Huber(0.3)),
)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradients_are_finite_differences(loss):
    rng = np.random.default_rng(1)
    z, y = 2 * rng.normal(size=(BATCH, CLASSES)), np.arange(BATCH)
    hidden = tuple(layer.astype(np.float64) for layer in HIDDEN)

    def summed(z, hidden):
        return loss(z, hidden, y, jnp.float64(2.0)).sum()

    total = oracles.quick_jit(summed)
    with jax.enable_x64(True):
        slopes = oracles.quick_jit(jax.grad(summed, argnums=(0, 1)))
        found = slopes(jnp.asarray(z), tuple(map(jnp.asarray, hidden)))
        for _ in range(5):
            to = [rng.normal(size=x.shape) for x in (z, *hidden)]
            step = [1e-6 * x for x in to]
            up = total(z + step[0], tuple(h + s for h, s in zip(hidden, step[1:], strict=True)))
            down = total(z - step[0], tuple(h - s for h, s in zip(hidden, step[1:], strict=True)))
            slope = sum(np.vdot(a, b) for a, b in zip(jax.tree.leaves(found), to, strict=True))
            assert (up - down) / 2e-6 == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_gradients_are_finite_where_an_answer_is_certain_and_where_nothing_is_hidden():
    z = np.zeros((2, CLASSES), np.float32)
    z[:, 3] = 1e4
    for loss in (Composite(), Composite(squared=False), Focal(5.0), Focal(0.0)):
        hidden = (np.zeros((2, 4), np.float32),)
        slopes = oracles.quick_jit(
            jax.grad(lambda *of, loss=loss: loss(*of, np.array([3, 5]), 1.0).sum(), (0, 1))
        )(z, hidden)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_an_example_s_gradient_has_the_penalty_in_it():
    run = vary(Run(loss=Composite(turning_epoch=2.0)), **TINY)
    params, graph = run.network.initial(jax.random.key(0)), run.network.graph()

    def written_out(way, run):
        def gradients(params, pixels, labels):
            losses = run.losses(jnp.float32(1))
            return way(graph, losses, params, pixels, labels)[1].written_out()

        return oracles.plain(oracles.quick_jit(gradients)(params, *images(4)))

    slow = written_out(per_example.by_vmap, run)
    assert oracles.distance(written_out(per_example.gradients, run), slow) < 1e-5
    bare = vary(run, penalised=False)
    assert oracles.distance(written_out(per_example.gradients, bare), slow) > 1e-3


@jax.jit
def losses_and_slopes(logits, labels):
    losses, backward = jax.vjp(lambda z: CrossEntropy()(z, (), labels, 0.0), logits)
    # One example's loss at a time, so that a leak between examples would show.
    return losses, jax.vmap(lambda one: backward(one)[0])(np.eye(BATCH, dtype=np.float32))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(logits_up_to(0.125, 30.0, 1e4), labels)
def test_cross_entropy_is_logsumexp_minus_the_label_s_logit(logits, labels):
    losses, slopes = losses_and_slopes(logits, labels)
    exact = logits.astype(np.float64)
    expected = logsumexp(exact, axis=1) - exact[np.arange(BATCH), labels]
    np.testing.assert_allclose(losses, expected, rtol=2e-6, atol=1e-6 * np.ptp(exact) + 1e-6)
    assert np.all(losses >= 0)

    alone = np.einsum("iij->ij", np.asarray(slopes))
    np.testing.assert_allclose(alone, softmax(exact, axis=1) - np.eye(CLASSES)[labels], atol=2e-6)
    assert np.count_nonzero(slopes) == np.count_nonzero(alone), "an example felt another's loss"


def test_a_certain_answer_costs_nothing_if_right_and_the_gap_if_wrong():
    logits = np.zeros((2, CLASSES), np.float32)
    logits[:, 3] = 1e4
    np.testing.assert_array_equal(CrossEntropy()(logits, (), np.array([3, 5]), 0.0), [0, 1e4])


def test_cross_entropy_is_the_same_for_labels_of_any_kind_and_in_every_epoch_whatever_is_hidden():
    logits = np.random.default_rng(0).normal(size=(BATCH, CLASSES)).astype(np.float32)
    first = CrossEntropy()(logits, (), np.arange(BATCH, dtype=np.uint8), 1.0)
    later = CrossEntropy()(logits, (np.ones((BATCH, 3)),), np.arange(BATCH), 40.0)
    np.testing.assert_array_equal(first, later)
