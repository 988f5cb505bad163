"""A search: what its settings came to, and what the best, by seed 0, comes to with other seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.lab.published import Accuracy
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.figure import STYLES, Figure, Table, canvas, legend_below, star
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import caption, epsilons, of_published, seeds_of, spread, table_of
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, setting

# What comes after a technique's name in the label of the best of it.
BEST = ", best"


@dataclass(frozen=True, eq=False)
class Technique:
    """One technique of a search."""

    again: Variant  # the best of it with other seeds; nothing is stored of it until it is chosen
    tried: pd.DataFrame  # one row a run of the settings that were tried: `finals`, and its `run`
    published_at: float | None = None  # the setting that is published with its accuracy

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
        if not self.again.results:
            first = self.tried if first.empty else first
            return first.loc[first.test_accuracy.idxmax()]
        chosen = replace(self.again.run, seed=0)
        same = [run == chosen for run in first.run]
        return first[same].iloc[0] if any(same) else pd.Series({"run": chosen})


def techniques(
    reading: Reading,
    published: Mapping[str, Accuracy | None],
    at: Mapping[str, float] | None = None,
    styles: Mapping[str, int] | None = None,
) -> list[Technique]:
    """Return the techniques of a search of which something is stored, on one dataset.

    Published accuracies, the published settings `at` which, and styles are by technique.
    """
    finals, found = reading.finals.assign(run=[result.run for _, result in reading.found]), []
    for number, (best, labels) in enumerate(reading.experiment.groups.items()):
        name, tried = best.removesuffix(BEST), finals[finals.label.isin(labels)]
        if len(tried):
            style = (styles or {}).get(name, number % len(STYLES))
            again = Variant(reading, best, name, style, published.get(name))
            found.append(Technique(again, tried.assign(label=name), (at or {}).get(name)))
    return found


Ranges = Callable[[Run], Mapping[str, tuple[float, float]]]


def winners(
    found: Sequence[Technique],
    *more: str,
    settings: Sequence[Quantity],
    name: str,
    shown: str,
    ranges: Ranges | None = None,
) -> Table:
    """Return the best setting of each technique, and what it comes to with other seeds.

    `settings` were searched, and are shown as one column; `ranges` says from the best run between
    what numbers each was searched, by field.
    """
    rows = [
        {
            "technique": one.name,
            **of_published(one.again),
            **spread(one.again.accuracy),
            "seed 0": one.best.get("test_accuracy"),
            "tried": len({replace(run, seed=0) for run in one.tried.run}),
            **{of.label: _value(one.best.run, of) for of in settings},
            "at an edge": ranges and _edges(one.best.run, settings, ranges),
            **{name: spent[name] for name in ("published ε", "ε proven")},
        }
        for one in found
        for spent in [epsilons(one.again)]
    ]
    together = {
        "chosen by": "{seed 0}, best of {tried}",
        "best setting": ", ".join(f"{{{of.label}}}" for of in settings),
    }
    again = finals_of([one.again for one in found])
    said = caption(shown, _runs_of(found), *more, seeds=seeds_of(again) if len(again) else "")
    return table_of(rows, name, said, settings, together)


def against(found: Sequence[Technique], of: Quantity, *more: str, name: str, shown: str) -> Figure:
    """Draw the test accuracy over one searched setting, a curve a technique.

    Strokes are the best with other seeds, hollow marks are settings that were given up, where they
    then were. What is published is a star at its setting; a line, if that is not published.
    """
    data = pd.concat([one.tried for one in found])
    data[of.column] = [_value(run, of) for run in data.run]
    again = any(one.again.results for one in found)
    dashes = "Short strokes: the best with other seeds." if again else ""
    levels = data[of.column].dropna().unique()
    with canvas(size=(6.0, 3.4)) as (figure, (axes,)):
        for one in found:
            _draw_tried(axes, one, data[data.label == one.name], of)
            _draw_best(axes, one, of)
        set_axis(axes.xaxis, of)
        set_axis(axes.yaxis, ACCURACY)
        if len(levels) <= 6:
            axes.set_xticks(levels)
        legend_below(figure)
    under = caption(shown, _runs_of(found), dashes, *more)
    alt = f"Test accuracy over {of.label}. {'; '.join(_said(one, of) for one in found)}."
    return Figure(fig=figure, name=name, caption=under, alt=alt, data=data.drop(columns="run"))


def _draw_tried(axes: Axes, one: Technique, rows: pd.DataFrame, of: Quantity) -> None:
    style, whole = STYLES[one.again.style], rows[~rows.stopped]
    curve = whole.groupby(of.column).test_accuracy.median()
    axes.plot(curve.index, curve, **style.line, label=one.name)
    given_up = rows[rows.stopped]
    if len(given_up):
        mark = {"marker": style.marker, "color": style.color, "mfc": "white", "ls": "none"}
        label = f"{one.name}, given up"
        axes.plot(given_up[of.column], given_up.test_accuracy, **mark, label=label)


def _draw_best(axes: Axes, one: Technique, of: Quantity) -> None:
    style, theirs, again = STYLES[one.again.style], one.again.published, one.again.accuracy
    mark = {"marker": "_", "color": style.color, "markersize": 11, "ls": "none"}
    axes.plot([_value(one.best.run, of)] * len(again), again, **mark)
    if theirs is None:
        return
    label = f"{one.name}, published"
    if one.published_at is None:
        axes.axhline(theirs.accuracy, color=style.color, ls=style.dash, lw=1, label=label)
    else:
        star(axes, one.published_at, theirs.accuracy, style, label)


def _said(one: Technique, of: Quantity) -> str:
    again, theirs = one.again.accuracy, one.again.published
    said = f"{one.name}: best"
    if "test_accuracy" in one.best:
        said += f" {ACCURACY.show(one.best.test_accuracy)}"
    said += f" at {of.show(_value(one.best.run, of))}"
    if len(again):
        low, high = ACCURACY.show(again.min()), ACCURACY.show(again.max())
        said += f", with other seeds {ACCURACY.show(again.median())} ({low} to {high})"
    if theirs is not None:
        said += f", published {ACCURACY.show(theirs.accuracy)}"
    if one.published_at is not None:
        said += f" at {of.show(one.published_at)}"
    return said


def _value(run: Run, of: Quantity) -> object:
    """Return a setting; None where the run has none of that name."""
    try:
        value = setting(run, of.column)
    except SpecError:
        return None
    return getattr(value, "kind", value)


def _runs_of(found: Sequence[Technique]) -> pd.DataFrame:
    """Return the runs that were tried, and those of the best with other seeds."""
    tried = [one.tried.assign(label=f"{one.name}, tried") for one in found]
    again = [one.again.finals for one in found if one.again.results]
    return pd.concat([*tried, *again], ignore_index=True)


def _edges(run: Run, settings: Sequence[Quantity], ranges: Ranges) -> str:
    """Name the settings of the best that lie at an end of what was searched."""
    ends, at = ranges(run), []
    for of in settings:
        for end in ends.get(of.column, ()):
            # A rate is proposed from an interval: a hundredth from its end it is at the edge too.
            if math.isclose(setting(run, of.column), end, rel_tol=0.01):
                at.append(of.label)
    return ", ".join(dict.fromkeys(at)) or "none"
