"""Lines: what curves and tables take of a reading, one variant each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Style
from dpstudy.parts.run import setting


@dataclass(frozen=True, eq=False)
class Line:
    """A variant's results, with its name and its style; perhaps nothing of it is stored.

    Attributes:
        reading: of one dataset.
        label: of the variant, in its experiment.
        title: on the page; the label, if it is empty.
        style: in figures.
        published: what the paper states for it.
    """

    reading: Reading
    label: str
    title: str = ""
    style: Style = STYLES[0]
    published: Accuracy | None = None

    @property
    def name(self) -> str:
        """The variant's name on the page."""
        return self.title or self.label

    @cached_property
    def own(self) -> Reading:
        """What is stored of the variant."""
        found = [pair for pair in self.reading.found if pair[0] == self.label]
        return replace(self.reading, found=found)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run: its last epoch, under the name on the page; see `Reading.finals`."""
        return self.own.finals.assign(label=self.name)

    @property
    def accuracy(self) -> pd.Series:
        """The test accuracies after the last epoch, by seed."""
        if self.runs.empty:
            return pd.Series(dtype=float)
        return self.runs.set_index("seed").test_accuracy

    def value(self, *columns: str) -> float | None:
        """Return the median over seeds of the first of some columns that is stored; else None."""
        stored = [column for column in columns if column in self.runs]
        return float(self.runs[stored[0]].median()) if stored else None

    def setting(self, name: str) -> object:
        """Return a field of the variant's runs; None where none is stored."""
        return setting(self.own.found[0][1].run, name) if self.own.found else None


def dataset_of(reading: Reading) -> str | None:
    """Return the dataset of a reading's runs; of none, the one that was asked for."""
    return reading.found[0][1].run.dataset.name if reading.found else reading.dataset


def runs_of(lines: Iterable[Line]) -> pd.DataFrame:
    """Return one row a run of all lines that are stored."""
    stored = [line.runs for line in lines if len(line.runs)]
    return pd.concat(stored, ignore_index=True) if stored else pd.DataFrame()


def stated(
    accuracies: Sequence[Accuracy], reading: Reading, methods: Mapping[str, str]
) -> dict[str, Accuracy | None]:
    """Return what a paper states on a reading's dataset; None where it states nothing.

    Args:
        accuracies: of the paper.
        reading: of one dataset.
        methods: by label, under what name the paper states it.
    """
    dataset = dataset_of(reading)
    by_name = {one.method: one for one in accuracies if one.dataset == dataset}
    return {label: by_name.get(method) for label, method in methods.items()}


def lines_of(
    reading: Reading,
    styles: Mapping[str, Style],
    accuracies: Sequence[Accuracy] = (),
    *,
    title: str = "{}",
    method: str = "",
    label: str = "{}",
) -> list[Line]:
    """Return a line a style.

    Args:
        reading: of one dataset.
        styles: by name.
        accuracies: that the paper states.
        title: of a line, as a template with its name.
        method: under what name its accuracy is published, likewise; of none, if it is empty.
        label: of the variant in its experiment, likewise.
    """
    theirs = stated(accuracies, reading, {name: method.format(name) for name in styles})
    return [
        Line(reading, label.format(name), title.format(name), style, theirs[name])
        for name, style in styles.items()
    ]
