"""Networks on features: the convolutional ones of "Losing less" on scattering, and linear ones.

Its Tables 3 and 4 are followed as printed. The code of Tramèr and Boneh, which it names as their
source, has less: no pooling for MNIST (so 512 numbers before the dense layers, and 33,066
parameters), and for CIFAR-10 one convolution on each side of one pooling (187,210 parameters).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, ClassVar

from flax import nnx

from dpstudy.gradients.convolution import conv_general_dilated
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.gradients.pooling import max_pool
from dpstudy.parts.networks.activation import Activation
from dpstudy.parts.networks.network import (
    INITS,
    MnistModule,
    Network,
    Outputs,
    convolutions,
    scaled,
)
from dpstudy.parts.part import SpecError, at_least, part

if TYPE_CHECKING:
    from jaxtyping import Array, Float

_MNIST, _CIFAR = (7, 7, 81), (8, 8, 243)


@part("scattering-mnist")
class ScatteringMnist(Network):
    """Two convolutions and two dense layers (losing less, Table 3); 20,778 parameters."""

    image_shape = _MNIST
    hidden = 3
    microbatch: ClassVar[Mapping[str, int]] = {"core": 64, "cores": 64, "accelerator": 256}
    cohort = 32

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return ScatteringMnistModule(self, rngs)


@part("scattering-cifar")
class ScatteringCifar(Network):
    """Four convolutions and a dense layer (losing less, Table 4); 253,386 parameters."""

    image_shape = _CIFAR
    hidden = 4
    microbatch: ClassVar[Mapping[str, int]] = {"core": 16, "cores": 16, "accelerator": 256}
    cohort = 8

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return ScatteringCifarModule(self, rngs)


class _Dense(Network):
    microbatch: ClassVar[Mapping[str, int]] = {"core": 64, "cores": 128, "accelerator": 1024}
    cohort = 32

    def check(self) -> None:
        super().check()
        if self.width != 1:
            raise SpecError(f"width must be 1 where there are no convolutions, got {self.width}")


class _Linear(_Dense):
    hidden = 0

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return LinearModule(self, rngs)


@part("scattering-linear-mnist")
class ScatteringLinearMnist(_Linear):
    """One dense layer (Tramèr and Boneh); 39,700 parameters. It has no use for an activation."""

    image_shape = _MNIST


@part("scattering-linear-cifar")
class ScatteringLinearCifar(_Linear):
    """One dense layer (Tramèr and Boneh); 155,530 parameters. It has no use for an activation."""

    image_shape = _CIFAR


@part("linear-head")
class LinearHead(_Linear):
    """One dense layer on any features, without a bias. It has no use for an activation.

    Beside features of norm 1 a bias would be as large a feature as all others together: clipping
    would give it half of a gradient's squared norm, and where classes are balanced it has nothing
    to say.

    Attributes:
        inputs: the number of features of an example.
    """

    inputs: int = 8_000

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def check(self) -> None:
        super().check()
        at_least(self, 1, "inputs")

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return LinearModule(self, rngs, biased=False)


@part("hidden-head")
class HiddenHead(_Dense):
    """Two dense layers without biases on any features, one hidden.

    Attributes:
        inputs: the number of features of an example.
        units: of the hidden layer.
    """

    inputs: int = 8_000
    units: int = 100
    hidden = 1

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def check(self) -> None:
        super().check()
        at_least(self, 1, "inputs", "units")

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return HiddenModule(self, rngs)


class ScatteringMnistModule(MnistModule):
    """The same layers, of other sizes."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        """Build the module; its convolutions leave 2 x 2 positions."""
        common = {"rngs": rngs, "kernel_init": INITS[network.init]}
        convolution = common | {"padding": 1, "conv_general_dilated": conv_general_dilated}
        first, second = scaled((16, 32), network.width)
        self.conv1 = Conv(network.image_shape[-1], first, (3, 3), 2, **convolution)
        self.conv2 = Conv(first, second, (3, 3), 1, **convolution)
        self.dense1 = Dense(2 * 2 * second, 32, **common)
        self.dense2 = Dense(32, 10, **common)


class ScatteringCifarModule(nnx.Module):
    """Four convolutions and a dense layer."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        """Build the module; its convolutions leave 2 x 2 positions."""
        filters = scaled((64, 64, 64, 64), network.width)
        self.convs = nnx.List(convolutions((network.image_shape[-1], *filters), network.init, rngs))
        self.dense1 = Dense(2 * 2 * filters[-1], 10, rngs=rngs, kernel_init=INITS[network.init])

    def __call__(self, images: Float[Array, "batch 8 8 243"], activation: Activation) -> Outputs:
        x, hidden = images, []
        for index, conv in enumerate(self.convs):
            hidden.append(conv(x))
            x = max_pool(hidden[-1], stride=2) if index % 2 else hidden[-1]
            x = activation.of_layer(index)(x)
        return Outputs(self.dense1(x.reshape(len(x), -1)), tuple(hidden))


class LinearModule(nnx.Module):
    """One dense layer."""

    def __init__(self, network: Network, rngs: nnx.Rngs, *, biased: bool = True):
        """Build the module."""
        common = {"rngs": rngs, "kernel_init": INITS[network.init], "use_bias": biased}
        self.dense1 = Dense(prod(network.image_shape), 10, **common)

    def __call__(self, images: Float[Array, "batch *image"], activation: Activation) -> Outputs:
        return Outputs(self.dense1(images.reshape(len(images), -1)), ())


class HiddenModule(nnx.Module):
    """Two dense layers."""

    def __init__(self, network: HiddenHead, rngs: nnx.Rngs):
        """Build the module."""
        common = {"rngs": rngs, "kernel_init": INITS[network.init], "use_bias": False}
        self.dense1 = Dense(network.inputs, network.units, **common)
        self.dense2 = Dense(network.units, 10, **common)

    def __call__(self, features: Float[Array, "batch inputs"], activation: Activation) -> Outputs:
        hidden = self.dense1(features)
        return Outputs(self.dense2(activation.of_layer(0)(hidden)), (hidden,))
