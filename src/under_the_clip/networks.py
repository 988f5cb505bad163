"""The papers' networks, beside `SmallCnn`, which is that of tempered sigmoids for MNIST.

Tables 3 and 4 of losing less are followed as printed. The code of Tramèr and Boneh, which it names
as their source, has less: no pooling for MNIST (33,066 parameters), and for CIFAR-10 one
convolution on each side of one pooling (187,210 parameters).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from flax import nnx
from jaxtyping import Array, Float

from dpstudy.gradients.convolution import conv_general_dilated
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.gradients.pooling import average_pool, max_pool
from dpstudy.parts.networks.activation import Activation
from dpstudy.parts.networks.network import (
    INITS,
    DenseOnly,
    LinearModule,
    MnistModule,
    Network,
    OnMnist,
    Outputs,
    convolutions,
    scaled,
)
from dpstudy.parts.part import part

# Scattering coefficients of images of 28 x 28 and of 32 x 32 pixels.
_OF_MNIST, _OF_CIFAR = (7, 7, 81), (8, 8, 243)


class _OnCifar(Network):
    image_shape = (32, 32, 3)
    microbatch: ClassVar[Mapping[str, int]] = {"core": 16, "cores": 16, "accelerator": 256}
    cohort = 8


@part("losing-less-mnist")
class LosingLessMnist(OnMnist):
    """`SmallCnn` with 2 pixels of padding before the first convolution (losing less, Table 1)."""

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return MnistModule(self, padding=2, use_bias=True, side=4, rngs=rngs)


@part("backprop-mnist")
class BackpropMnist(OnMnist):
    """`SmallCnn` without padding and biases (backpropagation clipping).

    As in the paper and in the last version of its code; the first pads the first convolution by 3.
    """

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return MnistModule(self, padding="VALID", use_bias=False, side=3, rngs=rngs)


@part("tempered-cifar")
class TemperedCifar(_OnCifar):
    """Eight convolutions and a spatial mean (tempered sigmoids, Table 2)."""

    hidden = 7

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return TemperedCifarModule(self, rngs)


@part("losing-less-cifar")
class LosingLessCifar(_OnCifar):
    """Six convolutions and two dense layers (losing less, Table 2); 550,570 parameters."""

    hidden = 7

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return LosingLessCifarModule(self, rngs)


@part("backprop-cifar")
class BackpropCifar(_OnCifar):
    """Eight 2x2 convolutions and two dense layers, without padding and biases.

    As in backpropagation clipping, Figure 4, whose poolings do not say where the activation is: it
    is before, as in tempered sigmoids. 29,424,512 parameters, 98 in 100 of them in one layer.
    """

    hidden = 9
    microbatch: ClassVar[Mapping[str, int]] = {"core": 8, "cores": 8, "accelerator": 128}
    cohort = 3

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return BackpropCifarModule(self, rngs)


@part("scattering-mnist")
class ScatteringMnist(Network):
    """Two convolutions and two dense layers (losing less, Table 3); 20,778 parameters."""

    image_shape = _OF_MNIST
    hidden = 3
    microbatch: ClassVar[Mapping[str, int]] = {"core": 64, "cores": 64, "accelerator": 256}
    cohort = 32

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return ScatteringMnistModule(self, rngs)


@part("scattering-cifar")
class ScatteringCifar(_OnCifar):
    """Four convolutions and a dense layer (losing less, Table 4); 253,386 parameters."""

    image_shape = _OF_CIFAR
    hidden = 4

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return ScatteringCifarModule(self, rngs)


class _OneDense(DenseOnly):
    """It has no use for an activation."""

    hidden = 0

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return LinearModule(self, rngs, use_bias=True)


@part("scattering-linear-mnist")
class ScatteringLinearMnist(_OneDense):
    """One dense layer (Tramèr and Boneh); 39,700 parameters."""

    image_shape = _OF_MNIST


@part("scattering-linear-cifar")
class ScatteringLinearCifar(_OneDense):
    """One dense layer (Tramèr and Boneh); 155,530 parameters."""

    image_shape = _OF_CIFAR


class TemperedCifarModule(nnx.Module):
    """Eight convolutions and a spatial mean."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        filters = scaled((32, 32, 64, 64, 128, 128, 256), network.width)
        self.convs = nnx.List(convolutions((3, *filters, 10), network.init, rngs))

    def __call__(self, images: Float[Array, "batch 32 32 3"], activation: Activation) -> Outputs:
        x, hidden = images, []
        for index, conv in enumerate(self.convs[:-1]):
            hidden.append(conv(x))
            x = activation.of_layer(index)(hidden[-1])
            if index in (1, 3, 5):
                x = average_pool(x)
        return Outputs(self.convs[-1](x).mean(axis=(1, 2)), tuple(hidden))


class BackpropCifarModule(nnx.Module):
    """Eight convolutions, which leave 21 x 21 positions, and two dense layers."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        filters = scaled((32, 32, 64, 64, 128, 128, 256, 256), network.width)
        common = {"rngs": rngs, "kernel_init": INITS[network.init], "use_bias": False}
        convolution = common | {"padding": "VALID", "conv_general_dilated": conv_general_dilated}
        self.convs = nnx.List(
            Conv(seen, made, (2, 2), **convolution) for seen, made in pairwise((3, *filters))
        )
        self.dense1 = Dense(21 * 21 * filters[-1], 256, **common)
        self.dense2 = Dense(256, 10, **common)

    def __call__(self, images: Float[Array, "batch 32 32 3"], activation: Activation) -> Outputs:
        x, hidden = images, []
        for index, conv in enumerate(self.convs):
            hidden.append(conv(x))
            x = activation.of_layer(index)(hidden[-1])
            if index in (1, 3, 5):
                x = average_pool(x, stride=1)
        hidden.append(self.dense1(x.reshape(len(x), -1)))
        return Outputs(self.dense2(activation.of_layer(len(self.convs))(hidden[-1])), tuple(hidden))


class _PooledPairs(nnx.Module):
    """Convolutions, a pooling after each second one."""

    convs: nnx.List

    def convolved(
        self, images: Float[Array, "batch h w c"], activation: Activation
    ) -> tuple[Float[Array, "batch units"], list[Array]]:
        """Return the features of images, and the pre-activations of each convolution."""
        x, hidden = images, []
        for index, conv in enumerate(self.convs):
            hidden.append(conv(x))
            x = max_pool(hidden[-1], stride=2) if index % 2 else hidden[-1]
            x = activation.of_layer(index)(x)
        return x.reshape(len(x), -1), hidden


class LosingLessCifarModule(_PooledPairs):
    """Six convolutions and two dense layers."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        filters = scaled((32, 32, 64, 64, 128, 128), network.width)
        common = {"rngs": rngs, "kernel_init": INITS[network.init]}
        self.convs = nnx.List(convolutions((3, *filters), network.init, rngs))
        self.dense1 = Dense(4 * 4 * filters[-1], 128, **common)
        self.dense2 = Dense(128, 10, **common)

    def __call__(self, images: Float[Array, "batch 32 32 3"], activation: Activation) -> Outputs:
        x, hidden = self.convolved(images, activation)
        hidden.append(self.dense1(x))
        return Outputs(self.dense2(activation.of_layer(len(self.convs))(hidden[-1])), tuple(hidden))


class ScatteringCifarModule(_PooledPairs):
    """Four convolutions, which leave 2 x 2 positions, and a dense layer."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        filters = scaled((64, 64, 64, 64), network.width)
        self.convs = nnx.List(convolutions((network.image_shape[-1], *filters), network.init, rngs))
        self.dense1 = Dense(2 * 2 * filters[-1], 10, rngs=rngs, kernel_init=INITS[network.init])

    def __call__(self, images: Float[Array, "batch 8 8 243"], activation: Activation) -> Outputs:
        x, hidden = self.convolved(images, activation)
        return Outputs(self.dense1(x), tuple(hidden))


class ScatteringMnistModule(MnistModule):
    """The same layers as of `SmallCnn`, of other sizes; its convolutions leave 2 x 2 positions."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        common = {"rngs": rngs, "kernel_init": INITS[network.init]}
        convolution = common | {"padding": 1, "conv_general_dilated": conv_general_dilated}
        first, second = scaled((16, 32), network.width)
        self.conv1 = Conv(network.image_shape[-1], first, (3, 3), 2, **convolution)
        self.conv2 = Conv(first, second, (3, 3), 1, **convolution)
        self.dense1 = Dense(2 * 2 * second, 32, **common)
        self.dense2 = Dense(32, 10, **common)
