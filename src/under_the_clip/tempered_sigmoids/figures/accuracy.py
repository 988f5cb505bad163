"""relu and tanh: accuracy with and without privacy, what clipping sees of them, and by class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.gains import gains, gains_of
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import caption, lines_of
from dpstudy.parts.data.images import CLASSES, DATASETS
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids.experiments import (
    BASE,
    CIFAR_10_RATES,
    FIGURE_3,
    TABLE_3_SEARCH,
)
from under_the_clip.tempered_sigmoids.published import ACCURACIES, NUMBERS

STYLE = {"relu": 1, "tanh": 0}
SHARED, OWN = "one setting for both", "each at its own best"
_GAINS = {"published": 2, SHARED: 1, OWN: 0}

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
    shared = {SHARED: relu_and_tanh(read(FIGURE_3, dataset=dataset))}
    if dataset != "cifar-10":
        search = read(TABLE_3_SEARCH, dataset=dataset)
        return shared | {OWN: relu_and_tanh(search, label="{}, private, best")}
    return shared | {OWN: relu_and_tanh(read(CIFAR_10_RATES), label="{}, best")}


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
            "What tanh gains over relu under DP-SGD. Lines: 95 % intervals over seeds. Best: of 24 "
            "settings on MNIST and Fashion-MNIST, of five rates on CIFAR-10."
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


def classes(lines: Sequence[Variant], *, name: str, shown: str) -> Figure | Note:
    """Draw the accuracy of each class, median and range over seeds."""
    found = pd.concat(map(by_class, lines), ignore_index=True)
    if found.empty:
        return Note(name, "Every stored run diverged.")
    named = CLASSES[str(lines[0].reading.dataset_name)]
    groups = found.groupby(["label", "class"], sort=False).accuracy
    data = groups.agg(["median", "min", "max", "count"]).reset_index()
    with canvas(size=(7.2, 3.6)) as (figure, (axes,)):
        for at, line in enumerate(lines):
            rows, style = data[data.label == line.name], STYLES[line.style]
            axes.errorbar(
                rows["class"] + 0.24 * (at - (len(lines) - 1) / 2),
                rows["median"],
                yerr=[rows["median"] - rows["min"], rows["max"] - rows["median"]],
                color=style.color,
                marker=style.marker,
                linestyle="none",
                capsize=3,
                label=line.name,
            )
        axes.set(xlabel="class", xticks=range(10))
        axes.set_xticklabels(named, rotation=35 if len(named[0]) > 1 else 0, ha="right")
        set_axis(axes.yaxis, ACCURACY)
        legend_below(figure)
    worst = data.loc[data.groupby("label", sort=False)["median"].idxmin()]
    said = "; ".join(
        f"{row.label} is worst on {named[row['class']]}, {ACCURACY.show(row['median'])}"
        for _, row in worst.iterrows()
    )
    apart = spreads(found).groupby("label", sort=False).median()
    spread = ", ".join(f"{label} {value:.4f}" for label, value in apart.items())
    more = f"Standard deviation over the classes, median of the seeds: {spread}."
    return Figure(
        fig=figure,
        name=name,
        caption=caption(shown, finals_of(lines), more, fate="left out"),
        alt=f"Ten classes, a mark a line in each: {said}.",
        data=data,
    )


def by_class(line: Variant) -> pd.DataFrame:
    """Return one row a run and class, without runs that diverged: alike at chance is not fair."""
    rows = [
        {"label": line.name, "seed": result.run.seed, "class": number, "accuracy": accuracy}
        for result in line.results
        if result.diverged_at is None
        for number, accuracy in enumerate(result.class_accuracy)
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "class", "accuracy"])


def spreads(found: pd.DataFrame) -> pd.Series:
    """Return the standard deviation over the classes, of each label and seed."""
    return found.groupby(["label", "seed"], sort=False).accuracy.std(ddof=0)
