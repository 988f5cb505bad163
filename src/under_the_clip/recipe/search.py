"""The recipe's settings, searched on each dataset, and what it reaches at four ε.

Seven exponents of whitening, from none to all, at three learning rates each, with 10,000 training
examples held out, with the noise of ε = 3; without whitening the largest of the three is the best,
so that two larger ones are tried. At the other ε the three exponents in the middle are searched, at
rates in proportion to ε, as noise is in inverse proportion. Where the best has the smallest rate,
smaller ones are tried. The best at each ε is trained on all examples with five seeds, of synthetic
images, filters, sampling and noise together.

The recipe was changed twice after its test accuracy had been seen: a first version, with one rate
for every ε and one grid of regions for three, was tested on CIFAR-10 at four ε (`FIRST_TESTED`),
and on MNIST digits as they lean were tested at four ε and missed the floor of 98.8 % at ε = 3, with
98.67 %, before they were made upright and tested again; all that had been searched on them is kept
as a search of its own. Each choice itself was made by examples held out, and from now on a changed
recipe is chosen by these alone and tested once.
"""

from functools import partial
from itertools import product

from dpstudy.lab.search import FollowUp, Search
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import EPSILONS, recipe
from under_the_clip.designs import BEYOND, EPSILON, MULTIPLES, on_all, with_rate

DATASETS = ("cifar-10", "fashion-mnist", "mnist")
EXPONENTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
# Test accuracy on CIFAR-10 of the first version that was tested, seed 0, by ε. Its runs were taken
# out of the store when the recipe changed: they are in the repository's history, at 0ad2513.
FIRST_TESTED = {1.0: 0.6779, 2.0: 0.7410, EPSILON: 0.7595, 8.0: 0.7789}
# Those tried at an ε other than `EPSILON`.
_MIDDLE = (0.3, 0.4, 0.5)


def label_of(exponent: float, multiple: float, epsilon: float = EPSILON) -> str:
    """Return the label of a setting, its rate as a multiple of the recipe's at that ε."""
    setting = f"exponent {exponent:g}, rate x {multiple:g}"
    return setting if epsilon == EPSILON else f"epsilon {epsilon:g}, {setting}"


def _run(start: Run, exponent: float, multiple: float, epsilon: float = EPSILON) -> Run:
    return with_rate(vary(start, exponent=exponent), multiple * epsilon / EPSILON, epsilon)


def multiples_of(exponent: float) -> tuple[float, ...]:
    """Return the multiples of the recipe's rate that are tried with an exponent."""
    return (*MULTIPLES, 4.0, 8.0) if exponent == 0 else MULTIPLES


# By ε and label, exponent, multiple of the recipe's rate, and ε, of what is searched there.
_SEARCHED = {
    epsilon: {
        label_of(*setting): setting
        for exponent in (EXPONENTS if epsilon == EPSILON else _MIDDLE)
        for setting in product((exponent,), multiples_of(exponent), (epsilon,))
    }
    for epsilon in EPSILONS
}
SETTINGS = _SEARCHED[EPSILON]


def _search(name: str, title: str, starts: dict[str, Run]) -> Search:
    """Return the search from a run on each dataset, before exponent and rate are set."""
    return Search(
        name=name,
        title=title,
        variants={
            label: tuple(_run(start, *setting) for start in starts.values())
            for settings in _SEARCHED.values()
            for label, setting in settings.items()
        },
        seeds=dict.fromkeys(starts, 1),
        groups={
            f"best at epsilon {epsilon:g}": tuple(settings)
            for epsilon, settings in _SEARCHED.items()
        },
        best_seeds=0,
        beyond=BEYOND,
        then={
            f"epsilon {epsilon:g}": FollowUp(
                f"best at epsilon {epsilon:g}", partial(on_all, epsilon), seeds=5
            )
            for epsilon in EPSILONS
        },
        in_smoke=(label_of(0.4, 1.0),),
    )


RECIPE_SEARCH = _search(
    "recipe-search",
    "The recipe: exponents of whitening and learning rates, and the best at four epsilons",
    {dataset: recipe(dataset) for dataset in DATASETS},
)
RECIPE_SLANTED = _search(
    "recipe-slanted",
    "The recipe on digits as they lean: the same search",
    {"mnist": vary(recipe("mnist"), deslanted=False)},
)
EXPERIMENTS = (RECIPE_SEARCH, RECIPE_SLANTED)
