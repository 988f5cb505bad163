"""What happens inside: norms of gradients and activations (Figures 4 and 5)."""

from __future__ import annotations

import pandas as pd

from dpstudy import published
from dpstudy.figures.page import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.figures.tempered_sigmoids.common import (
    STYLE,
    dataset_of,
    diverged,
    for_each_dataset,
    logarithmic,
    seeds_of,
)
from dpstudy.readings import Reading
from dpstudy.spec import DATASETS

# As many as the training side measures: `diagnostics.EXAMPLES`, which this side does not import.
EXAMPLES = 1_000
QUANTITIES = {"gradient_norm": "mean gradient norm", "activation_norm": "mean activation norm"}
BASELINE = "relu, not private"
SCENARIOS = {
    "relu, private": STYLES[1],
    "tanh, private": STYLES[0],
    BASELINE: STYLES[4],
    "tanh, not private": STYLES[3],
}


@for_each_dataset
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
            f"{seeds_of(curves)}, computed on {reading.devices}. Measured on private data: no ε "
            "covers it."
        ),
        alt=f"Mean gradient norm by epoch: {said}. Right: the fraction of examples clipped.",
        data=data,
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
            logarithmic(axes, "{x:g}")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    last = data.groupby("label").last()
    said = "; ".join(
        f"{label}: gradients {row.gradient_norm:.2g}, activations {row.activation_norm:.2g}"
        for label, row in last.iterrows()
    )
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-figures-4-5-{dataset}",
        caption=(
            f"Mean norms over the same {EXAMPLES:,} training examples of {DATASETS[dataset]} after "
            "each epoch: of an example's gradient before clipping (left) and of what the first "
            f"layer's activation puts out (right); medians over {seeds_of(curves)}, computed on "
            f"{reading.devices}. Measured on private data: no ε covers it."
            f"{diverged(dataset, reading)}"
        ),
        alt=f"Two panels by epoch, four curves each. At the last epoch {said}.",
        data=data,
    )


@for_each_dataset
def growth(reading: Reading) -> Table | Note:
    """Return how much larger the norms are than those of relu without privacy, at the end."""
    if not reading.found:
        return not_yet_run("The growth of the norms", reading.command)
    dataset, finals = dataset_of(reading), reading.finals
    lived = finals[~finals.diverged]
    medians = lived.groupby("label")[list(QUANTITIES)].median()
    base = medians.loc[BASELINE] if BASELINE in medians.index else medians.iloc[0] * float("nan")
    stated = published.number("tempered sigmoids", "growth of relu's gradients").value
    rows = [
        {
            "scenario": label,
            "gradient norm": medians.gradient_norm[label],
            "times relu's, not private": medians.gradient_norm[label] / base.gradient_norm,
            "published": stated if (label, dataset) == ("relu, private", "mnist") else None,
            "activation norm": medians.activation_norm[label],
            "times relu's": medians.activation_norm[label] / base.activation_norm,
            "seeds": int((lived.label == label).sum()),
        }
        for label in SCENARIOS
        if label in medians.index
    ]
    if not rows:
        return Note("Norms", "Every stored run diverged.")
    return Table(
        name=f"tempered-sigmoids-growth-{dataset}",
        caption=(
            f"Norms on {DATASETS[dataset]} after the last epoch, medians over seeds, and how many "
            "times as large they are as those of relu without privacy. "
            f"{'' if dataset == 'mnist' else 'The paper gives no factor for this dataset. '}"
            f"Computed on {reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "gradient norm": "{:.3g}",
            "times relu's, not private": "{:.2f}",
            "published": "> {:g}",
            "activation norm": "{:.3g}",
            "times relu's": "{:.2f}",
        },
    )
