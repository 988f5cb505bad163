"""How evenly the classes are served: accuracy by class, relu and tanh (Broader Impact)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.papers.tempered_sigmoids.experiments import BASE
from dpstudy.papers.tempered_sigmoids.figures.common import (
    STYLE,
    dataset_of,
    diverged,
    for_each_dataset,
    seeds_of,
)
from dpstudy.parts.images import DATASETS

# Test images a class: exactly so but for MNIST, which has from 892 to 1,135.
IMAGES = {"mnist-5k": 100} | dict.fromkeys(BASE, 1_000)
# Fewer seeds than this have no spread to test.
SEEDS_TO_TEST = 3
CLASSES = {
    "fashion-mnist": (
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    "cifar-10": (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
}


@for_each_dataset
def class_accuracy(reading: Reading) -> Figure | Note:
    """Draw the accuracy of each class at the last epoch, median and range over seeds."""
    if not reading.found:
        return not_yet_run("The accuracy by class", reading.command)
    dataset, classes = dataset_of(reading), by_class(reading)
    if classes.empty:
        return Note("The accuracy by class", "Every stored run diverged.")
    groups = classes.groupby(["label", "class"]).accuracy
    data = groups.agg(["median", "min", "max", "count"]).reset_index()
    with canvas(size=(6.8, 3.8)) as (figure, (axes,)):
        for shift, (label, rows) in zip((-0.12, 0.12), data.groupby("label"), strict=False):
            style = STYLE[str(label)]
            low, high = rows["median"] - rows["min"], rows["max"] - rows["median"]
            axes.errorbar(
                rows["class"] + shift,
                rows["median"],
                yerr=[low, high],
                color=style.color,
                marker=style.marker,
                linestyle="none",
                capsize=3,
                label=label,
            )
        axes.set(xlabel="class", ylabel="test accuracy", xticks=range(10))
        if dataset in CLASSES:
            axes.set_xticklabels(CLASSES[dataset], rotation=35, ha="right")
        axes.legend(fontsize="small")
    worst = data.loc[data.groupby("label")["median"].idxmin()]
    said = "; ".join(
        f"{row.label} is worst on {_named(dataset, row['class'])}, {row['median']:.1%}"
        for _, row in worst.iterrows()
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-class-accuracy-{dataset}",
        caption=(
            f"Test accuracy of each class of {DATASETS[dataset]} at the last epoch: median and "
            f"range over {seeds_of(classes)}, computed on {reading.devices}. {said}."
            f"{diverged(dataset, reading, fate='left out')}"
        ),
        alt=f"Ten classes, a marker each for {' and '.join(sorted(set(data.label)))}. {said}.",
        data=data,
    )


@for_each_dataset
def class_spread(reading: Reading) -> Table | Note:
    """Return the standard deviation of the classes' accuracies, and whether relu's differs."""
    if not reading.found:
        return not_yet_run("The spread of the class accuracies", reading.command)
    dataset, classes = dataset_of(reading), by_class(reading)
    if classes.empty:
        return Note("The spread of the class accuracies", "Every stored run diverged.")
    runs = classes.groupby(["label", "seed"]).accuracy
    spreads, errors = runs.std(ddof=0), 1 - runs.mean()
    images = IMAGES[dataset]
    by_images = runs.agg(lambda accuracy: _by_images(accuracy, images))
    rows = []
    for label, values in spreads.groupby("label"):
        stated = published.NUMBERS[f"class spread, {label}"].value
        if dataset not in BASE:
            stated = None  # tiny runs are not compared with published values
        rows.append(
            {
                "activation": label,
                "published": stated,
                "median": values.median(),
                "minimum": values.min(),
                "maximum": values.max(),
                "seeds": len(values),
                "over the error": (values / errors[label]).median(),
                "by the images alone": by_images[label].median(),
            }
        )
    return Table(
        name=f"tempered-sigmoids-class-spread-{dataset}",
        caption=(
            f"Standard deviation over the ten classes of {DATASETS[dataset]} of the test accuracy "
            "at the last epoch, as a fraction. The paper names neither its dataset nor the unit. "
            "Over the error: divided by the error of the same run, since who errs less spreads "
            f"less. By the images alone: what {images:,} test images a class, drawn anew, would "
            f"spread classes that are served alike.{_test(spreads)} Computed on {reading.devices}."
            f"{diverged(dataset, reading, fate='left out')}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.2f}",
            **dict.fromkeys(("median", "minimum", "maximum", "by the images alone"), "{:.4f}"),
            "over the error": "{:.2f}",
        },
    )


def by_class(reading: Reading) -> pd.DataFrame:
    """Return one row a run and class, without runs that diverged: alike at chance is not fair."""
    rows = [
        {"label": label, "seed": result.run.seed, "class": number, "accuracy": accuracy}
        for label, result in reading.found
        if result.diverged_at is None
        for number, accuracy in enumerate(result.class_accuracy)
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "class", "accuracy"])


def _by_images(accuracy: pd.Series, images: int) -> float:
    """Return what the images drawn spread classes that are served alike.

    The mean that a standard deviation is around is of the same classes, which takes one of them.
    """
    return float(np.sqrt(np.mean(accuracy * (1 - accuracy)) / images * (1 - 1 / len(accuracy))))


def _test(spreads: pd.Series) -> str:
    found = [np.asarray(values) for _, values in spreads.groupby("label")]
    if len(found) != 2 or min(map(len, found)) < SEEDS_TO_TEST:
        return ""
    from scipy.stats import mannwhitneyu  # imported only here: it takes a second

    chance = mannwhitneyu(*found, method="exact").pvalue
    return (
        " Exact Mann-Whitney test over seeds, on these test images, that relu and tanh spread "
        f"alike: p = {chance:.2g}."
    )


def _named(dataset: str, number: int) -> str:
    return CLASSES[dataset][number] if dataset in CLASSES else f"class {number}"
