"""A sweep: the test error of many settings, over the settings or over what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.lab.quantity import Quantity
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES, Figure, Note, canvas, legend_below
from dpstudy.page.quantity import ERROR, set_axis


@dataclass(frozen=True)
class Mark:
    """A vertical line in the panels of a sweep: where, by column."""

    name: str
    at: Mapping[str, float]
    dash: object = ":"


def sweep(
    points: pd.DataFrame,
    *over: Quantity,
    name: str,
    caption: str,
    levels: Sequence[Variant] = (),
    marks: Sequence[Mark] = (),
) -> Figure | Note:
    """Draw the test errors of settings, a panel a quantity, the best as diamonds.

    Args:
        points: one row a setting: `test_accuracy`, whether it is among the `best`, and the
            columns of all quantities; a setting without one of these is left out.
        over: the quantities.
        name: of the figure.
        caption: of the figure.
        levels: what the errors are compared with: a band of its seeds each, and their median.
        marks: vertical lines.
    """
    columns = [of.column for of in over]
    data = points.assign(error=1 - points.test_accuracy).dropna(subset=columns)
    if data.empty:
        return Note(name, "Every stored run diverged.")
    levels = [level for level in levels if len(level.results)]
    data = data.sort_values("test_accuracy", ascending=False, ignore_index=True)
    with canvas(1, len(over), size=(max(6.9, 2.8 * len(over)), 3.4), sharey=True) as (
        figure,
        panels,
    ):
        for axes, of in zip(panels, over, strict=True):
            _draw_points(axes, data, of)
            for level in levels:
                _draw_level(axes, level)
            for mark in marks:
                axes.axvline(mark.at[of.column], color="black", ls=mark.dash, label=mark.name)
        set_axis(panels[0].yaxis, ERROR)
        panels[0].invert_yaxis()
        legend_below(figure)
    reached = "; ".join(
        f"{of.label} from {of.show(best.min())} to {of.show(best.max())}"
        for of in over
        for best in [data[data.best][of.column]]
    )
    said = [f"{_errors(data.test_accuracy)}. The best {data.best.sum()} have {reached}"]
    said += [f"{level.name}, {_errors(level.accuracy)}" for level in levels]
    said += [f"lines at {mark.name}" for mark in marks]
    return Figure(
        fig=figure,
        name=name,
        caption=caption,
        alt=f"Panels of {len(data)} points each: {'; '.join(said)}.",
        data=data,
    )


def _draw_points(axes: Axes, data: pd.DataFrame, of: Quantity) -> None:
    others, best = data[~data.best], data[data.best]
    axes.plot(others[of.column], others.error, "o", mfc="none", mec="0.45", label="a setting")
    axes.plot(best[of.column], best.error, "D", color=STYLES[0].color, label="the best tenth")
    set_axis(axes.xaxis, of)


def _draw_level(axes: Axes, level: Variant) -> None:
    errors, style = 1 - level.accuracy, STYLES[level.style]
    axes.axhspan(errors.min(), errors.max(), facecolor=style.color, alpha=0.3)
    axes.axhline(errors.median(), color=style.color, ls=style.dash, label=level.name)


def _errors(accuracy: pd.Series) -> str:
    low, high = 1 - accuracy.max(), 1 - accuracy.min()
    return f"test errors from {ERROR.show(low)} to {ERROR.show(high)}"
