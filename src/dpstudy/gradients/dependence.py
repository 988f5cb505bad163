"""Which example a row of a value depends on: read off a traced program, value by value.

A network may mix its examples, as by batch statistics or a loss over pairs: clipping then bounds
nothing. So of each value it is followed along which axes its i-th slice is computed from example i
alone, by the same function for every i. What a primitive does to those axes is a rule below; one
without a rule is taken to mix. Nothing is run: no value can hide a dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal


class Value(NamedTuple):
    """What is known of a value: whether it `varies` with any example at all, and how.

    Along `axes` the i-th slice is one function of example i alone, whatever i; of a value that does
    not vary, all slices are equal. `known` is the value itself, where it is a count such as
    `jnp.arange` gives; `columns` are of each slice along the last axis, where put together.
    """

    varies: bool
    axes: frozenset[int] = frozenset()
    known: np.ndarray | None = None
    columns: tuple[Value, ...] = ()


Rule = Callable[[JaxprEqn, list[Value]], list[Value]]

# Larger counts are not those of the examples in a microbatch.
_MOST_KNOWN = 2**16
FIXED, OF_EXAMPLES = Value(varies=False), Value(varies=True, axes=frozenset({0}))


def follow(program: ClosedJaxpr | Jaxpr, arguments: Sequence[Value]) -> list[Value]:
    """Return what is known of a traced program's results, from what is known of its arguments.

    >>> x = jax.numpy.ones((3, 2))
    >>> [of_rows] = follow(jax.make_jaxpr(lambda x: x.sum(axis=1))(x), [OF_EXAMPLES])
    >>> [mixed] = follow(jax.make_jaxpr(lambda x: x.sum(axis=0))(x), [OF_EXAMPLES])
    >>> 0 in of_rows.axes, 0 in mixed.axes
    (True, False)
    """
    constants: list[Any] = []
    if isinstance(program, ClosedJaxpr):
        program, constants = program.jaxpr, program.consts
    known = dict(zip(program.constvars, map(_constant, constants), strict=False))
    known |= dict(zip(program.invars, arguments, strict=True))

    def read(atom: Any) -> Value:
        if isinstance(atom, Literal):
            # An array too, where JAX is set to write constants into programs.
            return _constant(np.asarray(atom.val))
        return known.get(atom, FIXED)

    for equation in program.eqns:
        if any(hasattr(a.aval, "inner_aval") for a in (*equation.invars, *equation.outvars)):
            # A reference: what is written to it shows wherever it is read: not followed.
            return [Value(varies=True) for _ in program.outvars]
        name, values = equation.primitive.name, [read(atom) for atom in equation.invars]
        found = RULES.get(name, _mixed)(equation, values)
        if name in _COUNTED:
            found = [one._replace(known=_computed(equation, values)) for one in found]
        known |= dict(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in program.outvars]


def _constant(value: Any) -> Value:
    array = isinstance(value, jax.Array | np.ndarray) and not isinstance(value, jax.core.Tracer)
    if not array or value.size > _MOST_KNOWN or value.dtype.kind not in "biuf":
        return FIXED
    known = np.asarray(value)
    axes = (k for k in range(known.ndim) if (known == known.take([0], k)).all())
    return Value(varies=False, axes=frozenset(axes), known=known)


def _all_axes(atom: Any) -> frozenset[int]:
    return frozenset(range(len(atom.aval.shape)))


def _shape(atom: Any) -> tuple[int, ...]:
    return atom.aval.shape


def _result(values: Sequence[Value], axes: Any) -> Value:
    return Value(any(value.varies for value in values), frozenset(axes))


# --- what a primitive does to the axes --------------------------------------------------------


def _mixed(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    return [_result(values, ()) for _ in equation.outvars]


def _pointwise(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    """Number by number; an axis of one stands for as many as there are, and so does a scalar."""
    (out, *_), axes = equation.outvars, _all_axes(equation.outvars[0])
    for value, atom in zip(values, equation.invars, strict=True):
        shape = _shape(atom) or (1,) * len(_shape(out))
        if len(shape) != len(_shape(out)):  # Numbers taken apart into bytes.
            return _mixed(equation, values)
        repeated = {k for k in axes if shape[k] == 1 != _shape(out)[k]}
        axes &= value.axes - repeated if value.varies else value.axes | repeated
    return [_result(values, axes)] * len(equation.outvars)


def _computed(equation: JaxprEqn, values: list[Value]) -> np.ndarray | None:
    (out, *more), unknown = equation.outvars, any(value.known is None for value in values)
    if unknown or more or np.prod(_shape(out)) > _MOST_KNOWN:
        return None
    with jax.ensure_compile_time_eval():
        atoms = zip(values, equation.invars, strict=True)
        given = [jax.numpy.asarray(value.known, atom.aval.dtype) for value, atom in atoms]
        return np.asarray(equation.primitive.bind(*given, **equation.params))


def _iota(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    return [_result(values, _all_axes(equation.outvars[0]) - {equation.params["dimension"]})]


def _broadcast(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (value, *_), (out,) = values, equation.outvars
    to, before = equation.params["broadcast_dimensions"], _shape(equation.invars[0])
    kept = {to[k] for k in value.axes if before[k] == _shape(out)[to[k]]}
    if not value.varies:
        stretched = {at for k, at in enumerate(to) if before[k] == 1}
        kept |= (_all_axes(out) - set(to)) | stretched
    return [_result(values, kept)]


def _reshape(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    before, after = _shape(equation.invars[0]), _shape(equation.outvars[0])
    if equation.params["dimensions"] is not None:
        return _mixed(equation, values)
    # An axis is kept where as many numbers come before it, and as many slices lie along it.
    sizes = {(int(np.prod(after[:k])), after[k]): k for k in reversed(range(len(after)))}
    places = ((int(np.prod(before[:k])), before[k]) for k in values[0].axes)
    return [_result(values, {sizes[place] for place in places if place in sizes})]


def _transpose(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    order = equation.params["permutation"]
    return [_result(values, {at for at, axis in enumerate(order) if axis in values[0].axes})]


def _without(axes: frozenset[int], gone: Sequence[int]) -> set[int]:
    """Return axes as they are numbered without those that are gone."""
    return {axis - sum(one < axis for one in gone) for axis in axes if axis not in gone}


def _dropped(name: str) -> Rule:
    """Return the rule of what takes away the axes that a parameter names."""

    def rule(equation: JaxprEqn, values: list[Value]) -> list[Value]:
        gone = equation.params[name]
        kept = _without(values[0].axes, gone if isinstance(gone, tuple) else (gone,))
        return [_result(values, kept) for _ in equation.outvars]

    return rule


def _along(name: str) -> Rule:
    """Return the rule of what works along the axis that a parameter names, or along several."""

    def rule(equation: JaxprEqn, values: list[Value]) -> list[Value]:
        along = equation.params[name]
        used = set(along) if isinstance(along, tuple) else {along}
        axes = frozenset.intersection(*(value.axes for value in values)) - used
        return [_result(values, axes) for _ in equation.outvars]

    return rule


def _concatenated(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (found,) = _along("dimension")(equation, values)
    last = equation.params["dimension"] == len(_shape(equation.outvars[0])) - 1
    single = {_shape(atom)[-1] for atom in equation.invars} == {1}
    return [found._replace(columns=tuple(values) if last and single else ())]


def _top(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    axis = equation.params.get("axis", len(_shape(equation.invars[0])) - 1)
    return [_result(values, values[0].axes - {axis})] * len(equation.outvars)


def _whole(before: Any, after: Any) -> set[int]:
    """Return the axes of which nothing is cut off."""
    return {k for k, (a, b) in enumerate(zip(_shape(before), _shape(after), strict=True)) if a == b}


def _sliced(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    return [_result(values, values[0].axes & _whole(equation.invars[0], equation.outvars[0]))]


def _sliced_at(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    """A slice that begins where a value says, or a part that is replaced there."""
    array, *rest = values
    parts = rest[: len(rest) - len(_shape(equation.invars[0]))]
    if any(start.varies for start in rest[len(parts) :]):
        return _mixed(equation, values)
    kept = _whole(equation.invars[0], equation.invars[1] if parts else equation.outvars[0])
    return [_result(values, kept.intersection(array.axes, *(part.axes for part in parts)))]


def _stacked(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    along = equation.params["axis"]
    axes = frozenset.intersection(*(value.axes for value in values))
    return [_result(values, {axis + (axis >= along) for axis in axes})]


def _tiled(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (value,), times = values, equation.params["reps"]
    return [_result(values, {k for k in value.axes if times[k] == 1 or not value.varies})]


def _padded(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    untouched = {k for k, edge in enumerate(equation.params["padding_config"]) if not any(edge)}
    return [_result(values, () if values[1].varies else values[0].axes & untouched)]


def _product(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (left, right), (contracted, batch) = values, equation.params["dimension_numbers"]
    kept = {at for at, (a, b) in enumerate(zip(*batch, strict=True))
            if a in left.axes and b in right.axes}  # fmt: skip
    at = len(batch[0])
    for side, (value, other) in enumerate(((left, right), (right, left))):
        used = {*contracted[side], *batch[side]}
        free = [k for k in range(len(_shape(equation.invars[side]))) if k not in used]
        if not other.varies:
            kept |= {at + place for place, axis in enumerate(free) if axis in value.axes}
        at += len(free)
    return [_result(values, kept)]


def _convolved(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (images, kernel), numbers = values, equation.params["dimension_numbers"]
    apart = numbers.lhs_spec[0] in images.axes and equation.params["batch_group_count"] == 1
    kept = {numbers.out_spec[0]} if apart and not kernel.varies else ()
    return [_result(values, kept)]


def _windowed(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    params, window = equation.params, equation.params["window_dimensions"]
    strides, edges = params["window_strides"], params["padding"]
    dilations = params.get("base_dilation", (1,) * len(window))
    kept = {
        axis
        for axis, size in enumerate(window)
        if (size, strides[axis], dilations[axis]) == (1, 1, 1) and not any(edges[axis])
    }
    full = [v.axes for v, a in zip(values, equation.invars, strict=True) if _shape(a)]
    if any(v.varies for v, a in zip(values, equation.invars, strict=True) if not _shape(a)):
        kept = set()  # What windows begin with.
    return [_result(values, frozenset.intersection(*full) & kept)] * len(equation.outvars)


# --- reading and writing at indices -----------------------------------------------------------


def _windows(skipped: Sequence[int], window: Sequence[int], rank: int) -> dict[int, int]:
    """Return where an array's axes lie that a window is taken of."""
    return dict(zip((a for a in range(rank) if a not in skipped), sorted(window), strict=True))


def _counting(indices: Value, shape: tuple[int, ...], axis: int) -> set[int]:
    """Return the column that counts along an axis, if all others go by the examples along it."""
    columns = indices.columns or ((indices,) if shape[-1] == 1 else ())
    count = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return {
        at
        for at, column in enumerate(columns)
        if column.known is not None
        and column.known.shape == (*shape[:-1], 1)
        and (column.known == count).all()
        and all(axis in other.axes for k, other in enumerate(columns) if k != at)
    }


def _gathered(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (array, indices), numbers = values, equation.params["dimension_numbers"]
    (before, at), (out,) = map(_shape, equation.invars), equation.outvars
    batching, sizes = numbers.operand_batching_dims, equation.params["slice_sizes"]
    skipped = (*numbers.collapsed_slice_dims, *batching)
    windows = _windows(skipped, numbers.offset_dims, len(before))
    places = [k for k in range(len(_shape(out))) if k not in numbers.offset_dims]
    paired = dict(zip(numbers.start_indices_batching_dims, batching, strict=True))
    kept = set()
    for axis, place in enumerate(places):
        of = {paired[axis]} if axis in paired else set()
        if axis in indices.axes and (of <= array.axes if of else not array.varies):
            kept.add(place)
        counted = {numbers.start_index_map[c] for c in _counting(indices, at, axis)}
        # A count of fewer than there are would tell rows apart by their place.
        counted = {k for k in counted - of if before[k] == at[axis]}
        if counted & array.axes & set(numbers.collapsed_slice_dims) and axis not in paired:
            kept.add(place)
    if not indices.varies:
        kept |= {windows[k] for k in array.axes & set(windows) if sizes[k] == before[k]}
    return [_result(values, kept)]


def _scattered(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (array, indices, updates), numbers = values, equation.params["dimension_numbers"]
    before, at, new = map(_shape, equation.invars)
    batching = numbers.operand_batching_dims
    skipped = (*numbers.inserted_window_dims, *batching)
    windows = _windows(skipped, numbers.update_window_dims, len(before))
    places = [k for k in range(len(new)) if k not in numbers.update_window_dims]
    paired = dict(zip(numbers.scatter_indices_batching_dims, batching, strict=True))
    kept = set()
    for axis, place in enumerate(places):
        if place not in updates.axes:
            continue
        if axis in paired and axis in indices.axes:
            kept.add(paired[axis])
        counted = {numbers.scatter_dims_to_operand_dims[c] for c in _counting(indices, at, axis)}
        counted = {k for k in counted if before[k] == at[axis] and axis not in paired}
        kept |= counted & set(numbers.inserted_window_dims)
    if not indices.varies:
        kept |= {k for k, w in windows.items() if w in updates.axes and new[w] == before[k]}
    return [_result(values, kept & array.axes)]


# --- programs within the program --------------------------------------------------------------


def _met(one: list[Value], other: list[Value]) -> list[Value]:
    return [Value(a.varies or b.varies, a.axes & b.axes) for a, b in zip(one, other, strict=True)]


def _called(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    program = next(equation.params[name] for name in names if name in equation.params)
    return follow(program, values)


def _branched(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    (index, *rest), (first, *others) = values, equation.params["branches"]
    found = follow(first, rest)
    if all(_same(first, other) for other in others):
        return found  # Whichever is taken.
    for other in others:
        found = _met(found, follow(other, rest))
    return [Value(varies=True) for _ in found] if index.varies else found


def _same(one: ClosedJaxpr, other: ClosedJaxpr) -> bool:
    # Calls of one function, as in `convolution.gather`: programs that are printed alike may
    # close over different things.
    calls = [branch.eqns[0].params.get("jaxpr") for branch in (one, other) if len(branch.eqns) == 1]
    return len(calls) == 2 and calls[0] is calls[1] is not None and str(one) == str(other)


def _settled(step: Callable[[list[Value]], list[Value]], start: list[Value]) -> list[Value]:
    """Return what is known of values that a step may change, however often it is taken."""
    now = _met(start, start)
    while (after := _met(now, step(now))) != now:
        now = after
    return now


def _looped(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    params, values = equation.params, iter(values)
    condition = list(islice(values, params["cond_nconsts"]))
    body = list(islice(values, params["body_nconsts"]))
    found = _settled(lambda now: follow(params["body_jaxpr"], [*body, *now]), list(values))
    (again,) = follow(params["cond_jaxpr"], [*condition, *found])
    return [Value(varies=True) for _ in found] if again.varies else found


def _scanned(equation: JaxprEqn, values: list[Value]) -> list[Value]:
    params, values = equation.params, iter(values)
    fixed = list(islice(values, params["num_consts"]))
    start = list(islice(values, params["num_carry"]))
    rows = [Value(row.varies, frozenset(_without(row.axes, (0,)))) for row in values]

    def step(now: list[Value]) -> list[Value]:
        return follow(params["jaxpr"], [*fixed, *now, *rows])

    found = _settled(lambda now: step(now)[: len(start)], start)
    made = step(found)[len(start) :]
    return [*found, *(Value(one.varies, frozenset(k + 1 for k in one.axes)) for one in made)]


_POINTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    bitcast_convert_type cbrt ceil clamp clz conj convert_element_type copy copy_p cos cosh digamma
    div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igammac imag integer_pow
    is_finite le le_to lgamma log log1p logistic lt lt_to max min mul ne neg nextafter not or
    polygamma population_count pow real reduce_precision regularized_incomplete_beta rem round rsqrt
    select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square
    stop_gradient sub tan tanh xor zeta
"""
_REDUCED = """
    argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
"""
_CUMULATIVE = "cumsum cumprod cummax cummin cumlogsumexp"
_CALLED = """
    jit pjit closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr remat
    remat2 checkpoint
"""
_WINDOWED = """
    reduce_window reduce_window_sum reduce_window_max reduce_window_min select_and_scatter_add
    select_and_gather_add
"""
_SCATTERED = "scatter scatter-add scatter-max scatter-min scatter-mul"
# What says where a value lies, or when, and leaves it as it is.
_PLACED = "device_put mesh_cast optimization_barrier pcast pvary reshard sharding_constraint"

# Counts are computed through these.
_COUNTED = {*_POINTWISE.split(), "broadcast_in_dim", "iota", "reshape", "squeeze"}

RULES: dict[str, Rule] = {
    **dict.fromkeys(_POINTWISE.split(), _pointwise),
    **dict.fromkeys(_REDUCED.split(), _dropped("axes")),
    **dict.fromkeys(_CUMULATIVE.split(), _along("axis")),
    **dict.fromkeys(_CALLED.split(), _called),
    **dict.fromkeys(_WINDOWED.split(), _windowed),
    **dict.fromkeys(_PLACED.split(), lambda equation, values: values),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenated,
    "cond": _branched,
    "conv_general_dilated": _convolved,
    "dot_general": _product,
    "dynamic_slice": _sliced_at,
    "dynamic_update_slice": _sliced_at,
    "gather": _gathered,
    "iota": _iota,
    "pad": _padded,
    "reshape": _reshape,
    "rev": _along("dimensions"),
    "scan": _scanned,
    **dict.fromkeys(_SCATTERED.split(), _scattered),
    "slice": _sliced,
    "sort": _along("dimension"),
    "split": _along("axis"),
    "squeeze": _dropped("dimensions"),
    "stack": _stacked,
    "tile": _tiled,
    "top_k": _top,
    "transpose": _transpose,
    "unstack": _dropped("axis"),
    "while": _looped,
}
