"""What is measured of runs: its name, its digits, and which number of each run it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import UndecidedError
from dpstudy.parts.measure import EDGES

# From a variant and a column, a number by seed. Each raises UndecidedError where the runs did not
# record it, or where one diverged and has none.
Measure: TypeAlias = Callable[[Variant, str], pd.Series]
# The same of the two sides of a comparison.
Sides: TypeAlias = Callable[[Variant, Variant, str], tuple[pd.Series, pd.Series]]


def percent(share: float) -> str:
    """Show a share with the digits that it has: within a decade ticks lie at such as 2.25 %."""
    return f"{100 * share:.4g}%"


def each(measure: Measure) -> Sides:
    """Return how two variants are compared by one number of each."""
    return lambda first, second, column: (measure(first, column), measure(second, column))


at_end: Sides = each(Variant.values)  # after the last epoch


@dataclass(frozen=True)
class Quantity:
    """A number of each run, or a setting of it."""

    column: str  # its name in `Reading.curves` or `Reading.finals`, or in a run
    label: str  # in a sentence and at an axis
    form: str = "{:.3g}"  # how a number is shown, as for `str.format`
    sides: Sides = at_end  # what of it is compared
    # What a sentence calls the two sides, as templates with their labels, first and other.
    names: tuple[str, str] = ("{0}", "{1}")
    log: bool = False  # whether its axis is logarithmic
    tick: Callable[[float], str] = "{:g}".format  # how a number is shown on an axis

    def show(self, value: float) -> str:
        """Show a number of it."""
        return self.form.format(value)

    def of(self, first: Variant, second: Variant) -> tuple[pd.Series, pd.Series]:
        """Return the two sides of a comparison, each indexed by seed, or raise UndecidedError."""
        return self.sides(first, second, self.column)

    def named(self, first: Variant, second: Variant) -> list[str]:
        """Return what a sentence calls the two sides."""
        return [name.format(first.label, second.label) for name in self.names]


def since_start(first: Variant, second: Variant, column: str) -> tuple[pd.Series, pd.Series]:
    """Return the number of one after its last epoch, and of the other before its first step."""
    return first.values(column), second.at_start(column)


def first_to_last(first: Variant, second: Variant, column: str) -> tuple[pd.Series, pd.Series]:
    """Return the number of one after its first epoch, and of the other after its last."""
    return first.by_epoch(column).loc[1], second.values(column)


def epochs_to_its_end(first: Variant, second: Variant, column: str) -> tuple[pd.Series, pd.Series]:
    """Return the epochs that each takes to the median at which the first ends."""
    level = first.values(column).median()

    def epochs(variant: Variant, column: str) -> pd.Series:
        curves = variant.curves
        # A seed that never reaches it takes one epoch more than there are.
        reached = curves.epoch.where(curves[column] >= level, curves.epoch.max() + 1)
        return reached.groupby(curves.seed).min()

    return each(epochs)(first, second, column)


def growth(variant: Variant, column: str) -> pd.Series:
    """Return by how much it grows from before the first step to after the last epoch."""
    return variant.values(column) - variant.at_start(column)


def most_in_training(variant: Variant, column: str) -> pd.Series:
    """Return the largest of it after any epoch."""
    return variant.by_epoch(column).loc[1:].max()


def after(epoch: int) -> Sides:
    """Return the comparison after an earlier epoch."""
    return each(lambda variant, column: variant.by_epoch(column).loc[epoch])


def change_by_epoch(epochs: int = 20) -> Sides:
    """Return the comparison of how much it moves from an epoch to the next, in the last ones."""
    return each(lambda of, column: of.by_epoch(column).diff().abs().tail(epochs).mean())


def late_growth(epochs: int = 10, before: int = 20) -> Sides:
    """Return the mean of the last epochs, and of as many epochs some way before them."""

    def sides(first: Variant, second: Variant, column: str) -> tuple[pd.Series, pd.Series]:
        late, early = first.by_epoch(column), second.by_epoch(column)[:-before]
        return late.tail(epochs).mean(), early.tail(epochs).mean()

    return sides


def within(epsilon: float, accountant: str = "pld") -> Sides:
    """Return the comparison after the last epoch that has spent no more than an epsilon."""

    def then(variant: Variant, column: str) -> pd.Series:
        spent = variant.by_epoch(f"epsilon_{accountant}").max(axis=1)
        epochs = spent.index[spent <= epsilon]
        if not len(epochs):
            raise UndecidedError(f"{variant.label} spends more than {epsilon:g} in an epoch")
        return variant.by_epoch(column).loc[epochs[-1]]

    return each(then)


def gain_within(epsilon: float, accountant: str = "pld") -> Sides:
    """Return what the first gains over the second, within an epsilon and at the end."""

    def sides(first: Variant, second: Variant, column: str) -> tuple[pd.Series, pd.Series]:
        early, other = within(epsilon, accountant)(first, second, column)
        return early - other, first.values(column) - second.values(column)

    return sides


def spread_of_norms(epoch: int) -> Sides:
    """Return the standard deviation over examples of a norm that is stored as a histogram."""

    def spread(variant: Variant, column: str) -> pd.Series:
        middles, found = np.sqrt(EDGES[:-1] * EDGES[1:]), {}  # of bins
        for seed, counts in variant.arrays(column, epoch).items():
            mean = np.average(middles, weights=counts)
            found[seed] = float(np.sqrt(np.average((middles - mean) ** 2, weights=counts)))
        return pd.Series(found)

    return each(spread)


def mean_of_layers(variant: Variant, column: str) -> pd.Series:
    """Return the mean over hidden layers of a norm that is measured layer by layer."""
    return pd.Series({seed: norms.mean() for seed, norms in variant.arrays(column).items()})


def class_accuracy(number: int, epoch: int) -> Sides:
    """Return the share of a class' training examples that are taken for it, after an epoch."""

    def share(variant: Variant, column: str) -> pd.Series:
        counts = variant.arrays(column, epoch)
        return pd.Series({s: of[number, number] / of[number].sum() for s, of in counts.items()})

    return each(share)


def class_spread(variant: Variant, column: str) -> pd.Series:
    """Return the standard deviation of the test accuracies of the classes, whatever the column."""
    # Alike at chance is not fair.
    if variant.finals.diverged.any():
        raise UndecidedError(f"stored runs of {variant.label} diverged, and have no class_spread")
    spreads = {result.run.seed: np.std(result.class_accuracy) for result in variant.results}
    return pd.Series(spreads, dtype=float)


ACCURACY = Quantity("test_accuracy", "test accuracy", "{:.2%}", tick=percent)
# Of all gradients of an epoch, while the weights change.
GRADIENT_NORM = Quantity("gradient_norm", "gradient norm")
