"""Released statistics: an example moves a sum by its bound at most, and the noise is as stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpstudy.parts.data import released_statistics as released

BOUNDS = (0.5, 0.25)
FAR = (1e9, 1e9)


def features(count=1_500, seed=0):
    draw = np.random.default_rng(seed)
    return draw.gamma(0.5, [0.1, 1.0, 3.0], (count, 2, 4, 3)).astype(np.float16)


def sums(few):
    return released.bounded_sums(few, released.means_and_squares, BOUNDS)


examples = arrays.arrays(
    np.float16,
    (2, 4, 3),
    elements=st.floats(-200, 200, width=16, allow_subnormal=False) | st.floats(width=16),
)


@settings(max_examples=200)
@given(one=examples)
def test_an_example_more_moves_each_sum_by_at_most_its_bound(one):
    few = features(20)
    before = sums(few)
    after = sums(np.concatenate([few, one[None]]))
    for old, new, bound in zip(before, after, BOUNDS, strict=True):
        assert np.linalg.norm(new - old) <= bound * (1 + 1e-9)


@settings(max_examples=100)
@given(one=arrays.arrays(np.float16, 6, elements=st.floats(width=16)))
def test_an_example_more_moves_the_sum_of_a_mean_by_at_most_one(one):
    few = np.float16(np.random.default_rng(0).normal(size=(9, 6)))
    before, after = few, np.concatenate([few, one[None]])
    sums = [len(some) * released.release_mean(some, 2.0, 0) for some in (before, after)]
    assert np.linalg.norm(sums[1] - sums[0]) <= 1 + 1e-9


def test_the_sensitivity_is_attained():
    none, one = np.zeros((0, 2, 4, 3), np.float16), np.full((1, 2, 4, 3), 9, np.float16)
    for total, bound in zip(sums(one), BOUNDS, strict=True):
        assert np.linalg.norm(total) == pytest.approx(bound)
    assert not np.any(sums(none))


def test_without_noise_and_bounds_they_are_mean_and_variance():
    found, flat = released.release(features(), 0.0, FAR), np.float64(features()).reshape(-1, 3)
    np.testing.assert_allclose(found.mean, flat.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.variance, flat.var(0), rtol=1e-7)


def test_the_noise_is_the_multiplier_times_the_bound_over_the_number_of_examples():
    few = features(100)
    exact = sums(few)
    drawn = [released.release(few, 8.0, BOUNDS, seed) for seed in range(2_000)]
    means = np.array([one.mean for one in drawn])
    np.testing.assert_allclose(means.std(0), 8.0 * BOUNDS[0] / 100, rtol=0.1)
    np.testing.assert_allclose(means.mean(0), exact[0] / 100, atol=0.004)
    # The noise of the squares is drawn apart from that of the means.
    squares = np.array([one.variance + one.mean**2 for one in drawn if one.variance.all()])
    np.testing.assert_allclose(squares[:, 2].std(), 8.0 * BOUNDS[1] / 100, rtol=0.15)
    assert all((one.variance >= 0).all() for one in drawn)


def test_features_are_normalised_by_what_was_released():
    by = released.Statistics(np.array([0.1, 0.5, 2.0]), np.array([0.0, 1.0, 4.0]))
    expected = (np.float64(features()) - by.mean) / np.sqrt(by.variance + 1e-5)
    np.testing.assert_allclose(released.normalised(features(), by), expected, rtol=2e-3, atol=1e-4)
