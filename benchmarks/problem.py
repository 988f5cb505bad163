"""What every contestant computes: network, weights, images, batches. Needs numpy alone.

A network is described here once; each library's twin is built from the description, and given the
same weights. Weights are in JAX's layout: convolutions (height, width, in, out), dense layers
(in, out) on features flattened in the order height, width, channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

CLASSES = 10
POOL = 2
"""Width of every pooling window."""


@dataclass(frozen=True)
class Conv:
    """A convolution, and the stride of the max-pooling after it; 0 for none."""

    filters: int
    size: int
    stride: int
    padding: int
    pool: int = 0


@dataclass(frozen=True)
class Network:
    """Convolutions, one hidden dense layer, and logits; tanh in between."""

    image: tuple[int, int, int]
    convs: tuple[Conv, ...]
    hidden: int

    def widened(self, width: float) -> Network:
        """Multiply the channels."""
        convs = [replace(conv, filters=round(conv.filters * width)) for conv in self.convs]
        return replace(self, convs=tuple(convs), hidden=round(self.hidden * width))

    def shapes(self) -> Iterator[tuple[Conv, int, int, int]]:
        """Yield each convolution with its input's height and channels, and its output's height."""
        extent, _, channels = self.image
        for conv in self.convs:
            after = (extent + 2 * conv.padding - conv.size) // conv.stride + 1
            yield conv, extent, channels, after
            extent = (after - POOL) // conv.pool + 1 if conv.pool else after
            channels = conv.filters

    @property
    def flattened(self) -> tuple[int, int, int]:
        """Shape of what the dense layers get: height, width, channels."""
        conv, _, _, after = list(self.shapes())[-1]
        extent = (after - POOL) // conv.pool + 1 if conv.pool else after
        return extent, extent, conv.filters

    @property
    def kernels(self) -> list[tuple[int, ...]]:
        """Shape of each layer's weights, in order."""
        convs = [(conv.size, conv.size, fan, conv.filters) for conv, _, fan, _ in self.shapes()]
        return [*convs, (int(np.prod(self.flattened)), self.hidden), (self.hidden, CLASSES)]

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(int(np.prod(shape)) + shape[-1] for shape in self.kernels)


NETWORKS = {
    "mnist": Network((28, 28, 1), (Conv(16, 8, 2, 3, pool=1), Conv(32, 4, 2, 0, pool=1)), 32),
    "cifar-10": Network(
        (32, 32, 3),
        tuple(Conv(n, 3, 1, 1, pool=2 * (i % 2)) for i, n in enumerate((32, 32, 64, 64, 128, 128))),
        128,
    ),
}
BATCH = {"mnist": 512, "cifar-10": 256}


@dataclass(frozen=True)
class Problem:
    """One training step to be timed: everything that all contestants share."""

    name: str
    batch: int
    width: float = 1
    examples: int = 4096
    clip_norm: float = 0.1
    noise_multiplier: float = 1.23
    learning_rate: float = 0.1
    momentum: float = 0.9

    @property
    def network(self) -> Network:
        """The network to train."""
        return NETWORKS[self.name].widened(self.width)

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Draw each layer's kernel and bias. Biases too are random, to tell a lost one."""
        rng = np.random.default_rng(0)
        layers = []
        for shape in self.network.kernels:
            fan = np.prod(shape[:-1]) + np.prod(shape[:-2]) * shape[-1]
            kernel = rng.normal(0, np.sqrt(2 / fan), shape)
            bias = rng.normal(0, 0.05, shape[-1])
            layers.append({"kernel": kernel.astype("f4"), "bias": bias.astype("f4")})
        return layers

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw images (bytes, channels last) and labels: time does not depend on what they show."""
        rng = np.random.default_rng(1)
        images = rng.integers(0, 256, (self.examples, *self.network.image), dtype=np.uint8)
        return images, rng.integers(0, CLASSES, self.examples, dtype=np.int32)

    def batches(self) -> list[np.ndarray]:
        """Return the examples of each step, in turn."""
        rng = np.random.default_rng(2)
        count = max(1, self.examples // self.batch)
        order = rng.permutation(self.examples).astype(np.int32)
        return [order[i * self.batch : (i + 1) * self.batch] for i in range(count)]


def flops(network: Network, batch: int) -> int:
    """Return the multiplications and additions in one step's matrix products.

    Three products a layer: output, weights' gradient, input's gradient, which the first layer
    does without. What a method adds to have clipped gradients is its own cost, not counted.
    """
    forward = [
        2 * after**2 * conv.size**2 * fan * conv.filters for conv, _, fan, after in network.shapes()
    ] + [2 * rows * columns for rows, columns in network.kernels[-2:]]
    return batch * (3 * sum(forward) - forward[0])
