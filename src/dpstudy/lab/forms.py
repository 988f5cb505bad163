"""What stored JSON holds, as types, and what is wrong with JSON that holds something else."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from dpstudy.parts.run import Run

# Runs are trained in single precision, which does not reach this.
_BEYOND = 2.0**128
# Of what a measure stores: more than any has.
_DIMENSIONS = 8
CLASSES = 10


@dataclass(frozen=True)
class Trained:
    """What a stored run came to: the fields of `store.Result`."""

    curve: dict[str, list[Any]]
    class_accuracy: list[float]
    diverged_at: int | None
    stopped: str | None
    epsilon: dict[str, list[float | None]]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """The columns that every curve has."""

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

    def __post_init__(self) -> None:
        if self.finished and datetime.fromisoformat(self.finished).tzinfo is None:
            raise ValueError(f"a time without its zone: {self.finished}")
        if not all(0 <= number < _BEYOND for number in (self.wall_seconds, self.peak_megabytes or 0)):
            raise ValueError("a time or a memory that no run takes")


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


def problem_of(columns: Mapping[str, Any], run: Run) -> str | None:
    """Say where what a run came to is not as `Trained`, by the first field; None where it is."""
    try:
        _check_names(Trained, columns)
        _check_numbers(columns, run)
        decoded(Trained, columns)
        decoded(Curve, columns["curve"], "curve", extra="ignore")
        decoded(Provenance, columns["provenance"], "provenance", extra="ignore")
    except ModuleNotFoundError:
        pass  # A bare node has no pydantic: whoever merges its results looks closer.
    except ValueError as error:
        return str(error)
    return None


def _check_numbers(columns: Mapping[str, Any], run: Run) -> None:
    """Raise ValueError where columns do not hold, epoch by epoch, what such a run can come to."""
    for name in ("curve", "epsilon", "provenance"):
        if not isinstance(columns[name], dict):
            raise ValueError(_unlike(name, columns[name]))
    curve, spent, ended = columns["curve"], columns["epsilon"], columns["diverged_at"]
    _check_names(Curve, curve, "curve.")
    shapes = {f"{of.kind}.{name}": shape for of in run.measures for name, shape in of.shapes.items()}
    for name, values in curve.items():
        # Of a measure that does not say, such as one's own, any shape.
        shape = shapes.get(name) if "." in name else ()
        fraction = name in ("test_accuracy", "clipped_fraction")
        check_numbers(f"curve.{name}", values, shape, *((0, 1) if fraction else ()))
    for name, values in spent.items():
        check_numbers(f"epsilon.{name}", values, low=0)
    check_numbers("class_accuracy", columns["class_accuracy"], low=0, high=1)
    if len(columns["class_accuracy"]) != CLASSES:
        raise ValueError(f"field 'class_accuracy' is not of {CLASSES} classes")
    if len({len(values) for values in (*curve.values(), *spent.values())}) > 1:
        raise ValueError("the columns of its curve differ in length")
    epochs, whole = curve["epoch"], list(range(run.epochs + 1))
    if epochs not in (whole[: len(epochs)], whole[1 : len(epochs) + 1]):
        raise ValueError(_unlike("curve.epoch", epochs))
    if curve["step"] != [epoch * run.steps_per_epoch for epoch in epochs]:
        raise ValueError(_unlike("curve.step", curve["step"]))
    if ended is not None and ended not in range(1, run.epochs * run.steps_per_epoch + 1):
        raise ValueError(_unlike("diverged_at", ended))


def check_numbers(
    where: str,
    values: Any,
    shape: Sequence[int] | None = (),
    low: float = -_BEYOND,
    high: float = _BEYOND,
) -> None:
    """Raise ValueError unless values are numbers from `low` to `high`, or None for one not finite.

    Or arrays of these, as nested lists, of a `shape` in which 0 stands for any length; with None
    all of the first one's. There must be one at least.
    """
    if not isinstance(values, list) or not values:
        raise ValueError(_unlike(where, values))
    first, found = values[0], ()
    while isinstance(first, list) and first and len(found) < _DIMENSIONS:
        found, first = (*found, len(first)), first[0]
    given = found if shape is None else shape
    if len(given) == len(found):
        given = [of or length for of, length in zip(given, found, strict=True)]
    for at, value in enumerate(values):
        if not _sound(value, given, low, high):
            raise ValueError(_unlike(f"{where}[{at}]", value))


def _sound(value: Any, shape: Sequence[int], low: float, high: float) -> bool:
    if not shape:
        return value is None or (type(value) in (int, float) and low <= value <= high)
    alike = isinstance(value, list) and len(value) == shape[0]
    return alike and all(_sound(one, shape[1:], low, high) for one in value)


def _check_names(form: type, found: Mapping[str, Any], within: str = "") -> None:
    wanted = [item.name for item in fields(form)]
    # A curve may have more columns.
    unknown = [] if within else [name for name in found if name not in wanted]
    for said, names in (("unknown", unknown), ("no", [n for n in wanted if n not in found])):
        if names:
            raise ValueError(f"{said} field {within + names[0]!r} (stored by another version?)")


def decoded(form: Any, value: Any, within: str = "", extra: str = "forbid") -> Any:
    """Return plain JSON values as a type that pydantic knows, such as a dataclass.

    Raise ValueError naming the first field, `within` another, that is not of that type.
    """
    from pydantic import ValidationError  # Only here: a bare node has none.

    try:
        return _adapter(form).validate_json(json.dumps(value), strict=True, extra=extra)
    except TypeError as error:  # a number of NumPy's, say
        raise ValueError(str(error)) from error
    except ValidationError as error:
        first, *_ = error.errors(include_url=False)
        raise ValueError(_said(first, within)) from error


@functools.cache
def _adapter(form: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def _said(error: Mapping[str, Any], within: str) -> str:
    at = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in error["loc"])
    where = f"{within}{at}".removeprefix(".")
    match error["type"]:
        case "missing":
            return f"no field {where!r} (stored by another version?)"
        case "unexpected_keyword_argument":
            return f"unknown field {where!r} (stored by another version?)"
        case "json_invalid":
            return f"it holds text that is no Unicode, or too deep ({error['ctx']['error']})"
        case "value_error":
            return f"field {where!r}: {error['ctx']['error']}"
    return _unlike(where, error["input"])


def _unlike(where: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return f"field {where!r} is not what this version stores there: {shown}"
