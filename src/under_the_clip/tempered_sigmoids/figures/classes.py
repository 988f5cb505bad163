"""How evenly the classes are served: the accuracy of each at the last epoch."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.figure import STYLES, Figure, Note, canvas, legend_below
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import caption
from dpstudy.parts.data.images import CLASSES


def classes(lines: Sequence[Variant], *, name: str, shown: str) -> Figure | Note:
    """Draw the accuracy of each class, median and range over seeds; the caption says the spreads.

    Args:
        lines: of one dataset.
        name: of the figure.
        shown: what is shown, for the caption.
    """
    found = pd.concat(map(by_class, lines), ignore_index=True)
    if found.empty:
        return Note(name, "Every stored run diverged.")
    named = CLASSES[str(lines[0].reading.dataset_name)]
    groups = found.groupby(["label", "class"], sort=False).accuracy
    data = groups.agg(["median", "min", "max", "count"]).reset_index()
    with canvas(size=(7.2, 3.6)) as (figure, (axes,)):
        for at, line in enumerate(lines):
            rows, style = data[data.label == line.name], STYLES[line.style]
            axes.errorbar(
                rows["class"] + 0.24 * (at - (len(lines) - 1) / 2),
                rows["median"],
                yerr=[rows["median"] - rows["min"], rows["max"] - rows["median"]],
                color=style.color,
                marker=style.marker,
                linestyle="none",
                capsize=3,
                label=line.name,
            )
        axes.set(xlabel="class", xticks=range(10))
        axes.set_xticklabels(named, rotation=35 if len(named[0]) > 1 else 0, ha="right")
        set_axis(axes.yaxis, ACCURACY)
        legend_below(figure)
    worst = data.loc[data.groupby("label", sort=False)["median"].idxmin()]
    said = "; ".join(
        f"{row.label} is worst on {named[row['class']]}, {ACCURACY.show(row['median'])}"
        for _, row in worst.iterrows()
    )
    apart = spreads(found).groupby("label", sort=False).median()
    spread = ", ".join(f"{label} {value:.4f}" for label, value in apart.items())
    more = f"Standard deviation over the classes, median of the seeds: {spread}."
    return Figure(
        fig=figure,
        name=name,
        caption=caption(shown, finals_of(lines), more, fate="left out"),
        alt=f"Ten classes, a mark a line in each: {said}.",
        data=data,
    )


def by_class(line: Variant) -> pd.DataFrame:
    """Return one row a run and class, without runs that diverged: alike at chance is not fair."""
    rows = [
        {"label": line.name, "seed": result.run.seed, "class": number, "accuracy": accuracy}
        for result in line.results
        if result.diverged_at is None
        for number, accuracy in enumerate(result.class_accuracy)
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "class", "accuracy"])


def spreads(found: pd.DataFrame) -> pd.Series:
    """Return the standard deviation over the classes, of each label and seed."""
    return found.groupby(["label", "seed"], sort=False).accuracy.std(ddof=0)
