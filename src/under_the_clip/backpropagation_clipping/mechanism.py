"""Backpropagation clipping: each layer's inputs and upstream gradients clipped, then noise.

One example adds to a layer's summed gradient at most a b, and to all L layers together at most
√L a b (Stevens et al. 2022, Theorems 2 and 3; the joint bound is ours). Each layer gets Gaussian
noise in proportion to a b; all layers of a step are one Gaussian mechanism.

Bounds are those of the gradients of an example's own loss. The paper's code clips those of a mean
loss, which are smaller by the batch size: its b is `upstream_bound` over the batch.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.gradients.layers import examples_in
from dpstudy.parts.mechanism import CLAIMED_ACCOUNTANTS, Mechanism, Microbatch, Scalar, Seen
from dpstudy.parts.part import SpecError, choose, part, positive
from under_the_clip.backpropagation_clipping.clipped_layers import clip_layers


@dataclass(frozen=True)
class _Clips(Mechanism):
    input_bound: float = 1.0
    upstream_bound: float = 1.0

    def check(self) -> None:
        positive(self, "input_bound", "upstream_bound")

    @property
    def sensitivity(self) -> Scalar:
        """What one example adds to one layer's sum: a b."""
        return self.input_bound * self.upstream_bound

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """See `Mechanism`. Norms are not seen: they would cost the per-example gradients."""

        def losses(network: nnx.Module, images: Any, labels: Any) -> Array:
            examples = examples_in(images)
            clip_layers(network, self.input_bound, self.upstream_bound, examples)
            return batch.losses(network, images, labels)

        clipped = batch._replace(losses=losses)
        if reason := batch.why_not_by_rules():
            raise ValueError(f"{reason}, which the bound does not cover")

        def summed(params: nnx.State) -> tuple[Array, Array]:
            each = clipped.losses_of(clipped.network(params, copy=True))
            return jnp.vdot(mask, jnp.where(mask != 0, each, 0)), each

        total, each = jax.grad(summed, has_aux=True)(batch.params)
        return total, Seen.of_losses(mask, each)


@part("backpropagation-clipping")
class BackpropagationClipping(_Clips):
    """Algorithm 2: clips inside backpropagation, and noise layer by layer.

    Attributes:
        input_bound: a, on the l2 norm of a layer's input.
        upstream_bound: b, on the gradient of an example's own loss by a layer's output: in l2, of
            a convolution in l1 over positions and l2 over channels.
        claimed_factor: how many times larger the paper takes noise over sensitivity to be. As
            published it is the batch size, by which the code divided the sensitivity a second time.
        claimed_accountant: by what the paper accounts for it: "zcdp", or "gdp" as its corrected
            code does; empty for no claim.
        noise_multiplier: noise over sensitivity of a whole step, as proven here.
        shares: of each layer in the budget, in the order of the parameters; equal if empty. A layer
            with share s gets noise of noise_multiplier a b / √s.
    """

    noise_multiplier: float = 1.0
    claimed_factor: float = 1.0
    claimed_accountant: str = ""
    shares: tuple[float, ...] = ()

    def check(self) -> None:
        super().check()
        positive(self, "noise_multiplier", "claimed_factor")
        choose("claimed_accountant", self.claimed_accountant, ("", *CLAIMED_ACCOUNTANTS))
        if self.shares and (min(self.shares) <= 0 or abs(sum(self.shares) - 1) > 1e-6):
            raise SpecError(f"shares must be above 0 and add up to 1, got {self.shares}")

    @property
    def noise_over_sensitivity(self) -> Scalar:
        return self.noise_multiplier

    @property
    def claimed_noise_over_sensitivity(self) -> Scalar:
        return self.noise_multiplier * self.claimed_factor

    def noise(self, params: nnx.State) -> nnx.State:
        """See `Mechanism`. A layer has one leaf: there are no biases."""
        leaves, structure = jax.tree.flatten(params)
        shares = self.shares or [1 / len(leaves)] * len(leaves)
        if len(shares) != len(leaves):
            raise SpecError(f"{len(shares)} shares for {len(leaves)} layers")
        deviation = self.noise_multiplier * self.sensitivity
        return jax.tree.unflatten(structure, [deviation / jnp.sqrt(share) for share in shares])


@part("backpropagation-clipping-without-noise")
class ClippedWithoutNoise(_Clips):
    """The same clips without noise, and without privacy: what clipping alone costs."""

    @property
    def noise_over_sensitivity(self) -> None:
        return None

    def noise(self, params: nnx.State) -> None:
        del params
