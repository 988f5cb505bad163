"""The layer types that have rules, tapped: their inputs and output gradients can be captured.

A tapped layer is its flax layer plus two hooks that do nothing outside `nnx.capture`: it records
its input (`sow`), and adds to its pre-activation a zero (`perturb`) whose gradient is the loss' by
that pre-activation. Per-example gradients follow from these two alone (`per_example.py`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.nnx import GraphDef, State
from flax.nnx.nn import dtypes
from jaxtyping import Array, Float, Int

from dpstudy.gradients.convolution import conv_general_dilated

Losses = Callable[[nnx.Module, Float[Array, "batch *image"], Int[Array, "batch"]], Array]
"""From a network, images and labels (arrays or trees, examples first) to a loss an example."""


class LayerInput(nnx.Intermediate):
    """What a layer with parameters was applied to."""


class PreActivation(nnx.Intermediate):
    """What a layer with parameters put out, before any activation."""


class OutputZero(nnx.Perturbation):
    """The zero added to a layer's output, there to be differentiated by."""


class _Tapped(nnx.Module):
    def __call__(self, inputs: Array, *rest: Any, **options: Any) -> Array:
        # What else it is given has no rule (`applicability.py`); to see that, it is passed on.
        return tapped(self, inputs, super().__call__(inputs, *rest, **options))


class Conv(_Tapped, nnx.Conv):
    """A 2-D convolution, tapped: from (batch, height, width, channels) to the same of outputs."""


class Dense(_Tapped, nnx.Linear):
    """A dense layer, tapped: of a vector or a sequence an example, features last."""


class DenseGeneral(_Tapped, nnx.LinearGeneral):
    """A dense layer of or to several axes, as in attention, tapped."""


class LayerNorm(_Tapped, nnx.LayerNorm):
    """A layer normalisation, tapped."""


class GroupNorm(_Tapped, nnx.GroupNorm):
    """A group normalisation, tapped."""


class Embed(_Tapped, nnx.Embed):
    """A table of vectors, looked up by whole numbers, tapped."""


TAPPED: dict[type[nnx.Module], type[nnx.Module]] = {
    nnx.Conv: Conv,
    nnx.Linear: Dense,
    nnx.LinearGeneral: DenseGeneral,
    nnx.LayerNorm: LayerNorm,
    nnx.GroupNorm: GroupNorm,
    nnx.Embed: Embed,
}


def tapped(layer: nnx.Module, inputs: Array, outputs: Array) -> Array:
    """Return a layer's `outputs`, with the hooks: the last line of a tapped layer's `__call__`.

    `inputs` and `outputs` have examples first. A layer type of one's own that ends so can have a
    rule in `layer_rules.RULES`.

    >>> outputs = jnp.ones((2, 3))
    >>> tapped(nnx.Dropout(0.5), outputs, outputs) is outputs  # outside of `nnx.capture`
    True
    """
    if not hasattr(layer, "__captures__"):
        return outputs
    layer.sow(LayerInput, "input", inputs)
    outputs = layer.perturb("zero", outputs, OutputZero)
    layer.sow(PreActivation, "pre_activation", outputs)
    return outputs


def tap(model: nnx.Module, trained: Any = nnx.Param) -> nnx.Module:
    """Return a copy of any flax network whose layers are tapped, if of the types in `TAPPED`.

    Other layers stay as they are, and so do layers with weights that are not `trained`, by a filter
    of nnx: they have no gradient that a rule could give.

    >>> model = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.relu)
    >>> type(tap(model).layers[0]).__name__
    'Dense'
    """
    copy = nnx.clone(model)
    # By their paths in the whole network, of which a filter may ask.
    held = nnx.to_flat_state(nnx.state(copy, nnx.Not(trained)))
    within = {path[:depth] for path, _ in held for depth in range(len(path))}
    for path, layer in nnx.iter_modules(copy):
        if path in within or type(layer) not in TAPPED:
            continue
        if nnx.state(layer, nnx.Not(nnx.Param)) or not nnx.state(layer):
            continue
        layer.__class__ = TAPPED[type(layer)]
        if getattr(layer, "conv_general_dilated", None) is jax.lax.conv_general_dilated:
            layer.conv_general_dilated = conv_general_dilated
    return copy


def with_flax_convolutions(graph: GraphDef, *states: State) -> GraphDef:
    """Return a tapped network, without its states, whose convolutions are XLA's."""
    network = nnx.merge(graph, *states, copy=True)
    for _, layer in nnx.iter_modules(network):
        if isinstance(layer, Conv) and layer.conv_general_dilated is conv_general_dilated:
            layer.conv_general_dilated = jax.lax.conv_general_dilated
    return nnx.graphdef(network)


def replaced_in(layer: nnx.Module) -> str | None:
    """Return what of a flax layer's arithmetic, which its rule relies on, is replaced, or None."""
    if type(layer) not in TAPPED.values():
        return None
    stock = {
        "dot_general": (jax.lax.dot_general, None),
        "dot_general_cls": (None,),
        "conv_general_dilated": (jax.lax.conv_general_dilated, conv_general_dilated),
        "promote_dtype": (dtypes.promote_dtype,),
    }
    for name, known in stock.items():
        if getattr(layer, name, known[0]) not in known:
            return name
    for name, value in vars(layer).items():
        if not isinstance(value, nnx.Param):
            continue
        if name not in ("kernel", "bias", "scale", "embedding"):
            return f"parameter ({name})"
        if type(value) is not nnx.Param or value.get_metadata().get("on_get_value"):
            return f"kind of parameter ({type(value).__name__})"
    return None


def examples_in(arrays: Any) -> int:
    """Return the number of examples in each array of a tree; ValueError where there is no one."""
    shapes = [jnp.shape(array) for array in jax.tree.leaves(arrays)]
    counts = {shape[0] if shape else 0 for shape in shapes}
    if len(counts) != 1 or 0 in counts:
        shapes = ", ".join(map(str, shapes))
        raise ValueError(f"arrays of as many examples are wanted, examples first, got {shapes}")
    return counts.pop()


def summed_in(params: Any) -> jnp.dtype:
    """Return the type gradients are added up in: float32, or float64 where a parameter is.

    Half the digits would lose examples, and integers wrap. ValueError if a parameter is not real.
    """
    for path, leaf in jax.tree.leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            name = ".".join(map(str, names_of(path))) or "a parameter"
            raise ValueError(f"{name} is {leaf.dtype}: parameters of real numbers are wanted")
    return jnp.result_type(
        jnp.float32, *(jnp.float64 for leaf in jax.tree.leaves(params) if leaf.dtype == jnp.float64)
    )


def capturing(
    losses: Losses, *kinds: type[nnx.Variable], init: State | None = None
) -> Callable[..., Any]:
    """Return `nnx.capture` of losses, which may ask for the network's `nnx.state`."""

    def run(network: nnx.Module, images: Array, labels: Array) -> Array:
        # Lists of layers have no captures of their own, and flax cannot sort the name of the place
        # for them among the lists' indices.
        for _, module in nnx.iter_modules(network):
            if isinstance(module, nnx.List):
                del module.__captures__
        return losses(network, images, labels)

    return nnx.capture(run, *kinds, init=init)


def at_layers(
    graph: GraphDef, losses: Losses, params: State, images: Any, labels: Any, *rest: State
) -> tuple[Float[Array, "batch"], State, State]:
    """Return each example's loss, each layer's input, and the loss' gradient by its output.

    Arguments as of `per_example.gradients`; no weight gradient is taken.
    """
    capture = capturing(losses, LayerInput, OutputZero)
    # Copies: flax's transformations write to a network's variables, which no outer ones allow.
    network = partial(nnx.merge, graph, params, *rest, copy=True)
    shapes = jax.eval_shape(lambda: capture(network(), images, labels)[2])
    zeros = jax.tree.map(lambda z: jnp.zeros(z.shape, z.dtype), shapes)

    def summed(zeros: State) -> tuple[Array, tuple[Array, State]]:
        run = capturing(losses, LayerInput, init=zeros)
        each, inputs = run(network(), images, labels)
        return each.sum(), (each, inputs)

    output_gradients, (each, inputs) = jax.grad(summed, has_aux=True)(zeros)
    return each, inputs, output_gradients


def names_of(path: tuple) -> tuple:
    """Return a leaf's path in a state as flax writes it."""
    return tuple(key.key for key in path if hasattr(key, "key"))
