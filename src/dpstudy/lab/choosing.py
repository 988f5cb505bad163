"""Choose the best of what a search tried, from what is stored of it.

Needs no accounting, so that a bare GPU node goes on by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpstudy.lab import store
from dpstudy.lab.choices import Choice
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.search import Search, further_rate
from dpstudy.lab.store import CHANCE, Result, StoreError
from dpstudy.parts.run import Run, vary

# Rates beyond a group's own, in case accuracy never stops to rise.
_MOST_BEYOND = 6


def choose(search: Experiment, profile: str = "full", dataset: str | None = None) -> int:
    """Choose what a search trains next, and store it; return how many.

    Of each group the best; or, where the search goes beyond, a further learning rate.

    0 if nothing is to be chosen now: it waits for results, or it is at its end. Nor does an
    experiment that is no search choose, or any in the smoke profile.

    Raises:
        StoreError: an earlier choice is damaged, or one could not be stored.
    """
    if not isinstance(search, Search) or profile != "full":
        return 0
    for error in search.damaged_choices():
        raise StoreError(f"{error}; to choose again, remove this file first")
    count = 0
    for name in search.datasets if dataset is None else (dataset,):
        known = accuracies(search, name)
        count += sum(_choose(search, name, best, known) for best in search.groups)
    return count


def _choose(search: Search, dataset: str, best: str, at_seed_0: Mapping[str, float]) -> int:
    """Choose the best of one group, once all of its labels are tried, or a rate beyond them."""
    if (dataset, best) in search.chosen():
        return 0
    labels = search.tried(dataset, best)
    tried = {label: at_seed_0[label] for label in labels if label in at_seed_0}
    if len(tried) < len(labels):
        return 0
    winner = max(tried, key=lambda label: tried[label])
    known = dict(search.labelled(dataset=dataset, seeds=1))
    rate = _rate_beyond([known[label] for label in labels], known[winner], search.beyond)
    last = len(labels) >= len(search.groups[best]) + _MOST_BEYOND
    if rate is None or last:
        edge = "" if rate is None else ", at the edge of all that were tried"
        which = "held-out" if known[winner].dataset.held_out else "test"
        by = f"the highest {which} accuracy of {len(tried)} at seed 0: {winner}{edge}"
        search.keep(dataset, best, Choice(known[winner], by))
    else:
        label, run = further_rate(best, f"{rate:.3g}"), vary(known[winner], learning_rate=rate)
        search.keep(dataset, label, Choice(run, f"the best of {len(tried)} is at the edge"))
    return 1


def _rate_beyond(runs: Sequence[Run], winner: Run, factor: float) -> float | None:
    """Return the next learning rate where the winner's is the outermost; None where it is not."""
    rates = [run.optimizer.learning_rate for run in runs]
    own = winner.optimizer.learning_rate
    if not factor or min(rates) < own < max(rates):
        return None
    return own * factor if own == max(rates) else own / factor


def accuracies(search: Search, dataset: str) -> dict[str, float]:
    """Return the accuracy at seed 0 of what is stored, by label: test, or held-out where asked.

    A run that was given up counts as 0: it was far behind, and what went on may have diverged.
    """
    labelled = search.labelled(dataset=dataset, seeds=1)
    tried = {label: run.identity for label, run in labelled if run.seed == 0}
    found, _ = store.read_all(store.runs_folder(), list(tried.values()))
    return {label: _accuracy(found[name]) for label, name in tried.items() if name in found}


def _accuracy(result: Result) -> float:
    if result.stopped is not None:
        return 0.0
    return CHANCE if result.diverged_at is not None else result.curve["test_accuracy"][-1]
