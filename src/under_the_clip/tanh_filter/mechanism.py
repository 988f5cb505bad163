"""The tanh filter: every number of an example's gradient through tanh, then noise (Amian 2022).

The paper's own proof bounds the l2 norm of a filtered gradient of n numbers by √n; its epsilon is
computed with 1. Two variants bound the norm: the filter followed by clipping, or scaled to a norm.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.parts.mechanism import (
    Bounded,
    Mechanism,
    Microbatch,
    Scalar,
    Seen,
    clip_coefficients,
    counted,
)
from dpstudy.parts.part import SpecError, part, positive, static


class _Filter(Mechanism):
    """What the three do: filter, scale each example by a factor of its filtered norm, add up."""

    active_range: float

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        """Return the factors, from the norms of filtered gradients."""
        raise NotImplementedError

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """See `Mechanism`. The norm that is seen is that of the filtered gradients.

        Seen as clipped are those longer than 1, with which the paper computes epsilon.
        """
        each, gradients = batch.gradients()
        filtered = gradients.changed(lambda g: jnp.tanh(g / self.active_range))
        norms = filtered.norms()
        factors = jnp.where(counted(mask, norms), mask * self.coefficients(norms), 0.0)
        total = filtered.weighted_sum(factors)
        return total, Seen.of(mask, each, norms, norms > 1)


@part("tanh-filter")
class TanhFilter(_Filter):
    """Algorithm 1: c tanh(g / k), and noise as if no filtered gradient were longer than 1.

    Attributes:
        output_range: c, by which the outputs are multiplied (Figures 2 and 3).
        active_range: k, by which the range is widened in which tanh does not saturate (Figures 4
            and 5).
        noise_std: sigma, standard deviation of the noise on the sum; Table I calls it a covariance.
        parameters: n, the numbers of the gradient, which the sensitivity c √n depends on.
    """

    output_range: float = 1.0
    active_range: float = 1.0
    noise_std: float = 1.1
    parameters: int = static(26_010)

    def check(self) -> None:
        positive(self, "output_range", "active_range", "noise_std", "parameters")

    @property
    def sensitivity(self) -> Scalar:
        """C √n (Section III.A)."""
        return self.output_range * self.parameters**0.5

    @property
    def noise_over_sensitivity(self) -> Scalar:
        return self.noise_std / self.sensitivity

    @property
    def claimed_noise_over_sensitivity(self) -> Scalar:
        """See `Mechanism`: "calculated in the same way as for the original DPSGD", with 1."""
        return self.noise_std

    @property
    def claimed_accountant(self) -> str:
        return "rdp-2019"

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        return jnp.full_like(norms, self.output_range)

    def noise(self, params: nnx.State) -> nnx.State:
        numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
        if numbers != self.parameters:
            raise SpecError(
                f"the network has {numbers} parameters, and the filter {self.parameters}"
            )
        return jax.tree.map(lambda _: self.noise_std, params)


@part("tanh-filter-clipped")
class FilteredThenClipped(_Filter, Bounded):
    """The filter made sound: tanh(g / k), with k the `active_range`, then clipped in l2."""

    active_range: float = 1.0

    def check(self) -> None:
        super().check()
        positive(self, "active_range")

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        return clip_coefficients(norms, self.clip_norm)


@part("tanh-filter-normalised")
class FilteredToNorm(_Filter, Bounded):
    """The filter made sound: tanh(g / k), with k the `active_range`, scaled to a norm below C.

    Attributes:
        stability: gamma, as of automatic clipping.
    """

    active_range: float = 1.0
    stability: float = 0.01

    def check(self) -> None:
        super().check()
        positive(self, "active_range", "stability")

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        return self.clip_norm / (norms + self.stability)
