"""What a network holds besides its parameters: all examples share it, and none may change it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import jax
from flax import nnx
from jax.interpreters import partial_eval as pe

from dpstudy.gradients.layers import names_of

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr
    from jaxtyping import Array

    from dpstudy.gradients.layers import Losses


def losses_shape(
    graph: nnx.GraphDef,
    losses: Losses,
    params: nnx.State,
    images: Any,
    labels: Any,
    *rest: nnx.State,
) -> Any:
    """Return the shape of a network's losses; refuse one that changes `rest`.

    Examples would mix through it. Counts of random numbers may go on, as in the first state of a
    recurrent layer, if no random number reaches the losses.

    Raises:
        ValueError: the network changes `rest`, or draws what its losses depend on.
    """
    counts: list[str] = []

    def run(params: nnx.State, *rest: nnx.State) -> Array:
        is_variable = lambda leaf: isinstance(leaf, nnx.Variable)  # noqa: E731
        read_only = jax.tree.map_with_path(partial(_read_only, counts), rest, is_leaf=is_variable)
        return losses(nnx.merge(graph, params, *read_only), images, labels)

    program, shape = jax.make_jaxpr(run, return_shape=True)(params, *rest)
    if counts and _random_numbers_matter(program, (params, *rest)):
        _refuse(counts[0])
    return shape


def _random_numbers_matter(program: ClosedJaxpr, arguments: Any) -> bool:
    """Whether a program's results depend on a key among its arguments."""
    _, used = pe.dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))
    paths = jax.tree.leaves_with_path(arguments, is_leaf=lambda x: isinstance(x, nnx.Variable))
    keys = [isinstance(leaf, nnx.RngState) for _, leaf in paths for _ in jax.tree.leaves(leaf)]
    return any(key and needed for key, needed in zip(keys, used, strict=True))


def _read_only(counts: list[str], path: tuple, leaf: Any) -> Any:
    if not isinstance(leaf, nnx.Variable):
        return leaf
    name = f"{'.'.join(map(str, names_of(path)))} ({type(leaf).__name__})"
    if isinstance(leaf, nnx.RngCount):
        return leaf.copy(on_set_value=partial(_note, counts, name))
    return leaf.copy(on_set_value=partial(_refuse, name))


def _note(counts: list[str], name: str, _: nnx.Variable, value: Array) -> Array:
    counts.append(name)
    return value


def _refuse(name: str, *_: object) -> NoReturn:
    raise ValueError(
        f"{name} changes in the forward pass, and all examples share it: call eval() on the "
        "network first, or use a layer without such state (GroupNorm, not BatchNorm)"
    )
