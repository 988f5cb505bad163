"""What searches bring: settings of all kinds (Table 3), learning rates, a triplet for each layer.

The paper does not say by what it chose; here it is by the test accuracy of seed 0.
"""

from __future__ import annotations

from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.page import quantity
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Figure, Table
from dpstudy.page.published import stated
from dpstudy.page.results import results
from dpstudy.page.search import against, techniques, winners
from dpstudy.parts.run import Run
from under_the_clip.tempered_sigmoids.experiments import BATCHES, EPOCHS
from under_the_clip.tempered_sigmoids.figures.accuracy import STYLE, relu_and_tanh
from under_the_clip.tempered_sigmoids.published import ACCURACIES, NUMBERS, TECHNIQUES
from under_the_clip.tempered_sigmoids.searches import SEARCH_RATES, WIDTHS

# Under what names the paper states what the techniques of the search come to.
_TABLE_3 = {
    "relu, private": "DP-SGD, relu",
    "tanh, private": "DP-SGD, tempered sigmoid",
    "relu, not private": "SGD, relu",
    "tanh, not private": "SGD, tanh",
}


@for_each_dataset("The search of Table 3")
def table_3_search(reading: Reading) -> Table:
    """Return the best settings that a search found for relu and tanh (Table 3)."""
    return winners(
        techniques(reading, stated(ACCURACIES, reading, _TABLE_3)),
        "The range says nothing of how lucky a search was, of which there is one a row.",
        settings=(
            quantity.WIDTH,
            quantity.OPTIMIZER,
            quantity.RATE,
            quantity.BATCH,
            quantity.EPOCHS,
        ),
        name="tempered-sigmoids-table-3-search",
        shown="the best settings by test accuracy at seed 0, trained again",
        ranges=_ranges,
    )


def _ranges(run: Run) -> dict[str, tuple[float, float]]:
    """Return between what numbers was searched, where a run was found."""
    levels = {"width": WIDTHS, "batch": BATCHES, "epochs": EPOCHS.get(run.dataset.name, ())}
    ends = {name: (of[0], of[-1]) for name, of in levels.items() if of}
    return ends | {"learning_rate": SEARCH_RATES[run.optimizer.kind, run.private]}


@for_each_dataset("CIFAR-10 at several learning rates")
def cifar_10_rates(reading: Reading) -> Figure:
    """Draw what relu and tanh come to on CIFAR-10 over the learning rate."""
    theirs = stated(ACCURACIES, reading, {name: f"DP-SGD, {name}" for name in STYLE})
    return against(
        techniques(reading, theirs, styles=STYLE),
        quantity.LEARNING_RATE,
        name="tempered-sigmoids-rates",
        shown="test accuracy at the last epoch against the learning rate",
    )


@for_each_dataset("Each at its own rate")
def cifar_10_at_own_rate(private: Reading, free: Reading) -> Table:
    """Return what relu and tanh come to on CIFAR-10, each at its own best rate, at two ε.

    And without privacy, where each has a best rate of its own.
    """
    at = {
        "{}, ε = 7.53": (private, "{}, best"),
        "{}, ε = 3": (private, "{}, epsilon 3"),
        "{}, ε = 3, network of losing less": (private, "{}, epsilon 3, network of Losing less"),
        "{}, without privacy": (free, "{}, best"),
    }
    return results(
        [
            Variant(reading, label.format(name), title.format(name))
            for title, (reading, label) in at.items()
            for name in STYLE
        ],
        "Gains: of tanh over relu.",
        name="tempered-sigmoids-own-rate",
        shown="test accuracy, each activation at its own best rate at ε = 7.53, or without privacy",
        over={title.format("tanh"): title.format("relu") for title in at},
    )


@for_each_dataset("CIFAR-10 with other pixels or another network")
def cifar_10_changes(changed: Reading, private: Reading) -> Table:
    """Return what both activations come to on CIFAR-10, as in Figure 3 and with changes."""
    lines = relu_and_tanh(private, title="{}, as in Figure 3", method="DP-SGD, {}")
    return results(
        [*lines, *(Variant(changed, label) for label in changed.labels)],
        name="tempered-sigmoids-changes",
        shown="test accuracy, as in Figure 3 but for what is named",
    )


@for_each_dataset("The learning rates of Table 4")
def learning_rates(reading: Reading) -> Figure:
    """Draw what learning rates bring, SGD and Adam, with privacy and without (Table 4)."""
    methods = {ours: f"{name}, searched" for name, ours in TECHNIQUES.items()}
    theirs = stated(ACCURACIES, reading, methods)
    at = {
        ours: NUMBERS[f"learning rate, {name}"].value
        for name, ours in TECHNIQUES.items()
        if theirs[ours]
    }
    return against(
        techniques(reading, theirs, at),
        quantity.LEARNING_RATE,
        "The published private rates belong to a clipping norm that the paper does not print.",
        name="tempered-sigmoids-table-4-rates",
        shown="test accuracy of tanh against the learning rate",
    )


@for_each_dataset("The search over layers' triplets")
def layer_wise(reading: Reading) -> Table:
    """Return what the best triplets for each layer, and for all layers, come to (Conclusions)."""
    return winners(
        techniques(reading, {}),
        "Nine numbers are searched as hard as three: more may be found for each layer.",
        settings=(),
        name="tempered-sigmoids-layer-wise",
        shown="the best triplets (s, T, o), by seed 0, trained again",
    )
