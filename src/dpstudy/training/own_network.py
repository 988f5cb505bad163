"""DP-SGD for one's own network: the clipped gradient of any flax model, for an optax loop.

`book/own_network.py` is a complete example. What makes the epsilon true is the caller's to keep:
examples drawn by `sampling.poisson`, noise of standard deviation noise multiplier x sensitivity
on the *sum*, a division by the *expected* batch size, and nothing else that looks at the data.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Key

from dpstudy.gradients import devices, layers
from dpstudy.gradients.layers import Losses
from dpstudy.gradients.own_keys import OwnKeys, draws
from dpstudy.parts.mechanism import FlatClipping, Microbatch
from dpstudy.parts.sampling import Draw
from dpstudy.training import accumulate

# Far shorter gradients have a square of 0 in float32, longer ones one of infinity.
LEAST_CLIP, MOST_CLIP = 1e-12, 1e18
# Examples in a pass. Sums of n, as long as n clips, are rounded n times: what one more moves may be
# off by n^2 / 2^24 of the clip, which is more than itself of 8,192.
MOST_AT_ONCE = 1024


# Equal only to itself: jax.jit remembers it, and the arrays that it holds cannot be hashed.
@dataclass(frozen=True, eq=False)
class PrivateGradient:
    """The sum of a network's clipped per-example gradients, as a function.

    `nnx.merge(gradient.graph, params, gradient.rest)` is the network again: `rest` is what it holds
    besides what is trained. `microbatch` examples are in one pass; without a `mesh`, on one device.
    """

    graph: nnx.GraphDef
    losses: Losses
    mechanism: FlatClipping
    microbatch: int = 32
    mesh: Mesh | None = None
    rest: nnx.State = field(default_factory=lambda: nnx.State({}))

    @property
    def sensitivity(self) -> float:
        """The sum's l2 sensitivity to adding or removing one example."""
        return self.mechanism.sensitivity

    def __call__(
        self,
        params: nnx.State,
        inputs: Any,
        labels: Any,
        draw: Draw,
        key: Key[Array, ""] | None = None,
    ) -> nnx.State:
        """Return the sum over the drawn examples, without noise, in float32 (or in float64).

        `inputs` and `labels` are the whole training set: arrays, or trees of them, examples first.
        A network that draws random numbers, as dropout does, needs a `key` of `jax.random`, another
        one at each step: from it and its index each example has one of its own.
        The sum is NaN if the draw overflowed or was cut, or is of examples that are not there. An
        example whose gradient is not finite counts as 0, and a `NotFiniteWarning` after the step
        says how many did. The warning is not private. Where parameters have half precision, an
        optimizer with a state is to be initialised with float32 copies of them.

        Raises:
            ValueError: called within `jax.jit` though devices share the examples; the network
                changes what it holds besides its parameters, or draws without a `key`, or by one
                that is not of threefry; a loss may mix examples even under `jax.vmap`; the draw is
                none, or among more or fewer examples than there are; there are not as many labels
                as inputs, or not one loss an example.
        """
        if not isinstance(draw, Draw):
            raise ValueError(f"a draw is what `poisson` returns, got {type(draw).__name__}")
        # Cut by the caller: beyond the last place JAX would take that one again.
        cut = draw.count > len(draw.indices)
        draw = draw._replace(overflow=draw.overflow | cut)
        if self.mesh is None:
            total, not_finite = self._sum(params, inputs, labels, draw, key)
            _report(not_finite)
            return jax.tree.map(lambda leaf: jnp.where(draw.overflow, jnp.nan, leaf), total)
        if isinstance(draw.count, jax.core.Tracer):
            raise ValueError("devices that share examples are sent off from outside jax.jit")
        share, added = self._programs
        parts = accumulate.exchanged(share(params, inputs, labels, draw, key), self.mesh)
        total, not_finite = added(params, parts)
        _report(not_finite)
        return total

    def _sum(
        self, params: nnx.State, inputs: Any, labels: Any, draw: Draw, key: Array | None
    ) -> tuple[nnx.State, Float[Array, ""]]:
        own_keys = key is not None and draws(self.rest)
        if own_keys and jax.random.key_impl(key) != "threefry2x32":
            # Under vmap the others draw all rows from the first one's key.
            raise ValueError(f"a threefry key is wanted, got one of {jax.random.key_impl(key)}")
        losses = OwnKeys(self.losses) if own_keys else self.losses

        def part(inputs: Any, labels: Any, indices: Array, mask: Array) -> tuple[nnx.State, Array]:
            if own_keys:
                inputs = (inputs, jax.vmap(partial(jax.random.fold_in, key))(indices))
            batch = Microbatch(self.graph, losses, params, inputs, labels, (self.rest,))
            total, seen = self.mechanism.sum(batch, mask)
            return total, seen.not_finite

        nothing = (_zeros(params), jnp.float32(0))
        arrays = (inputs, labels, jnp.arange(layers.examples_in((inputs, labels))))
        # Whatever the caller asks for: of rounded factors a sum is not what the norms have bounded.
        with jax.default_matmul_precision("highest"):
            return accumulate.over_examples(part, nothing, draw, arrays, self.microbatch)

    @cached_property
    def _programs(self) -> tuple[Callable[..., Array], Callable[..., tuple[nnx.State, Array]]]:
        """What each device computes alone, and how the parts are added up."""

        def share(params: nnx.State, inputs: Any, labels: Any, draw: Draw, key: Any) -> Array:
            sums = self._sum(params, inputs, labels, accumulate.mine(draw, self.mesh), key)
            return jnp.where(draw.overflow, jnp.nan, accumulate.flat(sums))

        def added(params: nnx.State, parts: tuple[Array, ...]) -> tuple[nnx.State, Array]:
            return accumulate.added(parts, (_zeros(params), jnp.float32(0)))

        each_its_own = PartitionSpec(devices.EXAMPLES)
        return devices.on_each(share, self.mesh, each_its_own), devices.on_each(added, self.mesh)


def _zeros(params: nnx.State) -> nnx.State:
    """Return the empty sum, in the type that gradients are summed in."""
    of_type = layers.summed_in(params)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, of_type), params)


class NotFiniteWarning(UserWarning):
    """Examples whose gradient was not finite counted as 0."""


def _report(count: Float[Array, ""]) -> None:
    def warn(count: Array) -> None:
        if count > 0:  # Also called where a condition is computed for many at once.
            message = f"{int(count)} of a step's examples had no finite gradient, and counted as 0"
            warnings.warn(message, NotFiniteWarning, stacklevel=2)

    jax.lax.cond(count > 0, lambda: jax.debug.callback(warn, count), lambda: None)


def private_gradient(
    model: nnx.Module,
    losses: Losses,
    *,
    clip_norm: float,
    wrt: Any = nnx.Param,
    microbatch: int = 32,
    mesh: Mesh | None = None,
) -> tuple[PrivateGradient, nnx.State]:
    """Return the clipped gradient of a flax model, and its parameters that are trained.

    For every example, of any type, shape or value, the sum with it and the sum without it differ by
    at most `clip_norm`, in l2. `losses` makes of a network, inputs and labels one loss an example.

    `nnx.Conv`, `nnx.Linear`, `nnx.LinearGeneral` (as in attention), `nnx.LayerNorm`,
    `nnx.GroupNorm` and `nnx.Embed` have fast rules. A model with any other layer that has
    parameters, weights used twice, a penalty on weights, or examples that may be mixed falls back
    to `jax.vmap(jax.grad(...))`, and says so once. There each example is a batch of one: batch
    statistics and contrastive losses are its own, and `len(x)` is 1, not the microbatch.

    `wrt` is a filter of nnx: only parameters that pass are trained, and get noise. It may be a
    type (`nnx.LoRAParam`), a predicate of path and variable (`lambda path, _: "head" in path`), or
    a combination of them. What else a model holds, such as the averages of batch normalisation
    in evaluation, is in `gradient.rest`, as it is. A model that changes such a variable in its
    forward pass is refused; what it assigns to a plain array is forgotten. Dropout is given a `key`
    at each step.

    `microbatch` examples, 1,024 at most, are in one pass: it changes the time, and the rounding of
    the sum, which within a pass grows with their square. With `mesh=devices.mesh_for(1)` all local
    devices share the examples of each step; on a CPU, `devices.one_device_a_core()` before JAX
    starts makes each core one. The gradient is then called outside `jax.jit`. Put the training set
    and the parameters on all devices once, by `devices.everywhere`, or every step copies them.

    >>> from dpstudy import poisson
    >>> model = nnx.Linear(2, 1, use_bias=False, rngs=nnx.Rngs(0))
    >>> gradient, params = private_gradient(model, lambda net, x, y: net(x)[:, 0], clip_norm=1.0)
    >>> x, y = jnp.array([[3.0, 4.0]]), jnp.zeros(1)  # its gradient by the weights is x, of norm 5
    >>> draw = poisson(jax.random.key(0), examples=1, batch=1)
    >>> jax.jit(gradient)(params, x, y, draw)["kernel"][...].ravel()
    Array([0.6, 0.8], dtype=float32)

    Raises:
        ValueError: a clipping norm whose square is out of range, a microbatch that is, a mesh whose
            devices do not share examples, no nnx module, no parameters that are trained, or one
            that is not real.
    """
    _check_model(model)
    possible = isinstance(clip_norm, Real | jax.Array) and LEAST_CLIP <= clip_norm <= MOST_CLIP
    if not possible:
        text = f"clip_norm must be from {LEAST_CLIP:g} to {MOST_CLIP:g}, got {clip_norm!r}"
        raise ValueError(text)
    whole = isinstance(microbatch, int) and not isinstance(microbatch, bool)
    if not whole or not 1 <= microbatch <= MOST_AT_ONCE:
        text = f"microbatch must be a whole number from 1 to {MOST_AT_ONCE:,}, got {microbatch!r}"
        raise ValueError(text)
    if mesh is not None and mesh.shape.get(devices.EXAMPLES) != mesh.size:
        raise ValueError("the mesh must have all devices share examples: devices.mesh_for(1)")
    trained = nnx.All(nnx.Param, wrt)
    graph, params, rest = nnx.split(layers.tap(model, trained), trained, ...)
    layers.summed_in(params)
    if not jax.tree.leaves(params):
        which = "" if wrt is nnx.Param else f" that pass wrt={wrt!r}"
        raise ValueError(f"the model has no parameters (nnx.Param){which}")
    return PrivateGradient(graph, losses, FlatClipping(clip_norm), microbatch, mesh, rest), params


def _check_model(model: Any) -> None:
    if isinstance(model, nnx.Module):
        return
    kind = type(model)
    if any(base.__module__.startswith("flax.linen") for base in kind.__mro__):
        raise ValueError(
            f"{kind.__name__} is a flax.linen module, and an nnx module is wanted: "
            "nnx.bridge.lazy_init(nnx.bridge.ToNNX(module, rngs=nnx.Rngs(0)), inputs) is one"
        )
    raise ValueError(f"an nnx module is wanted as the model, got {kind.__name__}")
