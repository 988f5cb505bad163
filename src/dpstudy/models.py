"""The papers' networks.

Each takes a batch of images, normalised as the run says, and the activation, a function applied to
every hidden pre-activation, and returns logits. Max-pooling comes before the activation: for an
increasing activation the result is the same, on fewer values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
from flax import nnx

from dpstudy.gradients.convolution import conv_general_dilated
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.gradients.pooling import average_pool, max_pool

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Elementwise = Callable[[Array], Array]
    Activation = Elementwise | tuple[Elementwise, ...]
    """One for all hidden layers, or one for each."""

# Biases are zero. "glorot" is the default of the tempered sigmoids' own framework.
INITS = {"glorot": nnx.initializers.glorot_normal(), "he": nnx.initializers.he_normal()}


class MnistNetwork(nnx.Module):
    """Two convolutions and two dense layers (tempered sigmoids and losing less, Table 1)."""

    def __init__(
        self,
        *,
        padding: str | int,
        use_bias: bool,
        side: int,
        width: float,
        init: str,
        rngs: nnx.Rngs,
    ):
        """Build the network; its convolutions leave `side` x `side` positions."""
        common = {"use_bias": use_bias, "rngs": rngs, "kernel_init": INITS[init]}
        convolution = common | {"conv_general_dilated": conv_general_dilated}
        first, second = _scaled((16, 32), width)
        self.conv1 = Conv(1, first, (8, 8), 2, padding=padding, **convolution)
        self.conv2 = Conv(first, second, (4, 4), 2, padding="VALID", **convolution)
        self.dense1 = Dense(side * side * second, 32, **common)
        self.dense2 = Dense(32, 10, **common)

    def __call__(
        self, images: Float[Array, "batch 28 28 1"], activation: Activation
    ) -> Float[Array, "batch 10"]:
        """Return the logits."""
        first, second, third = in_layers(activation, 3)
        x = first(max_pool(self.conv1(images), stride=1))
        x = second(max_pool(self.conv2(x), stride=1))
        x = third(self.dense1(x.reshape(len(x), -1)))
        return self.dense2(x)


class TemperedCifarNetwork(nnx.Module):
    """Eight convolutions and a spatial mean (tempered sigmoids, Table 2)."""

    def __init__(self, *, width: float, init: str, rngs: nnx.Rngs):
        """Build the network."""
        filters = _scaled((32, 32, 64, 64, 128, 128, 256), width)
        self.convs = nnx.List(_convolutions((3, *filters, 10), init, rngs))

    def __call__(
        self, images: Float[Array, "batch 32 32 3"], activation: Activation
    ) -> Float[Array, "batch 10"]:
        """Return the logits."""
        x = images
        each = in_layers(activation, len(self.convs) - 1)
        for index, conv in enumerate(self.convs[:-1]):
            x = each[index](conv(x))
            if index in (1, 3, 5):
                x = average_pool(x)
        return self.convs[-1](x).mean(axis=(1, 2))


class LosingLessCifarNetwork(nnx.Module):
    """Six convolutions and two dense layers (losing less, Table 2)."""

    def __init__(self, *, width: float, init: str, rngs: nnx.Rngs):
        """Build the network."""
        filters = _scaled((32, 32, 64, 64, 128, 128), width)
        self.convs = nnx.List(_convolutions((3, *filters), init, rngs))
        self.dense1 = Dense(4 * 4 * filters[-1], 128, rngs=rngs, kernel_init=INITS[init])
        self.dense2 = Dense(128, 10, rngs=rngs, kernel_init=INITS[init])

    def __call__(
        self, images: Float[Array, "batch 32 32 3"], activation: Activation
    ) -> Float[Array, "batch 10"]:
        """Return the logits."""
        x = images
        *each, last = in_layers(activation, len(self.convs) + 1)
        for index, conv in enumerate(self.convs):
            x = conv(x)
            x = each[index](max_pool(x, stride=2) if index % 2 else x)
        x = last(self.dense1(x.reshape(len(x), -1)))
        return self.dense2(x)


def in_layers(activation: Activation, layers: int) -> tuple[Elementwise, ...]:
    """Return each hidden layer's activation."""
    return activation if isinstance(activation, tuple) else (activation,) * layers


def _scaled(filters: tuple[int, ...], width: float) -> tuple[int, ...]:
    return tuple(round(count * width) for count in filters)


def _convolutions(widths: tuple[int, ...], init: str, rngs: nnx.Rngs) -> list[Conv]:
    options = {"kernel_init": INITS[init], "conv_general_dilated": conv_general_dilated}
    return [
        Conv(fan_in, fan_out, (3, 3), 1, padding="SAME", rngs=rngs, **options)
        for fan_in, fan_out in pairwise(widths)
    ]


NETWORKS: dict[str, Callable[..., nnx.Module]] = {
    "tempered-mnist": partial(MnistNetwork, padding="SAME", use_bias=True, side=4),
    "losing-less-mnist": partial(MnistNetwork, padding=2, use_bias=True, side=4),
    "backprop-mnist": partial(MnistNetwork, padding="VALID", use_bias=False, side=3),
    "tempered-cifar": TemperedCifarNetwork,
    "losing-less-cifar": LosingLessCifarNetwork,
}


def build(model: str, key: Array, width: float = 1.0, init: str = "glorot") -> nnx.Module:
    """Return the named network with weights drawn from `key`, as `init` says (`INITS`).

    Its convolutions have `width` times as many filters as in its paper.
    """
    return NETWORKS[model](width=width, init=init, rngs=nnx.Rngs(params=key))


def structure(model: str, width: float = 1.0) -> nnx.GraphDef:
    """Return the named network without its weights, for `nnx.merge`."""
    abstract = nnx.eval_shape(lambda: build(model, jax.random.key(0), width))
    return nnx.split(abstract)[0]
