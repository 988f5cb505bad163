"""Networks: each with its activation, its width and how its weights are drawn.

A network takes a batch of prepared images, and returns logits and the hidden pre-activations.
Max-pooling comes before the activation: for an increasing one the result is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from math import prod
from typing import ClassVar, NamedTuple

import jax
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.gradients import devices
from dpstudy.gradients.convolution import conv_general_dilated
from dpstudy.gradients.layers import Conv, Dense
from dpstudy.gradients.pooling import max_pool
from dpstudy.parts.networks.activation import TANH, Activation, LayerWise
from dpstudy.parts.part import Part, SpecError, at_least, choose, part, static

# Biases are zero. "glorot" is the default of Keras.
INITS = {"glorot": nnx.initializers.glorot_normal(), "he": nnx.initializers.he_normal()}


class Outputs(NamedTuple):
    """What a network makes of a batch."""

    logits: Float[Array, "batch classes"]
    hidden: tuple[Float[Array, "batch *units"], ...]
    """Pre-activations of the hidden layers, the first first, before any pooling."""


@dataclass(frozen=True)
class Network(Part):
    """A network without its weights, with `hidden` hidden layers.

    `width`, in eighths, multiplies the filters of each convolution. `init` is of `INITS`: truncated
    normals, of a variance by a layer's inputs and outputs, or by its inputs alone. `microbatch`
    examples are in one pass, whose intermediates should stay in cache, by what computes; `cohort`
    runs fit into an accelerator's memory.
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

        It is called with images and an activation, and returns `Outputs`.
        """
        raise NotImplementedError

    def graph(self) -> nnx.GraphDef:
        """Return the module without its weights, for `nnx.merge`."""
        return nnx.split(nnx.eval_shape(lambda: self.module(nnx.Rngs(params=0))))[0]

    # Each takes a tenth of a second, and every import asks for some.
    @lru_cache(maxsize=64)  # noqa: B019
    def shapes(self) -> nnx.State:
        """Return the shapes of the weights."""
        return nnx.state(nnx.eval_shape(lambda: self.module(nnx.Rngs(params=0))), nnx.Param)

    # Compiled without optimisation: it runs once, and drawing normals takes seconds to optimise.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def initial(self, key: Array) -> nnx.State:
        """Draw the initial weights from `key`, of `jax.random`."""
        return nnx.state(self.module(nnx.Rngs(params=key)), nnx.Param)

    def outputs(self, module: nnx.Module, images: Float[Array, "batch *image"]) -> Outputs:
        """Return what the module makes of prepared images."""
        return module(images, self.activation)

    def examples_at_once(self) -> int:
        """Return the microbatch for the devices of this process."""
        if devices.backend() != "cpu":
            return self.microbatch["accelerator"]
        return self.microbatch["core" if devices.core_each() else "cores"]


class OnMnist(Network):
    """A network on images of 28 x 28 grey pixels."""

    image_shape = (28, 28, 1)
    hidden = 3
    microbatch: ClassVar[Mapping[str, int]] = {"core": 32, "cores": 64, "accelerator": 1024}
    cohort = 32


@part("tempered-mnist")  # kinds name stored runs, and stay as they are
class SmallCnn(OnMnist):
    """Two convolutions and two dense layers, as in the tutorial of TensorFlow Privacy.

    >>> import jax
    >>> sum(leaf.size for leaf in jax.tree.leaves(SmallCnn().shapes()))
    26010
    """

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return MnistModule(self, padding="SAME", use_bias=True, side=4, rngs=rngs)


class DenseOnly(Network):
    """A network without convolutions."""

    microbatch: ClassVar[Mapping[str, int]] = {"core": 64, "cores": 128, "accelerator": 1024}
    cohort = 32

    def check(self) -> None:
        super().check()
        if self.width != 1:
            raise SpecError(f"width must be 1 where there are no convolutions, got {self.width}")


@part("linear-head")
class LinearHead(DenseOnly):
    """One dense layer on `inputs` features, without a bias. It has no use for an activation.

    Beside features of norm 1 a bias would take half of a gradient's squared norm from clipping.

    >>> LinearHead(inputs=4).shapes()["dense1"]["kernel"].shape
    (4, 10)
    """

    inputs: int = 8_000
    hidden = 0

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def check(self) -> None:
        super().check()
        at_least(self, 1, "inputs")

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return LinearModule(self, rngs, use_bias=False)


@part("hidden-head")
class HiddenHead(LinearHead):
    """Two dense layers without biases on `inputs` features, with `units` hidden ones.

    >>> HiddenHead(inputs=4, units=3).shapes()["dense2"]["kernel"].shape
    (3, 10)
    """

    units: int = 100
    hidden = 1

    def check(self) -> None:
        super().check()
        at_least(self, 1, "units")

    def module(self, rngs: nnx.Rngs) -> nnx.Module:
        return HiddenModule(self, rngs)


class MnistModule(nnx.Module):
    """Two convolutions, which leave `side` x `side` positions, and two dense layers."""

    def __init__(
        self, network: Network, *, padding: str | int, use_bias: bool, side: int, rngs: nnx.Rngs
    ):
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


class LinearModule(nnx.Module):
    """One dense layer."""

    def __init__(self, network: Network, rngs: nnx.Rngs, *, use_bias: bool):
        common = {"rngs": rngs, "kernel_init": INITS[network.init], "use_bias": use_bias}
        self.dense1 = Dense(prod(network.image_shape), 10, **common)

    def __call__(self, images: Float[Array, "batch *image"], activation: Activation) -> Outputs:
        return Outputs(self.dense1(images.reshape(len(images), -1)), ())


class HiddenModule(nnx.Module):
    """Two dense layers."""

    def __init__(self, network: HiddenHead, rngs: nnx.Rngs):
        common = {"rngs": rngs, "kernel_init": INITS[network.init], "use_bias": False}
        self.dense1 = Dense(network.inputs, network.units, **common)
        self.dense2 = Dense(network.units, 10, **common)

    def __call__(self, features: Float[Array, "batch inputs"], activation: Activation) -> Outputs:
        hidden = self.dense1(features)
        return Outputs(self.dense2(activation.of_layer(0)(hidden)), (hidden,))


def scaled(filters: tuple[int, ...], width: float) -> tuple[int, ...]:
    """Return the numbers of filters at a width; see `Network`."""
    return tuple(round(count * width) for count in filters)


def convolutions(widths: tuple[int, ...], init: str, rngs: nnx.Rngs) -> list[Conv]:
    """Return 3x3 convolutions between those widths, padded to keep the size of their images."""
    options = {"kernel_init": INITS[init], "conv_general_dilated": conv_general_dilated}
    return [
        Conv(fan_in, fan_out, (3, 3), 1, padding="SAME", rngs=rngs, **options)
        for fan_in, fan_out in pairwise(widths)
    ]
