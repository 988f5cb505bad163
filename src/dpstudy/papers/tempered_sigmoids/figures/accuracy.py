"""Accuracy with and without privacy, relu and tanh (Figure 3, Table 3)."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes

from dpstudy.errors import UserError
from dpstudy.lab.readings import Reading
from dpstudy.ledger.wording import points
from dpstudy.page.figure import Figure, Note, Style, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids.experiments import BASE
from dpstudy.papers.tempered_sigmoids.figures.common import (
    STYLE,
    Lead,
    dataset_of,
    diverged,
    for_each_dataset,
    over_seeds,
    published_accuracy,
    seeds_of,
    spending_of,
    until,
)
from dpstudy.papers.tempered_sigmoids.published import NUMBERS
from dpstudy.parts.images import DATASETS
from dpstudy.parts.run import setting

_FORMATS = {
    "published": "{:.1%}",
    **dict.fromkeys(("median", "minimum", "maximum"), "{:.2%}"),
    "seeds": "{:.0f}",
    **dict.fromkeys(("published ε", "ε (RDP 2019)", "ε (PLD)"), "{:.2f}"),
}


@for_each_dataset
def accuracy_against_epsilon(reading: Reading) -> Figure | Note:
    """Draw test accuracy against epsilon, relu and tanh (Figure 3)."""
    curves = reading.curves
    if curves.empty:
        return not_yet_run("Figure 3", reading.command)
    dataset = curves.dataset[0]
    curves = curves[curves.dataset == dataset]
    spread = spread_over_seeds(curves)
    if spread.empty:
        return Note("Figure 3", "No stored run finished an epoch before it diverged.")
    with canvas(size=(6.4, 4.0)) as (figure, (axes,)):
        for label, rows in spread.groupby("label"):
            draw_spread(axes, str(label), rows, STYLE[str(label)])
        draw_published(axes, dataset)
        axes.set(xlabel="ε spent (PLD)", ylabel="test accuracy")
        axes.set_ylim(accuracy_limits(spread, dataset))
        axes.legend(loc="lower right", fontsize="small")
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-figure-3-{dataset}",
        caption=(
            f"Test accuracy against ε on {DATASETS[dataset]}: median (line) and minimum to maximum "
            f"(band) over {seeds_of(curves)}, computed on {reading.devices}. "
            f"{spending_of(reading)}, with Poisson sampling as performed."
            f"{_stars(dataset)}{diverged(dataset, reading)}"
        ),
        alt=_describe(spread, reading.on(dataset)),
        data=spread,
    )


def spread_over_seeds(curves: pd.DataFrame) -> pd.DataFrame:
    """Return median, minimum and maximum test accuracy over seeds, by label and epoch.

    Epochs that no seed reached without diverging have no epsilon, and are left out.
    """
    by = ["label", "dataset", "epoch"]
    groups = curves.groupby(by, as_index=False)
    # The same for all seeds, except those that have diverged: they have none.
    spent = groups[["epsilon_pld", "epsilon_rdp-2019"]].max()
    accuracy = groups.test_accuracy.agg(["median", "min", "max", "count"])
    spread = spent.merge(accuracy.rename(columns={"count": "seeds"}), on=by)
    return spread.dropna(subset="epsilon_pld", ignore_index=True)


def draw_spread(axes: Axes, label: str, rows: pd.DataFrame, style: Style) -> None:
    """Draw a median with its range over seeds, against epsilon."""
    axes.fill_between(rows.epsilon_pld, rows["min"], rows["max"], color=style.color, alpha=0.25)
    every = max(1, len(rows) // 8)
    axes.plot(rows.epsilon_pld, rows["median"], **style.line, markevery=every, label=label)


def draw_published(axes: Axes, dataset: str) -> None:
    """Draw the published accuracies as stars at the published epsilon."""
    for label in ("relu", "tanh"):
        value = published_accuracy(dataset, f"DP-SGD, {label}")
        if value is not None:
            axes.plot(
                value.claimed_epsilon,
                value.accuracy,
                marker="*",
                markersize=13,
                color=STYLE[label].color,
                markeredgecolor="black",
                linestyle="none",
                label=f"{label}, published ({value.accuracy:.1%})",
            )


def accuracy_limits(spread: pd.DataFrame, dataset: str) -> tuple[float, float]:
    """Return an axis of accuracy that holds the published ones, however far ours are from them.

    The first epochs' climb, which would flatten all that follows, may begin below it.
    """
    published = (published_accuracy(dataset, f"DP-SGD, {label}") for label in STYLE)
    stars = [value.accuracy for value in published if value is not None]
    later = spread[spread.epoch >= spread.epoch.max() / 5]
    low, high = min([later["min"].min(), *stars]), max([spread["max"].max(), *stars])
    return float(low - 0.02), float(min(1.0, high + 0.02))


def _describe(spread: pd.DataFrame, reading: Reading) -> str:
    parts, dataset = [], dataset_of(reading)
    for label, rows in spread.groupby("label"):
        last = rows.iloc[-1]
        parts.append(
            f"{label} ends at a median of {last['median']:.1%} at epsilon {last.epsilon_pld:.2f}, "
            f"its seeds from {last['min']:.1%} to {last['max']:.1%}{until(rows, reading)}"
        )
    curves = "One curve" if len(parts) == 1 else f"{len(parts)} curves"
    stars = "; ".join(
        f"{label} {value.accuracy:.1%} at epsilon {value.claimed_epsilon:g}"
        for label in STYLE
        if (value := published_accuracy(dataset, f"DP-SGD, {label}")) is not None
    )
    published = f" Stars, published: {stars}." if stars else ""
    return f"{curves} on {DATASETS[dataset]}: {'; '.join(parts)}.{_overtaken(spread)}{published}"


def _overtaken(spread: pd.DataFrame) -> str:
    """Say when the median of tanh is first as high as relu's at its end; nothing if it never is."""
    relu, tanh = (spread[spread.label == label] for label in ("relu", "tanh"))
    if relu.empty or tanh.empty:
        return ""
    there = tanh[tanh["median"] >= relu["median"].iloc[-1]]
    if there.empty:
        return ""
    first = there.iloc[0]
    return (
        f" tanh is as high as relu at its end from epoch {first.epoch:g}, at epsilon "
        f"{first.epsilon_pld:.2f}."
    )


def _stars(dataset: str) -> str:
    stated = any(published_accuracy(dataset, f"DP-SGD, {label}") for label in STYLE)
    return " Stars: published, at the published ε." if stated else ""


@for_each_dataset
def table_3(private: Reading, not_private: Reading) -> Table | Note:
    """Return the rows of Table 3, and of the text on Figures 2 and 3."""
    found = private.found or not_private.found
    if not found:
        return not_yet_run("Table 3", f"{private.command} && {not_private.command}")
    dataset = found[0][1].run.dataset.name
    rows = [_row("SGD", label, not_private, dataset) for label in ("relu", "tanh")] + [
        _row("DP-SGD", label, private, dataset) for label in ("relu", "tanh")
    ]
    both = replace(private, found=[*private.found, *not_private.found])
    return Table(
        name=f"tempered-sigmoids-table-3-{dataset}",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, published and ours: median, "
            f"minimum and maximum over seeds.{_leads(private, not_private)} {spending_of(both)}. "
            f"Computed on {both.devices}.{diverged(dataset, private, not_private)}"
        ),
        data=pd.DataFrame(rows),
        formats=_FORMATS,
    )


def _leads(private: Reading, not_private: Reading) -> str:
    """Say by how much tanh is above relu, with privacy and without; nothing if neither is run."""
    said = []
    for name, reading in (("without privacy", not_private), ("with privacy", private)):
        accuracy = {label: rows.test_accuracy for label, rows in _by_label(reading)}
        if {"relu", "tanh"} <= accuracy.keys():
            said.append(f"{name} {Lead.of(accuracy['tanh'], accuracy['relu'])}")
    return f" tanh against relu: {'; '.join(said)}." if said else ""


def _by_label(reading: Reading) -> list[tuple[str, pd.DataFrame]]:
    return list(reading.finals.groupby("label")) if reading.found else []


# What is published for each variant of the tutorial's settings: accuracy and epsilon.
_TUTORIAL = {
    "relu": ("mnist, DP-SGD, relu", "mnist, epsilon"),
    "relu, He": ("mnist, DP-SGD, relu", "mnist, epsilon"),
    "as scripted": ("baseline, in the tutorial", "epsilon of the tutorial"),
    "relu, later": ("relu, in the later tutorial", "epsilon of the later tutorial"),
    "tanh": ("mnist, DP-SGD, tanh", "mnist, epsilon"),
}


def baseline(reading: Reading) -> Table | Note:
    """Return what the settings of the tutorial come to that the paper's baseline is from."""
    if not reading.found:
        return not_yet_run("The paper's baseline", reading.command)
    dataset, finals = dataset_of(reading), reading.finals
    runs = {label: result.run for label, result in reading.found}
    rows = []
    for label in filter(runs.__contains__, _TUTORIAL):
        names = _TUTORIAL[label] if dataset == "mnist" else ()
        accuracy, spent = [NUMBERS[name] for name in names] or (None, None)
        ours, run = finals[finals.label == label], runs[label]
        rows.append(
            {
                "settings": label,
                "learning rate": run.optimizer.learning_rate,
                "σ": run.mechanism.noise_multiplier,
                "published": accuracy and accuracy.value,
                "published in": accuracy and accuracy.source.where,
                **over_seeds(ours.test_accuracy),
                "published ε": spent and spent.value,
                "ε (RDP 2019)": ours["epsilon_rdp-2019"].median(),
                "ε (PLD)": ours.epsilon_pld.median(),
            }
        )
    first = next(iter(runs.values()))
    away = "; ".join(
        f"{row['settings']} {points(row['median'] - row['published'])}"
        for row in rows
        if row["published"] is not None
    )
    away = f" From the published accuracy: {away}." if away else ""
    return Table(
        name=f"tempered-sigmoids-tutorial-{dataset}",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, published and ours, with "
            f"batches of {first.sampling.batch}, {first.epochs} epochs, no momentum and C = "
            f"{first.mechanism.clip_norm:g}: median, minimum and maximum over seeds. As scripted: "
            f"without an activation, initial weights as He et al.{away} {spending_of(reading)}. "
            f"Computed on {reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats=_FORMATS | {"learning rate": "{:g}", "σ": "{:g}"},
    )


def _row(method: str, label: str, reading: Reading, dataset: str) -> dict[str, object]:
    finals = reading.finals
    ours = finals[(finals.label == label) & (finals.dataset == dataset)] if len(finals) else finals
    theirs = published_accuracy(dataset, f"{method}, {label}")
    accuracy = ours.test_accuracy if len(ours) else pd.Series(dtype=float)
    return {
        "technique": f"{method}, {label}",
        "published": theirs.accuracy if theirs else None,
        "published in": theirs.source.where if theirs else None,
        **over_seeds(accuracy),
        "published ε": theirs.claimed_epsilon if theirs else None,
        "ε (RDP 2019)": ours.get("epsilon_rdp-2019", pd.Series(dtype=float)).median(),
        "ε (PLD)": ours.get("epsilon_pld", pd.Series(dtype=float)).median(),
    }


def settings(dataset: str | None = None) -> Table:
    """Return the configuration of the private runs, with where it is published.

    Args:
        dataset: only this one; by default all, a column each.

    Raises:
        UserError: an unknown dataset.
    """
    if dataset is not None and dataset not in BASE:
        raise UserError(f"unknown dataset {dataset!r}; one of: {', '.join(BASE)}")
    names = {
        "clipping norm C": "clip_norm",
        "noise multiplier σ": "noise_multiplier",
        "expected batch size": "batch",
        "epochs": "epochs",
        "learning rate": "learning_rate",
        "momentum": "momentum",
        "δ": "delta",
    }
    data = pd.DataFrame({"setting": list(names)})
    for name in BASE if dataset is None else (dataset,):
        data[DATASETS[name]] = [setting(BASE[name], field) for field in names.values()]
    return Table(
        name=f"tempered-sigmoids-settings{f'-{dataset}' if dataset else ''}",
        caption=(
            "The private runs: Table 5 of Losing less, except for the noise on CIFAR-10, which "
            "there costs less than half of the ε quoted here. It is lowered to what costs that ε "
            "by the accounting of the paper's time. Pixels are in [0, 1], those of CIFAR-10 then "
            "normalised by ImageNet's mean and standard deviation of each colour, public constants."
        ),
        data=data,
        formats=dict.fromkeys(data.columns[1:], "{:g}"),
    )
