"""The stored results that a rule decides on: whole, or said to be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from dpstudy.lab import readings, records
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.readings import Reading
from dpstudy.ledger.verdict import UndecidedError
from dpstudy.parts.run import Run


@dataclass(frozen=True)
class Selector:
    """Which runs a rule looks at.

    Attributes:
        variant: a variant's label, or a pattern for several, as `fnmatch` reads it.
        experiment: whose variant; None for the claim's own experiment.
    """

    variant: str
    experiment: str | None = None


@dataclass(frozen=True)
class Trained:
    """One variant, trained with every seed that its experiment asks for.

    Attributes:
        label: the variant's.
        reading: its results alone, one a seed.
    """

    label: str
    reading: Reading

    @cached_property
    def finals(self) -> pd.DataFrame:
        """One row a seed: the last epoch, and `class_spread`, unrounded.

        `class_spread` is the standard deviation of the accuracies of the classes; a run that
        diverged has none, since alike at chance is not fair.
        """
        spread = [
            math.nan if result.diverged_at is not None else float(np.std(result.class_accuracy))
            for _, result in self.reading.found
        ]
        return self.reading.finals.assign(class_spread=spread)

    @property
    def run(self) -> Run:
        """The variant's run at its first seed."""
        return self.reading.found[0][1].run

    def values(self, quantity: str, epoch: Literal["first", "last"] = "last") -> pd.Series:
        """Return a quantity after the last epoch, or the first, indexed by seed.

        Raises:
            UndecidedError: the runs did not record it, or one diverged and has none.
        """
        table = self.finals
        if epoch == "first":
            table = self.reading.curves[self.reading.curves.epoch == 1]
        # A run that diverged is at chance; of all else it has no last value.
        if quantity != "test_accuracy" and self.finals.diverged.any():
            raise UndecidedError(f"stored runs of {self.label} diverged, and have no {quantity}")
        if quantity not in table or table[quantity].isna().any():
            raise UndecidedError(f"the stored runs of {self.label} did not record {quantity}")
        return table.set_index("seed")[quantity].astype(float)

    def by_epoch(self, quantity: str) -> pd.DataFrame:
        """Return a quantity with a row an epoch and a column a seed."""
        return self.reading.curves.pivot(index="epoch", columns="seed", values=quantity)

    def epochs_to(self, quantity: str, level: float) -> pd.Series:
        """Return the epochs each seed took to a level; one more than it had if it never did."""
        curves = self.reading.curves
        reached = curves.epoch.where(curves[quantity] >= level, curves.epoch.max() + 1)
        return reached.groupby(curves.seed).min()

    def epsilon(self, *accountants: str) -> float | None:
        """Return the most that a run spent by the first of `accountants` stored; None without.

        Infinity where an accountant could not bound it.
        """
        for name in accountants:
            stored = [result.epsilon.get(name) for _, result in self.reading.found]
            spent = [math.inf if curve[-1] is None else curve[-1] for curve in stored if curve]
            if spent:
                return max(spent)
        return None


@dataclass(frozen=True)
class Side:
    """What is stored of the variants that a selector names.

    Attributes:
        found: runs stored.
        needed: runs that the experiment asks for; 0 if it is not defined, or has no such variant.
        variants: one a label, where all runs are stored; else empty.
        lacks: why there are none.
    """

    found: int = 0
    needed: int = 0
    variants: tuple[Trained, ...] = ()
    lacks: str = ""


class Evidence:
    """The store, each experiment read once.

    Attributes:
        experiments: those that are defined, by name.
        damaged: one line for each file that cannot be trusted, of what has been read so far.
    """

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        self.experiments = experiments
        self.damaged: dict[str, None] = {}
        self._sides: dict[tuple[str | None, str | None, str], Side] = {}
        self._readings: dict[tuple[str, str], Reading] = {}
        self._statements: dict[str, dict[str, Any]] | None = None

    def side(self, selector: Selector, experiment: str | None, dataset: str | None) -> Side:
        """Return what is stored of a selector's variants on a dataset."""
        key = (selector.experiment or experiment, dataset, selector.variant)
        if key not in self._sides:
            self._sides[key] = self._side(*key)
        return self._sides[key]

    def _side(self, name: str | None, dataset: str | None, variant: str) -> Side:
        if name is None:
            return Side(lacks="no experiment of this study tests it")
        if name not in self.experiments:
            return Side(lacks=f"the experiment {name} is not defined yet")
        defined = self.experiments[name]
        if dataset not in defined.datasets:
            return Side(lacks=f"{name} has no runs on {dataset}")
        known = [label for label, _ in defined.labelled(dataset=dataset)]
        known += [label for _, label in defined.undecided(dataset=dataset)]
        wanted = [label for label in known if fnmatchcase(label, variant)]
        if not wanted:
            return Side(lacks=f"{name} has no variant {variant!r}")
        reading = self._reading(name, dataset)
        labels = list(dict.fromkeys(wanted))
        found = {
            label: [(label, result) for own, result in reading.found if own == label]
            for label in labels
        }
        stored = sum(map(len, found.values()))
        if stored < len(wanted):
            return Side(stored, len(wanted), lacks=f"for the rest, {reading.command}")
        variants = tuple(Trained(label, replace(reading, found=found[label])) for label in labels)
        return Side(stored, len(wanted), variants)

    def statement(self, name: str) -> dict[str, Any] | None:
        """Return the stored outcome of a theorem check; None if there is none."""
        if self._statements is None:
            self._statements, errors = records.read_all(records.folder("theorems"), "theorems")
            lines = (f"theorems/{error.path.name}: {error.reason}" for error in errors)
            self.damaged.update(dict.fromkeys(lines))
        return self._statements.get(name)

    def _reading(self, name: str, dataset: str) -> Reading:
        if (name, dataset) not in self._readings:
            reading = readings.read(self.experiments[name], dataset=dataset)
            self.damaged.update(dict.fromkeys(reading.damaged))
            self._readings[name, dataset] = reading
        return self._readings[name, dataset]
