"""What `make bench` stored, as tables: times, memory, and ratios with their spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.forms import decoded
from dpstudy.page.results import quartiles
from under_the_clip.forms import Contest, Contestant, Machine, Measurement, Timed

COMMAND = "make bench"

# The contestant that the others are compared with, by its name in the record.
OURS = "ours"


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

    def table(self, product_rate: float | None) -> pd.DataFrame:
        """Return one row a contestant, the fastest next to ours first.

        Columns: network, name, variant, private, seconds a step (median and quartiles), ratio to
        ours within a round (likewise; missing where ours is), peak memory from the process' start
        on and baseline in bytes (baseline: the libraries are imported and nothing is done),
        first_step (seconds, compilation included), and rate: the part of `product_rate`, in
        operations a second, that the step's matrix products amount to.
        """
        rows = [self._row(one, product_rate) for one in self._best.values()]
        return pd.DataFrame(rows).sort_values("ratio", ignore_index=True)

    def _row(self, one: Contestant, product_rate: float | None) -> dict[str, Any]:
        seconds, ours = seconds_of(one), self._best.get(OURS)
        spread = quartiles(seconds)
        return {
            "network": self.network,
            "name": one.name,
            "variant": one.variant,
            "private": one.private,
            **spread,
            **quartiles(seconds / (seconds_of(ours) if ours else math.nan), "ratio"),
            "peak": max(one.start_peak, one.peak),
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

    def product_rate(self) -> float | None:
        """Return operations a second in float32 matrix products, on all cores.

        By whichever library is faster; None if none was measured.
        """
        rates = [
            one.flops / seconds_of(one).median() for one in self.content.products if not one.pinned
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


def latest() -> tuple[Benchmark | None, list[str]]:
    """Return the last stored measurement, if there is one, and what is wrong with other files."""
    found, errors = records.read_all(records.folder("benchmarks"), "benchmarks")
    damaged = [f"{error.path.name}: {error.reason}" for error in errors]
    if not found:
        return None, damaged
    # Of several machines' on one day the last by name, so that every build shows the same.
    name = max(found, key=lambda name: (found[name]["machine"]["date"], name))
    return Benchmark(decoded(Measurement, found[name])), damaged
