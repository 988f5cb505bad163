"""Optimizers: from the mean noisy gradient to an update."""

from __future__ import annotations

import optax

from dpstudy.parts.part import Part, SpecError, part, positive


class Optimizer(Part):
    """An update rule."""

    def transformation(self) -> optax.GradientTransformation:
        """Return the rule as optax takes it; it is given the gradient over the expected batch."""
        raise NotImplementedError


@part("sgd")
class Sgd(Optimizer):
    """Stochastic gradient descent, with momentum.

    Attributes:
        learning_rate: of the mean gradient.
        momentum: in [0, 1).
    """

    learning_rate: float = 0.5
    momentum: float = 0.9

    def check(self) -> None:
        """See `Part`."""
        positive(self, "learning_rate")
        if not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum}")

    def transformation(self) -> optax.GradientTransformation:
        """See `Optimizer`."""
        return optax.sgd(self.learning_rate, momentum=self.momentum)


@part("adam")
class Adam(Optimizer):
    """Adam, with optax's defaults but for the rate.

    Attributes:
        learning_rate: of the mean gradient.
    """

    learning_rate: float = 0.001

    def check(self) -> None:
        """See `Part`."""
        positive(self, "learning_rate")

    def transformation(self) -> optax.GradientTransformation:
        """See `Optimizer`."""
        return optax.adam(self.learning_rate)
