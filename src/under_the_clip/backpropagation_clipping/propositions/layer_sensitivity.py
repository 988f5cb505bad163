"""Backpropagation clipping: what clipping a dense layer's input and upstream gradient bounds.

a bounds one example's input, b its upstream gradient; here a = b = 1 but where they are searched.
A dense layer's gradient is the outer product of the two; `convolution_sensitivity.py` has the
convolution's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.propositions.search import Found, search
from dpstudy.propositions.statement import Outcome, Statement

if TYPE_CHECKING:
    from jaxtyping import Array, Float

BATCH = 4
_INPUTS, _OUTPUTS = 3, 2


def clip(x: Array, bound: Array | float, norm: Callable[[Array], Array] | None = None) -> Array:
    """Scale x down to norm `bound` where it is longer; the norm is l2 unless another is given."""
    size = length(x) if norm is None else norm(x)
    return x * jnp.minimum(1.0, bound / size)


def length(x: Array) -> Array:
    """Return the l2 norm, with a gradient at 0."""
    square = jnp.sum(x**2)
    return jnp.sqrt(jnp.where(square > 0, square, 1e-300))


# --- dense layers -----------------------------------------------------------------------------


def dense_gradient(case: Any) -> tuple[Float[Array, "out in"], Float[Array, "out"]]:
    """Return the gradient by weights and bias of a dense layer with clipped input and gradient."""
    bound = jnp.exp(case["log_bounds"])
    x, g = clip(case["x"], bound[0]), clip(case["g"], bound[1])

    def layer(weights: Array, bias: Array) -> Array:
        return g @ (weights @ x + bias)

    return jax.grad(layer, argnums=(0, 1))(jnp.zeros((_OUTPUTS, _INPUTS)), jnp.zeros(_OUTPUTS))


def product(a: Array, b: Array) -> Array:
    """Return a b, the bound of Theorems 2 and 3."""
    return a * b


def with_bias(a: Array, b: Array) -> Array:
    """Return b √(a² + 1): a bias is a weight whose input is 1."""
    return b * jnp.sqrt(a**2 + 1)


def _dense(bound: Callable[[Array, Array], Array], *, bias: bool) -> Found:
    def sides(case: Any) -> tuple[Array, Array]:
        weights, offset = dense_gradient(case)
        parts = [weights.ravel(), offset] if bias else [weights.ravel()]
        return length(jnp.concatenate(parts)), bound(*jnp.exp(case["log_bounds"]))

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "x": 3 * rng.normal(size=(n, _INPUTS)),
            "g": 3 * rng.normal(size=(n, _OUTPUTS)),
            "log_bounds": rng.uniform(-2, 2, (n, 2)),
        }

    return search(sides, draw, cases=512, climbers=8, steps=150)


def dense(bound: Callable[[Array, Array], Array] = product) -> Outcome:
    """Search for a dense layer's gradient longer than the bound (Prop. 4, Theorem 2)."""
    found = _dense(bound, bias=False)
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=f"The longest gradient found comes to {found.ratio:.6f} of the bound.",
    )


def dense_bias(bound: Callable[[Array, Array], Array] = product) -> Outcome:
    """Search for a dense layer's gradient, bias included, longer than the bound."""
    found, corrected = _dense(bound, bias=True), _dense(with_bias, bias=True)
    return Outcome(
        worst=found.worst,
        looked=found.looked,
        tightness=found.ratio,
        finding=(
            f"Weights and bias together come to {found.ratio:.3g} times a b, and to "
            f"{corrected.ratio:.6f} of b √(a² + 1)."
        ),
        corrected=corrected.worst,
    )


# --- a batch ----------------------------------------------------------------------------------


def batch_gradient(case: Any, kept: Array, *, mean: bool) -> Float[Array, "out in"]:
    """Return a dense layer's gradient over the examples kept, clipped as Algorithm 2 does.

    Args:
        case: inputs "x" and upstream gradients "g" of each example's own loss.
        kept: 1 for examples in the batch, else 0.
        mean: the loss is the mean over the drawn batch, as in the code, and not a sum.
    """
    divisor = kept.sum() if mean else 1.0
    x = jax.vmap(lambda one: clip(one, 1.0))(case["x"])
    g = jax.vmap(lambda one: clip(one / divisor, 1.0))(case["g"])
    return jnp.einsum("n,no,ni->oi", kept, g, x)


@cache
def _removed(*, mean: bool) -> Found:
    everyone = jnp.ones(BATCH)

    def sides(case: Any) -> tuple[Array, Array]:
        full = batch_gradient(case, everyone, mean=mean)
        return length(full - batch_gradient(case, everyone.at[0].set(0), mean=mean)), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        return {
            "x": 2 * rng.normal(size=(n, BATCH, _INPUTS)),
            "g": 4 * rng.normal(size=(n, BATCH, _OUTPUTS)),
        }

    return search(sides, draw, cases=512, climbers=8, steps=300)


def layer_sensitivity(
    bound: float = 1.0, *, mean: bool = False, corrected: float | None = None
) -> Outcome:
    """Search for a batch whose gradient changes by more with one example less (Prop. 3).

    Args:
        bound: in units of a b.
        mean: the loss is a mean over the drawn batch.
        corrected: the bound that is said to hold instead.
    """
    found = _removed(mean=mean)
    return Outcome(
        worst=found.ratio - bound,
        looked=f"{found.looked}, batches of {BATCH}",
        tightness=found.ratio / bound,
        finding=f"Removing an example changes the layer's gradient by up to {found.ratio:.4f} a b.",
        corrected=None if corrected is None else found.ratio - corrected,
    )


_KEY = "stevens2022backpropagation"
_REFUTED_BY = "An input and an upstream gradient within the bounds, and a longer gradient."
STATEMENTS = (
    Statement(
        name="layer-sensitivity",
        paper=_KEY,
        where="Proposition 3",
        says="One example more or less changes a layer's summed gradient by at most a b.",
        refuted_by="A batch whose gradient changes by more.",
        check=layer_sensitivity,
    ),
    Statement(
        name="layer-sensitivity-mean-loss",
        paper=_KEY,
        where="Proposition 3, as its code computes the loss",
        says="The same where the loss is a mean over the drawn batch.",
        refuted_by="A batch whose gradient changes by more.",
        check=lambda: layer_sensitivity(mean=True, corrected=2 - 1 / BATCH),
        instead="(2 - 1/B) a b for a batch of B: without an example the others' shares grow.",
    ),
    Statement(
        name="dense-sensitivity",
        paper=_KEY,
        where="Proposition 4, Theorem 2",
        says="A dense layer's gradient is no longer than a b.",
        refuted_by=_REFUTED_BY,
        check=dense,
    ),
    Statement(
        name="dense-sensitivity-bias",
        ours=True,
        paper=_KEY,
        where="Section 4, weights and bias under one noise",
        says="The same with a bias.",
        refuted_by=_REFUTED_BY,
        check=dense_bias,
        instead="b √(a² + 1): a bias is a weight whose input is 1.",
    ),
)
