"""A measure of your own, which returns a histogram."""

import jax.numpy as jnp

from dpstudy.gradients import per_example
from dpstudy.parts.measure import Measure
from dpstudy.parts.part import SpecError, part


@part("gradient-norms")
class GradientNorms(Measure):
    """Of the examples' gradient norms: how many lie in each bin between 0.001 and 1,000."""

    bins: int = 30

    def check(self):
        if self.bins < 1:
            raise SpecError(f"bins must be at least 1, got {self.bins}")

    def __call__(self, snapshot):
        graph, losses = snapshot.network.graph(), snapshot.losses

        def norms(chunk):
            return per_example.gradients(graph, losses, snapshot.params, *chunk)[1].norms()

        edges = jnp.logspace(-3, 3, self.bins + 1)
        within = jnp.clip(snapshot.in_chunks(norms), edges[0], edges[-1])
        return {"counts": jnp.histogram(within, edges)[0]}
