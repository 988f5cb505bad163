"""PyTorch without privacy, in either memory layout."""

from __future__ import annotations

import numpy as np
from problem import Problem

from peers.torch_training import TorchContestant


class NonPrivate(TorchContestant):
    """The usual training loop."""

    def step(self, indices: np.ndarray) -> None:
        images, labels = self.batch(indices)
        self.sgd.zero_grad()
        self.criterion(self.network(images), labels).backward()
        self.sgd.step()


def build(problem: Problem, variant: str) -> NonPrivate:
    """Build it in the given memory layout."""
    return NonPrivate(problem, channels_last=variant == "channels last")
