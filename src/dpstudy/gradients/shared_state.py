"""What a network holds besides its parameters: all examples share it, and none may change it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

import jax
from flax import nnx

from dpstudy.gradients.layers import names_of

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    from dpstudy.gradients.layers import Losses


def refuse_updates(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Float[Array, "batch *image"],
    labels: Int[Array, "batch"],
    *rest: nnx.State,
) -> None:
    """Trace the losses of a network that may not change `rest`: examples would mix through it.

    Raises:
        ValueError: it does.
    """

    def run(params: nnx.State, *rest: nnx.State) -> Array:
        is_variable = lambda leaf: isinstance(leaf, nnx.Variable)  # noqa: E731
        read_only = jax.tree.map_with_path(_read_only, rest, is_leaf=is_variable)
        return losses(nnx.merge(graph, params, *read_only), images, labels)

    jax.eval_shape(run, params, *rest)


def _read_only(path: tuple, leaf: nnx.Variable | Array) -> nnx.Variable | Array:
    if not isinstance(leaf, nnx.Variable):
        return leaf
    name = f"{'.'.join(map(str, names_of(path)))} ({type(leaf).__name__})"
    return leaf.copy(on_set_value=partial(_refuse, name))


def _refuse(name: str, *_: object) -> NoReturn:
    raise ValueError(
        f"{name} changes in the forward pass, and all examples share it: call eval() on the "
        "network first, or use a layer without such state (GroupNorm, not BatchNorm)"
    )
