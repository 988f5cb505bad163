"""The factorial: activation, loss and mechanism crossed, at a true ε of 3.

All on one network, that of backpropagation clipping, which has no biases, by SGD. A cell's best
rate is searched on held-out examples, and trained on all with three seeds.
"""

from functools import partial
from itertools import product

from dpstudy.lab.search import FollowUp
from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.mechanism import AutomaticClipping, FlatClipping
from dpstudy.parts.networks.activation import TANH, Relu
from dpstudy.parts.run import Run, vary
from under_the_clip.designs import EPSILON, on_all, rate_search, with_rate
from under_the_clip.leaderboard.experiments import (
    BEST_TEMPERED,
    CLIPS,
    FILTER,
    clipped_inside,
    end_to_end,
)
from under_the_clip.losing_less.experiments import COMPOSITE
from under_the_clip.networks import BackpropMnist

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
EXPERIMENTS = (FACTORIAL,)
