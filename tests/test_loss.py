"""The losses against their formulas in double precision."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp, softmax

from dpstudy.parts.loss import CrossEntropy

BATCH, CLASSES = 6, 10
logits_of = {
    width: hnp.arrays(np.float32, (BATCH, CLASSES), elements=st.floats(-width, width, width=32))
    for width in (0.125, 30, 1e4)
}
any_logits = st.one_of(*logits_of.values())
any_labels = hnp.arrays(np.int32, BATCH, elements=st.integers(0, CLASSES - 1))


def cross_entropy(logits, labels, epoch=0.0):
    return CrossEntropy()(logits, (), labels, epoch)


@jax.jit
def losses_and_slopes(logits, labels):
    losses, backward = jax.vjp(lambda z: cross_entropy(z, labels), logits)
    # One example's loss at a time, so that a leak between examples would show.
    return losses, jax.vmap(lambda one: backward(one)[0])(np.eye(BATCH, dtype=np.float32))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(any_logits, any_labels)
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
    np.testing.assert_array_equal(cross_entropy(logits, np.array([3, 5])), [0, 1e4])


def test_labels_may_be_the_bytes_that_datasets_hold():
    logits = np.random.default_rng(0).normal(size=(BATCH, CLASSES)).astype(np.float32)
    labels = np.arange(BATCH)
    np.testing.assert_array_equal(
        cross_entropy(logits, labels.astype(np.uint8)), cross_entropy(logits, labels)
    )


def test_cross_entropy_is_the_same_in_every_epoch_whatever_is_hidden():
    logits, labels = np.eye(BATCH, CLASSES, dtype=np.float32), np.arange(BATCH)
    first = cross_entropy(logits, labels, epoch=1.0)
    later = CrossEntropy()(logits, (np.ones((BATCH, 3)),), labels, 40.0)
    np.testing.assert_array_equal(first, later)
