"""What seeds say of a quantity: its mean, the 95 % interval around it, and the verdict it gives.

A verdict asks where the whole interval lies. Redrawn seeds move an interval little, so that no
verdict hangs on which side of a bound one median falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.ledger.verdict import UndecidedError, Verdict

CONFIDENCE = 0.95
Region = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its interval, by Student's t.

    Attributes:
        value: the mean.
        low: the lower end of the interval.
        high: the upper end.
        seeds: in words, how many.
    """

    value: float
    low: float
    high: float
    seeds: str

    @classmethod
    def mean(cls, values: pd.Series) -> Estimate:
        """Return the estimate of a mean.

        Raises:
            UndecidedError: there is one seed alone, which has no interval.
        """
        return cls._around(float(values.mean()), _error(values), len(values) - 1, _count(values))

    @classmethod
    def largest(cls, values: pd.Series, of: int) -> Estimate:
        """Return the estimate of the largest of `of` further runs that is to be expected.

        For normal values it is the mean and c standard deviations, with c = 1.16 for five; the
        interval is exact, by the noncentral t distribution.

        Raises:
            UndecidedError: there is one seed alone.
        """
        c = stats.norm.expect(lambda x: of * x * stats.norm.cdf(x) ** (of - 1))
        error, root = _error(values), math.sqrt(len(values))
        tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
        ends = stats.nct.ppf(tails, len(values) - 1, c * root)
        value, low, high = (float(values.mean() + error * by) for by in (c * root, *ends))
        return cls(value, low, high, _count(values))

    @classmethod
    def difference(cls, first: pd.Series, second: pd.Series, of: int = 1) -> Estimate:
        """Return the estimate of a mean difference.

        Paired where both have the same seeds, by which the series are indexed: runs with one seed
        start alike and draw alike. Else by Welch's approximation. Where it is one `of` several
        differences, their intervals hold together with the confidence of one (Bonferroni).

        Raises:
            UndecidedError: one of them has one seed alone.
        """
        if set(first.index) == set(second.index):
            apart = first - second
            words = f"{_count(apart)}, paired"
            return cls._around(float(apart.mean()), _error(apart), len(apart) - 1, words, of)
        errors = np.array([_error(values) for values in (first, second)]) ** 2
        counts = np.array([len(first), len(second)])
        total = errors.sum()
        freedom = total**2 / (errors**2 / (counts - 1)).sum() if total else counts.min() - 1
        words = f"{_count(first)} and {_count(second)}"
        apart = float(first.mean() - second.mean())
        return cls._around(apart, math.sqrt(total), freedom, words, of)

    @classmethod
    def ratio(cls, first: pd.Series, second: pd.Series) -> Estimate:
        """Return the estimate of a ratio, by the difference of logarithms; see `difference`.

        Raises:
            UndecidedError: one of them has one seed alone, or a value that is not above 0.
        """
        if min(first.min(), second.min()) <= 0:
            # Runs without clipping store norms of 0 unless asked to measure them.
            raise UndecidedError("a stored value is 0: it was not measured")
        logs = cls.difference(np.log(first), np.log(second))
        return cls(*np.exp([logs.value, logs.low, logs.high]).tolist(), logs.seeds)

    @classmethod
    def _around(
        cls, value: float, error: float, freedom: float, seeds: str, of: int = 1
    ) -> Estimate:
        half = float(stats.t.ppf(1 - (1 - CONFIDENCE) / (2 * of), freedom)) * error
        return cls(value, value - half, value + half, seeds)

    def moved(self, by: float) -> Estimate:
        """Return the estimate of the same less a constant."""
        return Estimate(self.value - by, self.low - by, self.high - by, self.seeds)

    def verdict(self, full: Region, partial: Region | None = None) -> Verdict:
        """Return reproduced within `full`, else partly within `partial`, a wider region.

        Not reproduced outside of both; undecided where the interval reaches over the edge.
        """
        wider = full if partial is None else partial
        # Rounded: what is a tie by hand shall not hang on the last bit of a sum.
        low, high = round(self.low, 12), round(self.high, 12)
        if full[0] < low and high < full[1]:
            return Verdict.REPRODUCED
        if wider != full and wider[0] < low and high < wider[1]:
            return Verdict.PARTLY
        outside = high <= wider[0] or low >= wider[1]
        return Verdict.NOT_REPRODUCED if outside else Verdict.UNDECIDED

    def summary(self, name: str) -> dict[str, float]:
        """Return the estimate under a name, for the ledger."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def next_seed(values: pd.Series) -> float:
    """Return what one more seed is below, with 95 % confidence: Student's prediction interval.

    Raises:
        UndecidedError: there is one seed alone.
    """
    spread = _error(values) * math.sqrt(len(values) + 1)
    return float(values.mean() + stats.t.ppf(CONFIDENCE, len(values) - 1) * spread)


def _error(values: pd.Series) -> float:
    if len(values) < 2:
        raise UndecidedError("one seed alone has no interval")
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _count(values: pd.Series) -> str:
    return f"{len(values)} seeds"
