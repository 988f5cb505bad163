"""Activations: scaled and shifted sigmoids, relu, and one of its own for each layer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpstudy.parts.part import Part, SpecError, part, positive


class Activation(Part):
    """An increasing function of each number: networks pool before they activate."""

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return the activation of pre-activations of any shape."""
        raise NotImplementedError

    def of_layer(self, layer: int) -> Activation:
        """Return the activation of one hidden `layer`, counted from 0."""
        return self


@part("tempered")
class Tempered(Activation):
    """s / (1 + exp(-T x)) - o, a sigmoid scaled and shifted; (s, T, o) = (2, 2, 1) is tanh.

    >>> x = jnp.array([0.0, 1.0])
    >>> Tempered()(x), Tempered(scale=1.0, inverse_temperature=1.0, offset=0.0)(x)
    (Array([0.       , 0.7615942], dtype=float32), Array([0.5      , 0.7310586], dtype=float32))
    """

    scale: float = 2.0
    inverse_temperature: float = 2.0
    offset: float = 1.0

    def check(self) -> None:
        positive(self, "scale", "inverse_temperature")

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Return s/2 (tanh(T x / 2) + 1) - o: exact for tanh, no overflow, cheap as vectors."""
        half = self.scale / 2
        return half * jnp.tanh(x * (self.inverse_temperature / 2)) + (half - self.offset)


@part("relu")
class Relu(Activation):
    """max(x, 0), with gradient 0 at 0.

    >>> Relu()(jnp.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jax.nn.relu(x)


@part("linear")
class Linear(Activation):
    """No activation at all.

    >>> Linear()(jnp.array([-1.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __call__(self, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return x


@part("layer-wise")
class LayerWise(Activation):
    """An activation of its own for each of the hidden `layers`.

    >>> LayerWise((Relu(), Linear())).of_layer(1)
    Linear()
    """

    layers: tuple[Activation, ...]

    def check(self) -> None:
        if any(isinstance(one, LayerWise) for one in self.layers):
            raise SpecError("an activation of one layer cannot itself be layer-wise")

    def of_layer(self, layer: int) -> Activation:
        return self.layers[layer]


TANH = Tempered()
