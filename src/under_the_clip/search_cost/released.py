"""What a search that is paid for releases: accuracy at the ε left to a trial, by chance of rank."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.privacy.private_selection import Trials
from under_the_clip.designs import EPSILON
from under_the_clip.search_cost import costs


def read_off(by_epsilon: Mapping[float, pd.Series], at: float) -> pd.Series:
    """Return accuracy by seed at an ε between stored ones, linear in log ε.

    >>> halfway = read_off({1.0: pd.Series([0.6]), 4.0: pd.Series([0.8])}, 2.0)
    >>> round(float(halfway[0]), 3)
    0.7
    """
    known = sorted(by_epsilon)
    low = max(one for one in known[:-1] if one <= at)
    high = min(one for one in known if one > low)
    share = math.log(at / low) / math.log(high / low)
    return (1 - share) * by_epsilon[low] + share * by_epsilon[high]


def at_the_same_total(reading: Reading, dataset: str) -> pd.DataFrame:
    """Return what one trial of the recipe reaches where the best of some costs ε = 3 in all.

    Columns: dataset, trials, law, epsilon of one trial, accuracy (median over seeds), and what it
    lost against one run at ε = 3: lost, lost_low, lost_high. The ε that is left is CIFAR-10's, from
    which the others differ by less than 0.01. The reading is of the recipe's search.
    """
    ends = {
        epsilon: Variant(reading, f"epsilon {epsilon:g}").accuracy for epsilon in (1.0, 2.0, 3.0)
    }
    rows = []
    for row in costs.left().to_dict("records"):
        reached = read_off(ends, row["epsilon"])
        lost = Estimate.difference(reached, ends[EPSILON])
        about = {name: row[name] for name in ("trials", "law", "epsilon")}
        of_seeds = {"accuracy": reached.median(), **lost.summary("lost")}
        rows.append({"dataset": dataset, **about, **of_seeds})
    return pd.DataFrame(rows)


def expected(scores: Sequence[float], accuracies: Sequence[float], trials: Trials) -> float:
    """Return the mean accuracy of what is released of some settings, each drawn as likely.

    By how likely each rank is, the largest of `scores` being the best; equal ones share theirs. For
    a law under which there may be no trial, given that there is one.

    >>> trials = Trials(3, "geometric")
    >>> round(expected([0.5, 0.7, 0.9], [0.4, 0.6, 0.8], trials), 3)
    0.691
    """
    chances = trials.chance_of_rank(len(scores))
    ranks = stats.rankdata([-score for score in scores], method="ordinal") - 1
    by_score: dict[float, list[float]] = {}
    for score, rank in zip(scores, ranks, strict=True):
        by_score.setdefault(score, []).append(float(chances[rank]))
    shares = [np.mean(by_score[score]) for score in scores]
    return float(np.dot(shares, accuracies) / chances.sum())
