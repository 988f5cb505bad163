"""A convolution as patches and one matrix product, fast on a CPU.

`conv2d` computes what `jax.lax.conv_general_dilated` computes for an ordinary 2-D convolution.
XLA's CPU convolution and its gradients take several times as long as the matrix products they
amount to. Three things make the products the larger part here:

- A stride is folded into the channels: blocks of stride x stride pixels become one pixel with
  stride^2 times the channels, and every convolution has stride 1 from then on.
- Patches are gathered by slices and concatenation in two stages, columns then rows. A gather along
  the last axis takes longer than the rest of a training step.
- The gradient with respect to the input is written by hand, without scattering.

Patches and the kernel's matrix share an order that is this file's own: `kernel_matrix` and
`kernel_from_matrix` translate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from flax import nnx
    from jaxtyping import Array, Float

    Padding = tuple[tuple[int, int], tuple[int, int]]
    Strides = tuple[int, int]


class Window(NamedTuple):
    """How a kernel moves over an image."""

    size: tuple[int, int]
    strides: Strides
    padding: Padding

    @property
    def tiles(self) -> tuple[int, int]:
        """The kernel's size in blocks, the last of which it may cover in part."""
        return tuple(-(-k // s) for k, s in zip(self.size, self.strides, strict=True))

    @property
    def fits(self) -> bool:
        """Whether the kernel covers whole blocks only."""
        return all(k % s == 0 for k, s in zip(self.size, self.strides, strict=True))

    def positions(self, extent: tuple[int, ...]) -> tuple[int, int]:
        """Return the number of window positions over an image of that height and width."""
        return tuple(
            (n + before + after - k) // s + 1
            for n, (before, after), k, s in zip(
                extent, self.padding, self.size, self.strides, strict=True
            )
        )

    def edges(self, extent: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return what to add (or, if negative, to cut) so that the blocks cover all windows."""
        return [
            (before, (count + tile - 1) * s - before - n)
            for n, (before, _), count, tile, s in zip(
                extent,
                self.padding,
                self.positions(extent),
                self.tiles,
                self.strides,
                strict=True,
            )
        ]


def extract_patches(
    images: Float[Array, "batch h w c"], window: Window
) -> Float[Array, "batch i j kkc"]:
    """Return, for each output position, the inputs under its window, in `kernel_matrix`'s order."""
    columns = _windows(_to_blocks(images, window), 2, window.tiles[1])
    return _windows(columns, 1, window.tiles[0])


def _to_blocks(images: Float[Array, "batch h w c"], window: Window) -> Array:
    """Pad, and fold each block of strides[0] x strides[1] pixels into the channels."""
    x = _pad(images, window.edges(images.shape[1:3]))
    if window.strides == (1, 1):
        return x
    (batch, height, width, channels), (down, across) = x.shape, window.strides
    x = x.reshape(batch, height // down, down, width // across, across, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height // down, width // across, down * across * channels)


def _from_blocks(blocks: Array, shape: tuple[int, ...], window: Window) -> Array:
    """Undo `_to_blocks` for images of that shape."""
    (batch, height, width, _), (down, across), channels = blocks.shape, window.strides, shape[3]
    x = blocks.reshape(batch, height, width, down, across, channels).transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch, height * down, width * across, channels)
    return _pad(x, [(-before, -after) for before, after in window.edges(shape[1:3])])


def _pad(x: Array, edges: list[tuple[int, int]]) -> Array:
    """Pad rows and columns with zeros, or cut them where an edge is negative."""
    if not any(before or after for before, after in edges):
        return x
    config = [(0, 0, 0), *((before, after, 0) for before, after in edges), (0, 0, 0)]
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)


def _windows(x: Float[Array, "batch h w c"], axis: int, size: int) -> Array:
    """Concatenate the `size` shifts of x along `axis` into the channels."""
    if size == 1:
        return x
    count = x.shape[axis] - size + 1
    if axis == 2 and x.shape[3] < 4:
        return _windows_by_product(x, size, count)
    shifts = [jax.lax.slice_in_dim(x, at, at + count, axis=axis) for at in range(size)]
    return jnp.concatenate(shifts, axis=3)


def _windows_by_product(x: Float[Array, "batch h w c"], size: int, count: int) -> Array:
    # Slices a few numbers wide do not vectorise; a product with a one-hot matrix does.
    width, channels = x.shape[2:]
    one_hot = np.zeros((width, channels, count, size, channels), np.float32)
    for at in range(count):
        for channel in range(channels):
            one_hot[at + np.arange(size), channel, at, np.arange(size), channel] = 1
    rows = x.reshape(*x.shape[:2], width * channels)
    matrix = one_hot.reshape(width * channels, -1).astype(x.dtype)
    return (rows @ matrix).reshape(*x.shape[:2], count, size * channels)


def kernel_matrix(kernel: Float[Array, "kh kw c out"], window: Window) -> Float[Array, "kkc out"]:
    """Return the kernel as a matrix, its rows in the order of patches."""
    (rows, columns), (down, across) = window.tiles, window.strides
    missing = [
        (0, n * s - k) for n, s, k in zip(window.tiles, window.strides, window.size, strict=True)
    ]
    kernel = jnp.pad(kernel, (*missing, (0, 0), (0, 0)))
    kernel = kernel.reshape(rows, down, columns, across, *kernel.shape[2:])
    return kernel.transpose(0, 2, 1, 3, 4, 5).reshape(-1, kernel.shape[-1])


def kernel_from_matrix(
    matrix: Float[Array, "*batch kkc out"], kernel_shape: tuple[int, ...], window: Window
) -> Float[Array, "*batch kh kw c out"]:
    """Undo `kernel_matrix`, for one matrix or many."""
    (rows, columns), (down, across) = window.tiles, window.strides
    many = matrix.reshape(-1, rows, columns, down, across, *kernel_shape[2:])
    many = many.transpose(0, 1, 3, 2, 4, 5, 6)
    many = many.reshape(-1, rows * down, columns * across, *kernel_shape[2:])
    many = many[:, : kernel_shape[0], : kernel_shape[1]]
    return many.reshape(*matrix.shape[:-2], *kernel_shape)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv2d(
    images: Float[Array, "batch h w c"],
    kernel: Float[Array, "kh kw c out"],
    strides: Strides,
    padding: Padding,
) -> Float[Array, "batch i j out"]:
    """Return the convolution (in the sense of deep learning: a correlation) of each image."""
    window = Window(kernel.shape[:2], strides, padding)
    return extract_patches(images, window) @ kernel_matrix(kernel, window)


def _conv2d_forward(images: Array, kernel: Array, strides: Strides, padding: Padding) -> Any:
    return conv2d(images, kernel, strides, padding), (images, kernel)


def _conv2d_backward(strides: Strides, padding: Padding, saved: Any, gradient: Array) -> Any:
    images, kernel = saved
    window = Window(kernel.shape[:2], strides, padding)
    patches = extract_patches(images, window)
    by_matrix = jnp.einsum("bijk,bijo->ko", patches, gradient)
    kernel_gradient = kernel_from_matrix(by_matrix, kernel.shape, window)
    return _input_gradient(images.shape, kernel, window, gradient), kernel_gradient


conv2d.defvjp(_conv2d_forward, _conv2d_backward)


def _input_gradient(
    shape: tuple[int, ...], kernel: Array, window: Window, gradient: Float[Array, "batch i j out"]
) -> Float[Array, "batch h w c"]:
    """Return the gradient of the input, of that shape, from the output's."""
    matrix = kernel_matrix(kernel, window)
    tiles = matrix.reshape(*window.tiles, -1, kernel.shape[3])
    few = window.tiles[0] * window.tiles[1] <= 4
    blocks = (_spread if few else _correlate_flipped)(tiles, gradient)
    return _from_blocks(blocks, shape, window)


def _spread(tiles: Float[Array, "m n c out"], gradient: Float[Array, "batch i j out"]) -> Array:
    """For kernels of few tiles: a product a tile, added where the tile lies in its windows."""
    rows, columns = tiles.shape[:2]
    total = 0
    for row in range(rows):
        for column in range(columns):
            part = gradient @ tiles[row, column].T
            edges = [(row, rows - 1 - row), (column, columns - 1 - column)]
            total = total + _pad(part, edges)
    return total


def _correlate_flipped(
    tiles: Float[Array, "m n c out"], gradient: Float[Array, "batch i j out"]
) -> Array:
    """For kernels of many tiles: the full convolution of the gradient with the flipped kernel."""
    rows, columns = tiles.shape[:2]
    flipped = tiles[::-1, ::-1].transpose(0, 1, 3, 2)
    full = Window((rows, columns), (1, 1), ((rows - 1, rows - 1), (columns - 1, columns - 1)))
    return extract_patches(gradient, full) @ kernel_matrix(flipped, full)


def ordinary(layer: nnx.Conv) -> bool:
    """Whether a layer is a plain 2-D convolution: not dilated, grouped, masked or wrapped."""
    return (
        len(layer.kernel_size) == 2
        and {*_pair(layer.kernel_dilation), *_pair(layer.input_dilation)} == {1}
        and layer.feature_group_count == 1
        and layer.mask is None
        and not (isinstance(layer.padding, str) and layer.padding not in ("SAME", "VALID"))
    )


def window_of(layer: nnx.Conv, input_shape: tuple[int, ...]) -> Window:
    """Return how the kernel of an ordinary 2-D convolution layer moves over its input."""
    strides = _pair(layer.strides)
    padding = resolve_padding(layer.padding, input_shape[1:3], layer.kernel_size, strides)
    return Window(layer.kernel_size, strides, padding)


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
