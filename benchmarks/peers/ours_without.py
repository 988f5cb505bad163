"""Our step with one of the things undone that make it fast, to see what each is worth."""

from __future__ import annotations

import jax
from flax import nnx
from problem import Problem

from dpstudy.gradients import convolution, layers
from peers.jax_training import FlaxNetwork, JaxContestant
from peers.ours import clipping, fixed, network_of

MICROBATCH = 16


def products_only() -> None:
    """Leave no convolution to XLA."""
    convolution.Window.direct = False


def full_patches() -> None:
    """Gather all rows under a window on the input side, as convolutions by patches do."""
    convolution.Window.rows = property(lambda window: (window.tiles[0], 1))


def gathered_anew() -> None:
    """Leave it to the compiler whether gathered columns are computed once."""
    convolution.gather = convolution._gather


def stock_convolution(problem: Problem) -> nnx.Module:
    """Take the library's convolution, with our rules and our pooling."""
    network = network_of(problem)
    for _, layer in nnx.iter_modules(network):
        if isinstance(layer, layers.Conv):
            layer.conv_general_dilated = jax.lax.conv_general_dilated
    return network


def stock_pooling(problem: Problem) -> nnx.Module:
    """Take the library's pooling, with our rules and our convolution."""

    def conv(*arguments: object, **options: object) -> layers.Conv:
        options["conv_general_dilated"] = convolution.conv_general_dilated
        return layers.Conv(*arguments, **options)

    def pool(x: jax.Array, stride: int) -> jax.Array:
        return nnx.max_pool(x, (2, 2), strides=(stride, stride))

    return nnx.eval_shape(lambda: FlaxNetwork(problem, conv, layers.Dense, pool))


def build(problem: Problem, variant: str) -> JaxContestant:
    """Build it, with the lesson `variant` undone."""
    undo = {
        "products for all convolutions": products_only,
        "full patches": full_patches,
        "columns gathered anew for each use": gathered_anew,
    }
    undo.get(variant, lambda: None)()
    networks = {
        "the library's convolution": stock_convolution,
        "the library's pooling": stock_pooling,
    }
    network = networks.get(variant, network_of)(problem)
    microbatch = problem.batch if variant == "the whole batch in one pass" else MICROBATCH
    return clipping(problem, network, fixed, microbatch)
