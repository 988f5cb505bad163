"""Shuffled batches, audited: gradients by hand, deals and scores by statistics."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from results_for_tests import TINY, spent_by

from dpstudy.gradients import per_example
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Shuffled
from dpstudy.privacy import auditing, worst_example
from under_the_clip.audits import shuffled_batches

pytestmark = pytest.mark.usefixtures("compiled_in_haste")

RUN = replace(Run(), sampling=Shuffled(512))
# Half of the small dataset in batches of half the size: as many of them, in half the time.
HALF = replace(TINY["dataset"], held_out=2000)
SMALL = vary(replace(Run(), sampling=Shuffled(450)), dataset=HALF, width=0.125)


@cache
def gradients():
    return shuffled_batches.of_training(SMALL, worst_example.drawn_weights(SMALL))


@cache
def by_hand():
    """Every example's clipped gradient over the noise."""
    data, params = SMALL.dataset.load(), worst_example.drawn_weights(SMALL)
    network = SMALL.network.graph(), SMALL.losses(jnp.float32(1)), params
    each = oracles.quick_jit(lambda *pair: per_example.gradients(*network, *pair)[1].written_out())
    written = each(data.train_images, data.train_labels)
    count = len(data.train_labels)
    flat = np.concatenate([leaf.reshape(count, -1) for leaf in jax.tree.leaves(written)], axis=1)
    flat = flat.astype(float)
    clipped = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 0.1)
    return clipped / 1.23


def found(gradients, run=RUN, count=4000):
    seen = shuffled_batches.trials(run, gradients, count)
    return auditing.epsilon(
        auditing.clopper_pearson, seen.inside[:, 0], seen.scores[:, 0], run.delta
    )[0]


@pytest.mark.smoke
def test_gradients_are_those_of_the_examples_along_the_canary_s_and_the_best_direction():
    each = by_hand()
    index = int(np.argmin(each @ each.mean(axis=0)))
    canary, others = each[index], np.delete(each, index, axis=0)
    covariance = np.eye(len(canary)) + SMALL.sampling.batch * np.cov(each.T, bias=True)
    best = np.linalg.solve(covariance, canary)
    basis = np.linalg.qr(np.stack([canary, best], axis=1))[0]
    mine = gradients()
    assert np.linalg.norm(mine.canary) == pytest.approx(np.linalg.norm(canary), rel=1e-4)
    # The plane is nearly the same, though its basis may be mirrored.
    planes = [one @ one.T for one in (mine.others[:40], others[:40] @ basis)]
    np.testing.assert_allclose(*planes, rtol=0.05, atol=5e-3)


def test_deals_have_the_mean_and_the_covariance_that_the_attacker_takes_them_to_have():
    rng = np.random.default_rng(0)
    others = rng.normal(size=(60, 2)).astype(np.float32)
    deal = shuffled_batches._dealer(rng, others)
    sums = np.array([deal(np.full(5, 10)) for _ in range(40_000)])
    spread = np.cov(others.T, bias=True) / 59
    np.testing.assert_allclose(sums.mean(axis=(0, 1)), 10 * others.mean(axis=0), atol=0.02)
    one, other = sums[:, 1] - sums.mean(axis=(0, 1)), sums[:, 3] - sums.mean(axis=(0, 1))
    np.testing.assert_allclose(one.T @ one / 40_000, 10 * 50 * spread, atol=0.3)
    np.testing.assert_allclose(one.T @ other / 40_000, -100 * spread, atol=0.3)


@pytest.mark.parametrize("others", ["of the proof", "silent"])
def test_scores_are_likelihood_ratios(others):
    """Of runs without the canary exp(score) is 1 on average, of others exp(-score)."""
    run = replace(RUN, epochs=2)
    proof = shuffled_batches.of_the_proof(run)
    seen = shuffled_batches.trials(
        run, proof if others == "of the proof" else proof._replace(others=0 * proof.others), 5000
    )
    for ratios in (np.exp(seen.scores[~seen.inside]), np.exp(-seen.scores[seen.inside])):
        error = ratios.std() / np.sqrt(len(ratios))
        assert abs(ratios.mean() - 1) < 4 * error < 0.1


@pytest.mark.smoke
def test_the_proof_s_gradients_show_more_than_the_formula_states_and_silent_ones_less():
    proof = shuffled_batches.of_the_proof(RUN)
    silent = proof._replace(others=0 * proof.others)
    assert found(silent, count=1000) < spent_by(RUN) < found(proof)


@pytest.mark.smoke
def test_a_trained_network_s_scores_tell_the_canary_and_half_the_noise_tells_it_better():
    mine, run = gradients(), replace(SMALL, epochs=10)
    twice = shuffled_batches.Gradients(2 * mine.others, 2 * mine.canary)
    apart = []
    for one in (mine, twice):
        seen = shuffled_batches.trials(run, one, 2000)
        inside, outside = seen.scores[seen.inside], seen.scores[~seen.inside]
        apart.append((inside.mean() - outside.mean()) / outside.std())
    assert 0.1 < apart[0] < 0.8 * apart[1]


@pytest.mark.smoke
def test_of_a_canary_that_is_ignored_nothing_is_found():
    mine = gradients()
    assert found(mine._replace(canary=0 * mine.canary), replace(SMALL, epochs=2), 400) == 0
