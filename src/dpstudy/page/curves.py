"""Curves: measured columns by epoch or by the epsilon spent, over seeds; functions of a number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dpstudy.lab.quantity import Quantity
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.figure import STYLES, Figure, Note, canvas, legend_below
from dpstudy.page.quantity import ACCURACY, EPOCH, set_axis
from dpstudy.page.results import AT_CHANCE, LEFT_OUT, caption

# An axis of accuracies leaves out the climb of the first epochs, which would flatten all the rest.
CLIMB = 1 / 5


def curves(lines: Sequence[Variant], *quantities: Quantity, name: str, shown: str) -> Figure | Note:
    """Draw the median over seeds and its range by epoch, a panel a quantity, a curve a line.

    The lines are of one dataset. Those of which nothing is stored are left out.
    """
    parts = {(line, of): over_seeds(line, of) for of in quantities for line in lines}
    parts = {which: rows for which, rows in parts.items() if len(rows)}
    if not parts:
        return Note(name, "No stored run finished an epoch before it diverged.")
    data = pd.concat(parts.values(), ignore_index=True).dropna(axis=1, how="all")
    size = max(6.9, 4.1 * len(quantities)), 3.3
    with canvas(1, len(quantities), size=size) as (figure, panels):
        for axes, of in zip(panels, quantities, strict=True):
            drawn = {line: rows for (line, one), rows in parts.items() if one == of}
            for line, rows in drawn.items():
                draw_curve(axes, line, rows, EPOCH)
            set_axis(axes.xaxis, EPOCH)
            set_axis(axes.yaxis, of)
            if of == ACCURACY:
                limit(axes, drawn.values())
        legend_below(figure)
    fate = AT_CHANCE if ACCURACY in quantities else LEFT_OUT
    said = [f"{of.label}, {one.name} {course(one, of, rows)}" for (one, of), rows in parts.items()]
    alt = f"Curves by {EPOCH.label}: {'; '.join(said)}."
    under = caption(shown, finals_of(lines), fate=fate)
    return Figure(fig=figure, name=name, caption=under, alt=alt, data=data)


def over_seeds(line: Variant, of: Quantity, along: Quantity = EPOCH) -> pd.DataFrame:
    """Return median, minimum and maximum over seeds of a column, one row an epoch.

    Epochs that no seed reached without diverging have no epsilon: along it they are left out.
    """
    if not line.results:
        return pd.DataFrame()
    # Along the epochs a curve begins before the first step, where that is stored.
    rows = line.own.curves_from_start if along == EPOCH else line.curves
    spent = [column for column in rows if column.startswith("epsilon_")]
    by_epoch = rows.dropna(subset=of.column).groupby("epoch")
    of_each = {"median": "median", "minimum": "min", "maximum": "max", "seeds": "count"}
    spread = by_epoch[of.column].agg(**of_each)
    # The same for all seeds, except those that have diverged: they have none.
    spread = by_epoch[spent].max().join(spread).reset_index().dropna(subset=along.column)
    spread.insert(0, "line", line.name)
    spread.insert(1, "quantity", of.label)
    return spread


def draw_curve(axes: Axes, line: Variant, rows: pd.DataFrame, along: Quantity) -> None:
    """Draw a line's median with its range, rows as of `over_seeds`."""
    x, style = rows[along.column], STYLES[line.style]
    axes.fill_between(x, rows.minimum, rows.maximum, color=style.color, alpha=0.25)
    every = max(1, len(rows) // 8)
    axes.plot(x, rows["median"], **style.line, markevery=every, label=line.name)


def limit(axes: Axes, drawn: Iterable[pd.DataFrame], heights: Sequence[float] = ()) -> None:
    """Limit an axis of accuracies to the later epochs and to further heights, however far.

    A line whose training broke may leave the frame, and so may the dip of a seed: either would
    flatten all the others.
    """
    later = [rows[rows.epoch >= CLIMB * rows.epoch.max()] for rows in drawn]
    top = max(rows.maximum.max() for rows in later)
    learned = [rows for rows in later if rows["median"].min() > top / 2] or later
    lows = (min(rows["median"].min(), rows.minimum.median()) for rows in learned)
    heights = [*heights, min(lows), top]
    margin = min(0.02, 0.1 * (max(heights) - min(heights)) + 0.001)
    axes.set_ylim(min(heights) - margin, min(1.0, max(heights) + margin))


def course(line: Variant, of: Quantity, rows: pd.DataFrame) -> str:
    """Say where a curve begins, where it is highest between, where it ends, and whether early."""
    first, last, top = rows.iloc[0], rows.iloc[-1], rows.loc[rows["median"].idxmax()]
    said = f"from {of.show(first['median'])}"
    if top["median"] > max(first["median"], last["median"]):
        said += f" over {of.show(top['median'])} in epoch {top.epoch:g}"
    said += f" to {of.show(last['median'])}"
    if last.seeds > 1:
        said += f" ({of.show(last.minimum)} to {of.show(last.maximum)})"
    if last.epoch < line.setting("epochs"):
        said += f" after epoch {last.epoch:g}, the last that any of its runs finished"
    return said


def functions(
    x: np.ndarray,
    drawn: Mapping[str, Callable[[np.ndarray], ArrayLike]],
    *,
    name: str,
    caption: str,
    alt: str,
    **axes: object,
) -> Figure:
    """Draw functions of `x`, a curve each; `axes` are labels and limits, as for `Axes.set`."""
    data = pd.DataFrame({"x": x, **{of: np.asarray(function(x)) for of, function in drawn.items()}})
    with canvas(size=(5.2, 3.2)) as (figure, (panel,)):
        for style, of in zip(cycle(STYLES), drawn, strict=False):
            panel.plot(x, data[of], **style.line, markevery=len(x) // 8, label=of)
        panel.set(**axes)
        legend_below(figure)
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=data)
