"""A search: what its settings came to, and what the best of them comes to with other seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.page.figure import Figure, Table, canvas, legend_below, star
from dpstudy.page.lines import runs_of
from dpstudy.page.quantity import ACCURACY, Quantity
from dpstudy.page.results import epsilons, of_published, spread, table_of
from dpstudy.page.techniques import Technique
from dpstudy.page.words import caption, seeds_of
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, setting

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

    Args:
        found: the techniques.
        more: sentences for the caption.
        settings: what was searched, shown as one column.
        name: of the table.
        shown: what is shown, for the caption.
        ranges: from the best run, between what numbers each setting was searched, by field.
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
    again = runs_of([one.again for one in found])
    seeds = seeds_of(again) if len(again) else ""
    said = caption(shown, _runs_of(found), *more, seeds=seeds)
    return table_of(rows, name, said, settings, together)


def against(found: Sequence[Technique], of: Quantity, *more: str, name: str, shown: str) -> Figure:
    """Draw the test accuracy over one searched setting, a curve a technique.

    Dashes are the best with other seeds, hollow marks are settings that were given up, where they
    then were. What is published is a star at its setting; a line, if that is not published.

    Args:
        found: the techniques.
        of: the setting.
        more: sentences for the caption.
        name: of the figure.
        shown: what is shown, for the caption.
    """
    data = pd.concat(
        one.tried.assign(**{of.column: [_value(run, of) for run in one.tried.run]}) for one in found
    )
    again = any(len(one.again.runs) for one in found)
    dashes = "Dashes: the best with other seeds." if again else ""
    with canvas(size=(7.2, 3.6)) as (figure, (axes,)):
        for one in found:
            _draw_tried(axes, one, data[data.label == one.name], of)
            _draw_best(axes, one, of)
        of.along(axes.xaxis)
        ACCURACY.along(axes.yaxis)
        legend_below(figure)
    return Figure(
        fig=figure,
        name=name,
        caption=caption(shown, _runs_of(found), dashes, *more),
        alt=f"Test accuracy over {of.label}. {'; '.join(_said(one, of) for one in found)}.",
        data=data.drop(columns="run"),
    )


def _draw_tried(axes: Axes, one: Technique, rows: pd.DataFrame, of: Quantity) -> None:
    style, whole = one.again.style, rows[~rows.stopped]
    curve = whole.groupby(of.column).test_accuracy.median()
    axes.plot(curve.index, curve, **style.line, label=one.name)
    given_up = rows[rows.stopped]
    if len(given_up):
        mark = {"marker": style.marker, "color": style.color, "mfc": "white", "ls": "none"}
        label = f"{one.name}, given up"
        axes.plot(given_up[of.column], given_up.test_accuracy, **mark, label=label)


def _draw_best(axes: Axes, one: Technique, of: Quantity) -> None:
    color, theirs = one.again.style.color, one.again.published
    again = one.again.accuracy
    mark = {"marker": "_", "color": color, "markersize": 11, "ls": "none"}
    axes.plot([_value(one.best.run, of)] * len(again), again, **mark)
    if theirs is None:
        return
    label = f"{one.name}, published"
    if one.published_at is None:
        axes.axhline(theirs.accuracy, color=color, ls=one.again.style.dash, lw=1, label=label)
    else:
        star(axes, one.published_at, theirs.accuracy, one.again.style, label)


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
    again = [one.again.runs for one in found if len(one.again.runs)]
    return pd.concat([*tried, *again], ignore_index=True)


def _edges(run: Run, settings: Sequence[Quantity], ranges: Ranges) -> str:
    """Name the settings of the best that lie at an end of what was searched."""
    # A rate is proposed from an interval: one within a hundredth of its end is at the edge too.
    ends = ranges(run)
    at = [
        of.label
        for of in settings
        if any(
            math.isclose(setting(run, of.column), end, rel_tol=0.01)
            for end in ends.get(of.column, ())
        )
    ]
    return ", ".join(at) or "none"
