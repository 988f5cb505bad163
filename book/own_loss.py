"""A loss of your own, which changes from epoch to epoch."""

import jax
import jax.numpy as jnp
import optax

from dpstudy.parts.loss import Loss
from dpstudy.parts.part import SpecError, part


@part("fading-smoothing")
class FadingSmoothing(Loss):
    """Cross-entropy with smoothed labels; in epoch k, a k-th of the first epoch's smoothing."""

    smoothing: float = 0.2

    def check(self):
        if not 0 <= self.smoothing < 1:
            raise SpecError(f"smoothing must be in [0, 1), got {self.smoothing}")

    def __call__(self, logits, hidden, labels, epoch):
        share = self.smoothing / jnp.maximum(epoch, 1)  # 0 before the first epoch
        targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[1]), share)
        return optax.softmax_cross_entropy(logits, targets)
