"""What `make bench` stored, as tables: times, memory, and ratios with their spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.forms import Contest, Contestant, Machine, Measurement, Timed, decoded

COMMAND = "make bench"

# Contestants, by their name in the record.
OURS = "ours"
OURS_NOT_PRIVATE = "ours, not private"
OPACUS = ("Opacus, hooks", "Opacus, ghost clipping")
JAX_PRIVACY = "jax-privacy"
VMAP_GRAD = "vmap(grad)"
PYTORCH = "PyTorch, not private"


@dataclass(frozen=True)
class Ratio:
    """A ratio of two times taken in the same round: its median and quartiles over rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, above: pd.Series, below: pd.Series) -> Ratio:
        """Divide round by round."""
        return cls(*(above / below).quantile([0.5, 0.25, 0.75]))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


class Comparison:
    """All contestants on one network, each in the variant with the lowest median time.

    Attributes:
        network: name of the network.
        batch: examples a step.
        failed: why the contestants that are missing are missing, by name.
    """

    def __init__(self, contest: Contest):
        """Choose each contestant's variant."""
        self.network, self.batch, self._flops = contest.network, contest.batch, contest.flops
        self.failed = contest.failed
        self._best: dict[str, Contestant] = {}
        for one in sorted(contest.contestants, key=lambda one: seconds_of(one).median()):
            self._best.setdefault(one.name, one)

    def __contains__(self, name: str) -> bool:
        return name in self._best

    def seconds(self, name: str) -> pd.Series:
        """Return a contestant's seconds a step, by round."""
        return seconds_of(self._best[name])

    def ratio(self, name: str, to: str = OURS) -> Ratio | None:
        """Return a contestant's time over another's; None if one of them is missing."""
        if name not in self or to not in self:
            return None
        return Ratio.of(self.seconds(name), self.seconds(to))

    def fastest(self, *names: str) -> str | None:
        """Return which of some contestants has the lowest median time; None if all are missing."""
        return next((name for name in self._best if name in names), None)

    def peak(self, name: str) -> int:
        """Return a contestant's peak memory in bytes, from its start on."""
        one = self._best[name]
        return max(one.start_peak, one.peak)

    def grown(self, name: str) -> int:
        """Return how far a contestant's peak is above the imported libraries, in bytes."""
        return self.peak(name) - self._best[name].baseline

    def table(self, product_rate: float | None) -> pd.DataFrame:
        """Return one row a contestant, the fastest first.

        Columns: name, variant, private, seconds a step (median and quartiles), examples_per_second,
        ratio to ours (likewise), peak memory and baseline in bytes (baseline: the libraries are
        imported and nothing is done), first_step (seconds, compilation included), and rate: the
        part of `product_rate`, in operations a second, that the step's matrix products amount to.
        """
        return pd.DataFrame([self._row(name, product_rate) for name in self._best])

    def _row(self, name: str, product_rate: float | None) -> dict[str, Any]:
        one, spread, ratio = self._best[name], quartiles(self.seconds(name)), self.ratio(name)
        return {
            "network": self.network,
            "name": name,
            "variant": one.variant,
            "private": one.private,
            **spread,
            "examples_per_second": self.batch / spread["seconds"],
            "ratio": ratio.median if ratio else None,
            "ratio_low": ratio.low if ratio else None,
            "ratio_high": ratio.high if ratio else None,
            "peak": self.peak(name),
            "baseline": one.baseline,
            "first_step": one.first_step,
            "rate": self._flops / spread["seconds"] / product_rate if product_rate else None,
        }


@dataclass(frozen=True)
class Benchmark:
    """One stored measurement."""

    content: Measurement

    @property
    def machine(self) -> Machine:
        """The machine; as a string, for a caption."""
        return self.content.machine

    @property
    def rounds(self) -> int:
        """Bursts of each contestant."""
        return self.content.settings.rounds

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The contests, one a network."""
        return [Comparison(contest) for contest in self.content.comparisons]

    def product_rate(self, pinned: bool = False) -> float | None:
        """Return operations a second in float32 matrix products, by whichever library is faster.

        Args:
            pinned: of one thread on one core, rather than of all cores.
        """
        rates = [
            one.flops / seconds_of(one).median()
            for one in self.content.products
            if one.pinned == pinned
        ]
        return max(rates, default=None)

    def contestants(self) -> pd.DataFrame:
        """Return `Comparison.table` of all networks."""
        rate = self.product_rate()
        return pd.concat([c.table(rate) for c in self.comparisons], ignore_index=True)

    def series(self, kind: str) -> pd.DataFrame:
        """Return one of the series in which our step grows: one row a point.

        Columns: network, batch, width, processes, seconds a step (median and quartiles), and
        examples_per_second of all processes together (likewise).

        Args:
            kind: "by_batch", "by_width" or "side_by_side".
        """
        rows = []
        for one in getattr(self.content, kind):
            together = sum(one.batch / pd.Series(s) for s in zip(*one.rounds, strict=True))
            row = {key: getattr(one, key) for key in ("network", "batch", "width", "processes")}
            row |= quartiles(seconds_of(one)) | quartiles(together, "examples_per_second")
            rows.append(row)
        return pd.DataFrame(rows)

    def undone(self) -> pd.DataFrame:
        """Return our step with one of the things undone that make it fast: one row each.

        Columns: network, name (of what is undone), seconds a step, and its ratio within a round to
        the step with nothing undone, which comes first (median and quartiles).
        """
        rows = []
        plain: dict[str, pd.Series] = {}
        for one in self.content.undone:
            seconds = seconds_of(one)
            # The first of a network is the step as it is.
            ratio = seconds / plain.setdefault(one.network, seconds)
            row = {"network": one.network, "name": one.name}
            rows.append(row | quartiles(seconds) | quartiles(ratio, "ratio"))
        return pd.DataFrame(rows)


def seconds_of(one: Timed) -> pd.Series:
    """Return seconds a step by round: of the slowest process where there are several."""
    return pd.Series([max(burst) for burst in one.rounds])


def quartiles(values: pd.Series, name: str = "seconds") -> dict[str, float]:
    """Return the median and, under NAME_low and NAME_high, the quartiles."""
    low, median, high = values.quantile([0.25, 0.5, 0.75])
    return {name: median, f"{name}_low": low, f"{name}_high": high}


def latest(folder: Path | None = None) -> tuple[Benchmark | None, list[str]]:
    """Return the last stored measurement, if there is one, and what is wrong with other files.

    Args:
        folder: where to look; by default where `make bench` stores.
    """
    folder = records.folder("benchmarks") if folder is None else folder
    found, errors = records.read_all(folder, "benchmarks")
    damaged = [f"{error.path.name}: {error.reason}" for error in errors]
    if not found:
        return None, damaged
    # Of several machines' on one day the last by name, so that every build shows the same.
    name = max(found, key=lambda name: (found[name]["machine"]["date"], name))
    return Benchmark(decoded(Measurement, found[name])), damaged
