"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

from dpstudy.chapters.accounting.common import resolution
from dpstudy.chapters.accounting.costs import cost_table, in_short
from dpstudy.chapters.accounting.curves import calibration_table, curves_figure
from dpstudy.chapters.accounting.sensitivities import (
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
