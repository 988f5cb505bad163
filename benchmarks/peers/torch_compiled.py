"""PyTorch without privacy, through `torch.compile`, in its better memory layout."""

from __future__ import annotations

import numpy as np
import torch

from peers.torch_training import TorchContestant
from problem import Problem

VARIANTS = ("channels first", "channels last")


class Compiled(TorchContestant):
    """The usual training loop around a compiled loss."""

    def __init__(self, problem: Problem, *, channels_last: bool):
        """Wrap the loss; the first step compiles it."""
        super().__init__(problem, channels_last=channels_last)
        self.compiled = torch.compile(
            lambda images, labels: self.criterion(self.network(images), labels)
        )

    def step(self, indices: np.ndarray) -> None:
        """See `Contestant`."""
        images, labels = self.batch(indices)
        self.sgd.zero_grad()
        self.compiled(images, labels).backward()
        self.sgd.step()


def build(problem: Problem, variant: str) -> Compiled:
    """Build it in the given memory layout."""
    return Compiled(problem, channels_last=variant == "channels last")
