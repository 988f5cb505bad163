"""Chapter 2: the tempered sigmoid family, and what it does for DP-SGD."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dpstudy import published
from dpstudy.activations import relu, tempered_sigmoid
from dpstudy.errors import UserError
from dpstudy.experiments.tempered_sigmoids import BASE
from dpstudy.figures.page import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.readings import CHANCE, Reading

DATASETS = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar-10": "CIFAR-10",
    "mnist-5k": "MNIST-5k",
}
STYLE = {"relu": STYLES[1], "tanh": STYLES[0]}
# Representative members: tanh, then each of s, T and o moved by itself.
FAMILY = ((2.0, 2.0, 1.0), (1.0, 2.0, 1.0), (2.0, 0.5, 1.0), (2.0, 8.0, 1.0), (2.0, 2.0, 0.0))


def family(members: tuple[tuple[float, float, float], ...] = FAMILY) -> Figure:
    """Draw members (s, T, o) of the tempered sigmoid family, with relu (Figure 1, Eq. 3)."""
    x = np.linspace(-4, 4, 161, dtype=np.float32)
    lines = {f"s={s:g}, T={t:g}, o={o:g}": tempered_sigmoid(x, s, t, o) for s, t, o in members}
    lines["relu"] = relu(x)
    data = pd.DataFrame({"x": x, **{name: np.asarray(y) for name, y in lines.items()}})
    with canvas(size=(6.4, 3.6)) as (figure, (axes,)):
        for style, name in zip(cycle(STYLES), lines, strict=False):
            axes.plot(x, data[name], **style.line, markevery=20, label=name)
        bounds = [bound for s, _, o in members for bound in (-o, s - o)]
        limits = min(bounds) - 0.3, max(bounds) + 0.3
        axes.set(xlabel="pre-activation x", ylabel="activation", ylim=limits)
        axes.legend(loc="upper left", fontsize="small")
    return Figure(
        fig=figure,
        name="tempered-sigmoid-family",
        caption="Members of the tempered sigmoid family s/(1 + exp(-T x)) - o, and relu.",
        alt=(
            f"Curves of {len(members)} tempered sigmoids and relu from x = -4 to 4. Every tempered "
            "sigmoid levels off on both sides, at -o and s - o, the faster the larger T; relu "
            "grows without bound."
        ),
        data=data,
    )


def distance_from_tanh() -> float:
    """Return the largest |(2, 2, 1) member - tanh| on a fine grid of float32 numbers."""
    x = np.linspace(-20, 20, 100_001, dtype=np.float32)
    return float(np.max(np.abs(np.asarray(tempered_sigmoid(x, 2.0, 2.0, 1.0)) - np.tanh(x))))


def accuracy_against_epsilon(reading: Reading) -> Figure | Note:
    """Draw test accuracy against epsilon, relu and tanh, for one dataset (Figure 3).

    Of a reading of several datasets, the first that has stored runs.
    """
    curves = reading.curves
    if curves.empty:
        return not_yet_run(_name(reading), reading.command)
    dataset = curves.dataset[0]
    curves = curves[curves.dataset == dataset]
    spread = spread_over_seeds(curves)
    if spread.empty:
        return Note(_name(reading), "No stored run finished an epoch before it diverged.")
    with canvas(size=(6.4, 4.0)) as (figure, (axes,)):
        for label, rows in spread.groupby("label"):
            _draw_spread(axes, str(label), rows)
        _draw_published(axes, dataset)
        axes.set(xlabel="ε spent (PLD)", ylabel="test accuracy", ylim=_limits(spread))
        axes.legend(loc="lower right", fontsize="small")
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-figure-3-{dataset}",
        caption=(
            f"Test accuracy against ε on {DATASETS[dataset]}: median (line) and minimum to maximum "
            f"(band) over {_seeds(curves)}, computed on {reading.devices}. ε at "
            f"δ = {_delta(reading)} for Poisson sampling as performed."
            f"{_stars(dataset)}{_diverged(dataset, reading)}"
        ),
        alt=_describe(spread, dataset),
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


def _draw_spread(axes: Axes, label: str, rows: pd.DataFrame) -> None:
    style = STYLE[label]
    axes.fill_between(rows.epsilon_pld, rows["min"], rows["max"], color=style.color, alpha=0.25)
    every = max(1, len(rows) // 8)
    axes.plot(rows.epsilon_pld, rows["median"], **style.line, markevery=every, label=label)


def _draw_published(axes: Axes, dataset: str) -> None:
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


def published_accuracy(dataset: str, method: str) -> published.Accuracy | None:
    """Return what the paper states for a method on a dataset; None if it states nothing."""
    for value in published.TEMPERED_SIGMOID_ACCURACIES:
        if (value.dataset, value.method) == (dataset, method):
            return value
    return None


def _limits(spread: pd.DataFrame) -> tuple[float, float]:
    """Leave out the first epochs' climb, which would flatten all that follows."""
    later = spread[spread.epoch >= spread.epoch.max() / 5]
    low, high = later["min"].min(), spread["max"].max()
    return float(low - 0.02), float(min(1.0, high + 0.02))


def _describe(spread: pd.DataFrame, dataset: str) -> str:
    parts = []
    for label, rows in spread.groupby("label"):
        last = rows.iloc[-1]
        parts.append(
            f"{label} ends at a median of {last['median']:.1%} at epsilon {last.epsilon_pld:.2f}"
        )
    curves = "One curve" if len(parts) == 1 else f"{len(parts)} curves"
    return f"{curves} on {DATASETS[dataset]}: {'; '.join(parts)}."


def _stars(dataset: str) -> str:
    stated = any(published_accuracy(dataset, f"DP-SGD, {label}") for label in STYLE)
    return " Stars: published, at the published ε." if stated else ""


def _diverged(dataset: str, *readings: Reading) -> str:
    results = [result for reading in readings for _, result in reading.found]
    failed = sum(r.diverged_at is not None for r in results if r.run.dataset == dataset)
    return f" Diverged, and at chance ({CHANCE:.0%}) from there on: {failed}." if failed else ""


def table_3(private: Reading, not_private: Reading) -> Table | Note:
    """Return the rows of Table 3 for one dataset, and tanh without privacy from the text.

    Of readings of several datasets, the first that has stored runs.
    """
    found = private.found or not_private.found
    if not found:
        return not_yet_run("Table 3", f"{private.command} && {not_private.command}")
    dataset = found[0][1].run.dataset
    rows = [_row("SGD", label, not_private, dataset) for label in ("relu", "tanh")] + [
        _row("DP-SGD", label, private, dataset) for label in ("relu", "tanh")
    ]
    both = replace(private, found=[*private.found, *not_private.found])
    return Table(
        name=f"tempered-sigmoids-table-3-{dataset}",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, published and ours: median, "
            f"minimum and maximum over seeds. Computed on {both.devices}."
            f"{_diverged(dataset, private, not_private)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.1%}",
            "median": "{:.2%}",
            "minimum": "{:.2%}",
            "maximum": "{:.2%}",
            "seeds": "{:.0f}",
            "published ε": "{:.2f}",
            "ε (RDP 2019)": "{:.2f}",
            "ε (PLD)": "{:.2f}",
        },
    )


def _row(method: str, label: str, reading: Reading, dataset: str) -> dict[str, object]:
    finals = reading.finals
    ours = finals[(finals.label == label) & (finals.dataset == dataset)] if len(finals) else finals
    theirs = published_accuracy(dataset, f"{method}, {label}")
    accuracy = ours.test_accuracy if len(ours) else pd.Series(dtype=float)
    return {
        "technique": f"{method}, {label}",
        "published": theirs.accuracy if theirs else None,
        "median": accuracy.median(),
        "minimum": accuracy.min(),
        "maximum": accuracy.max(),
        "seeds": len(accuracy),
        "published ε": theirs.claimed_epsilon if theirs else None,
        "ε (RDP 2019)": ours.get("epsilon_rdp-2019", pd.Series(dtype=float)).median(),
        "ε (PLD)": ours.get("epsilon_pld", pd.Series(dtype=float)).median(),
    }


def gradient_growth(reading: Reading) -> Figure | Note:
    """Draw the mean norm of the per-example gradients before clipping, by epoch."""
    curves = reading.curves
    if curves.empty:
        return not_yet_run("The gradient norms", reading.command)
    dataset = curves.dataset[0]
    curves = curves[curves.dataset == dataset]
    by = ["label", "dataset", "epoch"]
    columns = ["gradient_norm", "clipped_fraction"]
    data = curves.groupby(by, as_index=False)[columns].median().dropna(ignore_index=True)
    if data.empty:
        return Note("Gradient norms", "No stored run finished an epoch before it diverged.")
    with canvas(1, 2, size=(8.4, 3.4)) as (figure, axes):
        for label, rows in data.groupby("label"):
            style, every = STYLE[str(label)], max(1, len(rows) // 8)
            for panel, column in zip(axes, columns, strict=True):
                panel.plot(rows.epoch, rows[column], **style.line, markevery=every, label=label)
        axes[0].set(xlabel="epoch", ylabel="mean gradient norm", yscale="log")
        axes[1].set(xlabel="epoch", ylabel="fraction clipped", ylim=(0, 1))
        axes[0].legend(fontsize="small")
    said = "; ".join(
        f"{label} goes from {rows.gradient_norm.iloc[0]:.2g} to {rows.gradient_norm.iloc[-1]:.2g}"
        for label, rows in data.groupby("label")
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-gradient-norms-{dataset}",
        caption=(
            f"Per-example gradients on {DATASETS[dataset]} before clipping, mean norm (left, "
            "logarithmic) and the fraction above the clipping norm (right); medians over "
            f"{_seeds(curves)}, computed on {reading.devices}. Measured on private data: no ε "
            "covers it."
        ),
        alt=f"Mean gradient norm by epoch: {said}. Right: the fraction of examples clipped.",
        data=data,
    )


def warnings_of(*readings: Reading) -> Note | None:
    """Return a note that names stored files left out and runs missing; None if there are none."""
    lines = [f"Left out: {line}." for reading in readings for line in reading.damaged]
    # Where nothing at all is stored, what stands in place of each figure says so.
    if any(reading.found for reading in readings):
        lines += [
            f"Not yet run: {len(reading.missing)} of the "
            f"{len(reading.missing) + len(reading.found)} runs of {reading.experiment.name} "
            f"({reading.command})."
            for reading in readings
            if reading.missing
        ]
    return Note("Incomplete", " ".join(dict.fromkeys(lines))) if lines else None


def settings(dataset: str) -> Table:
    """Return the configuration of the private runs, with where it is published."""
    if dataset not in BASE:
        raise UserError(f"unknown dataset {dataset!r}; one of: {', '.join(BASE)}")
    run = BASE[dataset]
    names = (
        ("clipping norm C", run.clip_norm),
        ("noise multiplier σ", run.noise_multiplier),
        ("expected batch size", run.batch),
        ("epochs", run.epochs),
        ("learning rate", run.learning_rate),
        ("momentum", run.momentum),
        ("δ", run.delta),
    )
    return Table(
        name=f"tempered-sigmoids-settings-{dataset}",
        caption=f"The private runs on {DATASETS[dataset]} (losing less, Table 5).",
        data=pd.DataFrame(names, columns=["setting", "value"]),
        formats={"value": "{:g}"},
    )


def _name(reading: Reading) -> str:
    return f"Figure 3 on {DATASETS.get(reading.dataset or '', 'this dataset')}"


def _seeds(curves: pd.DataFrame) -> str:
    counts = curves.groupby("label").seed.nunique()
    low, high = counts.min(), counts.max()
    if low != high:
        return f"{low} to {high} seeds"
    return "1 seed" if low == 1 else f"{low} seeds"


def _delta(reading: Reading) -> str:
    return f"{reading.found[0][1].run.delta:g}"
