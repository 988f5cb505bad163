"""An activation of your own: like tanh, with heavier tails."""

import jax.numpy as jnp

from dpstudy.parts.networks.activation import Activation
from dpstudy.parts.part import part, positive


@part("softsign")
class Softsign(Activation):
    """x / (1 + |x| / s), which stays between -s and s."""

    scale: float = 1.0

    def check(self):
        positive(self, "scale")

    def __call__(self, x):
        return x / (1 + jnp.abs(x) / self.scale)
