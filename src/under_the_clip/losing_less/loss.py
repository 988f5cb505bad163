"""The loss of "Losing less" (Shamsabadi & Papernot 2023), its parts, and what it is compared with.

One sum of three: squared error, which is easy to learn from; focal loss, for hard examples; and a
penalty on pre-activations. A curriculum moves the weight from the first to the second.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpstudy.parts.loss import Each, Hidden, Labels, Logits, Loss
from dpstudy.parts.part import at_least, part, positive


def squared_error(logits: Logits, labels: Labels) -> Each:
    """Return half the squared distance from logits to the one-hot label (Eq. 7)."""
    return 0.5 * jnp.sum(_errors(logits, labels) ** 2, axis=1)


def focal(logits: Logits, labels: Labels, focusing: float) -> Each:
    """Return -(1 - p)^γ log p, with p the probability of the label (Eq. 8)."""
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]
    # 1 - p is what the other classes have, and so without cancellation. Where nothing is left of
    # it, its logarithm is floored: the power of γ is then 0, or 1 if γ is.
    others = jnp.where(_one_hot(logits, labels) > 0, -jnp.inf, logits)
    log_rest = jax.nn.logsumexp(others, axis=1) - jax.nn.logsumexp(logits, axis=1)
    return -jnp.exp(focusing * jnp.maximum(log_rest, -50.0)) * log_p


def penalty(hidden: Hidden, *, squared: bool) -> Each:
    """Return the sum over hidden layers of the pre-activations' l2 norm over their number (Eq. 9).

    `squared` as that of Eq. 7 is meant to be; else as printed.
    """
    return sum(_norm(layer, squared) / layer[0].size for layer in hidden)


def _norm(layer: Float[Array, "batch *units"], squared: bool) -> Each:
    squares = jnp.sum(layer.reshape(len(layer), -1) ** 2, axis=1)
    # With a gradient at 0.
    return squares if squared else jnp.sqrt(jnp.maximum(squares, 1e-12))


def _one_hot(logits: Logits, labels: Labels) -> Logits:
    return jax.nn.one_hot(labels, logits.shape[1], dtype=logits.dtype)


def _errors(logits: Logits, labels: Labels) -> Logits:
    return logits - _one_hot(logits, labels)


@part("squared-error")
class SquaredError(Loss):
    """Eq. 7 alone (Figure 11)."""

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        return squared_error(logits, labels)


@part("absolute-error")
class AbsoluteError(Loss):
    """The sum of absolute errors of the logits (Eq. 13)."""

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        return jnp.sum(jnp.abs(_errors(logits, labels)), axis=1)


@part("huber")
class Huber(Loss):
    """Squared errors of the logits below the `bound` β, absolute ones above it, summed (Eq. 14)."""

    bound: float = 1.0

    def check(self) -> None:
        positive(self, "bound")

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        error = jnp.abs(_errors(logits, labels))
        small, large = 0.5 * error**2 / self.bound, error - 0.5 * self.bound
        return jnp.sum(jnp.where(error < self.bound, small, large), axis=1)


@part("focal")
class Focal(Loss):
    """Eq. 8 alone (Figure 11); with γ, `focusing`, 0 it is cross-entropy."""

    focusing: float = 5.0

    def check(self) -> None:
        at_least(self, 0, "focusing")

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        return focal(logits, labels, self.focusing)


@part("composite")
class Composite(Focal):
    """α focal + (1 - α) (squared error + penalty / β), with α = sigmoid(e_c - e_t) (Eq. 10).

    The current epoch e_c counts from 0: the first has α = 1/2 where e_t is 0 (Section 4).

    Attributes:
        turning_epoch: e_t.
        divisor: β.
        penalised: whether the penalty is in, which the paper's ablation leaves out.
        squared: whether its norm is squared; see `penalty`.
    """

    turning_epoch: float = 0.0
    divisor: float = 1.0
    penalised: bool = True
    squared: bool = True

    def check(self) -> None:
        super().check()
        positive(self, "divisor")

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        alpha = jax.nn.sigmoid(jnp.maximum(epoch - 1, 0.0) - self.turning_epoch)
        early = squared_error(logits, labels)
        if self.penalised:
            early += penalty(hidden, squared=self.squared) / self.divisor
        return alpha * focal(logits, labels, self.focusing) + (1 - alpha) * early
