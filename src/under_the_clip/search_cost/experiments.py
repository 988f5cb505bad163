"""The board at ε = 3 in all: methods whose search is paid for, and the recipe, which pays nothing.

A trial draws one of three learning rates at random, trains on all but 10,000 examples, and is
scored on these; three trials in the mean, by the logarithmic law, and the best is released, as it
is: it is not trained again on all examples. So every rate is run at the noise of one trial, and
what is released follows by chance of rank (`released.expected`). An example is trained on or held
out: its score costs nothing more as long as the count of right answers gets noise that costs no
more than a trial (a deviation of two answers in 10,000 is enough).

Rates are those of the leaderboard, in proportion to what noise there is less; none beyond the list,
which has to be fixed before. Beside them the recipe with the settings that were searched on another
dataset: it pays for no search on this one. It too trains on what is not held out, with the noise
for ε = 3 on so many examples, so that both are compared on the same images.
"""

from dpstudy.lab.experiment import Experiment
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.run import recipe
from under_the_clip.designs import EPSILON, HELD_OUT, MULTIPLES, at_epsilon
from under_the_clip.leaderboard.experiments import RECIPE, methods

MEAN, LAW = 3, "logarithmic"
METHODS = ("relu", "tanh", "composite loss", "automatic clipping", "scattering, linear", RECIPE)
# Networks take too long on photographs: the recipe alone.
METHODS_ON = {"mnist": METHODS, "fashion-mnist": METHODS, "cifar-10": (RECIPE,)}
# The least noise with which the best of three trials in the mean costs ε = 3, by PLD, by examples
# that are not held out, batch and epochs. Typed in, as `designs.NOISE`; the recipe's releases a
# mean before.
NOISE_IN_ALL = {
    (50_000, 1024, 40): 1.7103,
    (50_000, 4096, 40): 3.1693,
    (50_000, 8192, 60): 5.3742,
    (40_000, 8192, 60): 6.1134,
}
# Exponent of whitening and learning rate, as the recipe's search chose them on another dataset.
_OF_CIFAR_10, _OF_FASHION_MNIST = (0.4, 40.0), (0.3, 40.0)
BORROWED = {"mnist": _OF_CIFAR_10, "fashion-mnist": _OF_CIFAR_10, "cifar-10": _OF_FASHION_MNIST}


def label_of(method: str, multiple: float) -> str:
    """Return the label of a method at a multiple of its rate."""
    return f"{method}, rate x {multiple:g}"


def trial(dataset: str, method: str, multiple: float) -> Run:
    """Return one trial of a method, at the noise that leaves room for the search."""
    run = recipe(dataset) if method == RECIPE else methods(dataset)[method]
    alone = at_epsilon(EPSILON, run).mechanism.noise_multiplier
    run = vary(run, held_out=HELD_OUT)
    noise = NOISE_IN_ALL[run.dataset.examples, run.sampling.batch, run.epochs]
    rate = multiple * run.optimizer.learning_rate * alone / noise
    return vary(run, noise_multiplier=noise, learning_rate=rate)


def borrowed(dataset: str) -> Run:
    """Return the recipe at ε = 3 on what is not held out, with another dataset's settings."""
    exponent, rate = BORROWED[dataset]
    run = vary(recipe(dataset), exponent=exponent, learning_rate=rate, held_out=HELD_OUT)
    return at_epsilon(EPSILON, run)


PAID = Experiment(
    name="search-cost-paid",
    title="Methods whose search for a rate is paid for, ε = 3 in all",
    variants={
        label_of(method, by): tuple(
            trial(dataset, method, by) for dataset, of in METHODS_ON.items() if method in of
        )
        for method in METHODS
        for by in MULTIPLES
    },
    seeds=dict.fromkeys(METHODS_ON, 2),
    in_smoke=(label_of("tanh", 1.0),),
)
BORROWING = Experiment(
    name="search-cost-borrowed",
    title="The recipe with settings searched on another dataset, ε = 3 in all",
    variants={"recipe, borrowed settings": tuple(map(borrowed, BORROWED))},
    seeds=dict.fromkeys(BORROWED, 2),
)
EXPERIMENTS = (PAID, BORROWING)
