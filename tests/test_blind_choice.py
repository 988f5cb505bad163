"""How near blind choice comes, against counting all choices there are."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from under_the_clip.tempered_sigmoids.triplets import as_bunched, average_as_near

RNG = np.random.default_rng(3)
SETTINGS = RNG.uniform(0, (1, 10), size=(12, 2))


def counted(chosen, centre):
    """The same by counting: of all choices of as many, those as near."""
    scaled = SETTINGS / SETTINGS.std(axis=0)

    def distance(rows):
        points = scaled[list(rows)]
        middle = points.mean(axis=0) if centre is None else centre / SETTINGS.std(axis=0)
        return ((points - middle) ** 2).sum(axis=1).mean()

    every = [distance(rows) for rows in combinations(range(12), len(chosen))]
    return np.mean(np.array(every) <= distance(chosen) * (1 + 1e-9))


@pytest.mark.parametrize(
    ("centre", "error"),
    [(None, 0.015), (np.array([0.5, 5.0]), 1e-9), (np.array([0.0, 10.0]), 1e-9)],
)
def test_the_chance_is_the_share_of_all_choices(centre, error):
    for seed in range(4):
        chosen = np.random.default_rng(seed).permutation(12)[:3]
        assert as_bunched(SETTINGS, chosen, centre) == pytest.approx(
            counted(chosen, centre), abs=error
        )


def test_the_chance_of_an_average_is_the_share_of_all_choices():
    scaled, spread = SETTINGS / SETTINGS.std(axis=0), SETTINGS.std(axis=0)
    centre = np.array([0.5, 5.0])
    every = [scaled[list(rows)].mean(axis=0) for rows in combinations(range(12), 3)]
    away = np.linalg.norm(np.array(every) - centre / spread, axis=1)
    for seed in range(4):
        chosen = np.random.default_rng(seed).permutation(12)[:3]
        mine = np.linalg.norm(scaled[chosen].mean(axis=0) - centre / spread)
        assert average_as_near(SETTINGS, chosen, centre) == pytest.approx(
            (away <= mine * (1 + 1e-9)).mean(), abs=0.005
        )


def test_an_average_may_be_near_where_no_point_is():
    line = np.arange(101.0)[:, None]
    ends, middle = np.array([0, 1, 99, 100]), np.array([50.0])
    assert average_as_near(line, ends, middle) < 0.03
    assert as_bunched(line, ends, middle) > 0.9


def test_it_does_not_depend_on_units_and_an_axis_without_spread_makes_none_nearer():
    chosen, centre = np.array([1, 4, 7]), np.array([0.5, 5.0])
    chance = as_bunched(SETTINGS, chosen, centre)
    assert as_bunched(SETTINGS * (1, 1000), chosen, centre * (1, 1000)) == chance
    flat = np.column_stack([SETTINGS, np.ones(12)])
    assert as_bunched(flat, chosen, np.append(centre, 1.0)) == chance


def test_no_chance_is_zero():
    line = np.arange(100.0)[:, None]
    assert as_bunched(line, np.arange(5)) == pytest.approx(1 / 100_001)
    assert as_bunched(line, np.arange(5), np.array([2.0])) == pytest.approx(1 / comb(100, 5))


def test_points_that_all_lie_on_the_centre_are_counted():
    settings = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]])
    assert as_bunched(settings, np.array([0, 1]), np.array([0.0])) == pytest.approx(3 / 10)
