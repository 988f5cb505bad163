"""The stored results that rules decide on, read once, and what is missing of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from dpstudy.lab import readings, records
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant


@dataclass(frozen=True)
class Runs:
    """Which runs a rule decides on, by a variant's label or a pattern, as `fnmatch` reads it."""

    experiment: Experiment
    variant: str


class Evidence:
    """All that rules may ask for, read from the results folder once."""

    def __init__(self) -> None:
        # A line for each file that cannot be trusted; what it held counts as missing.
        self.damaged: dict[str, None] = {}
        self._readings: dict[tuple[str, str], Reading] = {}
        self._variants: dict[tuple[str, str, str], list[Variant]] = {}
        self._records: dict[str, dict[str, dict[str, Any]]] = {}

    def variants(self, runs: Runs, dataset: str) -> list[Variant]:
        """Return the variants that are named, on a dataset, stored or not; none if it has none."""
        if dataset not in runs.experiment.datasets:
            return []
        key = runs.experiment.name, runs.variant, dataset
        if key not in self._variants:
            of = runs.experiment.name, dataset
            if of not in self._readings:
                self._readings[of] = readings.read(runs.experiment, dataset=dataset)
                self.damaged.update(dict.fromkeys(self._readings[of].damaged))
            labels = dict.fromkeys(label for _, label in self._readings[of].wanted)
            matching = (label for label in labels if fnmatchcase(label, runs.variant))
            self._variants[key] = [Variant(self._readings[of], label) for label in matching]
        return self._variants[key]

    def lacks(self, runs: Runs, dataset: str) -> str:
        """Say what is missing of the runs that are named; nothing, if all are stored."""
        if dataset not in runs.experiment.datasets:
            return f"{runs.experiment.name} has no runs on {dataset}"
        found = self.variants(runs, dataset)
        if not found:
            return f"{runs.experiment.name} has no variant {runs.variant!r}"
        return "" if stored(found) == needed(found) else f"for the rest, {found[0].reading.command}"

    def record(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return a stored outcome, of a check of a statement or of an audit; None without one."""
        if kind not in self._records:
            self._records[kind], errors = records.read_all(records.folder(kind), kind)
            lines = (f"{kind}/{error.path.name}: {error.reason}" for error in errors)
            self.damaged.update(dict.fromkeys(lines))
        return self._records[kind].get(name)


def stored(found: Sequence[Variant]) -> int:
    """Count the runs of some variants that are stored."""
    return sum(len(one.results) for one in found)


def needed(found: Sequence[Variant]) -> int:
    """Count the runs that their experiment asks for, stored or not."""
    return sum(one.needed for one in found)


def oldest(found: Sequence[Variant]) -> datetime | None:
    """Return when the first of the runs ended; None where that is not known."""
    ends = [result.provenance.get("finished") for one in found for result in one.results]
    return min(map(datetime.fromisoformat, filter(None, ends)), default=None)
