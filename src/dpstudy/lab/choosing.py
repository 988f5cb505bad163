"""Choose the best of what a search tried, from what is stored of it."""

from __future__ import annotations

from dpstudy.lab import readings
from dpstudy.lab.choices import Choice
from dpstudy.lab.search import Search
from dpstudy.lab.store import StoreError


def choose(search: Search, dataset: str | None = None) -> int:
    """Choose what a search trains next, the best of each group, and store it; return how many.

    0 if nothing is to be chosen now: it waits for results, or it is at its end.

    Raises:
        StoreError: an earlier choice is damaged, or one could not be stored.
    """
    for error in search.damaged_choices():
        raise StoreError(f"{error}; to choose again, remove this file first")
    return sum(
        _choose(search, name, best)
        for name in (search.datasets if dataset is None else (dataset,))
        for best in search.groups
    )


def _choose(search: Search, dataset: str, best: str) -> int:
    """Choose the best of one group, once all of its labels are tried."""
    if (dataset, best) in search.chosen():
        return 0
    tried = accuracies(search, dataset, best)
    if len(tried) < len(search.groups[best]):
        return 0
    winner = max(tried, key=lambda label: tried[label])
    by = f"the highest test accuracy of {len(tried)} at seed 0: {winner}"
    known = dict(search.labelled(dataset=dataset, seeds=1))
    search.keep(dataset, best, Choice(known[winner], by))
    return 1


def accuracies(search: Search, dataset: str, best: str) -> dict[str, float]:
    """Return the test accuracy at seed 0 of what is stored of a group, by label."""
    finals = readings.read(search, dataset=dataset).finals
    if finals.empty:
        return {}
    first = finals[finals.seed == 0].set_index("label").test_accuracy
    return {label: float(first[label]) for label in search.groups[best] if label in first}
