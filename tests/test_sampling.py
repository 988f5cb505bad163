"""Poisson sampling and shuffled batches, by statistics at a fixed seed and by counting."""

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpstudy.parts import sampling
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson, Shuffled
from dpstudy.privacy.accounting import epsilon
from dpstudy.training import loop
from under_the_clip.experiments import EXPERIMENTS

EXAMPLES, BATCH, DRAWS = 80, 20, 5_000
PROBABILITY = BATCH / EXAMPLES


@cache
def poisson_draws(batch=BATCH, capacity=EXAMPLES):
    """Many draws, one a row, under the keys that a run's steps have."""

    @oracles.quick_jit
    def draws(key):
        keys = jax.vmap(lambda step: jax.random.fold_in(key, step))(jnp.arange(DRAWS))
        return jax.vmap(lambda key: sampling.poisson(key, EXAMPLES, batch, capacity))(keys)

    return jax.tree.map(np.asarray, draws(jax.random.key(5)))


def included(draws):
    """For each draw and example, whether it takes part, from the first `count` indices alone."""
    table = np.zeros((len(draws.count), EXAMPLES), bool)
    for row, indices, count in zip(table, draws.indices, draws.count, strict=True):
        row[indices[:count]] = True
    return table


def test_each_example_is_drawn_with_the_stated_probability_independently_of_all_others():
    p_values = oracles.poisson_p_values(included(poisson_draws()), PROBABILITY)
    assert not oracles.suspicious(p_values)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_an_inclusion_rate_five_percent_off_is_caught(factor):
    wrong = included(poisson_draws(batch=factor * BATCH))
    assert "rate" in oracles.suspicious(oracles.poisson_p_values(wrong, PROBABILITY))


def fixed_size(_):
    draw = np.random.default_rng(0).random((DRAWS, EXAMPLES))
    return draw.argsort(axis=1) < BATCH


def in_pairs(table):
    return np.repeat(table[:, ::2], 2, axis=1)


def favouring_some(table):
    draw = np.random.default_rng(0).random(table.shape)
    return draw < PROBABILITY * np.where(np.arange(EXAMPLES) % 2, 1.1, 0.9)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [(fixed_size, "variance of the count"), (in_pairs, "pairs"), (favouring_some, "rate of each")],
)
def test_other_samplers_with_the_same_rate_are_caught(spoil, complaint):
    p_values = oracles.poisson_p_values(spoil(included(poisson_draws())), PROBABILITY)
    assert p_values["rate"] > oracles.SUSPICIOUS
    assert complaint in oracles.suspicious(p_values)


def test_draws_of_different_steps_are_independent():
    table = included(poisson_draws()) - PROBABILITY
    correlation = np.mean(table[1:] * table[:-1]) / (PROBABILITY * (1 - PROBABILITY))
    assert abs(correlation) * np.sqrt(table[1:].size) < stats.norm.isf(oracles.SUSPICIOUS / 2)


def test_a_draw_lists_distinct_examples_in_order_and_pads_with_valid_ones():
    draws = poisson_draws()
    assert draws.indices.shape == (DRAWS, EXAMPLES)
    assert draws.indices.min() >= 0
    assert draws.indices.max() < EXAMPLES
    for indices, count in zip(draws.indices, draws.count, strict=True):
        assert np.all(np.diff(indices[:count]) > 0)
    assert not draws.overflow.any()


def test_too_small_a_capacity_is_reported_at_exactly_the_draws_that_exceed_it():
    all_of_them, small = poisson_draws(), poisson_draws(capacity=22)
    np.testing.assert_array_equal(small.count, all_of_them.count)
    np.testing.assert_array_equal(small.overflow, all_of_them.count > 22)
    assert 0 < small.overflow.mean() < 1
    np.testing.assert_array_equal(small.indices, all_of_them.indices[:, :22])


def test_at_the_study_s_size_the_rate_holds_too():
    """60,000 examples and a batch of 512: a probability that single precision must carry."""
    draw = oracles.quick_jit(lambda key: sampling.poisson(key, 60_000, 512))
    counts = [int(draw(jax.random.key(seed)).count) for seed in range(60)]
    assert stats.binomtest(sum(counts), 60 * 60_000, 512 / 60_000).pvalue > oracles.SUSPICIOUS
    wrong = stats.binomtest(round(1.05 * sum(counts)), 60 * 60_000, 512 / 60_000)
    assert wrong.pvalue < oracles.SUSPICIOUS


def test_a_rate_finer_than_23_bits_is_not_rounded_up():
    examples = 2**23 - 1_000
    count = jax.jit(lambda key: sampling.poisson(key, examples, 1).count)
    counts = [int(count(key)) for key in jax.random.split(jax.random.key(0), 8)]
    assert sum(counts) < 12, "twice as many as are stated"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 10_000_000), st.floats(0, 1))
def test_no_example_is_kept_more_often_than_is_stated(examples, fraction):
    batch = max(1, round(fraction * examples))
    with (
        mock.patch("jax.random.bernoulli", side_effect=InterruptedError) as drawn,
        pytest.raises(InterruptedError),
    ):
        sampling.poisson(jax.random.key(0), examples, batch)
    (_, probability, _), how = drawn.call_args
    # Of the numbers k / 2^23, those that are smaller are kept; "high" has twice as many bits.
    bits = 2 ** {"low": 23, "high": 46}[how["mode"]]
    kept = math.ceil(Fraction(float(np.float32(probability))) * bits)
    stated = Fraction(batch, examples)
    assert stated * (1 - Fraction(1, 2**13)) <= Fraction(kept, bits) <= stated


def test_what_stored_runs_drew_too_often_is_worth_less_than_the_book_says():
    rates = {
        (run.sampling.batch, run.dataset.examples)
        for experiment in EXPERIMENTS.values()
        for _, run in experiment.labelled()
        if run.private and isinstance(run.sampling, Poisson)
    }
    more = {pair: math.ceil(2**23 * q) / (2**23 * q) for pair in rates for q in [pair[0] / pair[1]]}
    assert max(more.values()) == more[256, 60_000]
    run = {"noise_multiplier": 0.87102, "steps": 9_360, "delta": 1e-5}  # at an ε of 3
    stated, drawn = (
        epsilon(sampling_probability=256 / 60_000 * by, **run) for by in (1, more[256, 60_000])
    )
    assert stated < drawn < stated * (1 + 1e-4)


def test_a_batch_of_everyone_is_everyone():
    draw = sampling.poisson(jax.random.key(0), 50, 50)
    np.testing.assert_array_equal(draw.indices, np.arange(50))
    assert (draw.count, draw.overflow) == (50, False)


def check_capacity(examples, batch):
    capacity = sampling.capacity_for(examples, batch)
    assert batch <= capacity <= examples
    assert stats.binom.sf(capacity, examples, batch / examples) < 1e-15
    return capacity


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 100_000), st.floats(0, 1))
def test_the_capacity_is_exceeded_with_probability_below_1e_15(examples, fraction):
    check_capacity(examples, max(1, round(fraction * examples)))


@pytest.mark.parametrize(
    ("examples", "batch"), [(60_000, 512), (60_000, 256), (50_000, 1024), (4_000, 256)]
)
def test_the_capacity_costs_little(examples, batch):
    """A third more room than the exact quantile at the most: padding is not free."""
    exact = stats.binom.isf(1e-15, examples, batch / examples)
    assert check_capacity(examples, batch) < batch + 4 / 3 * (exact - batch)


def run_of(sampling):
    return vary(Run(), dataset=Images("mnist-5k"), sampling=sampling)


@cache
def drawing(run):
    """Any epoch's batches, as the training loop draws them, compiled once."""

    @oracles.quick_jit
    def draws(key, epoch):
        steps = epoch * run.steps_per_epoch + jnp.arange(run.steps_per_epoch)
        order = loop.order_of_epoch(run, key, steps[0])
        return jax.lax.map(lambda step: loop.draw_examples(run, key, order, step), steps)

    return draws


def epoch_of(run, epoch):
    return jax.tree.map(np.asarray, drawing(run)(jax.random.key(2), epoch))


@pytest.mark.parametrize("batch", [512, 1_000, 1_600, 2_500])  # 7.8, 4, 2.5, 1.6 to an epoch
def test_a_shuffled_epoch_is_whole_batches_and_no_example_twice(batch):
    run = run_of(Shuffled(batch))
    draws = epoch_of(run, epoch=3)
    assert draws.indices.shape == (run.steps_per_epoch, batch)
    np.testing.assert_array_equal(draws.count, batch)
    assert not draws.overflow.any()
    assert len(np.unique(draws.indices)) == run.steps_per_epoch * batch
    assert draws.indices.min() >= 0
    assert draws.indices.max() < 4_000


def test_each_epoch_is_shuffled_anew():
    run = run_of(Shuffled(1_000))
    first, second = (epoch_of(run, epoch).indices.ravel() for epoch in (0, 1))
    np.testing.assert_array_equal(np.sort(first), np.arange(4_000))
    np.testing.assert_array_equal(np.sort(second), np.arange(4_000))
    # Of two unrelated permutations, about one example keeps its place.
    assert np.count_nonzero(first == second) < 10
    np.testing.assert_array_equal(first, epoch_of(run, 0).indices.ravel())


def test_the_training_loop_draws_a_poisson_batch_anew_at_every_step():
    run = run_of(Poisson(400))
    draws = epoch_of(run, epoch=1)
    assert not draws.overflow.any()
    steps = run.steps_per_epoch
    assert stats.binomtest(int(draws.count.sum()), 4_000 * steps, 0.1).pvalue > oracles.SUSPICIOUS
    drawn = [set(i[:n].tolist()) for i, n in zip(draws.indices, draws.count, strict=True)]
    shared = [len(one & other) for one, other in pairwise(drawn)]
    assert np.mean(shared) == pytest.approx(400 * 0.1, rel=0.2)


def test_poisson_draws_under_the_step_s_key_and_goes_by_no_order():
    key = jax.random.key(8)
    assert Poisson(BATCH).order(key, EXAMPLES, 3) is None
    for step in (0, 7):
        found = Poisson(BATCH).draw(key, EXAMPLES, None, step)
        expected = sampling.poisson(jax.random.fold_in(key, step), EXAMPLES, BATCH)
        jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize(
    ("examples", "batch", "steps"),
    [(60_000, 512, 117), (4_000, 256, 16), (4_000, 4_000, 1), (4_000, 3_000, 1), (50_000, 512, 98)],
)  # 117.19, 15.63, 1, 1.33, 97.66
def test_an_epoch_of_poisson_sampling_expects_to_see_each_example_about_once(
    examples, batch, steps
):
    assert Poisson(batch).steps_per_epoch(examples) == steps
    assert abs(steps * batch - examples) <= batch / 2


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(4_000, 60_000), st.integers(1, 4_000))
def test_an_epoch_of_shuffled_batches_never_needs_an_example_twice(examples, batch):
    assert examples - batch < Shuffled(batch).steps_per_epoch(examples) * batch <= examples
