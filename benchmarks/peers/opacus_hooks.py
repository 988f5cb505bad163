"""Opacus by `PrivacyEngine.make_private`: per-sample gradients by hooks.

Its data loader is left aside, so that every contestant takes the same fixed batches. Channels come
first: of images laid out channels last, Opacus 1.6 cuts wrong patches (`unfold2d` takes strides
for granted), and its gradients are wrong without a word.
"""

from __future__ import annotations

import warnings

import numpy as np
from opacus import PrivacyEngine
from problem import Problem
from torch.utils.data import DataLoader, TensorDataset

from peers.torch_training import TorchContestant


class Opacus(TorchContestant):
    """Opacus' training loop."""

    def __init__(self, problem: Problem, mode: str):
        """Make the network, the optimizer and, for ghost clipping, the criterion private."""
        super().__init__(problem)
        loader = DataLoader(TensorDataset(self.images, self.labels), batch_size=problem.batch)
        warnings.filterwarnings("ignore", message="Secure RNG turned off")
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        made = PrivacyEngine().make_private(
            module=self.network,
            optimizer=self.sgd,
            criterion=self.criterion,
            data_loader=loader,
            noise_multiplier=problem.noise_multiplier,
            max_grad_norm=problem.clip_norm,
            poisson_sampling=False,
            grad_sample_mode=mode,
        )
        self.private, self.optimizer = made[:2]
        self.private_criterion = made[2] if mode == "ghost" else self.criterion

    def step(self, indices: np.ndarray) -> None:
        images, labels = self.batch(indices)
        self.optimizer.zero_grad()
        self.private_criterion(self.private(images), labels).backward()
        self.optimizer.step()


def build(problem: Problem, variant: str) -> Opacus:
    """Build it with hooks."""
    return Opacus(problem, "hooks")
