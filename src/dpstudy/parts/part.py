"""A part: a frozen dataclass that is both what is written down of a run and what acts in it.

A part is declared by `@part("its-kind")`. Its numbers (fields annotated `float`, unless `static`)
and the parts within it are the leaves and branches of a pytree, and are traced; all else is static.
So runs whose parts have the same tree structure share one compiled program. JAX builds parts from
tracers by their `__init__`, which therefore checks nothing: `checked` does.

`to_dict` and `from_dict` translate a part to plain JSON values and back: its kind, and the fields
that are not at their default. A default never changes, so that a field added later does not rename
what was stored before it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import jax

from dpstudy.errors import UserError, check_known, meant
from dpstudy.kinds import declare_all

KINDS: dict[str, type[Part]] = {}


class SpecError(UserError):
    """A run that cannot be: the message names the field and its value."""


class Part:
    """The base of all parts."""

    kind: ClassVar[str | None] = None
    """The name under which a part of this class is written down; None of a base class."""

    def check(self) -> None:
        """Raise SpecError if a field, of the right type, has a value that cannot be."""

    def to_dict(self) -> dict[str, Any]:
        """Return the kind, and the fields that are not at their default, as plain JSON values."""
        fields = {
            field.name: _plain(getattr(self, field.name), field)
            for field in _fields(type(self))
            if getattr(self, field.name) != field.default
        }
        return ({"kind": self.kind} if self.kind else {}) | fields

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Self:
        """Build the part that `to_dict` describes; SpecError where there is no such part."""
        return _checked_as(cls, _read(cls, written), cls.__name__.lower())


AnyPart = TypeVar("AnyPart", bound=Part)


def static(default: Any) -> Any:
    """Declare a number, with its `default`, on which the compiled program's shape depends.

    >>> @part("squared-width")
    ... class SquaredWidth(Part):
    ...     width: float = static(1.0)
    >>> jax.tree.leaves(SquaredWidth())  # not traced: another width is another program
    []
    """
    return dataclasses.field(default=default, metadata={"static": True})


def number(default: int) -> Any:
    """Declare a whole number, with its `default`, on which no compiled program depends.

    >>> @part("seeded")
    ... class Seeded(Part):
    ...     seed: int = number(7)
    >>> jax.tree.leaves(Seeded())  # traced: another seed is the same program
    [7]
    """
    return dataclasses.field(default=default, metadata={"number": True})


@dataclass_transform(frozen_default=True)
def part(kind: str = "") -> Callable[[type[AnyPart]], type[AnyPart]]:
    """Return the decorator that makes a class a part, known by its `kind`.

    >>> @part("doubled")
    ... class Doubled(Part):
    ...     factor: float = 2.0
    >>> Part.from_dict({"kind": "doubled", "factor": 3.0})
    Doubled(factor=3.0)

    Raises:
        ValueError: another class is of that kind.
    """

    def declare(cls: type[AnyPart]) -> type[AnyPart]:
        cls = dataclasses.dataclass(frozen=True)(cls)
        cls.kind = kind
        _register(cls)
        if kind:
            other = KINDS.setdefault(kind, cls)
            # The same class again is a notebook's cell that ran twice.
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ValueError(f"two kinds of part are called {kind!r}")
            KINDS[kind] = cls
        return cls

    return declare


def _register(cls: type[Part]) -> None:
    """Make a class a pytree.

    Not by `jax.tree_util.register_dataclass`: to JAX 0.10 the structures of two dataclasses with
    as many leaves and equal static fields are equal, whatever their classes, and now and then
    `jax.jit` runs for one class what was compiled for the other.
    """
    traced = [field.name for field in dataclasses.fields(cls) if _is_traced(field)]
    rest = [field.name for field in dataclasses.fields(cls) if not _is_traced(field)]

    def flatten(of: Part) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        leaves = [(jax.tree_util.GetAttrKey(name), getattr(of, name)) for name in traced]
        return leaves, tuple(getattr(of, name) for name in rest)

    def build(static: tuple[Any, ...], leaves: typing.Iterable[Any]) -> Part:
        return cls(**dict(zip((*rest, *traced), (*static, *leaves), strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten, build)


def _is_traced(field: dataclasses.Field) -> bool:
    if "static" in field.metadata or "number" in field.metadata:
        return "number" in field.metadata
    return _type_name(field) not in ("str", "int", "bool")


def _type_name(field: dataclasses.Field) -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")


def checked(value: AnyPart) -> AnyPart:
    """Return the part if all of its fields, and theirs, are of their types and in their ranges.

    >>> from dpstudy.parts.optimizer import Sgd
    >>> checked(Sgd(learning_rate=-1.0))
    Traceback (most recent call last):
    dpstudy.parts.part.SpecError: learning_rate must be > 0, got -1.0

    Raises:
        SpecError: one is not.
    """
    return _checked_as(type(value), value, type(value).__name__.lower())


def choose(field: str, value: object, valid: typing.Iterable[str]) -> None:
    """Raise SpecError, naming the `field`, unless `value` is one of the names in `valid`.

    >>> choose("init", "ones", ["glorot", "he"])
    Traceback (most recent call last):
    dpstudy.parts.part.SpecError: unknown init 'ones'; one of: glorot, he
    """
    check_known(field, value, tuple(valid), SpecError)


def positive(of: Part, *names: str) -> None:
    """Raise SpecError unless the fields of a part with these `names` are above 0.

    >>> from dpstudy.parts.optimizer import Adam
    >>> positive(Adam(0.0), "learning_rate")
    Traceback (most recent call last):
    dpstudy.parts.part.SpecError: learning_rate must be > 0, got 0.0
    """
    for name in names:
        if getattr(of, name) <= 0:
            raise SpecError(f"{name} must be > 0, got {getattr(of, name)}")


def at_least(of: Part, least: float, *names: str) -> None:
    """Raise SpecError unless the fields of a part with these `names` are `least` or more."""
    for name in names:
        if getattr(of, name) < least:
            raise SpecError(f"{name} must be at least {least}, got {getattr(of, name)}")


_fields = functools.cache(dataclasses.fields)


@functools.cache
def _types(cls: type[Part]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _checked_as(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise SpecError(f"{name} must be a part of a run, {kind.__name__}, got {value!r}")
    if "kind" not in vars(type(value)):
        raise SpecError(f"{name} has no kind: put @part(...) above class {type(value).__name__}")
    if "_is_checked" not in vars(value):
        for field, expected in _types(type(value)).items():
            _check_value(field, getattr(value, field), expected)
        value.check()
        # It is frozen, so once is enough: runs share most of their parts.
        object.__setattr__(value, "_is_checked", True)
    return value


# What the values of a field of plain type may be, and what they are called.
_PLAIN = {
    float: (int | float, "a number"),
    int: (int, "a whole number"),
    str: (str, "a name"),
    bool: (bool, "true or false"),
}


def _check_value(name: str, value: Any, expected: Any) -> None:
    if expected in _PLAIN:
        types, what = _PLAIN[expected]
        if not isinstance(value, types) or (isinstance(value, bool) and expected is not bool):
            raise SpecError(f"{name} must be {what}, got {value!r}")
        if expected is float and not abs(value) <= sys.float_info.max:
            raise SpecError(f"{name} must be finite, got {value!r}")
    elif typing.get_origin(expected) is tuple:
        if not isinstance(value, tuple):
            raise SpecError(f"{name} must be a tuple of parts, got {value!r}")
        for one in value:
            _check_value(name, one, typing.get_args(expected)[0])
    else:
        _checked_as(expected, value, name)


def _plain(value: Any, field: dataclasses.Field | None = None) -> Any:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if field is not None and _type_name(field) == "float":
        # Plus zero: -0.0 is the same number, and must not be another identity; nor must 1 be.
        return float(value) + 0.0
    return value


def _read(cls: type[Part], written: Any) -> Part:
    """Build a part, unchecked."""
    if not isinstance(written, Mapping):
        raise SpecError(f"{cls.__name__.lower()} must be an object with fields, got {written!r}")
    fields, actual = dict(written), cls
    if cls.kind != "":  # a run alone is of no kind
        kind = fields.pop("kind", None)
        if not (isinstance(kind, str) and kind in KINDS):
            declare_all()
        if not (isinstance(kind, str) and issubclass(KINDS.get(kind, Part), cls)):
            known = {name: one for name, one in KINDS.items() if issubclass(one, cls)}
            choose(cls.__name__.lower(), kind, known)
        actual = KINDS[kind]
    types = _types(actual)
    if unknown := sorted(set(fields) - set(types)):
        near = meant(unknown[0], types)
        raise SpecError(f"unknown field {unknown[0]!r} in {actual.kind or 'a run'}; {near}")
    try:
        return actual(**{name: _read_value(value, types[name]) for name, value in fields.items()})
    except TypeError as error:
        raise SpecError(f"a field is missing in {actual.kind or 'a run'}: {error}") from error


def _read_value(value: Any, expected: Any) -> Any:
    if typing.get_origin(expected) is tuple and isinstance(value, list):
        return tuple(_read_value(one, typing.get_args(expected)[0]) for one in value)
    if isinstance(expected, type) and issubclass(expected, Part):
        return _read(expected, value)
    return value


def value_of(of: Part, name: str, text: str) -> Any:
    """Return what a text gives a part's field: a number, a name, or a part; a list is in JSON.

    A part is named by its kind, and has its defaults then, or is in JSON as `to_dict` writes it.
    The value is of the field's type only if the text is: `checked` says so.

    >>> from dpstudy.parts.run import Run
    >>> value_of(Run(), "epochs", "3"), value_of(Run(), "optimizer", "adam")
    (3, Adam(learning_rate=0.001))

    Raises:
        SpecError: there is no such kind of part, or it lacks a field that is named.
    """
    expected = _types(type(of))[name]
    if expected is str:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = {"kind": text} if expected not in _PLAIN else text
    if typing.get_origin(expected) is tuple and not isinstance(value, list):
        raise SpecError(f"{name} must be a list such as [0.5, 0.5], got {text!r}")
    return _read_value(value, expected)
