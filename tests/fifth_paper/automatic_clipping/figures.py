"""The figure of automatic clipping's chapter."""

from __future__ import annotations

from dpstudy.lab.readings import Reading
from dpstudy.page.curves import curves
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Figure, Note
from dpstudy.page.quantity import ACCURACY
from dpstudy.page.results import lines_of


@for_each_dataset("Accuracy by epoch")
def accuracy(reading: Reading) -> Figure | Note:
    """Draw the accuracy of each variant by epoch."""
    lines = lines_of(reading, {name: at for at, name in enumerate(reading.experiment.variants)})
    return curves(lines, ACCURACY, name="automatic-clipping", shown="flat and automatic clipping")
