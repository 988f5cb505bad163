"""The techniques of a search: what was tried of each, and the best of it with other seeds.

The best is chosen by the test accuracy of seed 0, and the choice is not paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Style
from dpstudy.page.lines import Line

# What comes after a technique's name in the label of the best of it.
BEST = ", best"


@dataclass(frozen=True, eq=False)
class Technique:
    """One technique of a search.

    Attributes:
        again: the best of it with other seeds; nothing is stored of it until it is chosen.
        tried: one row a run of the settings that were tried: `Reading.finals`, and its `run`.
        published_at: the setting that is published with its accuracy.
    """

    again: Line
    tried: pd.DataFrame
    published_at: float | None = None

    @property
    def name(self) -> str:
        """The technique's name on the page."""
        return self.again.name

    @cached_property
    def best(self) -> pd.Series:
        """The row of the best setting, at seed 0; the best so far, if none is chosen yet.

        Without an accuracy where that run is not stored.
        """
        first = self.tried[(self.tried.seed == 0) & ~self.tried.stopped]
        if not self.again.own.found:
            first = self.tried if first.empty else first
            return first.loc[first.test_accuracy.idxmax()]
        chosen = replace(self.again.own.found[0][1].run, seed=0)
        same = [run == chosen for run in first.run]
        return first[same].iloc[0] if any(same) else pd.Series({"run": chosen})


def techniques(
    reading: Reading,
    published: Mapping[str, Accuracy | None],
    at: Mapping[str, float] | None = None,
    styles: Mapping[str, Style] | None = None,
) -> list[Technique]:
    """Return the techniques of a search of which something is stored.

    Args:
        reading: of a `Search`, on one dataset.
        published: by technique, what is published.
        at: by technique, the published setting.
        styles: by technique.
    """
    finals = reading.finals.assign(run=[result.run for _, result in reading.found])
    found = []
    for number, (best, labels) in enumerate(reading.experiment.groups.items()):
        name, tried = best.removesuffix(BEST), finals[finals.label.isin(labels)]
        if len(tried):
            style = (styles or {}).get(name, STYLES[number % len(STYLES)])
            again = Line(reading, best, name, style, published.get(name))
            found.append(Technique(again, tried.assign(label=name), (at or {}).get(name)))
    return found
