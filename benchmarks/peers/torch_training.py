"""What the contestants in PyTorch share: the twin network, weights in and out, the data."""

from __future__ import annotations

import numpy as np
import torch
from problem import Problem
from torch import nn

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Products in float32 there too, as ours are: by default cuDNN rounds their factors to ten bits.
torch.backends.cudnn.allow_tf32 = False


class TorchNetwork(nn.Module):
    """A described network in PyTorch, channels first; pooling before tanh, as in ours."""

    def __init__(self, problem: Problem):
        """Build the layers, with the problem's weights."""
        super().__init__()
        network = problem.network
        self.convs = nn.ModuleList(
            nn.Conv2d(fan, c.filters, c.size, c.stride, c.padding)
            for c, _, fan, _ in network.shapes()
        )
        self.pools = nn.ModuleList(
            nn.MaxPool2d(2, c.pool) if c.pool else nn.Identity() for c in network.convs
        )
        (features, hidden), (_, classes) = network.kernels[-2:]
        self.dense1, self.dense2 = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        self.flattened = network.flattened
        for layer, values in zip(self.layers(), problem.weights(), strict=True):
            for name, array in self._to_torch(layer, values).items():
                with torch.no_grad():
                    getattr(layer, name).copy_(torch.from_numpy(np.ascontiguousarray(array)))

    def layers(self) -> list[nn.Module]:
        """Return the layers with weights, in order."""
        return [*self.convs, self.dense1, self.dense2]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = images
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = torch.tanh(pool(conv(x)))
        x = torch.tanh(self.dense1(x.flatten(1)))
        return self.dense2(x)

    def _to_torch(self, layer: nn.Module, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        kernel = values["kernel"]
        if kernel.ndim == 4:
            kernel = kernel.transpose(3, 2, 0, 1)
        elif layer is self.dense1:
            kernel = kernel.reshape(*self.flattened, -1).transpose(3, 2, 0, 1)
            kernel = kernel.reshape(len(kernel), -1)
        else:
            kernel = kernel.T
        return {"weight": kernel, "bias": values["bias"]}

    def in_our_layout(self, layer: nn.Module, weight: np.ndarray) -> np.ndarray:
        """Return a weight, or one gradient of it an example, as `Problem.weights` lays it out."""
        many = weight.shape[: weight.ndim - layer.weight.ndim]
        if isinstance(layer, nn.Conv2d):
            return np.moveaxis(weight, (-4, -3), (-1, -2))
        if layer is self.dense1:
            height, width, channels = self.flattened
            weight = weight.reshape(*many, -1, channels, height, width)
            weight = np.moveaxis(weight, (-4, -3), (-1, -2))
            return weight.reshape(*many, -1, weight.shape[-1])
        return np.swapaxes(weight, -1, -2)


class TorchContestant:
    """A training loop; a peer says how one step goes."""

    def __init__(self, problem: Problem, *, channels_last: bool = False):
        """Build network and data."""
        torch.manual_seed(0)
        self.problem, self.network = problem, TorchNetwork(problem).to(DEVICE)
        images, labels = problem.data()
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype="f4") / 255
        self.images = torch.from_numpy(images).to(DEVICE)
        self.labels = torch.from_numpy(labels.astype("i8")).to(DEVICE)
        if channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
            self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.sgd = torch.optim.SGD(
            self.network.parameters(), lr=problem.learning_rate, momentum=problem.momentum
        )
        self.criterion = nn.CrossEntropyLoss()

    def batch(self, indices: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images and labels of those examples."""
        at = torch.from_numpy(indices).to(DEVICE)
        return self.images[at], self.labels[at]

    def loss(self, indices: np.ndarray) -> float:
        images, labels = self.batch(indices)
        with torch.no_grad():
            return float(self.criterion(self.network(images), labels))

    def wait(self) -> None:
        """See `Contestant`: on a CPU steps are done when they return."""
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()

    def weights(self) -> list[dict[str, np.ndarray]]:
        return [
            {
                "kernel": self.network.in_our_layout(layer, layer.weight.detach().cpu().numpy()),
                "bias": layer.bias.detach().cpu().numpy(),
            }
            for layer in self.network.layers()
        ]
