"""Pooling over 2x2 windows, as elementwise operations on the four corners of each window.

The gradient of `reduce_window` scatters, which takes longer on a CPU than the rest of a training
step together; maxima of shifted slices have an elementwise gradient. Where corners tie, as they
do on the flat background of MNIST, `jnp.maximum` splits the gradient between them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def max_pool(x: Float[Array, "batch h w c"], *, stride: int) -> Float[Array, "batch i j c"]:
    """Return the maximum over each 2x2 window, windows `stride` apart, without padding."""
    rows = jnp.maximum(*_neighbours(x, 1, stride))
    return jnp.maximum(*_neighbours(rows, 2, stride))


def average_pool(x: Float[Array, "batch h w c"], stride: int = 2) -> Float[Array, "batch i j c"]:
    """Return the mean over 2x2 windows of stride 1 or 2; a last odd row or column is left out."""
    rows = sum(_neighbours(x, 1, stride))
    return sum(_neighbours(rows, 2, stride)) / 4


def _neighbours(x: Array, axis: int, stride: int) -> tuple[Array, Array]:
    """Return the first and the second number of each window along one axis."""
    count = (x.shape[axis] - 2) // stride + 1
    if stride == 1:
        return tuple(jax.lax.slice_in_dim(x, at, at + count, axis=axis) for at in (0, 1))
    # Disjoint windows: a reshape, whose gradient is a reshape, where strided slices would pad.
    even = jax.lax.slice_in_dim(x, 0, 2 * count, axis=axis)
    pairs = even.reshape(*x.shape[:axis], count, 2, *x.shape[axis + 1 :])
    return tuple(jax.lax.index_in_dim(pairs, at, axis + 1, keepdims=False) for at in (0, 1))
