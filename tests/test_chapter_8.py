"""What the leaderboard's chapter says of the recipe is what is stored."""

from functools import cache

import pytest

from dpstudy.lab import readings
from dpstudy.page.lines import Line
from dpstudy.papers import find

pytestmark = pytest.mark.usefixtures("of_the_study")

# Medians of five seeds that the recipe was built to reach.
FLOORS = {
    ("cifar-10", 3.0): 0.76,
    ("cifar-10", 1.0): 0.70,
    ("fashion-mnist", 3.0): 0.905,
    ("mnist", 3.0): 0.988,
}


@cache
def reached(dataset, epsilon):
    """The recipe's test accuracies, by seed."""
    search = readings.read(find("recipe-search"), dataset=dataset)
    return Line(search, f"epsilon {epsilon:g}").accuracy


@pytest.mark.parametrize(("dataset", "epsilon"), FLOORS)
def test_the_recipe_reaches_its_floors(dataset, epsilon):
    accuracy = reached(dataset, epsilon)
    if len(accuracy) < 5:
        pytest.skip(f"{len(accuracy)} of 5 seeds are stored")
    assert accuracy.median() >= FLOORS[dataset, epsilon]
