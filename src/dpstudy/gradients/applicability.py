"""Whether the rules for per-example gradients hold for a network: read off its traced program.

The rules (`layer_rules.py`) take a layer's gradient from its input and its output's gradient. That
is the whole gradient only if the layer's parameters do nothing else, and an example's only if each
row that the layer sees is one example's (`dependence.py`). What a network holds besides its
parameters all examples share, and none may change it (`losses_shape`).
"""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from flax.nnx import GraphDef, State
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var
from jax.interpreters import partial_eval as pe
from jaxtyping import Array

from dpstudy.gradients import convolution, devices, layers
from dpstudy.gradients.dependence import FIXED, OF_EXAMPLES, Value, follow
from dpstudy.gradients.layer_rules import RULES
from dpstudy.gradients.own_keys import OwnKeys


def why_not_by_rules(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> str | None:
    """Return what keeps a network, in these states, from the rules; None if nothing does.

    They hold where each layer is applied once, to its own parameters as they are, the losses depend
    on parameters through their layers' outputs alone, and each row of a layer's input, of its
    output's gradient and of the losses depends on one example, that of its place. A penalty on
    weights is found whatever its factor, even 0.

    >>> from dpstudy.gradients.layers import tap
    >>> graph, params = nnx.split(tap(nnx.Linear(2, 1, rngs=nnx.Rngs(0))))
    >>> penalised = lambda net, x, _: net(x)[:, 0] + jnp.sum(net.kernel[...] ** 2)
    >>> why_not_by_rules(graph, penalised, params, jnp.ones((4, 2)), jnp.zeros(4))
    'kernel is used outside its layer'
    """
    if isinstance(losses, OwnKeys):
        return "each example has a key of its own"
    capture = layers.capturing(losses, layers.LayerInput, layers.PreActivation)
    try:
        program, shapes = jax.make_jaxpr(
            lambda *state: capture(nnx.merge(graph, *state), images, labels), return_shape=True
        )(params, *rest)
    except Exception:  # What is wrong with the loss itself comes up again by vmap, without hooks.
        return "the hooks of its layers do not pass through a transformation in the loss"
    each, *taps = jax.tree.structure(shapes).unflatten(program.jaxpr.outvars)
    ins, outs = ({p[:-1]: v.get_value() for p, v in nnx.to_flat_state(tap)} for tap in taps)
    owned, arguments, calls = _paths(params), _paths((params, *rest)), []
    number, fixed = _numbered(program, arguments), {p[:-1] for p in arguments[len(owned) :]}
    modules = dict(nnx.iter_modules(nnx.merge(graph, params, *rest)))
    for path in dict.fromkeys([*(p[:-1] for p in owned), *ins]):
        layer, inputs, name = modules.get(path), ins.get(path, ()), ".".join(map(str, path))
        if path in fixed:
            return f"{name} has weights that are not trained"
        if type(layer) not in RULES:
            return f"no rule for {type(layer).__name__} ({name})"
        if len(inputs) != 1:
            return f"{name} is applied {len(inputs)} times, not once"
        if unfit := _unfit(layer, inputs[0].aval, outs[path][0].aval, layers.examples_in(images)):
            return f"{name} is {unfit}"
        if _alone(layer, path, inputs[0], number) != [number(outs[path][0])]:
            return f"{name} is not simply applied, with parameters of its own, to one input"
        calls.append((inputs[0], outs[path][0]))
    needed = _needed(program, each, calls)
    outside = [p for p, v in zip(owned, program.jaxpr.invars, strict=False) if v in needed]
    if outside:
        return f"{'.'.join(map(str, outside[0]))} is used outside its layer"
    return why_rows_are_no_examples(graph, losses, params, images, labels, *rest)


def why_rows_are_no_examples(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> str | None:
    """Return where a row may depend on another example than that of its place; None if nowhere.

    Rows are those of the losses, of layers' inputs, and of the gradients by their outputs.

    >>> graph, params = nnx.split(nnx.Linear(2, 1, rngs=nnx.Rngs(0)))
    >>> centred = lambda net, x, _: net(x - x.mean(axis=0))[:, 0]
    >>> why_rows_are_no_examples(graph, centred, params, jnp.ones((4, 2)), jnp.zeros(4))
    'a loss may depend on other examples than its own'
    """
    examples = layers.examples_in(images)
    if examples == 1:
        return None

    def run(data: Any, held: Any) -> Any:
        return layers.at_layers(graph, losses, held[0], *data, *held[1:])

    data, held = (images, labels), (params, *rest)
    program, shapes = jax.make_jaxpr(run, return_shape=True)(data, held)
    arguments = [OF_EXAMPLES] * len(jax.tree.leaves(data)) + [FIXED] * len(jax.tree.leaves(held))
    each, inputs, outputs = jax.tree.structure(shapes).unflatten(follow(program, arguments))
    if 0 not in each.axes:
        return "a loss may depend on other examples than its own"
    for what, rows in (("is applied to", inputs), ("has a gradient of", outputs)):
        for path, value in nnx.to_flat_state(rows):
            values = jax.tree.leaves(value.get_value(), is_leaf=lambda x: isinstance(x, Value))
            if any(0 not in one.axes for one in values):
                name = ".".join(map(str, path[:-1]))
                return f"{name} {what} rows that may depend on other examples than their own"
    return None


def _unfit(layer: nnx.Module, inputs: Any, outputs: Any, examples: int) -> str | None:
    kind, shape = type(layer), inputs.shape
    if replaced := layers.replaced_in(layer):
        return f"a layer with a {replaced} of its own"
    if jnp.issubdtype(inputs.dtype, jnp.complexfloating):
        return "applied to complex numbers"
    if not jnp.issubdtype(outputs.dtype, jnp.floating):
        return "a layer whose outputs are not real numbers"
    if shape[:1] != (examples,) or (len(shape) == 1 and kind is not layers.Embed):
        return "not applied once to each example"
    words, ordinary = _ORDINARY.get(kind, ("", lambda *_: True))
    return None if ordinary(layer, len(shape)) else f"not an ordinary {words}"


def _is_of_last_axes(layer: layers.DenseGeneral, rank: int) -> bool:
    axes = [axis % rank for axis in layer.axis]
    return not layer.batch_axis and axes == list(range(rank - len(axes), rank)) and axes[0] > 0


def _normalises_each(layer: layers.LayerNorm | layers.GroupNorm, rank: int) -> bool:
    """Whether no statistics are of several examples, and weights are those of the last axis."""
    reduced = () if layer.reduction_axes is None else layer.reduction_axes
    features = getattr(layer, "feature_axes", -1)
    places = [{int(axis) % rank for axis in np.atleast_1d(axes)} for axes in (reduced, features)]
    return layer.axis_name is None and 0 not in places[0] and places[1] == {rank - 1}


_NORMALISATION = ("normalisation of each example", _normalises_each)
# What the rules of a layer type hold for, beside its arithmetic: of the layer and its input's rank.
_ORDINARY: dict[type[nnx.Module], tuple[str, Callable[[Any, int], bool]]] = {
    layers.Conv: (
        "2-D convolution of images",
        lambda layer, rank: convolution.ordinary(layer) and rank == 4,
    ),
    layers.DenseGeneral: ("product over the last axes", _is_of_last_axes),
    layers.LayerNorm: _NORMALISATION,
    layers.GroupNorm: _NORMALISATION,
}


def _paths(state: Any) -> list[tuple]:
    return [layers.names_of(path) for path, _ in jax.tree.leaves_with_path(state)]


def _numbered(
    program: ClosedJaxpr | Jaxpr, arguments: Sequence[Hashable]
) -> Callable[[Var], Hashable]:
    """Return a program's value numbering: equal for what the same primitives compute."""
    constants = getattr(program, "consts", ())
    program = getattr(program, "jaxpr", program)
    known = dict(zip(program.invars, arguments, strict=True))
    known |= dict(zip(program.constvars, map(_content, constants), strict=bool(constants)))

    def number(value: Var | Literal) -> Hashable:
        if isinstance(value, Literal):
            return _content(value.val) if np.ndim(value.val) else str(value)
        return known.get(value, str(value.aval))

    for equation in program.eqns:
        options = _options(tuple(sorted(equation.params.items())))
        key = (equation.primitive.name, options, *map(number, equation.invars))
        known |= {result: hash((key, index)) for index, result in enumerate(equation.outvars)}
    return number


def _content(constant: Any) -> Hashable:
    try:
        if not hasattr(constant, "__array__"):  # a jax.Ref, which NumPy would trace by number
            return id(constant)
        return str(jnp.shape(constant)), str(constant.dtype), np.asarray(constant).tobytes()
    except TypeError:  # a tracer or a key, which is like itself alone
        return id(constant)


def _options(given: Any) -> Hashable:
    """Return what a primitive is given beside values, such as axes, in a form that compares."""
    if isinstance(given, tuple | list):
        return tuple(map(_options, given))
    if isinstance(given, ClosedJaxpr | Jaxpr):
        inner = getattr(given, "jaxpr", given)
        return tuple(map(_numbered(given, range(len(inner.invars))), inner.outvars))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(given))  # a function is made anew each time


def _alone(layer: nnx.Module, path: tuple, inputs: Var, number: Callable) -> list[Hashable]:
    """Return the numbers of what a layer alone computes: another's parameters have none here."""
    graph, own = nnx.split(layer)
    try:
        alone = jax.make_jaxpr(lambda own, x: nnx.merge(graph, own)(x))(own, inputs.aval)
    except TypeError:  # It takes a second argument.
        return []
    arguments = [*(path + p for p in _paths(own)), number(inputs)]
    return list(map(_numbered(alone, arguments), alone.jaxpr.outvars))


def _needed(program: ClosedJaxpr, losses: Var, calls: list[tuple[Var, Var]]) -> set[Var]:
    """Return what losses and layers' inputs are computed from, back to the layers' outputs."""

    def variables(values: Sequence[Var | Literal]) -> set[Var]:
        return {value for value in values if not isinstance(value, Literal)}

    # A layer that hands on its input unchanged cuts nothing off.
    cut = variables([after for before, after in calls if after is not before])
    needed = variables([losses, *(before for before, _ in calls)]) - cut
    for equation in reversed(program.jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed |= variables(equation.invars) - cut
    return needed


# --- what a network holds besides its parameters ----------------------------------------------

_WITHOUT_STATE = "use a layer without such state (GroupNorm, not BatchNorm)"
_OWN_KEYS = "give the gradient a `key` at each step, from which each example has one of its own"


def losses_shape(
    graph: GraphDef, losses: layers.Losses, params: State, images: Any, labels: Any, *rest: State
) -> Any:
    """Return the shape of a network's losses; refuse one that changes `rest`, which mixes examples.

    Counts of random numbers may go on, as in the first state of a recurrent layer, if no random
    number reaches the losses.

    Raises:
        ValueError: the network changes `rest`, or draws what its losses depend on; a loss computes
            something of several examples at once even where each is alone, under `jax.vmap`.
    """
    counts: list[str] = []

    def read_only(path: tuple, leaf: Any) -> Any:
        if not _is_variable(leaf):
            return leaf
        name = f"{'.'.join(map(str, layers.names_of(path)))} ({type(leaf).__name__})"

        def set_to(_: nnx.Variable, value: Array) -> Array:
            if not isinstance(leaf, nnx.RngCount):
                _refuse(name)
            counts.append(name)
            return value

        return leaf.copy(on_set_value=set_to)

    def run(params: State, *rest: State) -> Array:
        rest = jax.tree.map_with_path(read_only, rest, is_leaf=_is_variable)
        return losses(nnx.merge(graph, params, *rest), images, labels)

    program, shape = jax.make_jaxpr(run, return_shape=True)(params, *rest)
    _refuse_mixing(program.jaxpr)
    if isinstance(losses, OwnKeys):  # traced under vmap, which has a rule of its own disappear

        def plain(images: Any, labels: Any) -> Array:
            return losses.losses(nnx.merge(graph, params, *rest, copy=True), images, labels)

        _refuse_mixing(jax.make_jaxpr(plain)(images[0], labels).jaxpr)
    if counts and _random_numbers_matter(program, (params, *rest)):
        _refuse(counts[0], _OWN_KEYS)
    return shape


# What is computed over an axis of devices, by the beginnings of its primitives' names.
_COLLECTIVES = ("psum", "pmax", "pmin", "ppermute", "all_", "reduce_scatter", "axis_index")


def _refuse_mixing(program: Jaxpr) -> None:
    """Raise ValueError where vmap does not keep examples apart."""
    for equation in program.eqns:
        name, options = equation.primitive.name, equation.params
        axes = options.get("axes", ()), options.get("axis_name", ())
        if options.get("vmap_method") in ("expand_dims", "broadcast_all"):
            _refuse_as_one(f"a callback by {options['vmap_method']!r}: take 'sequential'")
        if name == "custom_vmap_call":
            _refuse_as_one("a function with a rule of its own for vmap")
        if name.startswith(_COLLECTIVES) and devices.EXAMPLES in jax.tree.leaves(axes):
            _refuse_as_one(f"{name} over devices")
        for inner in jax.tree.leaves(options, is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)):
            if isinstance(inner, ClosedJaxpr | Jaxpr):
                _refuse_mixing(getattr(inner, "jaxpr", inner))


def _refuse_as_one(what: str) -> NoReturn:
    raise ValueError(f"examples may reach one another in the losses, by {what}")


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, nnx.Variable)


def _random_numbers_matter(program: ClosedJaxpr, arguments: Any) -> bool:
    """Whether a program's results depend on a key among its arguments."""
    _, used = pe.dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))
    variables = jax.tree.leaves(arguments, is_leaf=_is_variable)
    keys = [isinstance(leaf, nnx.RngState) for leaf in variables for _ in jax.tree.leaves(leaf)]
    return any(key and needed for key, needed in zip(keys, used, strict=True))


def _refuse(name: str, instead: str = _WITHOUT_STATE) -> NoReturn:
    raise ValueError(
        f"{name} changes in the forward pass, and all examples share it: {instead}, or call "
        "eval() on the network first"
    )
