"""The sampler behind `make search`: it proposes what is allowed, and better than blind choice."""

import pytest

from dpstudy.lab import design
from dpstudy.lab.choosing import AT_ONCE, propose
from dpstudy.papers.tempered_sigmoids.searches import TABLE_3_SEARCH

LEVELS = TABLE_3_SEARCH.space.levels
FIRST, ALL = 12, 24


def bowl(best):
    """An accuracy that falls off with the squared distance from a point of the cube."""

    def accuracy(point):
        return 0.98 - 0.5 * sum((p - b) ** 2 for p, b in zip(point, best, strict=True))

    return accuracy


def snapped(point):
    """Return the middle of the levels that a point is in."""
    return tuple(
        place if of is None else (int(place * of) + 0.5) / of
        for place, of in zip(point, LEVELS, strict=True)
    )


@pytest.mark.parametrize("best", [(0.5, 0.2, 0.75, 0.625, 0.5), (0.1, 0.9, 0.25, 0.1, 0.9)])
def test_proposals_beat_as_many_points_that_fill_the_space(best):
    accuracy = bowl(best)
    even = [snapped(point) for point in design.fill(ALL, len(LEVELS))]
    tried = [(point, accuracy(point)) for point in even[:FIRST]]
    while len(tried) < ALL:
        points = propose(LEVELS, tried, AT_ONCE, seed=len(tried))
        assert len(set(points)) == AT_ONCE, "both of a pair are the same"
        for point in points:
            assert snapped(point) == pytest.approx(point)
            assert all(0 <= place <= 1 for place in point)
        tried += [(point, accuracy(point)) for point in points]
    assert max(a for _, a in tried[FIRST:]) > max(accuracy(point) for point in even)


def test_the_same_history_and_seed_propose_the_same():
    tried = [(snapped(p), bowl((0.5,) * 5)(p)) for p in design.fill(FIRST, len(LEVELS))]
    assert propose(LEVELS, tried, 2, seed=3) == propose(LEVELS, tried, 2, seed=3)
