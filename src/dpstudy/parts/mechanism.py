"""Mechanisms: from the examples of a step to one noisy sum of gradients.

A mechanism bounds what one example can add to the sum, and adds Gaussian noise to it. It states the
noise, and what that is over the sensitivity of the whole step to adding or removing one example: as
it is proven here, and as its paper claims. Epsilon follows from that number, the sampling and the
number of steps alone.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from dpstudy.gradients import applicability, per_example
from dpstudy.gradients.layers import Losses, examples_in, summed_in, tap
from dpstudy.parts.part import Part, part, positive

Scalar = float | Float[Array, ""]
Each = Float[Array, "batch"]

# How papers account for their own mechanisms: zCDP over epochs of disjoint batches; the central
# limit of Gaussian privacy over steps times layers; or as for DP-SGD.
CLAIMED_ACCOUNTANTS = ("zcdp", "gdp", "rdp-2019")


class Seen(NamedTuple):
    """What a step saw of its examples, summed over them. Not covered by any epsilon."""

    loss: Float[Array, ""]
    norm: Float[Array, ""]
    clipped: Float[Array, ""]
    examples: Float[Array, ""]
    not_finite: Float[Array, ""] = 0.0
    """Examples that counted as 0, since their gradient was not finite or had too large a square."""

    @classmethod
    def of(cls, mask: Each, losses: Each, norms: Each, clipped: Bool[Array, "batch"]) -> Seen:
        """Return the sums over the examples that a mask counts."""
        finite = counted(mask, norms)
        sums = (_over(counted(mask, losses), losses), _over(finite, norms), _over(finite, clipped))
        return cls(*sums, mask.sum(), (mask - finite.astype(mask.dtype)).sum())

    @classmethod
    def of_losses(cls, mask: Each, losses: Each) -> Seen:
        """Return the sums where no gradient of one example is formed: by the losses alone."""
        none = jnp.zeros(len(losses), bool)
        return cls.of(mask, losses, losses, none)._replace(norm=jnp.zeros(()))


def _over(which: Bool[Array, "batch"], each: Array) -> Float[Array, ""]:
    numbers = each.astype(jnp.float32)
    return jnp.vdot(which.astype(jnp.float32), jnp.where(which, numbers, 0.0))


class Microbatch(NamedTuple):
    """Examples of a step that are summed over in one pass, with network and loss.

    `graph` is the network without its states: `params`, and in `rest` what it holds beside them,
    shared by all examples. `images` and `labels` are arrays, or trees of them, examples first.
    """

    graph: nnx.GraphDef
    losses: Losses
    params: nnx.State
    images: Array
    labels: Array
    rest: tuple[nnx.State, ...] = ()

    def gradients(self) -> tuple[Float[Array, "batch"], per_example.Gradients]:
        """Return the loss and the gradient of each example; see `per_example.gradients`."""
        return per_example.gradients(*self[:-1], *self.rest)

    def why_not_by_rules(self) -> str | None:
        """Return why no rules hold, or None; see `applicability.why_not_by_rules`."""
        graph = nnx.graphdef(tap(self.network(self.params, copy=True)))
        return applicability.why_not_by_rules(graph, *self[1:-1], *self.rest)

    def network(self, params: nnx.State, *, copy: bool = False) -> nnx.Module:
        """Return the network with these parameters; a copy may be changed."""
        return nnx.merge(self.graph, params, *self.rest, copy=copy)

    def losses_of(self, network: nnx.Module) -> Float[Array, "batch"]:
        """Return each example's loss. Raise ValueError if there are not as many as examples."""
        found = self.losses(network, self.images, self.labels)
        per_example.check_losses(found, examples_in((self.images, self.labels)))
        return found


class Mechanism(Part):
    """How the gradients of a step's examples become one sum."""

    @property
    def noise_over_sensitivity(self) -> Scalar | None:
        """The noise of a step over its l2 sensitivity, as proven; None without privacy."""
        raise NotImplementedError

    @property
    def claimed_noise_over_sensitivity(self) -> Scalar | None:
        """The same as the mechanism's paper claims it."""
        return self.noise_over_sensitivity

    @property
    def claimed_accountant(self) -> str:
        """By what its paper makes that an epsilon, of `CLAIMED_ACCOUNTANTS`; empty if by ours."""
        return ""

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """Return the bounded sum over examples with `mask` 1, without noise, and what was seen."""
        raise NotImplementedError

    def noise(self, params: nnx.State) -> nnx.State | None:
        """Return the noise's standard deviation on the sum, one a leaf; None for no noise."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bounded(Mechanism):
    """No example adds more than C to the sum, in l2; every number gets the same noise.

    `clip_norm` is C; the noise on the sum has a standard deviation of `noise_multiplier` times C.
    """

    clip_norm: float = 0.1
    noise_multiplier: float = 1.23

    def check(self) -> None:
        positive(self, "noise_multiplier", "clip_norm")

    @property
    def sensitivity(self) -> Scalar:
        """One example more or less changes the sum by what it adds, C at most, and no more."""
        return self.clip_norm

    @property
    def noise_over_sensitivity(self) -> Scalar:
        return self.noise_multiplier

    def noise(self, params: nnx.State) -> nnx.State:
        deviation = self.noise_multiplier * self.sensitivity
        return jax.tree.map(lambda _: deviation, params)


class ByNorm(Bounded):
    """Each example's gradient, all parameters together, scaled by a factor of its l2 norm."""

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        """Return the factors; no scaled gradient may be longer than `clip_norm`."""
        raise NotImplementedError

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        each, gradients = batch.gradients()
        norms = gradients.norms()
        factors = jnp.where(counted(mask, norms), mask * self.coefficients(norms), 0.0)
        total = gradients.weighted_sum(factors)
        return total, Seen.of(mask, each, norms, norms > self.clip_norm)


@part("flat")
class FlatClipping(ByNorm):
    """Clipping in l2 (Abadi et al. 2016).

    >>> FlatClipping(clip_norm=1.0).coefficients(jnp.array([0.5, 4.0])).tolist()
    [1.0, 0.25]
    >>> FlatClipping(clip_norm=0.5, noise_multiplier=2.0).noise({"w": 0, "b": 0})
    {'b': 1.0, 'w': 1.0}
    """

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        return clip_coefficients(norms, self.clip_norm)


@part("automatic")
class AutomaticClipping(ByNorm):
    """Clipping by g times C / (norm + `stability`), smooth in the norm (Bu et al. 2023).

    >>> clip = AutomaticClipping(clip_norm=1.0, stability=0.25)
    >>> clip.coefficients(jnp.array([0.25, 3.75])).tolist()
    [2.0, 0.25]
    """

    stability: float = 0.01

    def check(self) -> None:
        super().check()
        positive(self, "stability")

    def coefficients(self, norms: Float[Array, "batch"]) -> Float[Array, "batch"]:
        return self.clip_norm / (norms + self.stability)


@part("per-layer")
class PerLayerClipping(Bounded):
    """Each of L layers clipped in l2 to C / √L: together no longer than √(L C² / L) = C.

    With equal shares of the bound, as in McMahan et al. (2018, section 2.1). A layer is its kernel
    and, where it has one, its bias.

    >>> PerLayerClipping(clip_norm=0.1).sensitivity  # of all layers together
    0.1
    """

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """See `Mechanism`. An example with any layer clipped is seen as clipped."""
        each, gradients = batch.gradients()
        norms = {path: jnp.sqrt(square) for path, square in gradients.squared_norms.items()}
        bound = self.clip_norm / len(norms) ** 0.5
        by_layer = jnp.stack(list(norms.values()))
        whole = jnp.linalg.norm(by_layer, axis=0)
        counts = counted(mask, whole)
        scaled = {path: mask * clip_coefficients(norm, bound) for path, norm in norms.items()}
        factors = {path: jnp.where(counts, by, 0.0) for path, by in scaled.items()}
        total = gradients.weighted_sum_by_layer(factors)
        return total, Seen.of(mask, each, whole, by_layer.max(axis=0) > bound)


@part("no-privacy")
class NoPrivacy(Mechanism):
    """The plain sum: no clipping, no noise, no privacy.

    >>> print(NoPrivacy().noise_over_sensitivity)
    None
    """

    @property
    def noise_over_sensitivity(self) -> None:
        return None

    def sum(self, batch: Microbatch, mask: Float[Array, "batch"]) -> tuple[nnx.State, Seen]:
        """See `Mechanism`. Norms are not seen: they would cost the per-example gradients."""

        def summed(params: nnx.State) -> tuple[Array, Array]:
            each = batch.losses_of(batch.network(params))
            return jnp.vdot(mask, each), each

        total, each = jax.grad(summed, has_aux=True)(batch.params)
        return total, Seen.of_losses(mask, each)

    def noise(self, params: nnx.State) -> None:
        del params


def counted(mask: Float[Array, "batch"], norms: Float[Array, "batch"]) -> Bool[Array, "batch"]:
    """Return which examples count: those in `mask` whose gradient has a finite norm (or loss).

    One that is not finite would show in the sum with certainty, whatever the noise.
    """
    return (mask != 0) & jnp.isfinite(norms)


def clip_coefficients(norms: Float[Array, "batch"], clip_norm: Scalar) -> Float[Array, "batch"]:
    """Return min(1, C / norm), the factors of flat l2 clipping.

    >>> clip_coefficients(jnp.array([0.0, 2.0, 8.0]), 2.0).tolist()
    [1.0, 1.0, 0.25]
    """
    # Written so that a zero gradient keeps the factor 1 without dividing by it.
    return clip_norm / jnp.maximum(norms, clip_norm)


def gaussian_noise(
    standard_deviation: Scalar | optax.Params, key: Array, *, apart: bool = True
) -> optax.GradientTransformation:
    """Return the optax transformation that adds Gaussian noise to a sum of gradients.

    Noise is drawn anew at each update, from `key`, of `jax.random`, the number of updates so far
    and, if `apart`, the names of the leaves: the groups of `optax.multi_transform` get noise of
    their own. `standard_deviation` is one for all parameters, or a tree of one a leaf.

    A deviation of 0 adds no noise, as in a run with clips alone: there is no ε then. Groups whose
    leaves have the same names, and a transformation that is initialised again, need a key of their
    own: one key draws the same noise, which a difference takes out.

    Noise and what comes out are float32, or float64 where a leaf is: noise in bfloat16 would have
    some hundred values, and none beyond three deviations. JAX's normals in float32 end at 5.2
    deviations, beyond which an example would show for certain, more often in a run than δ allows.
    The sum of four over two, as in `privacy.secure`, goes on to ten.

    >>> noise = gaussian_noise(0.5, jax.random.key(0))
    >>> total = {"w": jnp.zeros(10_000)}
    >>> noisy, _ = noise.update(total, noise.init(total))
    >>> round(float(noisy["w"].std()), 2)
    0.5

    Raises:
        ValueError: a leaf is not of real numbers.
    """
    Count = optax.ScaleByScheduleState

    def init(params: optax.Params) -> Count:
        return Count(jnp.zeros([], jnp.int32))

    def update(updates: Any, state: Count, params: Any = None) -> tuple[optax.Updates, Count]:
        summed_in(updates)
        updates = jax.tree.map(lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32)), updates)
        flat, unravel = ravel_pytree(updates)
        step_key = jax.random.fold_in(key, state.count)
        if apart:
            paths = (jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(updates))
            step_key = jax.random.fold_in(step_key, zlib.crc32("\n".join(paths).encode()))
        noise = _normal(step_key, flat)
        noisy = unravel(flat + _by_number(standard_deviation, updates) * noise)
        return noisy, Count(state.count + 1)

    return optax.GradientTransformation(init, update)


def _normal(key: Array, like: Float[Array, "numbers"]) -> Float[Array, "numbers"]:
    summed = sum(jax.random.normal(one, like.shape, like.dtype) for one in jax.random.split(key, 4))
    return summed / 2


def _by_number(deviation: Scalar | optax.Params, updates: optax.Params) -> Array:
    """Return the deviation of each number of the flat updates, or one for all."""
    leaves = jax.tree.leaves(deviation)
    if all(leaf is leaves[0] for leaf in leaves):
        return leaves[0]
    each = jax.tree.map(lambda s, x: jnp.broadcast_to(s, x.shape), deviation, updates)
    return ravel_pytree(each)[0]


def nothing_seen() -> Seen:
    """Return the empty sum."""
    return Seen(*(jnp.zeros(()) for _ in Seen._fields))
