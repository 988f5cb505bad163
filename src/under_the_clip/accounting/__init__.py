"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

from under_the_clip.accounting.costs import (
    backpropagation_table,
    corrected_table,
    cost_table,
    in_short,
    tanh_filter_figure,
)
from under_the_clip.accounting.curves import calibration_table, curves_figure, resolution

__all__ = [
    "backpropagation_table",
    "calibration_table",
    "corrected_table",
    "cost_table",
    "curves_figure",
    "in_short",
    "resolution",
    "tanh_filter_figure",
]
