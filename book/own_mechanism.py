"""A mechanism of your own, with its own sensitivity: every number of a gradient is clipped."""

import jax
import jax.numpy as jnp

from dpstudy.parts.mechanism import Mechanism, Seen, counted
from dpstudy.parts.part import part, positive


@part("element-wise")
class ElementWise(Mechanism):
    """Numbers clipped to [-c, c]: a leaf of n of them has the l2 sensitivity c sqrt(n)."""

    bound: float = 0.01
    noise_multiplier: float = 1.23

    def check(self):
        positive(self, "bound", "noise_multiplier")

    @property
    def noise_over_sensitivity(self):
        return self.noise_multiplier  # of all leaves together, by what `noise` gives each

    def sum(self, batch, mask):
        each, found = batch.gradients()
        norms = found.norms()
        clipped = found.changed(lambda row: jnp.clip(row, -self.bound, self.bound))
        total = clipped.weighted_sum(counted(mask, norms).astype(jnp.float32))  # finite ones
        return total, Seen.of(mask, each, norms, clipped.norms() < 0.999 * norms)

    def noise(self, params):
        leaves = len(jax.tree.leaves(params))  # which share the privacy evenly
        sigma = self.noise_multiplier * self.bound
        return jax.tree.map(lambda leaf: sigma * (leaves * leaf.size) ** 0.5, params)
