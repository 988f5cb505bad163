"""Backpropagation clipping: what clipping a layer's input and upstream gradient bounds.

a bounds one example's input, b its upstream gradient; here a = b = 1 but where they are searched.
A dense layer's gradient is the outer product of the two. A convolution's, for one output channel,
is the input correlated with that channel's upstream gradient, and by Young's inequality no longer
than the input's l2 norm times the gradient's l1 norm. Over channels that is the norm called l15
in the paper: l1 over positions, l2 over channels. Nothing in this asks how the input is padded, as
long as the padding adds nothing to its norm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpstudy.gradients.convolution import conv2d
from dpstudy.propositions.search import Found, search
from dpstudy.propositions.statement import Outcome, Statement

if TYPE_CHECKING:
    from jaxtyping import Array, Float

BATCH = 4
_INPUTS, _OUTPUTS = 3, 2


def clip(x: Array, bound: Array | float, norm: Callable[[Array], Array] | None = None) -> Array:
    """Scale x down to norm `bound` where it is longer; the norm is l2 unless another is given."""
    length = _length(x) if norm is None else norm(x)
    return x * jnp.minimum(1.0, bound / length)


def _length(x: Array) -> Array:
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
        return _length(jnp.concatenate(parts)), bound(*jnp.exp(case["log_bounds"]))

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
        return _length(full - batch_gradient(case, everyone.at[0].set(0), mean=mean)), jnp.ones(())

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


# --- convolutions -----------------------------------------------------------------------------


class Shape(NamedTuple):
    """A convolution, small enough to search: image and kernel are squares."""

    image: int
    kernel: int
    stride: int
    inputs: int
    outputs: int
    padding: int = 0
    mode: str = "constant"

    @property
    def padded(self) -> int:
        """The padded image's side."""
        return self.image + 2 * self.padding

    @property
    def positions(self) -> int:
        """The output's side."""
        return (self.padded - self.kernel) // self.stride + 1

    def pad(self, x: Float[Array, "h w c"]) -> Array:
        """Pad an image as the mode says."""
        edge = (self.padding, self.padding)
        return jnp.pad(x, (edge, edge, (0, 0)), mode=self.mode)

    def apply(self, x: Float[Array, "h w c"], kernel: Array) -> Float[Array, "i j out"]:
        """Convolve one image."""
        none = ((0, 0), (0, 0))
        return conv2d(self.pad(x)[None], kernel, (self.stride, self.stride), none)[0]

    def kernel_gradient(self, x: Array, upstream: Array) -> Array:
        """Return the gradient by the kernel of <upstream, convolution of x>."""
        zero = jnp.zeros((self.kernel, self.kernel, self.inputs, self.outputs))
        return jax.vjp(lambda kernel: self.apply(x, kernel), zero)[1](upstream)[0]


# No padding: a stride longer than the kernel, and a plain convolution.
PLAIN = (Shape(7, 2, 3, 1, 2), Shape(5, 3, 1, 2, 2))
# With zeros: the study's first layer in small; and wrapped around.
PADDED = (Shape(6, 4, 2, 1, 3, 2), Shape(5, 3, 2, 1, 2, 1, "wrap"))
COPYING = (Shape(5, 3, 1, 2, 2, 1, "reflect"), Shape(5, 3, 1, 2, 2, 1, "edge"))


def l15(upstream: Float[Array, "i j out"]) -> Array:
    """Return the paper's norm of an upstream gradient: l1 over positions, l2 over channels."""
    return _length(jnp.sum(jnp.abs(upstream), axis=(0, 1)))


def l2(upstream: Float[Array, "i j out"]) -> Array:
    """Return the plain norm, with which clipping a convolution would not be enough."""
    return _length(upstream)


@cache
def conv_gradient(
    shape: Shape, norm: Callable[[Array], Array] = l15, *, bias: bool = False
) -> Found:
    """Search for the longest gradient of a convolution, input and gradient clipped to 1."""

    def sides(case: Any) -> tuple[Array, Array]:
        upstream = clip(case["g"], 1.0, norm)
        gradient = shape.kernel_gradient(clip(case["x"], 1.0), upstream).ravel()
        if bias:
            gradient = jnp.concatenate([gradient, upstream.sum(axis=(0, 1))])
        return _length(gradient), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        # A few large entries among small ones: the extremes are there.
        peaked = rng.normal(size=(n, shape.positions, shape.positions, shape.outputs)) ** 5
        image = (n, shape.image, shape.image, shape.inputs)
        return {"x": 3 * rng.normal(size=image), "g": 3 * peaked}

    return search(sides, draw, cases=128, climbers=4, steps=150, rate=0.1)


def conv(shapes: tuple[Shape, ...] = PLAIN, norm: Callable[[Array], Array] = l15) -> Outcome:
    """Search for a convolution's gradient longer than a b (Theorem 3).

    Args:
        shapes: the convolutions.
        norm: by which the upstream gradient is clipped.
    """
    found = [conv_gradient(shape, norm) for shape in shapes]
    return Outcome(
        worst=max(f.ratio for f in found) - 1,
        looked=f"{len(shapes)} convolutions, each {found[0].looked}",
        tightness=max(f.ratio for f in found),
        finding=(
            "The longest gradients found come to "
            f"{', '.join(f'{f.ratio:.4f}' for f in found)} of a b."
        ),
    )


def padding_norm(shape: Shape) -> float:
    """Return the factor by which padding can lengthen an image: its matrix' largest singular value.

    An entry copied m times gives √m, and no more.
    """
    identity = np.eye(shape.image**2).reshape(-1, shape.image, shape.image)
    edge = (shape.padding, shape.padding)
    mode: Any = shape.mode
    matrix = np.pad(identity, ((0, 0), edge, edge), mode=mode).reshape(shape.image**2, -1)
    return float(np.linalg.norm(matrix, ord=2))


def conv_copying(shapes: tuple[Shape, ...] = COPYING) -> Outcome:
    """Search for gradients longer than a b where padding copies pixels."""
    found = [conv_gradient(shape) for shape in shapes]
    excess = [f.ratio - padding_norm(shape) for f, shape in zip(found, shapes, strict=True)]
    modes = ", ".join(
        f"{f.ratio:.4f} ({shape.mode})" for f, shape in zip(found, shapes, strict=True)
    )
    return Outcome(
        worst=max(f.ratio for f in found) - 1,
        looked=f"{len(shapes)} convolutions, each {found[0].looked}",
        tightness=max(f.ratio for f in found),
        finding=(
            f"The longest gradients found come to {modes} times a b; padding lengthens the input "
            f"by up to {max(padding_norm(shape) for shape in shapes):.4f}."
        ),
        corrected=max(excess),
    )


def conv_bias(bound: float = 1.0) -> Outcome:
    """Search for a convolution's gradient, bias included, longer than `bound` with a = b = 1."""
    found = conv_gradient(PLAIN[-1], bias=True)
    return Outcome(
        worst=found.ratio - bound,
        looked=found.looked,
        tightness=found.ratio / bound,
        finding=(
            f"Kernel and bias together come to {found.ratio:.4f} a b at a = b = 1, where "
            f"b √(a² + 1) is {np.sqrt(2):.4f}."
        ),
        corrected=found.ratio - float(np.sqrt(2)),
    )


# --- the norm of a convolution as a matrix ----------------------------------------------------


def matrix_norm(shape: Shape, kernel: Array) -> Array:
    """Return the largest singular value of the convolution as a matrix on images."""
    pixels = shape.image**2 * shape.inputs
    images = jnp.eye(pixels).reshape(pixels, shape.image, shape.image, shape.inputs)
    columns = jax.vmap(lambda x: shape.apply(x, kernel).ravel())(images)
    return jnp.linalg.norm(columns, ord=2)


def largest_input(kernel: Float[Array, "k k c out"]) -> Array:
    """Return Proposition 5's bound: the l15 norm of the kernel's input channel with the largest."""
    per_channel = jnp.sum(jnp.abs(kernel), axis=(0, 1))
    return jnp.max(jnp.sqrt(jnp.sum(per_channel**2, axis=1)))


def all_inputs(kernel: Float[Array, "k k c out"]) -> Array:
    """Return the bound over all input channels: l1 over positions, l2 over both channels."""
    return _length(jnp.sum(jnp.abs(kernel), axis=(0, 1)))


@cache
def operator_norm(shape: Shape, bound: Callable[[Array], Array] = largest_input) -> Found:
    """Search for a kernel whose convolution has a norm above the bound."""

    def sides(kernel: Array) -> tuple[Array, Array]:
        return matrix_norm(shape, kernel), bound(kernel)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.normal(size=(n, shape.kernel, shape.kernel, shape.inputs, shape.outputs))

    return search(sides, draw, cases=64, climbers=4, steps=80)


# One input channel, which is what the paper uses the bound with; and two.
ONE_INPUT = (Shape(5, 3, 1, 1, 2), Shape(5, 3, 1, 1, 2, 1, "wrap"))
TWO_INPUTS = (Shape(4, 2, 1, 2, 2),)


def convolution_norm(
    shapes: tuple[Shape, ...] = ONE_INPUT, bound: Callable[[Array], Array] = largest_input
) -> Outcome:
    """Search for a kernel with a larger operator norm than Proposition 5 allows."""
    found = [operator_norm(shape, bound) for shape in shapes]
    return Outcome(
        worst=max(f.ratio for f in found) - 1,
        looked=f"{len(shapes)} convolutions, each {found[0].looked}",
        tightness=max(f.ratio for f in found),
        finding=(
            "The largest norms found come to "
            f"{', '.join(f'{f.ratio:.4f}' for f in found)} of the bound."
        ),
    )


def convolution_norm_of_channels(shapes: tuple[Shape, ...] = TWO_INPUTS) -> Outcome:
    """Search the same with several input channels, and with the bound summed over them."""
    printed, summed = convolution_norm(shapes), convolution_norm(shapes, all_inputs)
    return Outcome(
        worst=printed.worst,
        looked=printed.looked,
        tightness=printed.tightness,
        finding=(
            f"With two input channels the norm comes to {printed.tightness:.4f} of the largest "
            f"channel's bound, and to {summed.tightness:.4f} of the one summed over channels."
        ),
        corrected=summed.worst,
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
        paper=_KEY,
        where="Section 4, weights and bias under one noise",
        says="The same with a bias.",
        refuted_by=_REFUTED_BY,
        check=dense_bias,
        instead="b √(a² + 1): a bias is a weight whose input is 1.",
    ),
    Statement(
        name="convolution-norm",
        paper=_KEY,
        where="Proposition 5, one input channel",
        says=(
            "A convolution, as a matrix, has a norm of at most the l15 norm of its kernel: l1 over "
            "positions, l2 over output channels."
        ),
        refuted_by="A kernel with a larger norm.",
        check=convolution_norm,
    ),
    Statement(
        name="convolution-norm-channels",
        paper=_KEY,
        where="Proposition 5, several input channels",
        says="With several input channels the l15 norm of the largest one is enough.",
        refuted_by="A kernel with a larger norm.",
        check=convolution_norm_of_channels,
        instead="The l2 norm of the l15 norms of all input channels.",
    ),
    Statement(
        name="convolution-sensitivity",
        paper=_KEY,
        where="Theorem 3",
        says="A convolution's gradient is no longer than a b, b bounding the l15 norm.",
        refuted_by=_REFUTED_BY,
        check=conv,
    ),
    Statement(
        name="convolution-sensitivity-padding",
        paper=_KEY,
        where="Section 5, “Padding and bias”; extended here",
        says="The same holds with zeros around the image, which the paper does without.",
        refuted_by=_REFUTED_BY,
        check=lambda: conv(PADDED),
    ),
    Statement(
        name="convolution-sensitivity-copying",
        paper=_KEY,
        where="Section 5, “Padding and bias”",
        says="The same with padding that reflects or repeats the image's edge.",
        refuted_by=_REFUTED_BY,
        check=conv_copying,
        instead="a b times the norm of the padding as a matrix.",
    ),
    Statement(
        name="convolution-sensitivity-bias",
        paper=_KEY,
        where="Section 5, “Padding and bias”",
        says="The same with a bias.",
        refuted_by=_REFUTED_BY,
        check=conv_bias,
        instead="b √(a² + 1).",
    ),
)
