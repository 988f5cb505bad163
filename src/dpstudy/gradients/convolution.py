"""A convolution that is fast on a CPU, with its gradients.

Where XLA is fast it is left to XLA (`Window.direct`): with stride 1 and enough channels its
convolution runs at nearly the rate of a matrix product, and so do the gradient of the input, which
is a convolution with the kernel reversed, and that of the kernel, of an example's channels with its
output gradient (`kernel_gradients`). All three keep to one thread, so this is for processes that
have a core for each device.

Elsewhere, with strides and in first layers, XLA takes several times as long as the matrix product
that a convolution amounts to. Three things make the product the larger part there:

- A stride is folded into the channels: blocks of stride x stride pixels become one pixel with
  stride^2 times the channels, and every convolution has stride 1 from then on.
- A kernel of m x n tiles over c channels, giving o, is applied in two halves. `gather` puts n
  neighbouring columns beside each other, n c numbers a position; the product gives, for each
  position, what it adds to the m rows of outputs whose windows hold it, m o numbers; and
  `fold_rows` adds those up. Full patches, m n c numbers a position, are only gathered where they
  are the smaller: in first layers, which see few channels.
- The gradients run the same way back: `unfold_rows` puts m rows of the output gradient beside each
  other once, for the input's gradient and for the kernel's alike (`layer_rules.py` takes the
  latter's product example by example). Nothing is scattered.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.gradients import devices

Padding = tuple[tuple[int, int], tuple[int, int]]
Strides = tuple[int, int]

# Channels from which XLA's convolution outruns the product here: below, it does not vectorise.
DIRECT_FROM = 8
# Kernel gradients by convolution fall to a tenth of that rate unless channels and outputs fill
# vectors, and lose to the product on small images.
DIRECT_GRADIENT_MULTIPLE = 32
DIRECT_GRADIENT_POSITIONS = 64


class Window(NamedTuple):
    """How a kernel of that shape (height, width, channels, outputs) moves over an image."""

    kernel: tuple[int, int, int, int]
    strides: Strides
    padding: Padding

    @property
    def tiles(self) -> tuple[int, int]:
        """The kernel's size in blocks, the last of which it may cover in part."""
        return tuple(-(-k // s) for k, s in zip(self.kernel[:2], self.strides, strict=True))

    @property
    def fits(self) -> bool:
        """Whether the kernel covers whole blocks only."""
        return all(k % s == 0 for k, s in zip(self.kernel[:2], self.strides, strict=True))

    @property
    def direct(self) -> bool:
        """Whether XLA's own convolution is the faster one, on a CPU core alone."""
        return devices.core_each() and self.strides == (1, 1) and self.kernel[2] >= DIRECT_FROM

    def direct_gradients(self, extent: tuple[int, ...]) -> bool:
        """Whether `kernel_gradients` is the faster way likewise, for images of that size."""
        vectors = all(width % DIRECT_GRADIENT_MULTIPLE == 0 for width in self.kernel[2:])
        positions = int(np.prod(self.positions(extent)))
        return self.direct and vectors and positions >= DIRECT_GRADIENT_POSITIONS

    @property
    def block_channels(self) -> int:
        """The channels of a block: those of all its pixels."""
        return self.strides[0] * self.strides[1] * self.kernel[2]

    @property
    def rows(self) -> tuple[int, int]:
        """The rows of tiles that the input side gathers, and those that the output side folds."""
        (m, n), c, o = self.tiles, self.block_channels, self.kernel[3]
        return (m, 1) if m * n * c <= n * c + m * o else (1, m)

    def positions(self, extent: tuple[int, ...]) -> tuple[int, int]:
        """Return the number of window positions over an image of that height and width."""
        sides = zip(extent, self.padding, self.kernel, self.strides, strict=False)
        return tuple((n + sum(edges) - k) // s + 1 for n, edges, k, s in sides)

    def edges(self, extent: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return what to add (or, if negative, to cut) so that the blocks cover all windows."""
        counts = self.positions(extent)
        sides = zip(extent, self.padding, counts, self.tiles, self.strides, strict=True)
        return [(pad[0], (i + tile - 1) * s - pad[0] - n) for n, pad, i, tile, s in sides]


def gather(images: Float[Array, "batch h w c"], window: Window) -> Float[Array, "batch i j nc"]:
    """Return, for each position, the blocks that the product sees at once.

    On a CPU once: XLA would otherwise fuse the concatenation into each consumer.
    """
    if devices.backend() != "cpu":
        return _gather(images, window)
    gathered = jax.jit(partial(_gather, window=window))  # `dependence.py` can know it.
    # No operation is fused with what is inside a conditional, and the compiler cannot know that
    # both branches are one. Its optimization barriers do not reach this far.
    return jax.lax.cond(images.reshape(-1)[0] > 0, gathered, gathered, images)


def _gather(images: Array, window: Window) -> Array:
    if window.rows[0] == 1 and window.strides != (1, 1):
        return _columns_of_blocks(images, window)
    columns = _windows(_to_blocks(images, window), 2, window.tiles[1])
    return _windows(columns, 1, window.rows[0])


def _columns_of_blocks(images: Float[Array, "batch h w c"], window: Window) -> Array:
    # Pixel by pixel of the blocks beside each other: with enough channels to copy at a time, one
    # concatenation of strided slices is less work than a transposition to blocks and then another.
    (down, across), columns = window.strides, window.tiles[1]
    x = _pad(images, window.edges(images.shape[1:3]))
    last = x.shape[2] - across * columns
    return jnp.concatenate(
        [
            x[:, row::down, column : column + last + 1 : across]
            for tile in range(columns)
            for row in range(down)
            for column in range(tile * across, (tile + 1) * across)
        ],
        axis=3,
    )


def fold_rows(products: Float[Array, "batch h j mo"], window: Window) -> Array:
    """Return the sum, for each output, of what the rows of its window add to it."""
    rows, outputs = window.rows[1], window.kernel[3]
    count = products.shape[1] - rows + 1
    of_row = [slice(row * outputs, (row + 1) * outputs) for row in range(rows)]
    return sum(products[:, row : row + count, :, of] for row, of in enumerate(of_row))


def unfold_rows(gradient: Float[Array, "batch i j o"], window: Window) -> Array:
    """Return the gradient of `fold_rows`: for each position, that of the outputs it adds to."""
    rows = window.rows[1]
    if rows == 1:
        return gradient
    count = gradient.shape[1] + rows - 1
    padded = _pad(gradient, [(rows - 1, rows - 1), (0, 0)])
    shifts = [jax.lax.slice_in_dim(padded, at, at + count, axis=1) for at in reversed(range(rows))]
    return jnp.concatenate(shifts, axis=3)


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


def kernel_matrix(kernel: Float[Array, "kh kw c o"], window: Window) -> Float[Array, "nc mo"]:
    """Return the kernel as the matrix that takes what `gather` gives to what `fold_rows` adds."""
    (down, across), (gathered, folded) = window.strides, window.rows
    missing = map(lambda n, s, k: (0, n * s - k), window.tiles, window.strides, kernel.shape)
    kernel = jnp.pad(kernel, (*missing, (0, 0), (0, 0)))
    kernel = kernel.reshape(folded, gathered, down, -1, across, *window.kernel[2:])
    return kernel.transpose(1, 3, 2, 4, 5, 0, 6).reshape(-1, folded * window.kernel[3])


def kernel_from_matrix(
    matrix: Float[Array, "*batch nc mo"], window: Window
) -> Float[Array, "*batch kh kw c o"]:
    """Undo `kernel_matrix`, for one matrix or many."""
    (down, across), (gathered, folded) = window.strides, window.rows
    height, width, channels, outputs = window.kernel
    many = matrix.reshape(-1, gathered, window.tiles[1], down, across, channels, folded, outputs)
    many = many.transpose(0, 6, 1, 3, 2, 4, 5, 7)
    many = many.reshape(len(many), folded * gathered * down, -1, channels, outputs)
    return many[:, :height, :width].reshape(*matrix.shape[:-2], *window.kernel)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv2d(
    images: Float[Array, "batch h w c"],
    kernel: Float[Array, "kh kw c o"],
    strides: Strides,
    padding: Padding,
) -> Float[Array, "batch i j o"]:
    """Return the convolution (in the sense of deep learning: a correlation) of each image."""
    window = Window(kernel.shape, strides, padding)
    if window.direct:
        return _direct(images, kernel, padding)
    return fold_rows(gather(images, window) @ kernel_matrix(kernel, window), window)


def _conv2d_backward(strides: Strides, padding: Padding, saved: Any, gradient: Array) -> Any:
    images, kernel = saved
    window = Window(kernel.shape, strides, padding)
    unfolded = unfold_rows(gradient, window)
    by_matrix = jnp.einsum("bijk,bijo->ko", gather(images, window), unfolded)
    kernel_gradient = kernel_from_matrix(by_matrix, window)
    if window.direct:
        sides = zip(kernel.shape, padding, strict=False)
        edges = [(size - 1 - before, size - 1 - after) for size, (before, after) in sides]
        return _direct(gradient, kernel[::-1, ::-1].swapaxes(2, 3), edges), kernel_gradient
    return _input_gradient(images.shape, kernel, window, unfolded), kernel_gradient


conv2d.defvjp(lambda *given: (conv2d(*given), given[:2]), _conv2d_backward)


def _direct(images: Array, kernel: Array, padding: Any) -> Array:
    return jax.lax.conv_general_dilated(
        images, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def kernel_gradients(
    images: Float[Array, "batch h w c"], gradients: Float[Array, "batch i j o"], window: Window
) -> Float[Array, "batch c kh kw o"]:
    """Return each example's gradient of a kernel of stride 1, by a convolution an example."""

    def of_one(example: tuple[Array, Array]) -> Array:
        image, gradient = example
        channels = image.transpose(2, 0, 1)[..., None]
        return _direct(channels, gradient[:, :, None], window.padding)

    return jax.lax.map(of_one, (images, gradients))


def _input_gradient(
    shape: tuple[int, ...], kernel: Array, window: Window, unfolded: Float[Array, "batch i j mo"]
) -> Float[Array, "batch h w c"]:
    """Return the gradient of an input of that shape, from the output's, unfolded."""
    products = unfolded @ kernel_matrix(kernel, window).T
    (rows, _), columns, channels = window.rows, window.tiles[1], window.block_channels
    total = 0
    for tile in range(rows * columns):
        row, column = divmod(tile, columns)
        part = products[..., tile * channels : (tile + 1) * channels]
        # Added where the tile lies in its windows.
        total = total + _pad(part, [(row, rows - 1 - row), (column, columns - 1 - column)])
    return _from_blocks(total, shape, window)


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
    return Window(layer.kernel_shape, strides, padding)


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


def as_products() -> bool:
    """Whether convolutions are faster as products than by XLA's own: on a CPU."""
    return devices.backend() == "cpu"


def conv_general_dilated(
    lhs: Array, rhs: Array, window_strides: Strides, padding: Any, **options: Any
) -> Array:
    """Take ordinary 2-D convolutions to `conv2d` where that is faster, and all others to XLA."""
    dilations = (options.get("lhs_dilation"), options.get("rhs_dilation"))
    dense = all(dilation is None or set(dilation) == {1} for dilation in dilations)
    plain = lhs.ndim == 4 and dense and options.get("feature_group_count", 1) == 1
    if not (plain and as_products()):
        return jax.lax.conv_general_dilated(lhs, rhs, window_strides, padding, **options)
    strides = tuple(window_strides)
    edges = resolve_padding(padding, lhs.shape[1:3], rhs.shape[:2], strides)
    return conv2d(lhs, rhs, strides, edges)
