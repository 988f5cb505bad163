"""Losses: what training makes small, example by example."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dpstudy.parts.part import Part, part

Logits = Float[Array, "batch classes"]
Hidden = tuple[Float[Array, "batch *units"], ...]
Labels = Int[Array, "batch"]
Each = Float[Array, "batch"]


class Loss(Part):
    """A training loss."""

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        """Return each example's loss, which must depend on that example alone.

        `hidden` has the pre-activations, layer by layer; `epoch` is 1 in the first, and 0 before.
        """
        raise NotImplementedError


@part("cross-entropy")
class CrossEntropy(Loss):
    """-log softmax(z)_y, in nats.

    >>> logits, labels = jnp.zeros((1, 4)), jnp.array([2])  # four classes, all as likely: log 4
    >>> CrossEntropy()(logits, (), labels, epoch=1).round(3)
    Array([1.386], dtype=float32)
    """

    def __call__(self, logits: Logits, hidden: Hidden, labels: Labels, epoch: Array) -> Each:
        log_probabilities = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]
