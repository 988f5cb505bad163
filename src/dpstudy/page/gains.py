"""A chapter in one figure: what its remedy gains, as published and as found, by dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from dpstudy.page.figure import Figure, Style, canvas, legend_below
from dpstudy.page.lines import Line
from dpstudy.page.results import gain
from dpstudy.parts.images import DATASETS


def gain_of(dataset: str, comparison: str, line: Line, other: Line) -> dict[str, object]:
    """Return a row for `gains`: what a line gains over another in test accuracy.

    `low` and `high` are the 95 % interval over seeds; they are missing of one seed.
    """
    return {
        "dataset": dataset,
        "comparison": comparison,
        "seeds": len(line.accuracy),
        "median": line.accuracy.median(),
        "median of the other": other.accuracy.median(),
        **gain(line, other),
    }


def gains(
    rows: Sequence[Mapping[str, object]],
    styles: Mapping[str, Style],
    *,
    name: str,
    caption: str,
    axis: str,
) -> Figure:
    """Draw gains in points with their intervals, one line a dataset, one mark a comparison.

    Args:
        rows: of `gain_of`; of what is published, `dataset`, `comparison` and `points` alone.
        styles: by comparison, in the order in which they stand.
        name: of the figure.
        caption: of the figure.
        axis: what the horizontal axis shows.
    """
    data = pd.DataFrame(rows).astype({"low": float, "high": float})
    datasets = list(dict.fromkeys(data.dataset))
    with canvas(size=(7.2, 3.2)) as (figure, (axes,)):
        for number, (comparison, style) in enumerate(styles.items()):
            of_one = data[data.comparison == comparison]
            at = [-datasets.index(one) + 0.24 - 0.16 * number for one in of_one.dataset]
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(100 * of_one.points, at, label=comparison if len(at) else None, **mark)
            axes.hlines(at, 100 * of_one.low, 100 * of_one.high, color=style.color)
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set(xlabel=axis)
        axes.set_yticks([-at for at in range(len(datasets))], [DATASETS[one] for one in datasets])
        legend_below(figure)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, {row.comparison}: {100 * row.points:+.2f}"
        + ("" if pd.isna(row.low) else f" ({100 * row.low:+.2f} to {100 * row.high:+.2f})")
        for row in data.itertuples()
    )
    return Figure(
        fig=figure, name=name, caption=caption, alt=f"Gains in points. {said}.", data=data
    )
