"""Estimates over seeds against scipy's tests, the verdict of an interval, and bounds as shown."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpstudy.lab.comparison import Estimate, next_seed
from dpstudy.lab.verdict import UndecidedError, Verdict
from dpstudy.lab.wording import rounded_down, rounded_up

FIRST = pd.Series([0.981, 0.979, 0.984, 0.977, 0.980])
SECOND = pd.Series([0.975, 0.976, 0.978, 0.970, 0.971])
INF = math.inf


def test_a_mean_has_students_interval():
    found = stats.ttest_1samp(FIRST, 0).confidence_interval()
    ours = Estimate.mean(FIRST)
    assert (ours.low, ours.high) == pytest.approx((found.low, found.high))
    assert ours.value == pytest.approx(FIRST.mean())


def test_a_difference_is_paired_where_seeds_are_shared():
    found = stats.ttest_rel(FIRST, SECOND).confidence_interval()
    ours = Estimate.difference(FIRST, SECOND)
    assert (ours.low, ours.high) == pytest.approx((found.low, found.high))
    assert ours.seeds == "5 seeds, paired"


def test_a_difference_of_other_seeds_is_welchs():
    other = pd.Series(SECOND.to_numpy()[:4], index=range(5, 9))
    found = stats.ttest_ind(FIRST, other, equal_var=False).confidence_interval()
    ours = Estimate.difference(FIRST, other)
    assert (ours.low, ours.high) == pytest.approx((found.low, found.high))
    assert ours.seeds == "5 seeds and 4 seeds"


def test_a_difference_is_paired_by_the_seeds_that_both_have_and_no_others():
    """Three common seeds are enough; two are not, by Student's t."""
    fewer, other = SECOND[:3], pd.Series([0.9, 0.9], index=[7, 8])
    found = stats.ttest_rel(FIRST[:3], fewer).confidence_interval()
    for second in (fewer, pd.concat([fewer, other])):
        ours = Estimate.difference(FIRST, second)
        assert (ours.low, ours.high) == pytest.approx((found.low, found.high))
        assert ours.seeds == "3 seeds, paired"
    for first, said in ((FIRST, "5 seeds and 2 seeds"), (FIRST[:2], "2 seeds and 2 seeds")):
        assert Estimate.difference(first, SECOND[:2]).seeds == said


def test_a_redrawn_seed_is_as_far_from_the_mean_as_seeds_are():
    """Two seeds, each once a deviation above the mean and once below."""
    pair = pd.Series([1.0, 3.0])
    ends = sorted(one.value for one in Estimate.mean(pair).redrawn())
    root = math.sqrt(2)
    assert ends == pytest.approx(sorted([(2 + s * root + x) / 2 for x in (1, 3) for s in (-1, 1)]))
    assert [one.value for one in Estimate.mean(pair).moved(by=1).redrawn()] == pytest.approx(
        [one.value - 1 for one in Estimate.mean(pair).redrawn()]
    )


def test_a_ratio_is_a_difference_of_logarithms():
    ours = Estimate.ratio(FIRST, SECOND)
    logs = Estimate.difference(np.log(FIRST), np.log(SECOND))
    assert (ours.low, ours.value, ours.high) == pytest.approx(
        (math.exp(logs.low), math.exp(logs.value), math.exp(logs.high))
    )
    with pytest.raises(UndecidedError, match="not measured"):
        Estimate.ratio(FIRST, SECOND * 0)


@pytest.mark.parametrize("of", [Estimate.mean, next_seed])
def test_one_seed_has_no_interval(of):
    with pytest.raises(UndecidedError, match="one seed alone has no interval"):
        of(FIRST[:1])


def test_one_more_seed_ends_above_its_bound_once_in_twenty():
    draws = np.random.default_rng(0).normal(size=(20_000, 6))
    above = sum(row[5] > next_seed(pd.Series(row[:5])) for row in draws[:4_000])
    assert above / 4_000 == pytest.approx(0.05, abs=0.012)


def test_the_largest_of_some_further_runs_is_where_it_is_expected():
    draw = np.random.default_rng(0)
    largest = draw.normal(size=(200_000, 5)).max(axis=1).mean()
    values = pd.Series(draw.normal(size=8))
    found = Estimate.largest(values, of=5)
    assert found.value == pytest.approx(values.mean() + largest * values.std(), abs=0.02)
    drawn = [Estimate.largest(pd.Series(draw.normal(size=6)), of=5) for _ in range(200)]
    covered = np.mean([one.low < largest < one.high for one in drawn])
    assert covered == pytest.approx(0.95, abs=0.03)
    one, mean = Estimate.largest(values, of=1), Estimate.mean(values)
    assert (one.low, one.high) == pytest.approx((mean.low, mean.high), rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "full", "partial", "verdict"),
    [
        (0.1, 0.2, (0, INF), None, "reproduced"),
        (0.0, 0.2, (0, INF), None, "undecided"),
        (-0.2, 0.0, (0, INF), None, "not reproduced"),
        (0.0, 0.0, (0, INF), None, "not reproduced"),
        (-0.1, 0.1, (-0.2, 0.2), (-0.4, 0.4), "reproduced"),
        (-0.1, 0.3, (-0.2, 0.2), (-0.4, 0.4), "partly"),
        (0.25, 0.3, (-0.2, 0.2), (-0.4, 0.4), "partly"),
        (-0.1, 0.5, (-0.2, 0.2), (-0.4, 0.4), "undecided"),
        (0.5, 0.6, (-0.2, 0.2), (-0.4, 0.4), "not reproduced"),
        (-0.6, -0.5, (-0.2, 0.2), (-0.4, 0.4), "not reproduced"),
        (-9.0, 9.0, (-0.2, 0.2), (-0.4, 0.4), "undecided"),
    ],
)
def test_the_whole_interval_decides(low, high, full, partial, verdict):
    found = Estimate((low + high) / 2, low, high, "5 seeds").verdict(full, partial)
    assert found == verdict


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.3))
def test_a_small_move_never_turns_reproduced_into_its_opposite(value, half, move):
    opposite = {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}

    def verdict(at):
        return Estimate(at, at - half, at + half, "5 seeds").verdict((0.0, INF))

    if move < 2 * half:
        assert {verdict(value), verdict(value + move)} != opposite


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (2.3615, "2.36", "2.37"),
        (1.1, "1.10", "1.10"),  # A little more than 1.1 in binary.
        (2.93, "2.93", "2.93"),
        (2034.18, "2,034", "2,040"),
        (268_500.5, "268,500", "269,000"),
    ],
)
def test_what_is_shown_of_a_bound_is_one(value, down, up):
    assert (rounded_down(value), rounded_up(value)) == (down, up)
