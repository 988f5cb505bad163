"""What seeds say of a quantity: its mean, the 95 % interval around it, and the verdict it gives.

A verdict asks where the whole interval lies. Redrawn seeds move an interval little, so that few
verdicts hang on which seeds were drawn; those that do are called close.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Self

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.lab.verdict import UndecidedError, Verdict

CONFIDENCE = 0.95
Region = tuple[float, float]
# Fewer seeds than these in common are not worth a pairing: of two, Student's t is 12.7.
_PAIRED_FROM = 3
_student = cache(stats.t.ppf)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its interval, by Student's t.

    Of one seed alone there is none: whatever estimates raises UndecidedError.
    """

    value: float
    low: float
    high: float
    seeds: str  # in words, how many
    # The same with one seed redrawn, seed by seed, as far from the mean as seeds are, either side.
    redrawn: Callable[[], Iterator["Estimate"]] = field(default=lambda: iter(()), compare=False)

    @classmethod
    def mean(cls, values: pd.Series) -> Self:
        """Return the estimate of a mean."""
        return _with_redrawn(_mean, values)

    @classmethod
    def largest(cls, values: pd.Series, of: int) -> Self:
        """Return the estimate of the largest of `of` further runs that is to be expected.

        For normal values it is the mean and c standard deviations, with c = 1.16 for five; the
        interval is exact, by the noncentral t distribution.
        """
        # Of so many standard normal values.
        c = float(stats.norm.expect(lambda x: of * x * stats.norm.cdf(x) ** (of - 1)))
        return _with_redrawn(partial(_largest, c=c), values)

    @classmethod
    def difference(cls, first: pd.Series, second: pd.Series, of: int = 1) -> Self:
        """Return the estimate of a mean difference: the one that all pages and rules have.

        Paired by the seeds that both have, where these are three or more, and by no others: the
        series are indexed by seed, and runs with one seed start alike and draw alike. With fewer in
        common all seeds count, by Welch's approximation. Where it is one `of` several differences,
        their intervals hold together with the confidence of one (Bonferroni).
        """
        common = pairs(first, second)
        if common is not None:
            apart = first.loc[common] - second.loc[common]
            return _with_redrawn(partial(_mean, of=of, how=", paired"), apart)
        return _with_redrawn(partial(_welch, of=of), first, second)

    @classmethod
    def ratio(cls, first: pd.Series, second: pd.Series) -> Self:
        """Return that of a ratio by the `difference` of logarithms; UndecidedError if one is 0."""
        if min(first.min(), second.min()) <= 0:
            # Runs without clipping store norms of 0 unless asked to measure them.
            raise UndecidedError("a stored value is 0: it was not measured")
        return cls.difference(np.log(first), np.log(second))._changed(math.exp)

    def moved(self, by: float) -> Self:
        """Return the estimate of the same less a constant."""
        return self._changed(lambda value: value - by)

    def _changed(self, by: Callable[[float], float]) -> Self:
        """Return the estimate of an increasing function of it."""
        ends = (by(end) for end in (self.value, self.low, self.high))
        return Estimate(*ends, self.seeds, lambda: (one._changed(by) for one in self.redrawn()))

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

    def is_close(self, full: Region, partial: Region | None = None) -> bool:
        """Return whether one seed, redrawn, turns what `verdict` decides into something else."""
        now = self.verdict(full, partial)
        return now is not Verdict.UNDECIDED and any(
            one.verdict(full, partial) is not now for one in self.redrawn()
        )

    def summary(self, name: str) -> dict[str, float]:
        """Return the estimate under a name, for the ledger."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def pairs(first: pd.Series, second: pd.Series) -> pd.Index | None:
    """Return the seeds by which a difference is paired; None where it is of all of both."""
    common = first.index.intersection(second.index)
    return common if len(common) >= _PAIRED_FROM else None


def next_seed(values: pd.Series) -> float:
    """Return what one more seed is below, with 95 % confidence: Student's prediction interval."""
    spread = _error(values) * math.sqrt(len(values) + 1)
    return float(values.mean() + stats.t.ppf(CONFIDENCE, len(values) - 1) * spread)


def _mean(values: np.ndarray, of: int = 1, how: str = "") -> Estimate:
    words = f"{len(values)} seeds{how}"
    return _around(float(values.mean()), _error(values), len(values) - 1, words, of)


def _welch(first: np.ndarray, second: np.ndarray, of: int) -> Estimate:
    errors = np.array([_error(values) for values in (first, second)]) ** 2
    counts = np.array([len(first), len(second)])
    total = errors.sum()
    freedom = total**2 / (errors**2 / (counts - 1)).sum() if total else counts.min() - 1
    words = f"{len(first)} seeds and {len(second)} seeds"
    return _around(float(first.mean() - second.mean()), math.sqrt(total), freedom, words, of)


def _largest(values: np.ndarray, c: float) -> Estimate:
    error, root = _error(values), math.sqrt(len(values))
    tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    ends = stats.nct.ppf(tails, len(values) - 1, c * root)
    value, low, high = (float(values.mean() + error * by) for by in (c * root, *ends))
    return Estimate(value, low, high, f"{len(values)} seeds")


def _around(value: float, error: float, freedom: float, seeds: str, of: int) -> Estimate:
    half = float(_student(1 - (1 - CONFIDENCE) / (2 * of), float(freedom))) * error
    return Estimate(value, value - half, value + half, seeds)


def _with_redrawn(estimated: Callable[..., Estimate], *series: pd.Series) -> Estimate:
    arrays = [values.to_numpy(float) for values in series]

    def redrawn() -> Iterator[Estimate]:
        for number, values in enumerate(arrays):
            away = float(values.std(ddof=1))
            for seed, side in product(range(len(values)), (-away, away)):
                others = [one.copy() for one in arrays]
                others[number][seed] = values.mean() + side
                yield estimated(*others)

    return replace(estimated(*arrays), redrawn=redrawn)


def _error(values: np.ndarray | pd.Series) -> float:
    if len(values) < 2:
        raise UndecidedError("one seed alone has no interval")
    return float(values.std(ddof=1)) / math.sqrt(len(values))
