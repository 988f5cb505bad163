"""Backpropagation clipping: what clipping a convolution's input and upstream gradient bounds.

a bounds one example's input, b its upstream gradient; here a = b = 1. A convolution's gradient, for
one output channel, is the input correlated with that channel's upstream gradient, and by Young's
inequality no longer than the input's l2 norm times the gradient's l1 norm. Over channels that is
the norm called l15 in the paper: l1 over positions, l2 over channels. Nothing in this asks how the
input is padded, as long as the padding adds nothing to its norm.
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
from under_the_clip.backpropagation_clipping.propositions.layer_sensitivity import clip, length

if TYPE_CHECKING:
    from jaxtyping import Array, Float


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
    return length(jnp.sum(jnp.abs(upstream), axis=(0, 1)))


def l2(upstream: Float[Array, "i j out"]) -> Array:
    """Return the plain norm, with which clipping a convolution would not be enough."""
    return length(upstream)


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
        return length(gradient), jnp.ones(())

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
    return length(jnp.sum(jnp.abs(kernel), axis=(0, 1)))


@cache
def operator_norm(shape: Shape, bound: Callable[[Array], Array] = largest_input) -> Found:
    """Search for a kernel whose convolution has a norm above the bound."""

    def sides(kernel: Array) -> tuple[Array, Array]:
        return matrix_norm(shape, kernel), bound(kernel)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        # Peaked, as above: a kernel of one pixel is an extreme.
        return rng.normal(size=(n, shape.kernel, shape.kernel, shape.inputs, shape.outputs)) ** 5

    return search(sides, draw, cases=256, climbers=4, steps=300, rate=0.1)


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
        says=(
            "With several input channels the l15 norm of the largest one is enough. The formula is "
            "lost from our text, which speaks of a maximum; the paper uses it with one, for which "
            "it holds."
        ),
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
        ours=True,
        paper=_KEY,
        where="Section 5, “Padding and bias”; extended here",
        says="The same holds with zeros around the image, which the paper does without.",
        refuted_by=_REFUTED_BY,
        check=lambda: conv(PADDED),
    ),
    Statement(
        name="convolution-sensitivity-copying",
        ours=True,
        paper=_KEY,
        where="Section 5, “Padding and bias”",
        says="The same with padding that reflects or repeats the image's edge.",
        refuted_by=_REFUTED_BY,
        check=conv_copying,
        instead="a b times the norm of the padding as a matrix.",
    ),
    Statement(
        name="convolution-sensitivity-bias",
        ours=True,
        paper=_KEY,
        where="Section 5, “Padding and bias”",
        says="The same with a bias.",
        refuted_by=_REFUTED_BY,
        check=conv_bias,
        instead="b √(a² + 1).",
    ),
)
