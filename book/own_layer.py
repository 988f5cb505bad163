"""Give a layer type of your own a rule for its per-example gradients, and check the rule."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from dpstudy.gradients import applicability, layer_rules, layers, per_example


class Scale(nnx.Module):
    """Multiplies each feature by a weight of its own."""

    def __init__(self, features):
        self.weight = nnx.Param(jnp.ones(features))

    def __call__(self, x):
        return layers.tapped(self, x, x * self.weight)


def scale_rule(layer, inputs, outputs):
    """Each example's gradient: its inputs times its output gradients, summed over positions."""
    each = (inputs * outputs).reshape(len(inputs), -1, inputs.shape[-1]).sum(axis=1)
    return layer_rules.WrittenOut({"weight": each})


layer_rules.RULES[Scale] = scale_rule


def losses(network, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(network(x), y)


x, y = jax.random.normal(jax.random.key(0), (8, 20)), jnp.arange(8) % 5
model = layers.tap(nnx.Sequential(Scale(20), jnp.tanh, nnx.Linear(20, 5, rngs=nnx.Rngs(0))))
graph, params = nnx.split(model, nnx.Param)
assert applicability.why_not_by_rules(graph, losses, params, x, y) is None
_, by_rules = per_example.by_rules(graph, losses, params, x, y)
_, by_vmap = per_example.by_vmap(graph, losses, params, x, y)
print(f"largest difference of norms {jnp.abs(by_rules.norms() - by_vmap.norms()).max():.0e}")
