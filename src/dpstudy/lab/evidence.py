"""The stored results that a rule decides on: whole, or said to be missing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dpstudy.lab import readings, records
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.readings import Reading
from dpstudy.lab.verdict import UndecidedError
from dpstudy.parts.run import Run


@dataclass(frozen=True)
class Runs:
    """Which runs a rule decides on.

    Attributes:
        experiment: whose they are.
        variant: a variant's label, or a pattern for several, as `fnmatch` reads it.
    """

    experiment: Experiment
    variant: str


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

    def values(self, column: str) -> pd.Series:
        """Return a quantity after the last epoch, indexed by seed.

        Raises:
            UndecidedError: the runs did not record it, or one diverged and has none.
        """
        # A run that diverged is at chance; of all else it has no last value.
        if column != "test_accuracy" and self.finals.diverged.any():
            raise UndecidedError(f"stored runs of {self.label} diverged, and have no {column}")
        if column not in self.finals or self.finals[column].isna().any():
            raise UndecidedError(f"the stored runs of {self.label} did not record {column}")
        return self.finals.set_index("seed")[column].astype(float)

    def at_start(self, column: str) -> pd.Series:
        """Return a quantity from before the first step, indexed by seed.

        Raises:
            UndecidedError: the runs did not record it then.
        """
        curves = {result.run.seed: result.curve for _, result in self.reading.found}
        if any(curve["epoch"][0] != 0 or column not in curve for curve in curves.values()):
            raise UndecidedError(f"{column} of {self.label} is not stored from before training")
        return pd.Series({seed: float(curve[column][0]) for seed, curve in curves.items()})

    @cached_property
    def curves(self) -> pd.DataFrame:
        return self.reading.curves

    def by_epoch(self, column: str) -> pd.DataFrame:
        """Return a quantity with a row an epoch and a column a seed."""
        return self.curves.pivot(index="epoch", columns="seed", values=column)

    def arrays(self, column: str, epoch: int | None = None) -> dict[int, np.ndarray]:
        """Return by seed what a measure stored after an epoch, the last by default.

        Raises:
            UndecidedError: the runs did not record it then.
        """
        found = {}
        for _, result in self.reading.found:
            curve = result.curve
            last = curve["epoch"][-1] if epoch is None else epoch
            if column not in curve or last not in curve["epoch"]:
                raise UndecidedError(f"the stored runs of {self.label} did not record {column}")
            found[result.run.seed] = np.asarray(curve[column][curve["epoch"].index(last)])
        return found

    def epochs_to(self, column: str, level: float) -> pd.Series:
        """Return the epochs each seed took to a level; one more than it had if it never did."""
        curves = self.curves
        reached = curves.epoch.where(curves[column] >= level, curves.epoch.max() + 1)
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
    """What is stored of the runs that a rule names.

    Attributes:
        found: runs stored.
        needed: runs that the experiment asks for; 0 if it has no such variant.
        variants: complete, in the experiment's order; empty unless all runs are stored.
        lacks: what is missing, in words; empty if nothing is.
    """

    found: int = 0
    needed: int = 0
    variants: tuple[Trained, ...] = ()
    lacks: str = ""

    @property
    def oldest(self) -> datetime | None:
        """When the first of the runs ended; None unless all are stored."""
        ends = [
            datetime.fromisoformat(result.provenance["finished"])
            for variant in self.variants
            for _, result in variant.reading.found
            if "finished" in result.provenance
        ]
        return min(ends, default=None)


class Evidence:
    """All that rules may ask for, read from the results folder once.

    Attributes:
        damaged: one line for each file that cannot be trusted; what it held counts as missing.
    """

    def __init__(self) -> None:
        self.damaged: dict[str, None] = {}
        self._readings: dict[tuple[str, str], Reading] = {}
        self._sides: dict[tuple[str, str, str], Side] = {}
        self._records: dict[str, dict[str, dict[str, Any]]] = {}

    def side(self, runs: Runs, dataset: str) -> Side:
        """Return what is stored on a dataset of the runs that are named."""
        key = runs.experiment.name, runs.variant, dataset
        if key not in self._sides:
            self._sides[key] = self._side(runs, dataset)
        return self._sides[key]

    def _side(self, runs: Runs, dataset: str) -> Side:
        asked = runs.experiment
        if dataset not in asked.datasets:
            return Side(lacks=f"{asked.name} has no runs on {dataset}")
        known = [label for label, _ in asked.labelled(dataset=dataset)]
        known += [label for _, label in asked.undecided(dataset=dataset)]
        wanted = [label for label in known if fnmatchcase(label, runs.variant)]
        if not wanted:
            return Side(lacks=f"{asked.name} has no variant {runs.variant!r}")
        reading = self._reading(asked, dataset)
        labels = list(dict.fromkeys(wanted))
        found = {label: [pair for pair in reading.found if pair[0] == label] for label in labels}
        stored = sum(map(len, found.values()))
        if stored < len(wanted):
            return Side(stored, len(wanted), lacks=f"for the rest, {reading.command}")
        variants = tuple(Trained(label, replace(reading, found=found[label])) for label in labels)
        return Side(stored, len(wanted), variants)

    def statement(self, name: str) -> dict[str, Any] | None:
        """Return the stored outcome of a check of a statement; None if there is none."""
        return self._recorded("theorems").get(name)

    def audit(self, name: str) -> dict[str, Any] | None:
        """Return the stored outcome of an audit; None if there is none."""
        return self._recorded("audits").get(name)

    def _recorded(self, kind: str) -> dict[str, dict[str, Any]]:
        if kind not in self._records:
            self._records[kind], errors = records.read_all(records.folder(kind), kind)
            lines = (f"{kind}/{error.path.name}: {error.reason}" for error in errors)
            self.damaged.update(dict.fromkeys(lines))
        return self._records[kind]

    def _reading(self, experiment: Experiment, dataset: str) -> Reading:
        key = experiment.name, dataset
        if key not in self._readings:
            self._readings[key] = readings.read(experiment, dataset=dataset)
            self.damaged.update(dict.fromkeys(self._readings[key].damaged))
        return self._readings[key]
