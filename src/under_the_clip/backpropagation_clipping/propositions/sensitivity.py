"""Backpropagation clipping: what clipping a layer's input and upstream gradient bounds.

a bounds one example's input, b its upstream gradient; here a = b = 1 but where they are searched.
A convolution's gradient is, by Young's inequality, no longer than the input's l2 norm times the
upstream gradient's norm called l15: l1 over positions, l2 over channels.
"""

from collections.abc import Callable
from functools import cache, partial
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from dpstudy.gradients.convolution import conv2d
from dpstudy.propositions.proposition import Outcome, judge, proposition
from dpstudy.propositions.search import Found, normal, search, searched, uniform

Norm = Callable[[Array], Array]
Bound = Callable[[Array, Array], Array]

stated = partial(proposition, "stevens2022backpropagation")
_LONGER = "An input and an upstream gradient within the bounds, and a longer gradient."
BATCH = 4
_INPUTS, _OUTPUTS = 3, 2


def clip(x: Array, bound: Array | float, norm: Norm | None = None) -> Array:
    """Scale x down to norm `bound` where it is longer; the norm is l2 unless another is given."""
    return x * jnp.minimum(1.0, bound / (norm or length)(x))


def length(x: Array) -> Array:
    """Return the l2 norm, with a gradient at 0."""
    return optax.safe_norm(x, 1e-150)


# --- a batch ----------------------------------------------------------------------------------


def batch_gradient(case: Any, kept: Array, *, mean: bool) -> Float[Array, "out in"]:
    """Return a dense layer's gradient over the examples kept, clipped as Algorithm 2 does.

    The case has inputs "x" and upstream gradients "g" of each example's own loss; with `mean` the
    loss is the mean over those with `kept` 1, the drawn batch, as in the code, and not a sum.
    """
    divisor = kept.sum() if mean else 1.0
    x = jax.vmap(lambda one: clip(one, 1.0))(case["x"])
    g = jax.vmap(lambda one: clip(one / divisor, 1.0))(case["g"])
    return jnp.einsum("n,no,ni->oi", kept, g, x)


_EXAMPLES = {"x": normal(BATCH, _INPUTS, scale=2), "g": normal(BATCH, _OUTPUTS, scale=4)}


@searched(_EXAMPLES, cases=512, climbers=8)
def _removed(case: Any, *, mean: bool) -> tuple[Array, Array]:
    everyone = jnp.ones(BATCH)
    full = batch_gradient(case, everyone, mean=mean)
    return length(full - batch_gradient(case, everyone.at[0].set(0), mean=mean)), jnp.ones(())


def _when_one_is_removed(bound: float, *, mean: bool, corrected: float | None = None) -> Outcome:
    found = _removed(mean=mean)
    return judge(
        found,
        bound=bound,
        looked=f"{{}}, batches of {BATCH}",
        corrected=None if corrected is None else found.ratio - corrected,
        finding=f"Removing an example changes the layer's gradient by up to {found.ratio:.4f} a b.",
    )


@stated("Proposition 3", refuted_by="A batch whose gradient changes by more.")
def layer_sensitivity(bound: float = 1.0) -> Outcome:
    """One example more or less changes a layer's summed gradient by at most a b."""
    return _when_one_is_removed(bound, mean=False)


@stated(
    "Proposition 3, as its code computes the loss",
    refuted_by="A batch whose gradient changes by more.",
    instead="(2 - 1/B) a b for a batch of B: without an example the others' shares grow.",
)
def layer_sensitivity_mean_loss(bound: float = 1.0) -> Outcome:
    """The same where the loss is a mean over the drawn batch."""
    return _when_one_is_removed(bound, mean=True, corrected=2 - 1 / BATCH)


# --- dense layers -----------------------------------------------------------------------------


def dense_gradient(case: Any) -> tuple[Float[Array, "out in"], Float[Array, "out"]]:
    """Return the gradient by weights and bias of a dense layer with clipped input and gradient."""
    bound = jnp.exp(case["log_bounds"])
    x, g = clip(case["x"], bound[0]), clip(case["g"], bound[1])

    def layer(weights: Array, bias: Array) -> Array:
        return g @ (weights @ x + bias)

    return jax.grad(layer, argnums=(0, 1))(jnp.zeros((_OUTPUTS, _INPUTS)), jnp.zeros(_OUTPUTS))


def with_bias(a: Array, b: Array) -> Array:
    """Return b √(a² + 1): a bias is a weight whose input is 1."""
    return b * jnp.sqrt(a**2 + 1)


_DENSE = {"x": normal(_INPUTS, scale=3), "g": normal(_OUTPUTS, scale=3)}


@searched(_DENSE | {"log_bounds": uniform(-2, 2, 2)}, cases=512, climbers=8, steps=150)
def _dense(case: Any, bound: Bound, *, bias: bool) -> tuple[Array, Array]:
    weights, offset = dense_gradient(case)
    parts = [weights.ravel(), offset] if bias else [weights.ravel()]
    return length(jnp.concatenate(parts)), bound(*jnp.exp(case["log_bounds"]))


@stated("Proposition 4, Theorem 2", refuted_by=_LONGER)
def dense_sensitivity(bound: Bound = mul) -> Outcome:
    """A dense layer's gradient is no longer than a b."""
    found = _dense(bound, bias=False)
    return judge(
        found, finding=f"The longest gradient found comes to {found.ratio:.6f} of the bound."
    )


@stated(
    "Section 4, weights and bias under one noise",
    refuted_by=_LONGER,
    instead="b √(a² + 1): a bias is a weight whose input is 1.",
    ours=True,
)
def dense_sensitivity_bias(bound: Bound = mul) -> Outcome:
    """The same with a bias."""
    found, corrected = _dense(bound, bias=True), _dense(with_bias, bias=True)
    return judge(
        found,
        corrected=corrected.worst,
        finding=(
            f"Weights and bias together come to {found.ratio:.3g} times a b, and to "
            f"{corrected.ratio:.6f} of b √(a² + 1)."
        ),
    )


# --- the norm of a convolution as a matrix ----------------------------------------------------


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
    def positions(self) -> int:
        """The output's side."""
        return (self.image + 2 * self.padding - self.kernel) // self.stride + 1

    def apply(self, x: Float[Array, "h w c"], kernel: Array) -> Float[Array, "i j out"]:
        """Pad an image as the mode says, and convolve it."""
        edge, none = (self.padding, self.padding), (0, 0)
        padded = jnp.pad(x, (edge, edge, none), mode=self.mode)
        return conv2d(padded[None], kernel, (self.stride, self.stride), (none, none))[0]

    def kernel_gradient(self, x: Array, upstream: Array) -> Array:
        """Return the gradient by the kernel of <upstream, convolution of x>."""
        zero = jnp.zeros((self.kernel, self.kernel, self.inputs, self.outputs))
        return jax.vjp(lambda kernel: self.apply(x, kernel), zero)[1](upstream)[0]


Shapes = tuple[Shape, ...]
_CONVOLUTIONS = "{} convolutions, each {{}}"
# One input channel, which is what the paper uses the bound with; and two.
ONE_INPUT = (Shape(5, 3, 1, 1, 2), Shape(5, 3, 1, 1, 2, 1, "wrap"))
TWO_INPUTS = (Shape(4, 2, 1, 2, 2),)


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
    return length(jnp.sum(jnp.abs(kernel), axis=(0, 1)))


@cache
def operator_norm(shape: Shape, bound: Norm = largest_input) -> Found:
    """Search for a kernel whose convolution has a norm above the bound."""

    def sides(kernel: Array) -> tuple[Array, Array]:
        return matrix_norm(shape, kernel), bound(kernel)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        # A few large entries among small ones: a kernel of one pixel is an extreme.
        return rng.normal(size=(n, shape.kernel, shape.kernel, shape.inputs, shape.outputs)) ** 5

    return search(sides, draw, cases=256, climbers=4, steps=300, rate=0.1)


@stated("Proposition 5, one input channel", refuted_by="A kernel with a larger norm.")
def convolution_norm(shapes: Shapes = ONE_INPUT, bound: Norm = largest_input) -> Outcome:
    """A convolution, as a matrix, has a norm of at most the l15 norm of its kernel: l1 over
    positions, l2 over output channels.
    """
    found = [operator_norm(shape, bound) for shape in shapes]
    ratios = ", ".join(f"{one.ratio:.4f}" for one in found)
    return judge(
        *found,
        bound=1.0,
        looked=_CONVOLUTIONS.format(len(shapes)),
        finding=f"The largest norms found come to {ratios} of the bound.",
    )


@stated(
    "Proposition 5, several input channels",
    refuted_by="A kernel with a larger norm.",
    instead="The l2 norm of the l15 norms of all input channels.",
)
def convolution_norm_channels(shapes: Shapes = TWO_INPUTS) -> Outcome:
    """With several input channels the l15 norm of the largest one is enough. The formula is
    lost from our text, which speaks of a maximum; the paper uses it with one, for which it holds.
    """
    printed = [operator_norm(shape) for shape in shapes]
    summed = max(operator_norm(shape, all_inputs).ratio for shape in shapes)
    return judge(
        *printed,
        bound=1.0,
        looked=_CONVOLUTIONS.format(len(shapes)),
        corrected=summed - 1,
        finding=(
            f"With two input channels the norm comes to {max(f.ratio for f in printed):.4f} of the "
            f"largest channel's bound, and to {summed:.4f} of the one summed over channels."
        ),
    )


# --- convolutions -----------------------------------------------------------------------------

# No padding: a stride longer than the kernel, and a plain convolution.
PLAIN = (Shape(7, 2, 3, 1, 2), Shape(5, 3, 1, 2, 2))
# With zeros: the study's first layer in small; and wrapped around.
PADDED = (Shape(6, 4, 2, 1, 3, 2), Shape(5, 3, 2, 1, 2, 1, "wrap"))
COPYING = (Shape(5, 3, 1, 2, 2, 1, "reflect"), Shape(5, 3, 1, 2, 2, 1, "edge"))


def l15(upstream: Float[Array, "i j out"]) -> Array:
    """Return the paper's norm of an upstream gradient: l1 over positions, l2 over channels."""
    return length(jnp.sum(jnp.abs(upstream), axis=(0, 1)))


@cache
def conv_gradient(shape: Shape, norm: Norm = l15, *, bias: bool = False) -> Found:
    """Search for the longest gradient of a convolution, input and gradient clipped to 1."""

    def sides(case: Any) -> tuple[Array, Array]:
        upstream = clip(case["g"], 1.0, norm)
        gradient = shape.kernel_gradient(clip(case["x"], 1.0), upstream).ravel()
        if bias:
            gradient = jnp.concatenate([gradient, upstream.sum(axis=(0, 1))])
        return length(gradient), jnp.ones(())

    def draw(rng: np.random.Generator, n: int) -> Any:
        # Peaked, as above: the extremes are there.
        peaked = rng.normal(size=(n, shape.positions, shape.positions, shape.outputs)) ** 5
        image = (n, shape.image, shape.image, shape.inputs)
        return {"x": 3 * rng.normal(size=image), "g": 3 * peaked}

    return search(sides, draw, cases=128, climbers=4, steps=150, rate=0.1)


@stated("Theorem 3", refuted_by=_LONGER)
def convolution_sensitivity(shapes: Shapes = PLAIN, norm: Norm = l15) -> Outcome:
    """A convolution's gradient is no longer than a b, b bounding the l15 norm."""
    found = [conv_gradient(shape, norm) for shape in shapes]
    ratios = ", ".join(f"{one.ratio:.4f}" for one in found)
    return judge(
        *found,
        looked=_CONVOLUTIONS.format(len(shapes)),
        finding=f"The longest gradients found come to {ratios} of a b.",
    )


@stated("Section 5, “Padding and bias”; extended here", refuted_by=_LONGER, ours=True)
def convolution_sensitivity_padding(shapes: Shapes = PADDED) -> Outcome:
    """The same holds with zeros around the image, which the paper does without."""
    return convolution_sensitivity.check(shapes)


def padding_norm(shape: Shape) -> float:
    """Return the largest singular value of padding as a matrix: √m for an entry copied m times."""
    identity = np.eye(shape.image**2).reshape(-1, shape.image, shape.image)
    edge = (shape.padding, shape.padding)
    mode: Any = shape.mode
    matrix = np.pad(identity, ((0, 0), edge, edge), mode=mode).reshape(shape.image**2, -1)
    return float(np.linalg.norm(matrix, ord=2))


@stated(
    "Section 5, “Padding and bias”",
    refuted_by=_LONGER,
    instead="a b times the norm of the padding as a matrix.",
    ours=True,
)
def convolution_sensitivity_copying(shapes: Shapes = COPYING) -> Outcome:
    """The same with padding that reflects or repeats the image's edge."""
    found = {shape: conv_gradient(shape) for shape in shapes}
    modes = ", ".join(f"{one.ratio:.4f} ({shape.mode})" for shape, one in found.items())
    return judge(
        *found.values(),
        looked=_CONVOLUTIONS.format(len(shapes)),
        corrected=max(one.ratio - padding_norm(shape) for shape, one in found.items()),
        finding=(
            f"The longest gradients found come to {modes} times a b; padding lengthens the input "
            f"by up to {max(map(padding_norm, shapes)):.4f}."
        ),
    )


@stated("Section 5, “Padding and bias”", refuted_by=_LONGER, instead="b √(a² + 1).", ours=True)
def convolution_sensitivity_bias(bound: float = 1.0) -> Outcome:
    """The same with a bias."""
    found = conv_gradient(PLAIN[-1], bias=True)
    return judge(
        found,
        bound=bound,
        corrected=found.ratio - float(np.sqrt(2)),
        finding=(
            f"Kernel and bias together come to {found.ratio:.4f} a b at a = b = 1, where "
            f"b √(a² + 1) is {np.sqrt(2):.4f}."
        ),
    )
