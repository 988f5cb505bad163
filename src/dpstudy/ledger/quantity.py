"""What is compared: a number of each run, by seed, and what it is called in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from dpstudy.ledger.evidence import Trained


@dataclass(frozen=True)
class Quantity:
    """A number of each run after its last epoch.

    Attributes:
        column: its name in a run's curve, or `class_spread`.
        words: what a sentence calls it.
        share: whether it is a share, shown in percent.
    """

    column: str
    words: str
    share: bool = False

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        """Return the two sides of a comparison, each indexed by seed.

        Raises:
            UndecidedError: the runs did not record it, or one diverged and has none.
        """
        return first.values(self.column), second.values(self.column)

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        """Return what a sentence calls the two sides."""
        return first.label, second.label

    def show(self, value: float) -> str:
        """Show a value at the digits that it is worth."""
        return f"{value:.2%}" if self.share else f"{value:.3g}"


@dataclass(frozen=True)
class SinceStart(Quantity):
    """The same at both ends of training: after its last epoch, and before its first step."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        """See `Quantity`."""
        return first.values(self.column), second.at_start(self.column)

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        """See `Quantity`."""
        return f"{first.label} after training", "before it"


@dataclass(frozen=True)
class EpochsToItsEnd(Quantity):
    """The epochs that each side takes to the median accuracy at which the first ends.

    A seed that never reaches it takes one epoch more than there are.
    """

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        """See `Quantity`."""
        level = first.values(self.column).median()
        return first.epochs_to(self.column, level), second.epochs_to(self.column, level)


ACCURACY = Quantity("test_accuracy", "test accuracy", share=True)
# Of all gradients of an epoch, while the weights change.
GRADIENT_NORM = Quantity("gradient_norm", "gradient norm")
CLIPPED = Quantity("clipped_fraction", "fraction of gradients clipped", share=True)
# Of the same examples after an epoch: what runs with norms measure.
GRADIENTS = Quantity("norms.gradient", "gradient norm")
ACTIVATIONS = Quantity("norms.activation", "activation norm")
GRADIENTS_SINCE_START = SinceStart("norms.gradient", "gradient norm")
ACTIVATIONS_SINCE_START = SinceStart("norms.activation", "activation norm")
CLASS_SPREAD = Quantity("class_spread", "spread of the class accuracies")
EPOCHS = EpochsToItsEnd("test_accuracy", "epochs to where the first ends")
