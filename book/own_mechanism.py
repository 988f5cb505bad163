"""A mechanism of your own, with its own sensitivity: every number of a gradient is clipped."""

import jax
import jax.numpy as jnp

from dpstudy.parts.mechanism import Mechanism, Seen
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
        rows = found.written_out()
        clipped = jax.tree.map(lambda row: jnp.clip(row, -self.bound, self.bound), rows)
        total = jax.tree.map(lambda row: jnp.tensordot(mask, row, 1), clipped)
        largest = [abs(row).reshape(len(mask), -1).max(axis=1) for row in jax.tree.leaves(rows)]
        changed = jnp.max(jnp.stack(largest), axis=0) > self.bound
        return total, Seen(mask @ each, mask @ found.norms(), mask @ changed, mask.sum())

    def noise(self, params):
        leaves = len(jax.tree.leaves(params))  # which share the privacy evenly
        sigma = self.noise_multiplier * self.bound
        return jax.tree.map(lambda leaf: sigma * (leaves * leaf.size) ** 0.5, params)
