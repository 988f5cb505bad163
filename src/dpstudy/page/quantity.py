"""What an axis or a column of a table shows: its name on the page, its digits and its scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


def percent(share: float) -> str:
    """Show a share with the digits that it has: within a decade ticks lie at such as 2.25 %."""
    return f"{100 * share:.4g}%"


@dataclass(frozen=True)
class Quantity:
    """A measured column, or a setting.

    Attributes:
        column: its name in `Reading.curves` or `Reading.finals`, or in a run.
        label: its name on the page.
        form: how a number is shown, as for `str.format`.
        log: whether its axis is logarithmic.
        tick: how a number is shown on an axis.
    """

    column: str
    label: str
    form: str = "{:.3g}"
    log: bool = False
    tick: Callable[[float], str] = "{:g}".format

    def show(self, value: float) -> str:
        """Show a number of it."""
        return self.form.format(value)

    def along(self, axis: Axis) -> None:
        """Make an axis one of this quantity, with few ticks; to be called when all is drawn."""
        axis.set_label_text(self.label)
        if self.log:
            axis.axes.set(**{f"{axis.axis_name}scale": "log"})
            axis.set_major_locator(LogLocator(subs=_ticks(*axis.get_view_interval())))
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: self.tick(value)))


def _ticks(low: float, high: float) -> tuple[int, ...]:
    """Return where in each decade of a logarithmic axis its ticks lie."""
    if high < 100 * low:
        return 1, 2, 5
    return (1, 3) if high < 1e4 * low else (1,)


EPOCH = Quantity("epoch", "epoch", "{:g}")
EPSILON = Quantity("epsilon_pld", "ε spent (PLD)", "{:.2f}")
ACCURACY = Quantity("test_accuracy", "test accuracy", "{:.1%}", tick=percent)
ERROR = Quantity("error", "test error, best at the top", "{:.1%}", log=True, tick=percent)
LEARNING_RATE = Quantity("learning_rate", "learning rate", "{:g}", log=True)
# Before clipping: over the examples drawn in an epoch, and over the same ones after each.
GRADIENT_NORM = Quantity("gradient_norm", "mean gradient norm", "{:.3g}", log=True)
CLIPPED = Quantity("clipped_fraction", "fraction clipped", "{:.0%}", tick=percent)
NORM_OF_GRADIENTS = Quantity("norms.gradient", "mean gradient norm", "{:.3g}", log=True)
NORM_OF_ACTIVATIONS = Quantity("norms.activation", "mean activation norm", "{:.3g}", log=True)
# Settings, as the best of a search is shown in one column.
WIDTH = Quantity("width", "filters", "{:g} x filters")
OPTIMIZER = Quantity("optimizer", "optimizer", "{}")
RATE = Quantity("learning_rate", "learning rate", "rate {:.3g}")
BATCH = Quantity("batch", "batch", "batch {}")
EPOCHS = Quantity("epochs", "epochs", "{} epochs")
