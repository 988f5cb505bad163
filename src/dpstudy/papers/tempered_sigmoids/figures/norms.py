"""What happens inside: norms of gradients and activations (Figures 4 and 5)."""

from __future__ import annotations

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.papers.tempered_sigmoids.figures.common import (
    LEFT_OUT,
    STYLE,
    dataset_of,
    diverged,
    for_each_dataset,
    logarithmic,
    logarithmic_settings,
    of_test_error,
    seeds_of,
    until,
)
from dpstudy.papers.tempered_sigmoids.figures.sweep import NORMS, Sweep, draw_triplets, swept
from dpstudy.parts.images import DATASETS
from dpstudy.parts.measure import EXAMPLES

QUANTITIES = {"norms.gradient": "mean gradient norm", "norms.activation": "mean activation norm"}
BASELINE = "relu, not private"
BASELINE_TIMES = "times relu, not private"
SCENARIOS = {
    "relu, private": STYLES[1],
    "tanh, private": STYLES[0],
    BASELINE: STYLES[4],
    "tanh, not private": STYLES[3],
}


@for_each_dataset
def gradient_norms(reading: Reading) -> Figure | Note:
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
    said = "; ".join(f"{label} {_course(rows)}" for label, rows in data.groupby("label"))
    clipped = "; ".join(
        f"{label} from {rows.clipped_fraction.iloc[0]:.0%} to {rows.clipped_fraction.iloc[-1]:.0%}"
        for label, rows in data.groupby("label")
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-gradient-norms-{dataset}",
        caption=(
            f"Per-example gradients on {DATASETS[dataset]} before clipping, mean norm (left, "
            "logarithmic) and the fraction above the clipping norm (right), over the examples "
            "drawn in each epoch, while the weights change; medians over "
            f"{seeds_of(curves)}, computed on {reading.devices}. Measured on private data: no ε "
            f"covers it.{diverged(dataset, reading, fate=LEFT_OUT)}"
        ),
        alt=f"Two panels by epoch. Mean gradient norm: {said}. Fraction clipped: {clipped}.",
        data=data,
    )


def _course(rows: pd.DataFrame) -> str:
    """Say where a curve of gradient norms begins, ends and was highest between."""
    norms = rows.gradient_norm
    first, last, highest = norms.iloc[0], norms.iloc[-1], rows.loc[norms.idxmax()]
    if highest.gradient_norm <= max(first, last):
        return f"goes from {first:.2g} to {last:.2g}"
    peak = f"{highest.gradient_norm:.2g} in epoch {highest.epoch:g}"
    return f"goes from {first:.2g} to {peak}, and then to {last:.2g}"


@for_each_dataset
def errors_by_norm(reading: Reading) -> Figure | Note:
    """Draw the error of a sweep's triplets over what clipping does to them (Figure 2's sweep)."""
    if not swept(reading):
        return not_yet_run("The errors of a sweep by gradient norm", reading.command)
    dataset, sweep = dataset_of(reading), Sweep.of(reading)
    data = sweep.drawn.dropna(subset=list(NORMS), ignore_index=True)
    if data.empty:
        return Note("Gradient norms", "Every stored triplet diverged.")
    with canvas(1, 2, size=(8.0, 3.6), sharey=True) as (figure, panels):
        for axes, name in zip(panels, NORMS, strict=True):
            draw_triplets(axes, data, name)
        panels[0].set(xlabel="mean gradient norm before clipping")
        logarithmic_settings(panels[0])
        panels[1].set(xlabel="fraction clipped")
        of_test_error(panels[0])
        panels[1].legend(fontsize="small")
    said = _ranks_said(sweep, data)
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-errors-by-norm-{dataset}",
        caption=(
            f"Test error of {len(data)} tempered sigmoids on {DATASETS[dataset]} under DP-SGD, "
            "over the mean norm of their gradients before clipping (left, logarithmic) and the "
            f"fraction clipped (right), in the last epoch.{said} Computed on {reading.devices}. "
            f"Measured on private data: no ε covers it."
            f"{diverged(dataset, reading, fate='left out')}"
        ),
        alt=(
            f"Two panels of {len(data)} points each, test error over norms from "
            f"{data.gradient_norm.min():.2g} to {data.gradient_norm.max():.2g} and over fractions "
            f"clipped from {data.clipped_fraction.min():.0%} to "
            f"{data.clipped_fraction.max():.0%}.{said}"
        ),
        data=data.sort_values("test_accuracy", ascending=False, ignore_index=True),
    )


def _ranks_said(sweep: Sweep, data: pd.DataFrame) -> str:
    """Say how errors rank with both; nothing where there is no order to speak of."""
    if len(data) < 3 or data.error.nunique() == 1:
        return ""
    norm, clipped = (sweep.rank_with_errors(name) for name in NORMS)
    return (
        f" Errors rank with the norm by Spearman's {norm:.2f}, with the fraction clipped by "
        f"{clipped:.2f}."
    )


@for_each_dataset
def norms(reading: Reading) -> Figure | Note:
    """Draw the norms of gradients and of first activations, in four scenarios (Figures 4, 5)."""
    if not reading.found:
        return not_yet_run("The norms in four scenarios", reading.command)
    dataset, curves = dataset_of(reading), reading.curves
    groups = curves.groupby(["label", "dataset", "epoch"], as_index=False)
    data = groups[list(QUANTITIES)].median().dropna(ignore_index=True)
    if data.empty:
        return Note("Norms", "No stored run finished an epoch before it diverged.")
    with canvas(1, 2, size=(9.0, 4.0)) as (figure, panels):
        for axes, (column, title) in zip(panels, QUANTITIES.items(), strict=True):
            for label, rows in data.groupby("label"):
                every = max(1, len(rows) // 8)
                style = SCENARIOS[str(label)]
                axes.plot(rows.epoch, rows[column], **style.line, markevery=every, label=label)
            axes.set(xlabel="epoch", ylabel=title)
            logarithmic(axes)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    said = "; ".join(
        f"{label}: gradients {last['norms.gradient']:.2g}, activations "
        f"{last['norms.activation']:.2g}{until(rows, reading)}"
        for label, rows in data.groupby("label")
        for last in [rows.iloc[-1]]
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-figures-4-5-{dataset}",
        caption=(
            f"Mean norms over the same {EXAMPLES:,} training examples of {DATASETS[dataset]} after "
            "each epoch: of an example's gradient before clipping (left) and of what the first "
            f"layer's activation puts out (right); medians over {seeds_of(curves)}, computed on "
            f"{reading.devices}. Measured on private data: no ε covers it."
            f"{diverged(dataset, reading, fate=LEFT_OUT)}"
        ),
        alt=f"Two panels by epoch, a curve for each of {data.label.nunique()}. They end at {said}.",
        data=data,
    )


@for_each_dataset
def norms_compared(reading: Reading) -> Table | Note:
    """Return the norms at both ends of training, and over those of relu without privacy."""
    if not reading.found:
        return not_yet_run("The norms compared", reading.command)
    dataset = dataset_of(reading)
    lived = reading.on(dataset).curves.dropna(subset=list(QUANTITIES))
    if lived.empty:
        return Note("Norms", "No stored run finished an epoch before it diverged.")
    ends = {"first epoch": 1, "last epoch": reading.found[0][1].run.epochs}
    medians = lived.groupby(["epoch", "label"])[list(QUANTITIES)].median()
    last = lived[lived.epoch == ends["last epoch"]]
    if last.empty:
        return Note("Norms", "Every stored run diverged.")
    rows = [
        _norm_row(quantity, label, {name: medians.loc[epoch] for name, epoch in ends.items()})
        | {"seeds": last[last.label == label].seed.nunique()}
        for quantity in QUANTITIES
        for label in SCENARIOS
        if all((epoch, label) in medians.index for epoch in ends.values())
    ]
    stated = published.NUMBERS["growth of relu's gradients"].value
    data = pd.DataFrame(rows)
    theirs = (data["norm of"] == "gradient") & (data.scenario == "relu, private")
    data.insert(6, "published", [stated if dataset == "mnist" and own else None for own in theirs])
    return Table(
        name=f"tempered-sigmoids-norms-compared-{dataset}",
        caption=(
            f"Norms on {DATASETS[dataset]} after the first epoch and after the last, medians over "
            "seeds, and how many times as large they are as those of relu without privacy then. "
            f"{'' if dataset == 'mnist' else 'The paper gives no factor for this dataset. '}"
            f"Computed on {reading.devices}.{diverged(dataset, reading, fate=LEFT_OUT)}"
        ),
        data=data,
        formats={
            **dict.fromkeys(ends, "{:.3g}"),
            **dict.fromkeys((f"{BASELINE_TIMES}, {name}" for name in ends), "{:.2f}"),
            "published": "> {:g}",
        },
    )


def _norm_row(quantity: str, label: str, medians: dict[str, pd.DataFrame]) -> dict[str, object]:
    norms = {name: of[quantity].get(label) for name, of in medians.items()}
    base = {name: of[quantity].get(BASELINE, float("nan")) for name, of in medians.items()}
    times = {f"{BASELINE_TIMES}, {name}": norms[name] / base[name] for name in medians}
    return {"norm of": quantity.removeprefix("norms."), "scenario": label, **norms, **times}
