"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

from under_the_clip.accounting.costs import cost_table, in_short
from under_the_clip.accounting.curves import calibration_table, curves_figure, resolution
from under_the_clip.accounting.sensitivities import (
    backpropagation_table,
    corrected_table,
    tanh_filter_figure,
)

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
