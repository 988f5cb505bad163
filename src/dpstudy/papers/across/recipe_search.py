"""The recipe's settings, searched on each dataset, and what it reaches at four ε.

Seven exponents of whitening, from none to all, at three learning rates each, with 10,000 training
examples held out, with the noise of ε = 3. So the search also says what whitening is worth, and
what the settings that one dataset chooses are worth on another. The best is trained on all examples
with five seeds, of synthetic images, filters, sampling and noise together.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from dpstudy.lab.search import Search, Then
from dpstudy.papers.across.leaderboard import MULTIPLES, on_all, with_rate
from dpstudy.papers.across.recipe import recipe
from dpstudy.parts.run import Run, vary

DATASETS = ("cifar-10", "fashion-mnist", "mnist")
EXPONENTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
EPSILONS = (3.0, 1.0, 2.0, 8.0)


def label_of(exponent: float, multiple: float) -> str:
    """Return the label of a setting, its rate as a multiple of the recipe's."""
    return f"exponent {exponent:g}, rate x {multiple:g}"


def _run(dataset: str, exponent: float, multiple: float) -> Run:
    return with_rate(vary(recipe(dataset), exponent=exponent), multiple)


# By label, its exponent and its multiple of the recipe's rate.
SETTINGS = {label_of(*setting): setting for setting in product(EXPONENTS, MULTIPLES)}
_GRID = {
    label: tuple(_run(dataset, *setting) for dataset in DATASETS)
    for label, setting in SETTINGS.items()
}
RECIPE_SEARCH = Search(
    name="recipe-search",
    title="The recipe: seven exponents of whitening, three rates, and the best at four epsilons",
    variants=_GRID,
    seeds=dict.fromkeys(DATASETS, 1),
    groups={"best": tuple(_GRID)},
    best_seeds=0,
    then={
        f"epsilon {epsilon:g}": Then("best", partial(on_all, epsilon), seeds=5)
        for epsilon in EPSILONS
    },
    in_smoke=(label_of(0.4, 1.0),),
)
EXPERIMENTS = (RECIPE_SEARCH,)
