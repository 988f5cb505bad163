"""What the chapter on losing less says is what is stored."""

from __future__ import annotations

from dpstudy.papers.losing_less import inside


def test_measures_cost_less_than_a_fifth_of_the_training_they_watch():
    rows = inside.cost().data.set_index("loss")
    assert set(rows.index) == {"cross-entropy", "composite"}
    assert (rows["measures add"] < 1 / 5).all()
