"""PyTorch's `torch.func`: vmap over grad, the whole batch at once or in chunks."""

from __future__ import annotations

import numpy as np
import torch
from problem import Problem
from torch.func import functional_call, grad, vmap

from peers.torch_training import TorchContestant


class VmapGrad(TorchContestant):
    """Per-example gradients written out, clipped, summed, noised."""

    def __init__(self, problem: Problem, chunk: int | None):
        """Transform the loss."""
        super().__init__(problem)

        def loss(params: dict, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            logits = functional_call(self.network, params, (image[None],))
            return self.criterion(logits, label[None])

        self.each = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=chunk)

    def step(self, indices: np.ndarray) -> None:
        images, labels = self.batch(indices)
        params = dict(self.network.named_parameters())
        detached = {name: value.detach() for name, value in params.items()}
        gradients = self.each(detached, images, labels)
        flat = [gradient.flatten(1) for gradient in gradients.values()]
        norms = torch.stack([g.norm(dim=1) for g in flat]).norm(dim=0)
        clip = self.problem.clip_norm
        weights = clip / norms.clamp(min=clip)
        deviation = self.problem.noise_multiplier * clip
        for value, gradient in zip(params.values(), flat, strict=True):
            total = (weights @ gradient).view_as(value)
            noise = torch.normal(0.0, deviation, value.shape, device=value.device)
            value.grad = (total + noise) / self.problem.batch
        self.sgd.step()


def build(problem: Problem, variant: str) -> VmapGrad:
    """Build it, with `variant` examples a chunk."""
    return VmapGrad(problem, None if variant == "whole batch" else int(variant))
