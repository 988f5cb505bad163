"""The rules that turn stored results into verdicts: few, general, each with its tolerance.

The tolerances come from what is measured, not from what came out: two accuracies within a point, or
within a fifth of the error where that is less, are the same for whoever chooses a network; a gain
is the published one within a third of it; and where no paper states a spread, values within a
factor of two are at one level. All accuracies are those of the last epoch. Where a pattern names
several variants, the best is the one with the highest median over seeds: a search, as in the
papers, whose choice is not paid for.

What only one paper's sweep needs stands with that paper.
"""

from dpstudy.claims.rules.difference import Difference, Gain, Ratio, Throughout
from dpstudy.claims.rules.rule import OnDataset, Rule, Statement, Unsupported, Untested, on
from dpstudy.claims.rules.value import Largest, Spent, Value
