"""The recipe's second edition: a search of its settings on held-out images, then the test set once.

What the blocks are made of was looked for by hand, on the 10,000 held-out images of CIFAR-10 and
Fashion-MNIST, one seed, at a quarter of the filters: which views, how long a clip. No test image
was looked at. This search, which decides, has three shares of the second layer (a tenth is colours,
on photographs), two exponents of whitening and three rates, at ε = 3. The best is trained on all
examples with five seeds at each ε, its rate in proportion to ε as the first edition's search found
it to be best: there the test set is used for the first and only time.
"""

from dataclasses import replace
from itertools import product

from dpstudy.lab.search import FollowUp, Search
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import EPSILONS, second_edition
from under_the_clip.designs import BEYOND, EPSILON, MULTIPLES, on_all, with_rate
from under_the_clip.recipe.search import DATASETS

SHARES, EXPONENTS = (0.2, 0.35, 0.5), (0.3, 0.4)
BEST = "best at epsilon 3"


def _label(share: float, exponent: float, multiple: float) -> str:
    return f"second layer {share:g}, exponent {exponent:g}, rate x {multiple:g}"


def _mixed(dataset: str, share: float, exponent: float) -> Run:
    """Return the second edition with a share of the second layer, and one exponent for all."""
    run = second_edition(dataset)
    features = run.dataset
    patches, second, *colours = (replace(one, exponent=exponent) for one in features.blocks)
    rest = features.shares[2:]
    # Rounded: what is stored of a run names it.
    shares = (round(1 - share - sum(rest), 4), share, *rest)
    return vary(run, dataset=replace(features, blocks=(patches, second, *colours), shares=shares))


def _at(epsilon: float, best: Run) -> Run:
    rate = best.optimizer.learning_rate * epsilon / EPSILON
    return on_all(epsilon, vary(best, learning_rate=rate))


RECIPE_SECOND = Search(
    name="recipe-second",
    title="The recipe's second edition: shares, exponents and rates, and the best at four epsilons",
    variants={
        _label(*setting): tuple(
            with_rate(_mixed(dataset, *setting[:2]), setting[2]) for dataset in DATASETS
        )
        for setting in product(SHARES, EXPONENTS, MULTIPLES)
    },
    seeds=dict.fromkeys(DATASETS, 1),
    groups={BEST: tuple(_label(*one) for one in product(SHARES, EXPONENTS, MULTIPLES))},
    best_seeds=0,
    beyond=BEYOND,
    then={
        f"epsilon {epsilon:g}": FollowUp(BEST, lambda best, at=epsilon: _at(at, best), seeds=5)
        for epsilon in EPSILONS
    },
    in_smoke=(_label(0.35, 0.4, 1.0),),
)
EXPERIMENTS = (RECIPE_SECOND,)
