"""A temperature of the reader's own, beside tanh: what moves when T does."""

from __future__ import annotations

from dataclasses import replace

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, canvas
from dpstudy.papers.tempered_sigmoids.figures.common import dataset_of, diverged, seeds_of
from dpstudy.papers.tempered_sigmoids.figures.family import family
from dpstudy.parts.images import DATASETS

HOW = "papermill notebooks/02_tempered_sigmoids.ipynb out.ipynb -p profile smoke -p T {:g}"


def own_member(inverse_temperature: float) -> Figure:
    """Draw the member (2, T, 1) of the family beside tanh, and relu."""
    figure = family(((2.0, 2.0, 1.0), (2.0, inverse_temperature, 1.0)))
    return replace(figure, name="tempered-sigmoid-own-member")


def own_temperature(reading: Reading | None, inverse_temperature: float) -> Figure | Note:
    """Draw accuracy by epoch of the member (2, T, 1) and of tanh; without runs, say how to get it.

    Args:
        reading: of `experiments.tempered_sigmoids.of_temperature`, or None if it was not trained.
        inverse_temperature: T.
    """
    if reading is None or not reading.found:
        text = "This section trains in the smoke profile alone. To see T move the curves:"
        return Note("Your own T", text, HOW.format(inverse_temperature))
    curves = reading.curves
    groups = curves.groupby(["label", "epoch"]).test_accuracy
    data = groups.agg(["median", "min", "max"]).reset_index()
    with canvas(size=(6.4, 3.6)) as (figure, (axes,)):
        for style, (label, rows) in zip(STYLES, data.groupby("label"), strict=False):
            axes.fill_between(rows.epoch, rows["min"], rows["max"], color=style.color, alpha=0.25)
            axes.plot(rows.epoch, rows["median"], **style.line, label=label)
        axes.set(xlabel="epoch", ylabel="test accuracy", xticks=sorted(set(data.epoch)))
        axes.legend(fontsize="small")
    last = data.groupby("label")["median"].last()
    said = "; ".join(f"{label} ends at {value:.1%}" for label, value in last.items())
    return Figure(
        fig=figure,
        name="tempered-sigmoids-own-temperature",
        caption=(
            f"Test accuracy on {DATASETS[dataset_of(reading)]} of the member (2, "
            f"{inverse_temperature:g}, 1) beside tanh: median and range over {seeds_of(curves)}, "
            f"computed on {reading.devices}.{diverged(dataset_of(reading), reading)}"
        ),
        alt=f"Accuracy by epoch: {said}.",
        data=data,
    )
