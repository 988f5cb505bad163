"""Chapter 1: what the four papers' settings cost, by their own accounting and by today's."""

from dpstudy.chapters.accounting.common import resolution
from dpstudy.chapters.accounting.costs import cost_table
from dpstudy.chapters.accounting.curves import calibration_table, curves_figure, settings_in_words
from dpstudy.chapters.accounting.sensitivities import (
    backpropagation_table,
    broken_in_words,
    corrected_table,
    tanh_filter_figure,
)

__all__ = [
    "backpropagation_table",
    "broken_in_words",
    "calibration_table",
    "corrected_table",
    "cost_table",
    "curves_figure",
    "resolution",
    "settings_in_words",
    "tanh_filter_figure",
]
