"""Whether the rules for per-example gradients hold for a network: read off its traced program.

The rules (`layer_rules.py`) take a layer's gradient from its input and its output's gradient. That
is the whole gradient only if the layer's parameters do nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
from flax import nnx
from jax.extend.core import Literal

from dpstudy.gradients import convolution
from dpstudy.gradients.layer_rules import RULES
from dpstudy.gradients.layers import Conv, Dense, LayerInput, PreActivation, capturing, names_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from jax.extend.core import ClosedJaxpr, Var
    from jaxtyping import Array

    from dpstudy.gradients.layers import Losses


def why_not_by_rules(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> str | None:
    """Return what keeps a network from the rules, in words; None if nothing does.

    The rules hold where each layer is applied once, to its own parameters as they are, and the
    losses depend on parameters through their layers' outputs alone. Both are read off the traced
    program, without numbers: a penalty on weights is found whatever its factor, even 0.
    """
    traced = _traced(graph, losses, params, images, labels)
    modules = dict(nnx.iter_modules(nnx.merge(graph, params)))
    for path in dict.fromkeys(path[:-1] for path in traced.parameters):
        name, layer = ".".join(map(str, path)), modules.get(path)
        if type(layer) not in RULES:
            return f"no rule for {type(layer).__name__} ({name})"
        calls = traced.calls.get(path, ())
        if len(calls) != 1:
            return f"{name} is applied {len(calls)} times, not once"
        seen = calls[0].input.aval
        if type(layer) is Conv and not (convolution.ordinary(layer) and seen.ndim == 4):
            return f"{name} is not an ordinary 2-D convolution of images"
        if type(layer) is Dense and seen.ndim != 2:
            return f"{name} is applied to more than one vector an example"
        if seen.shape[:1] != (len(images),):
            return f"{name} is not applied once to each example"
        if not _is_the_layer(graph, params, path, traced):
            return f"{name} is not simply applied, with parameters of its own, to one input"
    outside = _read_outside(traced)
    return f"{'.'.join(map(str, outside[0]))} is used outside its layer" if outside else None


class _Call(NamedTuple):
    """One application of a layer, as variables of the traced program."""

    input: Var
    output: Var


class _Traced(NamedTuple):
    """The program of a network's losses.

    Attributes:
        program: with the parameters as its arguments.
        parameters: their paths.
        losses: what the program is for.
        calls: the applications of each tapped layer, by its path.
    """

    program: ClosedJaxpr
    parameters: list[tuple]
    losses: Var
    calls: dict[tuple, list[_Call]]


def _traced(
    graph: nnx.GraphDef, losses: Losses, params: nnx.State, images: Array, labels: Array
) -> _Traced:
    capture = capturing(losses, LayerInput, PreActivation)
    program, shapes = jax.make_jaxpr(
        lambda params: capture(nnx.merge(graph, params), images, labels), return_shape=True
    )(params)
    results = jax.tree.structure(shapes).unflatten(program.jaxpr.outvars)
    each, inputs, outputs = results
    found = {path[:-1]: value.get_value() for path, value in nnx.to_flat_state(outputs)}
    calls = {
        path[:-1]: list(map(_Call, value.get_value(), found[path[:-1]]))
        for path, value in nnx.to_flat_state(inputs)
    }
    paths = [names_of(path) for path, _ in jax.tree.leaves_with_path(params)]
    return _Traced(program, paths, each, calls)


def _is_the_layer(graph: nnx.GraphDef, params: nnx.State, path: tuple, traced: _Traced) -> bool:
    """Whether a layer's output is what the layer alone computes of its input and parameters.

    It is not where the network shares the parameters, or changes them before it applies the layer,
    or gives the layer a second argument.
    """
    call = traced.calls[path][0]

    def layer(params: nnx.State, inputs: Array) -> Array:
        return dict(nnx.iter_modules(nnx.merge(graph, params)))[path](inputs)

    try:
        alone = jax.make_jaxpr(layer)(params, call.input.aval)
    except TypeError:
        return False
    numbers: dict[Hashable, int] = {}
    found = _numbered(traced.program, traced.parameters, numbers)
    # Another layer's parameters have no name here: nothing computed from them is found.
    own = [name if name[:-1] == path else None for name in traced.parameters]
    expected = _numbered(alone, [*own, found(call.input)], numbers)
    return [found(call.output)] == list(map(expected, alone.jaxpr.outvars))


def _numbered(
    program: ClosedJaxpr, arguments: Sequence[Hashable], numbers: dict[Hashable, int]
) -> Callable[[Var], Hashable]:
    """Return a program's value numbering: equal for what the same primitives compute.

    Args:
        program: whose variables are numbered.
        arguments: what its arguments are known by.
        numbers: those of all expressions so far, of this program and others; extended.
    """
    known: dict[Var, Hashable] = dict(zip(program.jaxpr.invars, arguments, strict=True))

    def number(value: Var | Literal) -> Hashable:
        return str(value) if isinstance(value, Literal) else known.get(value, str(value.aval))

    for equation in program.jaxpr.eqns:
        operands = tuple(map(number, equation.invars))
        for index, result in enumerate(equation.outvars):
            key = (equation.primitive.name, index, operands)
            known[result] = numbers.setdefault(key, len(numbers))
    return number


def _read_outside(traced: _Traced) -> list[tuple]:
    """Return the parameters on which losses or layers' inputs depend past the layers' outputs."""
    owners = {path[:-1] for path in traced.parameters}
    calls = [call for path, calls in traced.calls.items() for call in calls if path in owners]
    # A layer that hands on its input unchanged cuts nothing off.
    cut = _variables(call.output for call in calls if call.output is not call.input)
    # From what is needed back to what that is computed from.
    needed = _variables([traced.losses, *(call.input for call in calls)]) - cut
    for equation in reversed(traced.program.jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed |= _variables(equation.invars) - cut
    arguments = zip(traced.parameters, traced.program.jaxpr.invars, strict=True)
    return [path for path, argument in arguments if argument in needed]


def _variables(values: Iterable[Var | Literal]) -> set[Var]:
    return {value for value in values if not isinstance(value, Literal)}
