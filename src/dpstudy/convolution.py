"""A convolution as patches and one matrix product, fast on a CPU.

`conv2d` computes what `jax.lax.conv_general_dilated` computes for an ordinary 2-D convolution.
XLA's CPU convolution and its gradients are several times slower than the matrix products they
amount to; here patches are gathered by slices and concatenation in two stages, columns then rows
(a gather along the last axis takes longer than the rest of the step), and the gradient with
respect to the input is written by hand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array, Float

    Padding = tuple[tuple[int, int], tuple[int, int]]
    Strides = tuple[int, int]


def extract_patches(
    images: Float[Array, "batch h w c"],
    kernel_size: tuple[int, int],
    strides: Strides,
    padding: Padding,
) -> Float[Array, "batch i j kkc"]:
    """Return, for each output position, the inputs its window covers, in the kernel's order."""
    images = jnp.pad(images, ((0, 0), *padding, (0, 0)))
    columns = _windows(images, 2, kernel_size[1], strides[1])
    return _windows(columns, 1, kernel_size[0], strides[0])


def _windows(x: Float[Array, "batch h w c"], axis: int, size: int, stride: int) -> Array:
    """Concatenate the `size` shifts of x along `axis` into the channels, every `stride`-th."""
    count = (x.shape[axis] - size) // stride + 1
    if x.shape[3] == 1 and axis == 2:
        return _windows_of_one_channel(x, size, stride, count)
    span = (count - 1) * stride + 1
    shifts = [
        jax.lax.slice_in_dim(x, start, start + span, stride, axis=axis) for start in range(size)
    ]
    return jnp.concatenate(shifts, axis=3)


def _windows_of_one_channel(x: Array, size: int, stride: int, count: int) -> Array:
    # Slices one element wide do not vectorise; a product with a one-hot matrix does.
    width = x.shape[2]
    one_hot = np.zeros((width, count, size), np.float32)
    for position in range(count):
        one_hot[position * stride + np.arange(size), position, np.arange(size)] = 1
    rows = x[..., 0] @ one_hot.reshape(width, count * size).astype(x.dtype)
    return rows.reshape(*x.shape[:2], count, size)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv2d(
    images: Float[Array, "batch h w c"],
    kernel: Float[Array, "kh kw c out"],
    strides: Strides,
    padding: Padding,
) -> Float[Array, "batch i j out"]:
    """Return the convolution (in the sense of deep learning: a correlation) of each image."""
    patches = extract_patches(images, kernel.shape[:2], strides, padding)
    return patches @ kernel.reshape(-1, kernel.shape[3])


def _conv2d_forward(images: Array, kernel: Array, strides: Strides, padding: Padding) -> Any:
    return conv2d(images, kernel, strides, padding), (images, kernel)


def _conv2d_backward(strides: Strides, padding: Padding, saved: Any, gradient: Array) -> Any:
    images, kernel = saved
    patches = extract_patches(images, kernel.shape[:2], strides, padding)
    kernel_gradient = jnp.einsum("bijp,bijo->po", patches, gradient).reshape(kernel.shape)
    if strides == (1, 1):
        image_gradient = _input_gradient_by_convolution(images.shape, kernel, padding, gradient)
    else:
        image_gradient = _input_gradient_by_adds(images.shape, kernel, strides, padding, gradient)
    return image_gradient, kernel_gradient


conv2d.defvjp(_conv2d_forward, _conv2d_backward)


def _input_gradient_by_convolution(
    shape: tuple[int, ...], kernel: Array, padding: Padding, gradient: Array
) -> Array:
    """At stride 1: the convolution of the output gradient with the flipped kernel."""
    flipped = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    full = tuple(
        (size - 1 - before, extent + before - out)
        for size, (before, _), extent, out in zip(
            kernel.shape[:2], padding, shape[1:3], gradient.shape[1:3], strict=True
        )
    )
    gradient = _crop_where_negative(gradient, full)
    positive = tuple((max(before, 0), max(after, 0)) for before, after in full)
    patches = extract_patches(gradient, kernel.shape[:2], (1, 1), positive)
    return patches @ flipped.reshape(-1, flipped.shape[3])


def _crop_where_negative(x: Array, padding: Padding) -> Array:
    """Padding beyond the kernel's reach: those outputs saw only zeros."""
    for axis, (before, after) in enumerate(padding, start=1):
        x = jax.lax.slice_in_dim(x, max(-before, 0), x.shape[axis] - max(-after, 0), axis=axis)
    return x


def _input_gradient_by_adds(
    shape: tuple[int, ...], kernel: Array, strides: Strides, padding: Padding, gradient: Array
) -> Array:
    """At larger strides: each window's input gradients, added where the windows lie.

    A kernel of n x n strides covers n x n tiles of the input; the tiles of equal place in their
    windows do not overlap, so each place is one shifted add.
    """
    (batch, i, j, _), channels = gradient.shape, kernel.shape[2]
    tiles = [-(-size // stride) for size, stride in zip(kernel.shape[:2], strides, strict=True)]
    whole = [(0, n * s - k) for n, s, k in zip(tiles, strides, kernel.shape[:2], strict=True)]
    kernel = jnp.pad(kernel, (*whole, (0, 0), (0, 0)))
    kernel = kernel.reshape(tiles[0], strides[0], tiles[1], strides[1], channels, -1)
    by_tile = kernel.transpose(5, 0, 2, 1, 3, 4).reshape(kernel.shape[5], *tiles, -1)
    grid = jnp.zeros((batch, i + tiles[0] - 1, j + tiles[1] - 1, by_tile.shape[3]), gradient.dtype)
    for row in range(tiles[0]):
        for column in range(tiles[1]):
            tile = gradient @ by_tile[:, row, column]
            rest = (tiles[0] - 1 - row, tiles[1] - 1 - column)
            grid += jnp.pad(tile, ((0, 0), (row, rest[0]), (column, rest[1]), (0, 0)))
    grid = grid.reshape(batch, *grid.shape[1:3], *strides, channels).transpose(0, 1, 3, 2, 4, 5)
    grid = grid.reshape(batch, grid.shape[1] * strides[0], grid.shape[3] * strides[1], channels)
    return _crop_or_pad(grid, shape, padding)


def _crop_or_pad(x: Array, shape: tuple[int, ...], padding: Padding) -> Array:
    """Cut the padding's own gradient off, and give inputs beyond the last window gradient 0."""
    edges = [
        (-before, extent + before - size)
        for (before, _), extent, size in zip(padding, shape[1:3], x.shape[1:3], strict=True)
    ]
    config = [(0, 0, 0), *((low, high, 0) for low, high in edges), (0, 0, 0)]
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)


def geometry(layer: nnx.Conv, input_shape: tuple[int, ...]) -> tuple[Strides, Padding]:
    """Return the strides and the resolved padding of an ordinary 2-D convolution layer.

    Raises:
        ValueError: the layer is dilated, grouped, masked, wrapped or not 2-D.
    """
    dilated = {*_pair(layer.kernel_dilation), *_pair(layer.input_dilation)} != {1}
    special = isinstance(layer.padding, str) and layer.padding not in ("SAME", "VALID")
    if dilated or special or layer.feature_group_count != 1 or layer.mask is not None:
        raise ValueError("only ordinary 2-D convolutions have per-example rules")
    strides = _pair(layer.strides)
    return strides, resolve_padding(layer.padding, input_shape[1:3], layer.kernel_size, strides)


def resolve_padding(
    padding: Any, extent: tuple[int, ...], kernel_size: tuple[int, ...], strides: Strides
) -> Padding:
    """Return padding in any of flax's forms as (before, after) for rows and columns."""
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(extent, kernel_size, strides, padding)
    (top, bottom), (left, right) = (_pair(edge) for edge in _pair(padding))
    return (int(top), int(bottom)), (int(left), int(right))


def _pair(value: Any) -> tuple[Any, Any]:
    if value is None:
        return (1, 1)
    return (value, value) if isinstance(value, int) else tuple(value)


def conv_general_dilated(
    lhs: Array, rhs: Array, window_strides: Strides, padding: Any, **options: Any
) -> Array:
    """Stand in for `jax.lax.conv_general_dilated` in `flax.nnx.Conv`.

    Ordinary 2-D convolutions go to `conv2d`; all others, and all on an accelerator, to XLA.
    """
    if jax.default_backend() != "cpu" or not _ordinary(lhs, options):
        return jax.lax.conv_general_dilated(lhs, rhs, window_strides, padding, **options)
    strides = tuple(window_strides)
    return conv2d(
        lhs, rhs, strides, resolve_padding(padding, lhs.shape[1:3], rhs.shape[:2], strides)
    )


def _ordinary(lhs: Array, options: dict[str, Any]) -> bool:
    dilations = (options.get("lhs_dilation"), options.get("rhs_dilation"))
    return (
        lhs.ndim == 4
        and all(dilation is None or set(dilation) == {1} for dilation in dilations)
        and options.get("feature_group_count", 1) == 1
    )
