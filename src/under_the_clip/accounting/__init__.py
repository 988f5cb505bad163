"""Chapter 1: what an ε depends on besides σ, and what the four papers' settings cost."""

from under_the_clip.accounting.costs import (
    backpropagation_table,
    claimed_and_proven,
    corrected_table,
    cost_table,
    in_short,
    who_takes_part,
)
from under_the_clip.accounting.curves import calibration_table, curves_figure, resolution
from under_the_clip.accounting.epsilons import by_sliders

__all__ = [
    "backpropagation_table",
    "by_sliders",
    "calibration_table",
    "claimed_and_proven",
    "corrected_table",
    "cost_table",
    "curves_figure",
    "in_short",
    "resolution",
    "who_takes_part",
]
