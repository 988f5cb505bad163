"""relu and tanh: accuracy with and without privacy, what clipping sees of them, and by class."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd

from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page import quantity
from dpstudy.page.curves import curves
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Figure, Note, Table, not_yet_run
from dpstudy.page.gains import gains, gains_of
from dpstudy.page.published import lines_of
from dpstudy.page.results import results
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.measure import EXAMPLES
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids.cifar_10 import CIFAR_10_RATES
from under_the_clip.tempered_sigmoids.experiments import BASE, FIGURE_3
from under_the_clip.tempered_sigmoids.figures.classes import classes
from under_the_clip.tempered_sigmoids.published import ACCURACIES, NUMBERS
from under_the_clip.tempered_sigmoids.searches import TABLE_3_SEARCH

STYLE = {"relu": 1, "tanh": 0}
SCENARIOS = {
    "relu, private": 1,
    "tanh, private": 0,
    "relu, not private": 4,
    "tanh, not private": 3,
}
SHARED, OWN = "one setting for both", "each at its own best"
HIGHER = "four times the rate, one seed"
_GAINS = {"published": 2, SHARED: 1, OWN: 0, HIGHER: 4}
# What is published for each variant of the tutorial's settings: its accuracy, epsilon, and where.
_TUTORIAL = {
    "relu": ("mnist, DP-SGD, relu", "mnist, epsilon", "Table 3"),
    "relu, He": ("mnist, DP-SGD, relu", "mnist, epsilon", "Table 3"),
    "as scripted": ("baseline, in the tutorial", "epsilon of the tutorial", "tutorial"),
    "relu, later": ("relu, in the later tutorial", "epsilon of the later tutorial", "later one"),
    "tanh": ("mnist, DP-SGD, tanh", "mnist, epsilon", "text on Figure 3"),
}

_SETTINGS = {
    "clipping norm C": "clip_norm",
    "noise multiplier σ": "noise_multiplier",
    "expected batch size": "batch",
    "epochs": "epochs",
    "learning rate": "learning_rate",
    "momentum": "momentum",
}

relu_and_tanh = partial(lines_of, styles=STYLE, accuracies=ACCURACIES)


def all_gains() -> list[dict[str, object]]:
    """Return what tanh gains over relu, published and found, a row a dataset and comparison."""
    rows = []
    for dataset in FIGURE_3.datasets:
        relu, tanh = (f"{dataset}, DP-SGD, {name}" for name in ("relu", "tempered sigmoid"))
        rows += gains_of(dataset, (NUMBERS[relu], NUMBERS[tanh]), _compared(dataset))
    return rows


def _compared(dataset: str) -> dict[str, list[Variant]]:
    """Return relu and tanh at one setting, and where each has its own, as far as that is run."""
    shared = {SHARED: relu_and_tanh(read(FIGURE_3, dataset=dataset))}
    if dataset != "cifar-10":
        search = read(TABLE_3_SEARCH, dataset=dataset)
        return shared | {OWN: relu_and_tanh(search, label="{}, private, best")}
    rates = read(CIFAR_10_RATES)
    own = relu_and_tanh(rates, label="{}, best")
    if all(len(line.results) for line in own):
        return shared | {OWN: own}
    return shared | {HIGHER: relu_and_tanh(rates, label="{}, rate 4")}


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: what tanh gains over relu, by dataset."""
    rows = all_gains()
    if {row["comparison"] for row in rows} == {"published"}:
        return not_yet_run("What tanh gains", f"dpstudy run {FIGURE_3.name}")
    return gains(
        rows,
        _GAINS,
        name="tempered-sigmoids-in-short",
        caption=(
            "What tanh gains over relu under DP-SGD. Lines: 95 % intervals over seeds. On MNIST "
            "and Fashion-MNIST each activation's own best is that of a search of 24 settings."
        ),
        axis="points of test accuracy that tanh gains over relu, at the quoted ε",
    )


@for_each_dataset("Table 3")
def table_3(private: Reading, not_private: Reading, calibrated: Reading) -> Table:
    """Return Table 3, the text on Figures 2 and 3, and Figure 3 at the noise that PLD asks for."""
    over = {f"{method}, tanh": f"{method}, relu" for method in ("SGD", "DP-SGD")}
    over |= {f"DP-SGD, {name}, less noise": f"DP-SGD, {name}" for name in STYLE}
    return results(
        [
            *relu_and_tanh(not_private, title="SGD, {}", method="SGD, {}"),
            *relu_and_tanh(private, title="DP-SGD, {}", method="DP-SGD, {}"),
            *relu_and_tanh(calibrated, title="DP-SGD, {}, less noise"),
        ],
        "Gains: of tanh over relu; of less noise, what PLD asks for at the quoted ε, over the "
        "noise of Figure 3.",
        name="tempered-sigmoids-table-3",
        shown="test accuracy at the last epoch, published and ours",
        over=over,
    )


@for_each_dataset("The paper's baseline")
def baseline(reading: Reading) -> Table:
    """Return what the settings of the tutorial come to that the paper's baseline is from."""
    lines, on_mnist = [], reading.dataset_name == "mnist"
    for label, (*names, where) in _TUTORIAL.items():
        accuracy, spent = (NUMBERS[name] for name in names)
        source = replace(accuracy.source, where=where)
        theirs = Accuracy("mnist", label, accuracy.value, spent.value, source)
        lines.append(Variant(reading, label, published=theirs if on_mnist else None))
    return results(
        lines,
        "Gain: of tanh over relu. As scripted: without an activation, initial weights as He et al.",
        name="tempered-sigmoids-tutorial",
        shown="test accuracy in the settings of the paper's baseline",
        over={"tanh": "relu"},
        settings=(quantity.LEARNING_RATE, quantity.Quantity("noise_multiplier", "σ", "{:g}")),
    )


@for_each_dataset("Shuffled batches")
def poisson_and_shuffled(shuffled: Reading, poisson: Reading) -> Table:
    """Return the same runs with shuffled batches and with Poisson sampling, and their epsilons."""
    return results(
        [
            *relu_and_tanh(poisson, title="Poisson, {}", method="DP-SGD, {}"),
            *relu_and_tanh(shuffled, title="shuffled, {}", method="DP-SGD, {}"),
        ],
        "The ε of shuffled batches are for one example blanked, and proven without amplification.",
        name="tempered-sigmoids-shuffled",
        shown="test accuracy with Poisson sampling and shuffled batches",
    )


def settings(dataset: str | None = None) -> Table:
    """Return the settings of the private runs, of all datasets or of one."""
    data = pd.DataFrame({"setting": list(_SETTINGS)})
    for name in BASE if dataset is None else (dataset,):
        data[DATASETS[name]] = [setting(BASE[name], field) for field in _SETTINGS.values()]
    return Table(
        name="tempered-sigmoids-settings",
        data=data,
        formats=dict.fromkeys(data.columns[1:], "{:g}"),
        caption=(
            "The private runs: Table 5 of Losing less, but for the noise on CIFAR-10, lowered to "
            "what costs the quoted ε by the accounting of the paper's time. Pixels are in [0, 1], "
            "those of CIFAR-10 then normalised by ImageNet's colours, public constants."
        ),
    )


@for_each_dataset("Figure 3")
def accuracy_against_epsilon(reading: Reading) -> Figure | Note:
    """Draw test accuracy against epsilon, relu and tanh (Figure 3)."""
    return curves(
        relu_and_tanh(reading, method="DP-SGD, {}"),
        quantity.ACCURACY,
        along=quantity.EPSILON,
        name="tempered-sigmoids-figure-3",
        shown="test accuracy against ε",
    )


@for_each_dataset("The gradient norms")
def gradient_norms(reading: Reading) -> Figure | Note:
    """Draw the mean norm of the per-example gradients, and how many are clipped, by epoch."""
    return curves(
        relu_and_tanh(reading),
        quantity.GRADIENT_NORM,
        quantity.CLIPPED,
        name="tempered-sigmoids-gradient-norms",
        shown="per-example gradients before clipping, mean norm and fraction clipped",
    )


@for_each_dataset("The norms in four scenarios")
def norms(reading: Reading) -> Figure | Note:
    """Draw the norms of gradients and of first activations, in four scenarios (Figures 4, 5)."""
    return curves(
        lines_of(reading, SCENARIOS),
        quantity.NORM_OF_GRADIENTS,
        quantity.NORM_OF_ACTIVATIONS,
        name="tempered-sigmoids-figures-4-5",
        shown=(
            "mean norm of a gradient before clipping, and of what the first layer's activation "
            f"puts out, over the same {EXAMPLES:,} training examples"
        ),
    )


@for_each_dataset("The accuracy by class")
def class_accuracy(reading: Reading) -> Figure | Note:
    """Draw the accuracy of each class, and say how far the classes spread (Broader Impact)."""
    return classes(
        relu_and_tanh(reading),
        name="tempered-sigmoids-class-accuracy",
        shown="test accuracy of each class at the last epoch",
    )
