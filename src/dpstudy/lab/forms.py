"""What stored JSON holds, as types, and what is wrong with JSON that holds something else."""

import contextlib
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import chain
from math import isnan
from typing import Any

import numpy as np

from dpstudy.parts.measure import SHAPES
from dpstudy.parts.run import Run

CLASSES = 10
# Runs are trained in single precision, which does not reach this.
_BEYOND = 2.0**128


@dataclass(frozen=True)
class Curve:
    """The columns that every curve has; it may have more."""

    epoch: list[int]
    step: list[int]
    test_accuracy: list[float]


@dataclass(frozen=True)
class Provenance:
    """What a provenance says, where it does; it may say more."""

    packages: dict[str, str] = field(default_factory=dict)
    python: str = ""
    device: str = ""
    commit: str = ""
    finished: str = ""
    dataset_fingerprint: str = ""
    wall_seconds: float = 0.0
    peak_megabytes: float | None = None  # a machine that is not Linux does not know it
    sittings: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.finished and datetime.fromisoformat(self.finished).tzinfo is None:
            raise ValueError(f"a time without its zone: {self.finished}")


@dataclass(frozen=True)
class Trained:
    """What a stored run came to: the fields of `store.Result`."""

    curve: Curve
    class_accuracy: list[float]
    diverged_at: int | None
    stopped: str | None
    epsilon: dict[str, list[float | None]]
    provenance: Provenance


@dataclass(frozen=True)
class Checked:
    """A record of `dpstudy theorems --store`: a statement's `Outcome`, in its words."""

    statement: str
    verdict: str
    worst: float
    tightness: float | None
    looked: str
    finding: str
    provenance: dict[str, Any]


_TRAINED = {item.name for item in fields(Trained)}


def problem_of(columns: Mapping[str, Any], run: Run, stored: str | bytes = "") -> str | None:
    """Say where what a run came to is not as `Trained`, by the first field; None where it is.

    What is `stored` is JSON that has these columns; without it they are written first.
    """
    try:
        # A bare node has no pydantic: whoever merges its results looks closer.
        with contextlib.suppress(ModuleNotFoundError):
            if unknown := columns.keys() - _TRAINED:
                raise ValueError(_of_another(min(unknown)))
            _decoded(Trained, stored or json.dumps(columns, allow_nan=False), extra="ignore")
        _check_columns(columns, run)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return str(error)
    return None


def _check_columns(columns: Mapping[str, Any], run: Run) -> None:
    """Raise an error where columns do not hold, by epoch, what such a run can come to."""
    if columns.keys() != _TRAINED:
        raise ValueError("its fields are not those of this version")
    curve, spent, ended = columns["curve"], columns["epsilon"], columns["diverged_at"]
    for name, values in curve.items():
        most = 1 if name in ("test_accuracy", "clipped_fraction") else _BEYOND
        shape = SHAPES.get(name) if "." in name else ()
        check_numbers(f"curve.{name}", values, 0 if most == 1 else -_BEYOND, most, shape)
        if shape and not (np.array(values, float) >= 0).all():
            raise ValueError(f"field 'curve.{name}' holds what are no counts")
    for name, values in spent.items():
        check_numbers(f"epsilon.{name}", values, 0, _BEYOND)
    check_numbers("class_accuracy", [columns["class_accuracy"]], 0, 1, (CLASSES,))
    if len({len(values) for values in (*curve.values(), *spent.values())}) > 1:
        raise ValueError("the columns of its curve differ in length")
    epochs, whole = curve["epoch"], range(run.epochs + 1)
    if epochs not in (list(whole[: len(epochs)]), list(whole[1 : len(epochs) + 1])):
        raise ValueError(_unlike("curve.epoch", epochs))
    steps = run.steps_per_epoch
    if curve["step"] != [epoch * steps for epoch in epochs]:
        raise ValueError(_unlike("curve.step", curve["step"]))
    if ended is not None and ended not in range(1, run.epochs * steps + 1):
        raise ValueError(_unlike("diverged_at", ended))


def check_numbers(
    where: str, values: Any, low: float, high: float, shape: Sequence[int] | None = ()
) -> None:
    """Raise ValueError unless values are numbers in a range, or None for one that is not finite.

    Or arrays of these, as nested lists, of a `shape`; with None, of the first one's.
    """
    if not isinstance(values, list) or not values:
        raise ValueError(_unlike(where, values))
    with contextlib.suppress(ValueError):  # It is uneven, and no shape is its.
        shape = np.shape(values[0]) if shape is None else shape
    if not _sound(values, low, high, shape):
        [at, *_] = (at for at in range(len(values)) if not _sound([values[at]], low, high, shape))
        raise ValueError(_unlike(f"{where}[{at}]", values[at]))


def _sound(values: list[Any], low: float, high: float, shape: Sequence[int] | None) -> bool:
    if shape:
        alike = all(type(one) is list and len(one) == shape[0] > 0 for one in values)
        return alike and _sound([*chain.from_iterable(values)], low, high, shape[1:])
    # By functions in C: a store has a million numbers.
    found = [value for value in values if value is not None]
    kinds = {*map(type, found)}
    if bool in kinds or not all(issubclass(kind, int | float) for kind in kinds):
        return False
    return not found or (low <= min(found) and max(found) <= high and not any(map(isnan, found)))


def decoded(form: Any, value: Any) -> Any:
    """Return plain JSON values as a type that pydantic knows, such as a dataclass.

    Raise ValueError naming the first field that is not of that type.
    """
    try:
        return _decoded(form, json.dumps(value, allow_nan=False), extra="forbid")
    except TypeError as error:  # a number of NumPy's, say
        raise ValueError(str(error)) from error


def _decoded(form: Any, text: str | bytes, extra: str) -> Any:
    from pydantic import ValidationError  # Only here: a bare node has none.

    try:
        return _adapter(form).validate_json(text, strict=True, extra=extra)
    except ValidationError as error:
        first, *_ = error.errors(include_url=False)
        raise ValueError(_said(first)) from error


@functools.cache
def _adapter(form: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def _said(error: Mapping[str, Any]) -> str:
    at = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in error["loc"])
    where = at.removeprefix(".")
    match error["type"]:
        case "missing":
            return f"no field {where!r} (stored by another version?)"
        case "unexpected_keyword_argument":
            return _of_another(where)
        case "json_invalid":
            return f"it holds text that is no Unicode, or lists too deep: {error['msg']}"
        case "value_error":
            return f"field {where!r}: {error['ctx']['error']}"
    return _unlike(where, error["input"])


def _of_another(where: str) -> str:
    return f"unknown field {where!r} (stored by another version?)"


def _unlike(where: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return f"field {where!r} is not what this version stores there: {shown}"
