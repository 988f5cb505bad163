"""Bounds of an epsilon are shown as bounds."""

import pytest

from dpstudy.lab.wording import rounded_down, rounded_up


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
