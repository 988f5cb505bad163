"""What stored JSON holds, as types, and what is wrong with JSON that holds something else."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


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


def problem_of(columns: Mapping[str, Any]) -> str | None:
    """Say where what a run came to is not as `Trained`, by the first field; None where it is."""
    try:
        _check_shape(columns)
        decoded(Trained, columns)
        curve = columns["curve"]
        decoded(Curve, curve, "curve", extra="ignore")
        decoded(Provenance, columns["provenance"], "provenance", extra="ignore")
        # A measure's column, such as `norms.gradient`, may hold nested lists.
        flat = {name: column for name, column in curve.items() if "." not in name}
        decoded(dict[str, list[float | None]], flat, "curve")
    except ModuleNotFoundError:
        pass  # A bare node has no pydantic: whoever merges its results looks closer.
    except ValueError as error:
        return str(error)
    return None


def _check_shape(columns: Mapping[str, Any]) -> None:
    _check_names(Trained, columns)
    for name in ("curve", "epsilon", "provenance"):
        if not isinstance(columns[name], dict):
            raise ValueError(_unlike(name, columns[name]))
    _check_names(Curve, columns["curve"], "curve.")
    for name in ("curve", "epsilon"):
        for column, values in columns[name].items():
            if not isinstance(values, list):
                raise ValueError(_unlike(f"{name}.{column}", values))
            for at, value in enumerate(values):
                if not _numbers(value):
                    raise ValueError(_unlike(f"{name}.{column}[{at}]", value))
    lengths = {len(of) for name in ("curve", "epsilon") for of in columns[name].values()}
    if len(lengths) > 1:
        raise ValueError("the columns of its curve differ in length")


def _check_names(form: type, found: Mapping[str, Any], within: str = "") -> None:
    wanted = [item.name for item in fields(form)]
    # A curve may have more columns.
    unknown = [] if within else [name for name in found if name not in wanted]
    for said, names in (("unknown", unknown), ("no", [n for n in wanted if n not in found])):
        if names:
            raise ValueError(f"{said} field {within + names[0]!r} (stored by another version?)")


def _numbers(value: Any) -> bool:
    """Whether a value is a number, None where it was not finite, or a nested list of these."""
    if isinstance(value, list):
        return all(map(_numbers, value))
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
            return "it holds text that is no Unicode"
        case "value_error":
            return f"field {where!r}: {error['ctx']['error']}"
    return _unlike(where, error["input"])


def _unlike(where: str, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return f"field {where!r} is not what this version stores there: {shown}"
