"""What is compared: a number of each run, by seed, and what it is called in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpstudy.lab.evidence import Trained
from dpstudy.lab.verdict import UndecidedError
from dpstudy.parts.measure import EDGES


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
        return first.values(self.column), second.at_start(self.column)

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        return f"{first.label} after training", "before it"


@dataclass(frozen=True)
class Growth(Quantity):
    """By how much it grows from before the first step to after the last epoch."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(
            side.values(self.column) - side.at_start(self.column) for side in (first, second)
        )


@dataclass(frozen=True)
class EpochsToItsEnd(Quantity):
    """The epochs that each side takes to the median accuracy at which the first ends.

    A seed that never reaches it takes one epoch more than there are.
    """

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        level = first.values(self.column).median()
        return first.epochs_to(self.column, level), second.epochs_to(self.column, level)


@dataclass(frozen=True)
class AfterEpoch(Quantity):
    """The same after an earlier epoch.

    Attributes:
        epoch: its number.
    """

    epoch: int = 1

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(side.by_epoch(self.column).loc[self.epoch] for side in (first, second))


@dataclass(frozen=True)
class MostInTraining(Quantity):
    """The largest of it after any epoch."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(side.by_epoch(self.column).loc[1:].max() for side in (first, second))


@dataclass(frozen=True)
class FirstToLastEpoch(Quantity):
    """The same in the first epoch, and in the last."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return first.by_epoch(self.column).loc[1], second.values(self.column)

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        return f"{first.label} in the first epoch", "in the last"


@dataclass(frozen=True)
class ChangeByEpoch(Quantity):
    """By how much it changes from an epoch to the next, up or down: the mean of the last ones.

    Attributes:
        epochs: how many changes.
    """

    epochs: int = 20

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(
            side.by_epoch(self.column).diff().abs().tail(self.epochs).mean()
            for side in (first, second)
        )


@dataclass(frozen=True)
class LateGrowth(Quantity):
    """The mean of the last epochs, and of as many epochs some way before them.

    Attributes:
        epochs: how many a mean is over.
        before: by how many the earlier ones lie before the later.
    """

    epochs: int = 10
    before: int = 20

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        late, early = first.by_epoch(self.column), second.by_epoch(self.column)[: -self.before]
        return late.tail(self.epochs).mean(), early.tail(self.epochs).mean()

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        return f"{first.label} in its last {self.epochs} epochs", f"{self.before} epochs earlier"


@dataclass(frozen=True)
class WithinEpsilon(Quantity):
    """The same after the last epoch that has spent no more than an epsilon.

    Attributes:
        epsilon: the most that may be spent.
        accountant: by which.
    """

    epsilon: float = 1.0
    accountant: str = "pld"

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        """See `Quantity`.

        Raises:
            UndecidedError: the first epoch spends more.
        """
        return tuple(self._of(side) for side in (first, second))

    def _of(self, side: Trained) -> pd.Series:
        spent = side.by_epoch(f"epsilon_{self.accountant}").max(axis=1)
        within = spent.index[spent <= self.epsilon]
        if not len(within):
            raise UndecidedError(f"{side.label} spends more than {self.epsilon:g} in an epoch")
        return side.by_epoch(self.column).loc[within[-1]]


@dataclass(frozen=True)
class GainWithinEpsilon(WithinEpsilon):
    """What the first gains over the second, seed by seed: within an epsilon, and at the end."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        early, other = super().of(first, second)
        return early - other, first.values(self.column) - second.values(self.column)

    def names(self, first: Trained, second: Trained) -> tuple[str, str]:
        return f"{first.label} over {second.label} at ε < {self.epsilon:g}", "at the end"


@dataclass(frozen=True)
class SpreadOfNorms(AfterEpoch):
    """The standard deviation over examples of a norm that is stored as a histogram."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(
            pd.Series(
                {seed: _spread(of) for seed, of in side.arrays(self.column, self.epoch).items()}
            )
            for side in (first, second)
        )


def _spread(counts: np.ndarray) -> float:
    """Return the standard deviation of norms, each taken at the middle of its bin."""
    middles = np.sqrt(EDGES[:-1] * EDGES[1:])
    mean = np.average(middles, weights=counts)
    return float(np.sqrt(np.average((middles - mean) ** 2, weights=counts)))


@dataclass(frozen=True)
class MeanOfLayers(Quantity):
    """The mean over hidden layers of a norm that is measured layer by layer."""

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(
            pd.Series({seed: norms.mean() for seed, norms in side.arrays(self.column).items()})
            for side in (first, second)
        )


@dataclass(frozen=True)
class ClassAccuracy(Quantity):
    """The share of a class' training examples that are taken for it, after an epoch.

    Attributes:
        number: the class', from 0.
        epoch: after which.
    """

    number: int = 0
    epoch: int = 1

    def of(self, first: Trained, second: Trained) -> tuple[pd.Series, pd.Series]:
        return tuple(self._of(side) for side in (first, second))

    def _of(self, side: Trained) -> pd.Series:
        counts = side.arrays(self.column, self.epoch)
        at = self.number
        return pd.Series({seed: of[at, at] / of[at].sum() for seed, of in counts.items()})


ACCURACY = Quantity("test_accuracy", "test accuracy", share=True)
# Of all gradients of an epoch, while the weights change.
GRADIENT_NORM = Quantity("gradient_norm", "gradient norm")
UNREST = ChangeByEpoch("test_accuracy", "change of the test accuracy by epoch", share=True)
LATE_GROWTH = LateGrowth("test_accuracy", "test accuracy", share=True)
FIRST_GRADIENT_NORM = AfterEpoch("gradient_norm", "gradient norm in the first epoch", epoch=1)
FIRST_SPREAD = SpreadOfNorms(
    "clipping-bias.counts", "spread of gradient norms after the first epoch", epoch=1
)
GRADIENT_NORM_FALLS = FirstToLastEpoch("gradient_norm", "gradient norm")
CLIPPED = Quantity("clipped_fraction", "fraction of gradients clipped", share=True)
# Of the same examples after an epoch: what runs with norms measure.
GRADIENTS = Quantity("norms.gradient", "gradient norm")
ACTIVATIONS = Quantity("norms.activation", "activation norm")
GRADIENTS_SINCE_START = SinceStart("norms.gradient", "gradient norm")
ACTIVATIONS_SINCE_START = SinceStart("norms.activation", "activation norm")
ACTIVATION_GROWTH = Growth("norms.activation", "growth of the activation norm")
CLASS_SPREAD = Quantity("class_spread", "spread of the class accuracies")
EPOCHS = EpochsToItsEnd("test_accuracy", "epochs to where the first ends")
LOGITS = Quantity("layer-norms.logits", "norm of the logits")
PRE_ACTIVATIONS = MeanOfLayers("layer-norms.hidden", "norm of pre-activations, mean of layers")
LAST_WEIGHTS = Quantity("layer-norms.last_weights", "norm of the last layer's weights")
COSINE = AfterEpoch("clipping-bias.cosine", "cosine of clipped to unclipped mean gradient", epoch=1)
CURVATURE = Quantity("smoothness.largest", "largest singular value of the Hessian")
MOST_CURVED = MostInTraining(
    "smoothness.largest", "largest singular value of the Hessian in training"
)
