"""PyTorch without privacy, through `torch.compile`."""

from __future__ import annotations

import numpy as np
import torch
from problem import Problem

from peers.torch_training import TorchContestant


class Compiled(TorchContestant):
    """The usual training loop around a compiled loss."""

    def __init__(self, problem: Problem):
        """Wrap the loss; the first step compiles it."""
        super().__init__(problem)
        self.compiled = torch.compile(
            lambda images, labels: self.criterion(self.network(images), labels)
        )

    def step(self, indices: np.ndarray) -> None:
        images, labels = self.batch(indices)
        self.sgd.zero_grad()
        self.compiled(images, labels).backward()
        self.sgd.step()


def build(problem: Problem, variant: str) -> Compiled:
    """Build it."""
    return Compiled(problem)
