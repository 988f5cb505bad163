"""The papers' networks: each with its activation, its width and how its weights are drawn.

A network takes a batch of images, prepared as the dataset says, and returns logits, and the hidden
pre-activations from which losses and measures may be computed. Max-pooling comes before the
activation: for an increasing one the result is the same, on fewer values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import jax
from flax import nnx

from dpstudy.gradients import devices
from dpstudy.gradients.convolution import conv_general_dilated
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.gradients.pooling import average_pool, max_pool
from dpstudy.parts.networks.activation import TANH, Activation, LayerWise
from dpstudy.parts.part import Part, SpecError, choose, part, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float

# Biases are zero. "glorot" is the default of the tempered sigmoids' own framework.
INITS = {"glorot": nnx.initializers.glorot_normal(), "he": nnx.initializers.he_normal()}


class Outputs(NamedTuple):
    """What a network makes of a batch."""

    logits: Float[Array, "batch classes"]
    hidden: tuple[Float[Array, "batch *units"], ...]
    """Pre-activations of the hidden layers, the first first, before any pooling."""


@dataclass(frozen=True)
class Network(Part):
    """A network without its weights.

    Attributes:
        activation: of the hidden layers.
        width: filters of each convolution, as a multiple of the paper's: a multiple of 1/8.
        init: what weights are drawn from, "glorot" or "he": a normal distribution, truncated, whose
            variance follows from a layer's inputs and outputs, or from its inputs alone.
        image_shape: height, width and channels of the images it takes.
        hidden: the number of its hidden layers.
        microbatch: examples in one pass of the inner loop, whose intermediates should stay in
            cache: for a process with one core, with several, and with an accelerator.
        cohort: runs that an accelerator's memory holds at once.
    """

    activation: Activation = TANH
    width: float = static(1.0)
    init: str = "glorot"
    image_shape: ClassVar[tuple[int, ...]]
    hidden: ClassVar[int]
    microbatch: ClassVar[Mapping[str, int]]
    cohort: ClassVar[int]

    def check(self) -> None:
        choose("init", self.init, INITS)
        if self.width <= 0 or self.width * 8 % 1:
            raise SpecError(f"width must be a positive multiple of 1/8, got {self.width}")
        if isinstance(self.activation, LayerWise) and len(self.activation.layers) != self.hidden:
            raise SpecError(
                f"activation 'layer-wise' needs one for each of {self.hidden} hidden layers of "
                f"{self.kind!r}, got {len(self.activation.layers)}"
            )

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        """Return the network as a flax module, with weights drawn from `rngs`.

        It is called with images and the activations of its hidden layers, and returns `Outputs`.
        """
        raise NotImplementedError

    def graph(self) -> nnx.GraphDef:
        """Return the module without its weights, for `nnx.merge`."""
        return nnx.split(nnx.eval_shape(lambda: self.module(nnx.Rngs(params=0))))[0]

    def shapes(self) -> nnx.State:
        """Return the shapes of the weights."""
        return _shapes(self)

    def initial(self, key: Array) -> nnx.State:
        """Draw the initial weights from `key`, of `jax.random`."""
        return _initial(self, key)

    def outputs(self, module: nnx.Module, images: Float[Array, "batch *image"]) -> Outputs:
        """Return what the module makes of prepared images."""
        return module(images, self.activation)

    def examples_at_once(self) -> int:
        """Return the microbatch for the devices of this process."""
        if jax.default_backend() != "cpu":
            return self.microbatch["accelerator"]
        return self.microbatch["core" if devices.core_each() else "cores"]


@lru_cache(maxsize=64)  # Each takes a tenth of a second, and every import asks for some.
def _shapes(network: Network) -> nnx.State:
    return nnx.state(nnx.eval_shape(lambda: network.module(nnx.Rngs(params=0))), nnx.Param)


# Compiled without optimisation: it runs once, and drawing normals takes seconds to optimise.
@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def _initial(network: Network, key: Array) -> nnx.State:
    return nnx.state(network.module(nnx.Rngs(params=key)), nnx.Param)


class _OnMnist(Network):
    image_shape = (28, 28, 1)
    hidden = 3
    microbatch: ClassVar[Mapping[str, int]] = {"core": 32, "cores": 64, "accelerator": 1024}
    cohort = 32


class _OnCifar(Network):
    image_shape = (32, 32, 3)
    microbatch: ClassVar[Mapping[str, int]] = {"core": 16, "cores": 16, "accelerator": 256}
    cohort = 8


@part("tempered-mnist")
class TemperedMnist(_OnMnist):
    """Two convolutions and two dense layers (tempered sigmoids, Table 1); 26,010 parameters."""

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return MnistModule(self, padding="SAME", use_bias=True, side=4, rngs=rngs)


@part("losing-less-mnist")
class LosingLessMnist(_OnMnist):
    """The same with 2 pixels of padding before the first convolution (losing less, Table 1)."""

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return MnistModule(self, padding=2, use_bias=True, side=4, rngs=rngs)


@part("backprop-mnist")
class BackpropMnist(_OnMnist):
    """The same without padding and biases (backpropagation clipping).

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


class MnistModule(nnx.Module):
    """Two convolutions and two dense layers."""

    def __init__(
        self, network: Network, *, padding: str | int, use_bias: bool, side: int, rngs: nnx.Rngs
    ):
        """Build the module; its convolutions leave `side` x `side` positions."""
        common = {"use_bias": use_bias, "rngs": rngs, "kernel_init": INITS[network.init]}
        convolution = common | {"conv_general_dilated": conv_general_dilated}
        first, second = scaled((16, 32), network.width)
        self.conv1 = Conv(1, first, (8, 8), 2, padding=padding, **convolution)
        self.conv2 = Conv(first, second, (4, 4), 2, padding="VALID", **convolution)
        self.dense1 = Dense(side * side * second, 32, **common)
        self.dense2 = Dense(32, 10, **common)

    def __call__(self, images: Float[Array, "batch h w c"], activation: Activation) -> Outputs:
        first = self.conv1(images)
        x = activation.of_layer(0)(max_pool(first, stride=1))
        second = self.conv2(x)
        x = activation.of_layer(1)(max_pool(second, stride=1))
        third = self.dense1(x.reshape(len(x), -1))
        return Outputs(self.dense2(activation.of_layer(2)(third)), (first, second, third))


class TemperedCifarModule(nnx.Module):
    """Eight convolutions and a spatial mean."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        """Build the module."""
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


class LosingLessCifarModule(nnx.Module):
    """Six convolutions and two dense layers."""

    def __init__(self, network: Network, rngs: nnx.Rngs):
        """Build the module."""
        filters = scaled((32, 32, 64, 64, 128, 128), network.width)
        common = {"rngs": rngs, "kernel_init": INITS[network.init]}
        self.convs = nnx.List(convolutions((3, *filters), network.init, rngs))
        self.dense1 = Dense(4 * 4 * filters[-1], 128, **common)
        self.dense2 = Dense(128, 10, **common)

    def __call__(self, images: Float[Array, "batch 32 32 3"], activation: Activation) -> Outputs:
        x, hidden = images, []
        for index, conv in enumerate(self.convs):
            hidden.append(conv(x))
            x = max_pool(hidden[-1], stride=2) if index % 2 else hidden[-1]
            x = activation.of_layer(index)(x)
        hidden.append(self.dense1(x.reshape(len(x), -1)))
        return Outputs(self.dense2(activation.of_layer(len(self.convs))(hidden[-1])), tuple(hidden))


def scaled(filters: tuple[int, ...], width: float) -> tuple[int, ...]:
    """Return the numbers of filters at a width; see `Network`."""
    return tuple(round(count * width) for count in filters)


def convolutions(widths: tuple[int, ...], init: str, rngs: nnx.Rngs) -> list[Conv]:
    """Return 3x3 convolutions, padded to keep the size of their images, between those widths."""
    options = {"kernel_init": INITS[init], "conv_general_dilated": conv_general_dilated}
    return [
        Conv(fan_in, fan_out, (3, 3), 1, padding="SAME", rngs=rngs, **options)
        for fan_in, fan_out in pairwise(widths)
    ]
