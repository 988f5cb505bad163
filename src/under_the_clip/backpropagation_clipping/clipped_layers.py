"""Layers whose inputs and upstream gradients are clipped, example by example.

Backpropagation clipping (Stevens et al. 2022, Algorithm 2): one backward pass over a batch gives
the bounded sum, and no per-example gradient is ever formed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from dpstudy.parts.mechanism import Scalar

Norm = Callable[[Float[Array, "batch *shape"]], Float[Array, "batch"]]


def l2(x: Float[Array, "batch *shape"]) -> Float[Array, "batch"]:
    """Return each example's l2 norm, with a gradient at 0."""
    square = jnp.sum(x.reshape(len(x), -1) ** 2, axis=1)
    return jnp.sqrt(jnp.where(square == 0, jnp.finfo(x.dtype).tiny, square))


def l15(x: Float[Array, "batch h w c"]) -> Float[Array, "batch"]:
    """Return each example's l1 norm over positions, then l2 over channels (Section 5)."""
    return l2(jnp.sum(jnp.abs(x), axis=(1, 2)))


def scaled_to(x: Float[Array, "batch *shape"], bound: Scalar, norm: Norm) -> Array:
    """Scale each example of x down to `bound` where it is longer; to 0 where it is not finite."""
    norms = norm(x)
    rows = (-1, *[1] * (x.ndim - 1))
    scaled = x * (bound / jnp.maximum(norms, bound)).reshape(rows)
    return jnp.where(jnp.isfinite(norms).reshape(rows), scaled, jnp.zeros_like(x))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def clip_upstream(outputs: Array, bound: Scalar, norm: Norm) -> Array:
    """Return the outputs as they are; on the way back their gradient is scaled to the bound."""
    return outputs


def _forward(outputs: Array, bound: Scalar, norm: Norm) -> tuple[Array, Array]:
    return outputs, jnp.asarray(bound)


def _backward(norm: Norm, bound: Array, upstream: Array) -> tuple[Array, Array]:
    return scaled_to(upstream, bound, norm), jnp.zeros_like(bound)


clip_upstream.defvjp(_forward, _backward)


def clip_layers(
    network: nnx.Module, input_bound: Scalar, upstream_bound: Scalar, examples: int
) -> None:
    """Have a network's layers clip: every convolution and dense layer, from now on.

    The l2 norm of a layer's gradient over one example is then at most the product of the bounds, by
    Theorem 2 and, with or without zeros as padding, Theorem 3.

    Args:
        network: changed in place; made for one use, inside the function that is differentiated.
        input_bound: a, on the l2 norm of a layer's input.
        upstream_bound: b, on the gradient of the loss by the layer's output: l2 of a dense layer,
            `l15` of a convolution.
        examples: in a batch: a layer sees one vector or image of each.

    Raises:
        ValueError: a layer has a bias, pads by anything but zeros, is of another type and has
            parameters, is applied twice, or to more than one vector or image an example: no bound
            is proven of it. The last two as the network is applied.
    """
    for path, layer in nnx.iter_modules(network):
        name = ".".join(map(str, path)) or type(layer).__name__
        half = [
            x for x in (getattr(layer, "dtype", None), getattr(layer, "param_dtype", None)) if x
        ]
        if any(jnp.finfo(of).bits < 32 for of in half):
            raise ValueError(f"layer {name} has half precision, which rounds beyond the bound")
        own = {key for key, value in vars(layer).items() if isinstance(value, nnx.Param)}
        if isinstance(layer, nnx.Conv):
            if isinstance(layer.padding, str) and layer.padding not in ("SAME", "VALID"):
                raise ValueError(f"layer {name} pads with {layer.padding}, not with zeros")
            product = _once(name, layer.conv_general_dilated, (examples, 4))
            layer.conv_general_dilated = _clipped(product, input_bound, upstream_bound, l15)
        elif isinstance(layer, nnx.Linear):
            product = _once(name, layer.dot_general, (examples, 2))
            layer.dot_general = _clipped(product, input_bound, upstream_bound, l2)
        elif own:
            raise ValueError(f"layer {name}, a {type(layer).__name__}, cannot be clipped")
        if "bias" in own:
            raise ValueError(f"layer {name} has a bias, which the bound does not cover")


def _clipped(
    product: Callable[..., Array], input_bound: Scalar, upstream_bound: Scalar, norm: Norm
) -> Callable[..., Array]:
    def apply(inputs: Array, kernel: Array, *args: Any, **options: Any) -> Array:
        outputs = product(scaled_to(inputs, input_bound, l2), kernel, *args, **options)
        return clip_upstream(outputs, upstream_bound, norm)

    return apply


def _once(
    name: str, product: Callable[..., Array], wanted: tuple[int, int]
) -> Callable[..., Array]:
    """Let a product be taken once, of one row an example: all that the bounds are proven of."""
    applied = []

    def apply(inputs: Array, *args: Any, **options: Any) -> Array:
        if applied:
            raise ValueError(f"layer {name} is applied twice, which the bound does not cover")
        if (len(inputs), inputs.ndim) != wanted:
            what = "vector" if wanted[1] == 2 else "image"
            raise ValueError(
                f"layer {name} is applied to arrays of shape {inputs.shape}, not to one {what} an "
                f"example, which the bound does not cover"
            )
        applied.append(True)
        return product(inputs, *args, **options)

    return apply
