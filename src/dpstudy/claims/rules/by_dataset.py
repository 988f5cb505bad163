"""One rule on several datasets: what it compares differs between them in name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from dpstudy.claims.rules.rule import Rule

Value = TypeVar("Value")
# From a dataset to what a rule is about there: runs, or a published number.
OnDataset = Callable[[str], Value]


def on(
    datasets: Iterable[str], rule: Callable[..., Rule], *about: object, **options: object
) -> dict[str, Rule]:
    """Return by dataset a rule.

    Args:
        datasets: their names.
        rule: its class.
        about: what the class takes; functions, alone or in tuples, give it from the dataset.
        **options: what the class takes by name, likewise.
    """
    return {
        dataset: rule(
            *(_there(dataset, one) for one in about),
            **{name: _there(dataset, one) for name, one in options.items()},
        )
        for dataset in datasets
    }


def _there(dataset: str, about: object) -> object:
    if isinstance(about, tuple):
        return tuple(_there(dataset, one) for one in about)
    return about(dataset) if callable(about) else about
