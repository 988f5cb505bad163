"""Every method at one true ε, each at its own best rate; and the remedies crossed.

What a remedy adds is set as its chapter found best, by test accuracy, or as its paper prints it;
the filter's active range so that it still filters. Rates are tried with the noise of each ε and in
inverse proportion to it; the recipe's as in its own search, whose runs these are.
"""

from dataclasses import replace
from functools import partial
from itertools import product

from dpstudy.lab.search import FollowUp, Search
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.scattering import Scattering
from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping, Mechanism
from dpstudy.parts.networks.activation import TANH, Relu, Tempered
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.optimizer import Adam, Sgd
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson
from dpstudy.recipe.run import recipe
from under_the_clip.backpropagation_clipping.mechanism import BackpropagationClipping
from under_the_clip.designs import EPSILON, at_epsilon, on_all, rate_search, with_rate
from under_the_clip.losing_less.experiments import BASE, COMPOSITE
from under_the_clip.networks import BackpropMnist, ScatteringLinearMnist, ScatteringMnist
from under_the_clip.tanh_filter.mechanism import FilteredThenClipped
from under_the_clip.tempered_sigmoids.published import BEST_TRIPLETS

EPSILONS = {"mnist": (3.0, 1.0), "fashion-mnist": (3.0, 1.0, 8.0)}

# The best of Figure 2 of tempered sigmoids, as its chapter has it stored.
BEST_TEMPERED = {
    "mnist": Tempered(scale=2.85, inverse_temperature=1.95, offset=1.78),
    "fashion-mnist": Tempered(scale=2.08, inverse_temperature=2.24, offset=0.57),
}
# From an active range of 1 on the filter with a clip is flat clipping; with 0.001 it loses.
FILTER = FilteredThenClipped(active_range=0.1)
# Bounds of its chapter's search.
CLIPS = BackpropagationClipping(input_bound=3.77, upstream_bound=0.0046)
# About which learning rates are tried.
RATES = {"mnist": 1.0, "fashion-mnist": 2.0}
# The noise of flat clipping over that of clips inside backpropagation, at the same σ.
LESS_NOISE = 2.9


def end_to_end(dataset: str, mechanism: Mechanism | None = None) -> Run:
    """Return plain DP-SGD on pixels with tanh: C = 0.1, momentum 0.9."""
    return Run(
        dataset=Images(dataset),
        network=SmallCnn(TANH),
        mechanism=mechanism or FlatClipping(clip_norm=0.1),
        sampling=Poisson(1024),
        optimizer=Sgd(RATES[dataset]),
    )


def clipped_inside(dataset: str) -> Run:
    """Return the corrected backpropagation clipping, with relu as in its chapter, and SGD."""
    run = vary(end_to_end(dataset, CLIPS), network=BackpropMnist(Relu()))
    return vary(run, learning_rate=LESS_NOISE * RATES[dataset])


def on_scattering(dataset: str, linear: bool) -> Run:
    """Return a network on scattering features, with Tramèr and Boneh's batches on MNIST."""
    run = vary(end_to_end(dataset), dataset=Scattering(dataset))
    if linear:
        return vary(run, network=ScatteringLinearMnist(), batch=4096, learning_rate=8.0)
    return vary(run, network=ScatteringMnist())


RECIPE = "recipe, exponent 0.4"


def methods(dataset: str) -> dict[str, Run]:
    """Return every method on a dataset, before its rate is searched."""
    plain, inside = end_to_end(dataset), clipped_inside(dataset)
    composite = COMPOSITE[dataset]
    # The part that turns from squared error to cross-entropy.
    turn = replace(composite, focusing=0.0, penalised=False)
    return {
        "relu": vary(plain, activation=Relu()),
        "tanh": plain,
        "best tempered sigmoid": vary(plain, activation=BEST_TEMPERED[dataset]),
        "composite loss": vary(plain, loss=composite),
        "squared error, then cross-entropy": vary(plain, loss=turn),
        "clips inside backpropagation, Adam": vary(inside, optimizer=Adam(0.0025)),
        "clips inside backpropagation, SGD": inside,
        "tanh filter, then clipped": end_to_end(dataset, FILTER),
        "automatic clipping": end_to_end(dataset, AutomaticClipping(clip_norm=0.1)),
        "scattering, convolutions": on_scattering(dataset, linear=False),
        "scattering, linear": on_scattering(dataset, linear=True),
        RECIPE: recipe(dataset),
    }


def _scale(name: str, run: Run, epsilon: float) -> float:
    """Return by what a method's rates change from `EPSILON` to another ε."""
    if name == RECIPE:
        return epsilon / EPSILON
    at_3, here = (at_epsilon(one, run).mechanism.noise_multiplier for one in (EPSILON, epsilon))
    return at_3 / here


def _leaderboard(dataset: str) -> Search:
    at = {
        f"{name}, epsilon {epsilon:g}": (run, epsilon, _scale(name, run, epsilon))
        for epsilon in EPSILONS[dataset]
        for name, run in methods(dataset).items()
    }
    return rate_search(
        {label: (with_rate(run, scale, epsilon),) for label, (run, epsilon, scale) in at.items()},
        name=f"leaderboard-{dataset}",
        title="Every method at one true epsilon, each at its own best rate",
        best_seeds=0,
        then={
            label: FollowUp(f"{label}, best", partial(on_all, epsilon), seeds=5)
            for label, (_, epsilon, _) in at.items()
        },
        in_smoke=(
            "tanh, epsilon 3, rate x 1",
            "clips inside backpropagation, SGD, epsilon 3, rate x 1",
        ),
    )


BOARDS = tuple(map(_leaderboard, EPSILONS))


def _on_cifar_10() -> dict[str, Run]:
    """Return the remedies on the network of losing less, which takes an hour and more a run."""
    plain = vary(BASE["cifar-10"], mechanism=FlatClipping(clip_norm=0.1))
    return {
        # Of its paper: of Figure 2 too little is stored there.
        "best tempered sigmoid": vary(plain, activation=Tempered(*BEST_TRIPLETS["cifar-10"])),
        "composite loss": vary(plain, loss=COMPOSITE["cifar-10"]),
        "tanh filter, then clipped": vary(plain, mechanism=FILTER),
        "automatic clipping": vary(plain, mechanism=AutomaticClipping(clip_norm=0.1)),
    }


# What the board of CIFAR-10 has of them, at its one ε; all else there is of the chapters.
ON_CIFAR_10 = rate_search(
    {name: (with_rate(run, 1.0),) for name, run in _on_cifar_10().items()},
    name="leaderboard-cifar-10",
    title="Four remedies on CIFAR-10 at one true epsilon, each at its own best rate",
    best_seeds=0,
    then={
        name: FollowUp(f"{name}, best", partial(on_all, EPSILON), seeds=3)
        for name in _on_cifar_10()
    },
    in_smoke=("composite loss, rate x 1",),
)

# --- The factorial: activation, loss and mechanism crossed, at a true ε of 3 ----------------------

# All on one network, that of backpropagation clipping, which has no biases, by SGD. A cell's best
# rate is searched on held-out examples, and trained on all with three seeds.
ACTIVATIONS = ("relu", "tanh", "tempered")
LOSSES = ("cross-entropy", "composite")
MECHANISMS = {
    "flat": FlatClipping(clip_norm=0.1),
    "filter": FILTER,
    "automatic": AutomaticClipping(clip_norm=0.1),
    "inside": CLIPS,
}
CELLS = tuple(product(ACTIVATIONS, LOSSES, MECHANISMS))
DATASETS = ("fashion-mnist", "mnist")


def label_of(cell: tuple[str, str, str]) -> str:
    """Return a cell's name: its activation, its loss and its mechanism."""
    return " / ".join(cell)


def run_of(dataset: str, cell: tuple[str, str, str]) -> Run:
    """Return the run of a cell, before its rate is searched."""
    activation, loss, mechanism = cell
    activations = {"relu": Relu(), "tanh": TANH, "tempered": BEST_TEMPERED[dataset]}
    losses = {"cross-entropy": CrossEntropy(), "composite": COMPOSITE[dataset]}
    plain = vary(end_to_end(dataset), network=BackpropMnist(), mechanism=MECHANISMS[mechanism])
    run = clipped_inside(dataset) if mechanism == "inside" else plain
    # Half of the steps of the leaderboard.
    run = vary(run, epochs=20, learning_rate=2 * run.optimizer.learning_rate)
    return vary(run, activation=activations[activation], loss=losses[loss])


FACTORIAL = rate_search(
    {
        label_of(cell): tuple(with_rate(run_of(dataset, cell), 1.0) for dataset in DATASETS)
        for cell in CELLS
    },
    name="factorial",
    title="Activation, loss and mechanism crossed, each cell at its best rate, ε = 3",
    best_seeds=0,
    then={
        label_of(cell): FollowUp(f"{label_of(cell)}, best", partial(on_all, EPSILON), seeds=3)
        for cell in CELLS
    },
    in_smoke=("relu / cross-entropy / flat, rate x 1", "tanh / composite / filter, rate x 1"),
)
EXPERIMENTS = (*BOARDS, ON_CIFAR_10, FACTORIAL)
