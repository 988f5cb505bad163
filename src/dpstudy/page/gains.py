"""A chapter in one figure: what its remedy gains, as published and as found, by dataset."""

from collections.abc import Mapping, Sequence

import pandas as pd

from dpstudy.lab.published import Number
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES, Figure, canvas, legend_below
from dpstudy.page.results import gain
from dpstudy.parts.data.images import DATASETS


def gains_of(
    dataset: str, published: tuple[Number, Number] | None, found: Mapping[str, Sequence[Variant]]
) -> list[dict[str, object]]:
    """Return rows for `gains`: of what is published, and of each comparison that is stored.

    `low` and `high` are the 95 % interval over seeds; they are missing of one seed, and of what is
    published, as all but its points are.

    Args:
        dataset: its name.
        published: both accuracies, the one that gains second.
        found: by comparison, both lines, in the same order.
    """
    rows = []
    if published is not None:
        base, better = (number.value for number in published)
        rows = [{"dataset": dataset, "comparison": "published", "points": better - base}]
    return rows + [
        {
            "dataset": dataset,
            "comparison": comparison,
            "seeds": len(line.accuracy),
            "median": line.accuracy.median(),
            "median of the other": other.accuracy.median(),
            **gain(line, other),
        }
        for comparison, (other, line) in found.items()
        if len(line.results) and len(other.results)
    ]


def gains(
    rows: Sequence[Mapping[str, object]],
    styles: Mapping[str, int],
    *,
    name: str,
    caption: str,
    axis: str,
) -> Figure:
    """Draw gains in points with their intervals, one line a dataset, one mark a comparison.

    Args:
        rows: of `gains_of`.
        styles: by comparison, their numbers, in the order in which they stand.
        name: of the figure.
        caption: of the figure.
        axis: the label of the horizontal axis.
    """
    data = pd.DataFrame(rows).astype({"low": float, "high": float})
    datasets = list(dict.fromkeys(data.dataset))
    middle = (len(styles) - 1) / 2
    with canvas(size=(7.2, 1.0 + 0.25 * len(styles) * len(datasets))) as (figure, (axes,)):
        for number, (comparison, of) in enumerate(styles.items()):
            style = STYLES[of]
            of_one = data[data.comparison == comparison]
            at = [-datasets.index(one) + 0.2 * (middle - number) for one in of_one.dataset]
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(100 * of_one.points, at, label=comparison if len(at) else None, **mark)
            axes.hlines(at, 100 * of_one.low, 100 * of_one.high, color=style.color)
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set(xlabel=axis, ylim=(0.5 - len(datasets), 0.5))
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
