"""What the recipe costs, and what more time buys: accuracy by number of filters."""

import pandas as pd
from matplotlib.ticker import ScalarFormatter

from dpstudy.lab import records
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.parts.data.images import DATASETS
from dpstudy.recipe.run import FILTERS
from under_the_clip.designs import HELD_OUT
from under_the_clip.recipe.third_edition import SIZES, label_of_size

_TIMED = "python benchmarks/recipe.py cifar-10"


def timed() -> pd.DataFrame:
    """Return the recipe's timed runs, from an empty cache to a trained head: a row for each."""
    found, _ = records.read_all(records.folder("recipes"), "recipes")
    return pd.DataFrame(
        [
            {
                "dataset": one["dataset"],
                "filters": one.get("filters"),
                "epsilon": one["epsilon"],
                "accuracy": one.get("test_accuracy"),
                "minutes": one["seconds"] / 60,
                "GB": one["peak_megabytes"] / 1000,
                "on": one["provenance"]["device"],
            }
            for one in found.values()
        ],
        columns=("dataset", "filters", "epsilon", "accuracy", "minutes", "GB", "on"),
    )


def cost() -> Table | Note:
    """Return what the recipe costs from an empty cache to a trained head."""
    found = timed()
    found = found[found.filters.isna()]
    if found.empty:
        return not_yet_run("What the recipe costs", _TIMED)
    return Table(
        name="recipe-cost",
        caption=(
            "The recipe from nothing to a trained head: synthetic images, features, training. The "
            "accuracy is that of the run that was timed, which is none of the five above."
        ),
        data=found.drop(columns="filters")
        .replace({"dataset": DATASETS})
        .rename(columns={"epsilon": "ε"}),
        formats={"ε": "{:.2f}", "accuracy": "{:.2%}", "minutes": "{:.1f}", "GB": "{:.1f}"},
    )


def accuracy_by_minutes(reading: Reading) -> pd.DataFrame:
    """Return held-out accuracy by seed, and minutes and GB, by number of filters."""
    costs, reading = timed(), reading.on("cifar-10")
    costs = costs[costs.dataset == "cifar-10"].set_index(costs.filters.fillna(FILTERS))
    return pd.DataFrame(
        [
            (size, seed, accuracy, *costs.loc[size, ["minutes", "GB"]])
            for size in SIZES
            for seed, accuracy in Variant(reading, label_of_size(size)).accuracy.items()
            if size in costs.index
        ],
        columns=("filters", "seed", "accuracy", "minutes", "GB"),
    )


def more_filters(reading: Reading) -> Figure | Note:
    """Draw held-out accuracy by the minutes that so many filters take."""
    data = accuracy_by_minutes(reading)
    if data.empty:
        return not_yet_run("Accuracy by minutes", reading.command)
    mean = data.groupby("filters").mean()
    with canvas(size=(5.2, 2.9)) as (figure, [axes]):
        axes.plot(data.minutes, 100 * data.accuracy, ".", color="0.6")
        axes.plot(mean.minutes, 100 * mean.accuracy, **STYLES[0].line)
        small = {"textcoords": "offset points", "fontsize": "small"}
        for filters, row in mean.iterrows():
            last = filters == mean.index[-1]
            beside = {"xytext": (-6, -15) if last else (5, -14), "ha": "right" if last else "left"}
            axes.annotate(f"{filters:,}", (row.minutes, 100 * row.accuracy), **beside, **small)
        axes.set(xscale="log", xlabel="minutes on two cores", ylabel="held-out accuracy, %")
        axes.set_xticks([5, 10, 20])
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.minorticks_off()
    said = "; ".join(
        f"{filters:,} filters, {row.minutes:.0f} minutes: {row.accuracy:.1%}"
        for filters, row in mean.iterrows()
    )
    seeds = " or ".join(map(str, sorted(set(data.groupby("filters").size()))))
    return Figure(
        fig=figure,
        name="recipe-more-filters",
        caption=f"The third edition on CIFAR-10 at ε = 3, by its filters: {HELD_OUT:,} held-out "
        f"photos, means of {seeds} seeds, and each seed in grey. Minutes from nothing to a trained "
        "head, each timed once.",
        alt=f"Held-out accuracy by minutes, rising and flattening. {said}.",
        data=data,
    )
