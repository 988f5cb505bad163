"""relu and tanh: accuracy with and without privacy, what clipping sees of them, and by class."""

from __future__ import annotations

from functools import partial

import pandas as pd

from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import Figure, Note, Table, not_yet_run
from dpstudy.page.gains import gains, gains_of
from dpstudy.page.results import lines_of
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids.cifar_10 import CIFAR_10_RATES
from under_the_clip.tempered_sigmoids.experiments import BASE, FIGURE_3
from under_the_clip.tempered_sigmoids.published import ACCURACIES, NUMBERS
from under_the_clip.tempered_sigmoids.searches import TABLE_3_SEARCH

STYLE = {"relu": 1, "tanh": 0}
SHARED, OWN = "one setting for both", "each at its own best"
HIGHER = "four times the rate, one seed"
_GAINS = {"published": 2, SHARED: 1, OWN: 0, HIGHER: 4}

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
