"""Choose what a search runs next, from what is stored of it.

The sampler is Optuna's: a Gaussian process over the settings tried, and the settings where it
expects the most improvement, after the paper's "Gaussian-process bandits". It needs torch, which
nothing else here does.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Sequence

from dpstudy.errors import UserError
from dpstudy.lab import readings
from dpstudy.lab.choices import Choice
from dpstudy.lab.design import Point
from dpstudy.lab.search import Search
from dpstudy.lab.store import StoreError

# Proposals before the next results are waited for: as many as a small machine's cores.
AT_ONCE = 2


def choose(search: Search, dataset: str | None = None) -> int:
    """Choose the next runs of a search and store the choices; return how many.

    0 if nothing is to be chosen now: it waits for results, or it is at its end.

    Raises:
        UserError: Optuna or torch is not installed.
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
    """Choose for one group: proposals until all its labels are tried, then the best of them."""
    if (dataset, best) in search.chosen():
        return 0
    known = dict(search.labelled(dataset=dataset, seeds=1))
    labels = [label for label in search.groups[best] if label in known]
    tried = accuracies(search, dataset, best)
    if len(tried) < len(labels):
        return 0
    if left := [label for label in search.groups[best] if label not in known]:
        return _propose_next(search, dataset, best, tried, left[:AT_ONCE])
    winner = max(tried, key=lambda label: tried[label])
    by = f"the highest test accuracy of {len(tried)} at seed 0: {winner}"
    search.keep(dataset, best, Choice(known[winner], by))
    return 1


def _propose_next(
    search: Search, dataset: str, best: str, tried: dict[str, float], labels: list[str]
) -> int:
    """Have the sampler propose a run for each of `labels`, in view of those of the group tried."""
    space, chosen, seed = search.space, search.chosen(), len(tried)
    assert space is not None  # a search whose groups lack variants has one
    points = dict(space.points) | {
        label: chosen[dataset, label].point for label in tried if (dataset, label) in chosen
    }
    history = [(points[label], accuracy) for label, accuracy in tried.items()]
    proposed = propose(space.levels, history, len(labels), seed)
    by = f"Optuna {importlib.metadata.version('optuna')}, GPSampler, from {seed} results"
    for label, point in zip(labels, proposed, strict=True):
        search.keep(dataset, label, Choice(space.run_at(label, dataset, point), by, point))
    return len(labels)


def accuracies(search: Search, dataset: str, best: str) -> dict[str, float]:
    """Return the test accuracy at seed 0 of what is stored of a group, by label."""
    finals = readings.read(search, dataset=dataset).finals
    if finals.empty:
        return {}
    first = finals[finals.seed == 0].set_index("label").test_accuracy
    return {label: float(first[label]) for label in search.groups[best] if label in first}


def propose(
    levels: Sequence[int | None], tried: list[tuple[Point, float]], count: int, seed: int
) -> list[Point]:
    """Return points of the unit cube to try next.

    Args:
        levels: of each axis, how many values it takes; None if it is continuous.
        tried: points, and the accuracy at each.
        count: how many to propose.
        seed: of the sampler; the same history and seed give the same points on one machine.

    Raises:
        UserError: Optuna or torch is not installed.
    """
    try:
        import optuna
        import torch  # noqa: F401  the sampler's own need: said here, before anything is done
    except ModuleNotFoundError as error:
        raise UserError(
            f"what a search tries next is proposed with the help of {error.name}, which is not "
            "installed here: `make search` goes on in an environment that has it"
        ) from None
    from optuna.distributions import FloatDistribution, IntDistribution
    from optuna.trial import create_trial

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes = {
        f"{number:02d}": FloatDistribution(0, 1) if of is None else IntDistribution(0, of - 1)
        for number, of in enumerate(levels)
    }
    sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for point, accuracy in tried:
        numbers = [
            place if of is None else math.floor(place * of)
            for place, of in zip(point, levels, strict=True)
        ]
        study.add_trial(
            create_trial(
                params=dict(zip(axes, numbers, strict=True)),
                distributions=axes,
                # The logarithm of the error: what tells 98 % from 99 %, and a failed run from no
                # other in particular.
                value=-math.log(max(1 - accuracy, 1e-4)),
            )
        )
    asked = [study.ask(axes).params for _ in range(count)]
    return [
        tuple(
            params[name] if of is None else (params[name] + 0.5) / of
            for name, of in zip(axes, levels, strict=True)
        )
        for params in asked
    ]
