"""Optimizers: from the mean noisy gradient to an update."""

from functools import partial

import jax
import optax

from dpstudy.parts.part import Part, SpecError, part, positive


class Optimizer(Part):
    """An update rule."""

    def transformation(self) -> optax.GradientTransformation:
        """Return the rule as optax takes it; it is given the gradient over the expected batch."""
        raise NotImplementedError


@part("sgd")
class Sgd(Optimizer):
    """Stochastic gradient descent: `learning_rate` times the mean gradient, `momentum` in [0, 1).

    >>> rule = Sgd(learning_rate=0.5, momentum=0.0).transformation()
    >>> float(rule.update(2.0, rule.init(1.0))[0])
    -1.0
    """

    learning_rate: float = 0.5
    momentum: float = 0.9

    def check(self) -> None:
        positive(self, "learning_rate")
        if not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be in [0, 1), got {self.momentum}")

    def transformation(self) -> optax.GradientTransformation:
        return optax.sgd(self.learning_rate, momentum=self.momentum)


@part("sgd-weight-decay")
class SgdWithDecay(Sgd):
    """With weight decay, of kernels alone: `decay` times their squared l2 norm in the loss.

    Its gradient looks at no data: outside the clipping, it costs no privacy.
    """

    decay: float = 0.001

    def check(self) -> None:
        super().check()
        positive(self, "decay")

    def transformation(self) -> optax.GradientTransformation:
        kernels = partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
        decay = optax.add_decayed_weights(2 * self.decay, mask=kernels)
        return optax.chain(decay, super().transformation())


@part("adam")
class Adam(Optimizer):
    """Adam, with optax's defaults but for the `learning_rate`.

    >>> rule = Adam(0.001).transformation()  # so long is its first step, whatever the gradient
    >>> round(float(rule.update(5.0, rule.init(1.0))[0]), 6)
    -0.001
    """

    learning_rate: float = 0.001

    def check(self) -> None:
        positive(self, "learning_rate")

    def transformation(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)
