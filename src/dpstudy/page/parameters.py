"""What a reader gives a notebook: checked once, in one line, before anything is trained."""

import ast
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dpstudy.errors import UserError, meant
from dpstudy.lab.experiment import NOTEBOOK_PROFILES, SEEDS
from dpstudy.lab.forms import decoded
from dpstudy.parts.data.images import DATASETS

# What each parameter may be; a notebook has some of them.
FORMS = {
    "seeds": (Annotated[int, Field(ge=1, le=SEEDS)] | None, f"a whole number from 1 to {SEEDS}"),
    "dataset": (Literal[(None, *DATASETS)], f"None or one of: {', '.join(DATASETS)}"),
    "profile": (Literal[NOTEBOOK_PROFILES], f"one of: {', '.join(NOTEBOOK_PROFILES)}"),
    **dict.fromkeys(
        ("T", "k", "input_bound"),
        (Annotated[float, Field(gt=0, le=1e6, strict=False)], "a number above 0, at most 1e6"),
    ),
    "gamma": (Annotated[float, Field(ge=0, le=1e3, strict=False)], "a number from 0 to 1000"),
    "power": (Annotated[float, Field(ge=0, le=1, strict=False)], "a number from 0 to 1"),
}


def check(namespace: Mapping[str, Any], *names: str) -> None:
    """Check a notebook's parameters, by name, and that it has no others; say what is trained.

    The `namespace` is its `globals()`; where papermill filled it a moment ago, the cell before the
    one that calls this shows what it gave. UserError where a value is of another type than `FORMS`
    has, or out of range, or where the notebook lacks a parameter, with the nearest that it has.

    >>> check({"profile": "stored", "seeds": 2.5}, "profile", "seeds")
    Traceback (most recent call last):
    dpstudy.errors.UserError: seeds must be a whole number from 1 to 1000, got 2.5
    """
    for name in _given(namespace):
        if name not in names:
            raise UserError(f"this notebook has no parameter {name!r}; {meant(name, names)}")
    for name in names:
        form, said = FORMS[name]
        try:
            decoded(form, namespace[name])
        except ValueError:
            raise UserError(f"{name} must be {said}, got {namespace[name]!r}") from None
    if namespace.get("profile") == "smoke" and "seeds" in names:  # it trains
        print("Of the tiny runs trained here is what names MNIST-5k; all else is of stored runs.")


def _given(namespace: Mapping[str, Any]) -> list[str]:
    """Return what papermill's cell sets, if that was the last to run."""
    before = [*namespace.get("In", ())][-2:-1]
    if not before or not before[0].startswith("# Parameters\n"):
        return []
    sets = [line for line in ast.parse(before[0]).body if isinstance(line, ast.Assign)]
    return [target.id for line in sets for target in line.targets if isinstance(target, ast.Name)]
