"""The board: every method at one true ε, in the order that the data can tell."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.lab.comparison import CONFIDENCE
from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES
from under_the_clip.leaderboard.experiments import EPSILONS, methods
from under_the_clip.leaderboard.experiments import ON_CIFAR_10 as REMEDIES_ON_CIFAR_10
from under_the_clip.leaderboard.published import OF_METHODS
from under_the_clip.losing_less.experiments import FIGURE_3, FIGURE_4, ON_FEATURES_LINEAR
from under_the_clip.recipe.second_edition import RECIPE_SECOND
from under_the_clip.recipe.third_edition import edition_on
from under_the_clip.tempered_sigmoids.experiments import CIFAR_10_RATES

# What the chapters have of CIFAR-10 at an ε of at most 3, by method.
ON_CIFAR_10 = {
    "recipe": (edition_on("cifar-10"), "epsilon 3"),
    "relu": (CIFAR_10_RATES, "relu, epsilon 3"),
    "tanh": (CIFAR_10_RATES, "tanh, epsilon 3"),
    "tanh, network of losing less": (FIGURE_3, "cross-entropy"),
    "composite loss, network of losing less": (FIGURE_3, "composite"),
    **{name: (REMEDIES_ON_CIFAR_10, name) for name in REMEDIES_ON_CIFAR_10.then},
    "scattering, convolutions": (FIGURE_4, "cross-entropy"),
    "scattering, convolutions, composite": (FIGURE_4, "composite"),
    "scattering, linear": (ON_FEATURES_LINEAR, "cross-entropy"),
}
# What stands on each board beside the methods whose rates were searched for it.
SECOND = "recipe, second edition"
# The least seeds that have a place.
_SEEDS = 3


def lines_at(reading: Reading, epsilon: float) -> list[Variant]:
    """Return a line for each method that is stored at an ε."""
    [dataset] = reading.experiment.datasets
    lines = [
        Variant(
            reading,
            f"{name}, epsilon {epsilon:g}",
            name,
            number % len(STYLES),
            _published(dataset, name, epsilon),
        )
        for number, name in enumerate(methods(dataset))
    ]
    second = read(RECIPE_SECOND, dataset=dataset)
    lines.append(Variant(second, f"epsilon {epsilon:g}", SECOND, len(lines) % len(STYLES)))
    return [line for line in lines if len(line.results) >= _SEEDS]


def _published(dataset: str, method: str, epsilon: float) -> Accuracy | None:
    """Return what a method's paper states, where of the board's ε this is nearest to its own."""
    stated = OF_METHODS.get((dataset, method))
    if stated is None:
        return None
    apart = {one: abs(math.log(one / stated.claimed_epsilon)) for one in EPSILONS[dataset]}
    return stated if min(apart, key=apart.__getitem__) == epsilon else None


def ranks(accuracies: Sequence[pd.Series]) -> list[int]:
    """Return the rank of each method: one more than the number of those that are surely better.

    Surely: the interval of the difference of means is above 0, where the intervals of all pairs
    hold together with 95 % confidence, by the test of Games and Howell, whatever the variances.
    But none with a smaller mean has a smaller rank: one with a wild seed may be surely worse than
    none.
    """
    if len(accuracies) < 2:
        return [1] * len(accuracies)
    seeds, mean, error = np.transpose([(len(of), of.mean(), of.sem() ** 2) for of in accuracies])
    both = error[:, None] + error
    freedom = both**2 / np.add.outer(*[error**2 / (seeds - 1)] * 2)
    lead = (mean[:, None] - mean) / np.sqrt(both / 2)
    # Most leads are above what the least degrees of freedom ask for, or below what the most do:
    # a p-value for each pair takes seconds.
    least = functools.partial(stats.studentized_range.ppf, CONFIDENCE, len(mean))
    sure = lead > least(freedom.min())
    near = (lead > least(np.inf)) & ~sure
    sure[near] = stats.studentized_range.sf(lead[near], len(mean), freedom[near]) < 1 - CONFIDENCE
    surely_below = 1 + sure.sum(axis=0)
    best_first = np.argsort(-mean, kind="stable")
    found = np.empty(len(accuracies), int)
    found[best_first] = np.maximum.accumulate(surely_below[best_first])
    return found.tolist()


def cost(costs: dict[str, Any] | None, method: str) -> dict[str, float]:
    """Return what a run of a method takes on one core, NaN where that was not timed."""
    timed = costs or {"minutes": {}, "peak_megabytes": {}}
    minutes = timed["minutes"].get(method, math.nan)
    memory = timed["peak_megabytes"].get(method, math.nan)
    return {"minutes": minutes, "GB": memory / 1000}


def lines_on_cifar_10() -> list[Variant]:
    """Return what the chapters have of CIFAR-10 at an ε of at most 3, the best first."""
    lines = [
        Variant(read(experiment, dataset="cifar-10"), label, method)
        for method, (experiment, label) in ON_CIFAR_10.items()
    ]
    found = [line for line in lines if len(line.results)]
    return sorted(found, key=lambda line: -line.accuracy.median())
