"""The quantities of axes and columns, with the digits of a page, and an axis of one of them."""

from dataclasses import replace

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.lab import quantity
from dpstudy.lab.quantity import Quantity, percent


def set_axis(axis: Axis, of: Quantity) -> None:
    """Make an axis one of a quantity, with few ticks; to be called when all is drawn."""
    axis.set_label_text(of.label)
    if of.log:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        low, high = axis.get_view_interval()
        # Where in each decade ticks lie: the more decades, the fewer.
        ticks = (1, 2, 5) if high < 100 * low else (1, 3) if high < 1e4 * low else (1,)
        axis.set_major_locator(LogLocator(subs=ticks))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: of.tick(value)))


EPOCH = Quantity("epoch", "epoch", "{:g}")
EPSILON = Quantity("epsilon_pld", "ε spent", "{:.2f}")
ACCURACY = replace(quantity.ACCURACY, form="{:.1%}")
ERROR = Quantity("error", "test error, best at the top", "{:.1%}", log=True, tick=percent)
LEARNING_RATE = Quantity("learning_rate", "learning rate", "{:g}", log=True)
# Before clipping: over the examples drawn in an epoch, and over the same ones after each.
GRADIENT_NORM = Quantity("gradient_norm", "mean gradient norm", log=True)
CLIPPED = Quantity("clipped_fraction", "fraction clipped", "{:.0%}", tick=percent)
NORM_OF_GRADIENTS = Quantity("norms.gradient", "mean gradient norm", log=True)
NORM_OF_ACTIVATIONS = Quantity("norms.activation", "mean activation norm", log=True)
# Settings, as the best of a search is shown in one column.
WIDTH = Quantity("width", "filters", "{:g} x filters")
OPTIMIZER = Quantity("optimizer", "optimizer", "{}")
RATE = Quantity("learning_rate", "learning rate", "rate {:.3g}")
BATCH = Quantity("batch", "batch", "batch {}")
EPOCHS = Quantity("epochs", "epochs", "{} epochs")
