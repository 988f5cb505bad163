"""A reader's own value of a parameter: trained in the smoke profile, and drawn beside another."""

from dpstudy.lab.readings import Reading
from dpstudy.page.curves import curves
from dpstudy.page.figure import Figure, Note
from dpstudy.page.quantity import ACCURACY
from dpstudy.page.results import lines_of


def own(
    reading: Reading | None, parameter: str, value: float, *, notebook: str, name: str
) -> Figure | Note:
    """Draw accuracy by epoch of what a reader's value trained, or say how to train it.

    The `reading` is of the runs with the value and of those beside them, or None. `parameter` is
    its name in the `notebook`, which is named as its file, without the ending.

    >>> own(None, "T", 4.0, notebook="02_family", name="own-temperature").command
    'papermill notebooks/02_family.ipynb out.ipynb -p profile smoke -p T 4'
    """
    if reading is None or not reading.found:
        return Note(
            f"Your own {parameter}",
            f"This section trains in the smoke profile alone. To see {parameter} move the curves:",
            f"papermill notebooks/{notebook}.ipynb out.ipynb "
            f"-p profile smoke -p {parameter} {value:g}",
        )
    return curves(
        lines_of(reading, {label: at for at, label in enumerate(reading.labels)}),
        ACCURACY,
        name=name,
        shown=f"test accuracy with a value of {parameter} of your own",
    )
