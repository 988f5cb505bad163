"""The stored runs of one variant of an experiment: its numbers by seed, by epoch and at the end."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading
from dpstudy.lab.store import Result
from dpstudy.lab.verdict import UndecidedError
from dpstudy.parts.run import Run, setting


@dataclass(frozen=True, eq=False)
class Variant:
    """A variant on one dataset; perhaps not all of its seeds are stored, or none."""

    reading: Reading  # of its experiment there
    label: str  # in its experiment
    title: str = ""  # on a page; the label, if it is empty
    style: int = 0  # among the styles of figures
    published: Accuracy | None = None

    @property
    def name(self) -> str:
        """The variant's name on a page."""
        return self.title or self.label

    @cached_property
    def own(self) -> Reading:
        """What is stored of the variant alone."""
        return replace(self.reading, found=[of for of in self.reading.found if of[0] == self.label])

    @property
    def results(self) -> list[Result]:
        """One a stored seed."""
        return [result for _, result in self.own.found]

    @property
    def needed(self) -> int:
        """How many runs of it the experiment asks for, stored or not."""
        return sum(label == self.label for _, label in self.reading.wanted)

    @property
    def run(self) -> Run:
        """The run at the first stored seed."""
        return self.results[0].run

    def setting(self, name: str) -> object:
        """Return a field of the variant's runs; None where none is stored."""
        return setting(self.run, name) if self.results else None

    @cached_property
    def finals(self) -> pd.DataFrame:
        """One row a run: its last epoch, under the name on a page; see `Reading.finals`."""
        return self.own.finals.assign(label=self.name)

    @property
    def accuracy(self) -> pd.Series:
        """The test accuracies after the last epoch, by seed; of a run that diverged, chance."""
        return pd.Series({of.run.seed: of.last_accuracy for of in self.results}, dtype=float)

    def median(self, *columns: str) -> float | None:
        """Return the median over seeds of the first of some columns that is stored; else None."""
        stored = [column for column in columns if column in self.finals]
        return float(self.finals[stored[0]].median()) if stored else None

    def values(self, column: str) -> pd.Series:
        """Return a quantity after the last epoch, by seed; UndecidedError where there is none."""
        # A run that diverged is at chance; of all else it has no last value.
        if column != "test_accuracy" and self.finals.diverged.any():
            raise UndecidedError(f"stored runs of {self.label} diverged, and have no {column}")
        if column not in self.finals or self.finals[column].isna().any():
            raise UndecidedError(f"the stored runs of {self.label} did not record {column}")
        return self.finals.set_index("seed")[column].astype(float)

    def at_start(self, column: str) -> pd.Series:
        """Return a quantity from before the first step, by seed, or raise UndecidedError."""
        curves = {result.run.seed: result.curve for result in self.results}
        if any(curve["epoch"][0] != 0 or column not in curve for curve in curves.values()):
            raise UndecidedError(f"{column} of {self.label} is not stored from before training")
        return pd.Series({seed: float(curve[column][0]) for seed, curve in curves.items()})

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Of each run a row an epoch; see `Reading.curves`."""
        return self.own.curves

    def by_epoch(self, column: str) -> pd.DataFrame:
        """Return a quantity with a row an epoch and a column a seed."""
        return self.curves.pivot(index="epoch", columns="seed", values=column)

    def arrays(self, column: str, epoch: int | None = None) -> dict[int, np.ndarray]:
        """Return what a measure stored after an epoch, by default the last, by seed."""
        found = {}
        for result in self.results:
            curve = result.curve
            last = curve["epoch"][-1] if epoch is None else epoch
            if column not in curve or last not in curve["epoch"]:
                raise UndecidedError(f"the stored runs of {self.label} did not record {column}")
            found[result.run.seed] = np.asarray(curve[column][curve["epoch"].index(last)], float)
        return found

    def epsilon(self, *accountants: str) -> float | None:
        """Return the most that a run spent by the first of `accountants` stored; None without."""
        for name in accountants:
            stored = [result.epsilon.get(name) for result in self.results]
            # Infinite where an accountant could not bound it.
            spent = [math.inf if curve[-1] is None else curve[-1] for curve in stored if curve]
            if spent:
                return max(spent)
        return None


def finals_of(found: Iterable[Variant]) -> pd.DataFrame:
    """Return one row a run of all variants that are stored."""
    stored = [one.finals for one in found if one.results]
    return pd.concat(stored, ignore_index=True) if stored else pd.DataFrame()
