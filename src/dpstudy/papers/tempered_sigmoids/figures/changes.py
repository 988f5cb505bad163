"""CIFAR-10, whose settings were made for another network: what changing some of them brings."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids.figures.accuracy import (
    draw_published,
    draw_spread,
    spread_over_seeds,
)
from dpstudy.papers.tempered_sigmoids.figures.common import (
    STYLE,
    dataset_of,
    diverged,
    over_seeds,
    published_accuracy,
    seeds_of,
    spending_of,
)
from dpstudy.parts.images import DATASETS

NOTHING = "nothing"
RATES = (NOTHING, "twice the rate", "four times the rate", "eight times the rate")
# What the paper's accuracies are of, as far as it says: its network, at the quoted epsilon.
AS_PUBLISHED = (*RATES, "pixels in [0, 1]")
_NO_COLOURS = Note("CIFAR-10 alone", "The images of the smoke profile have no colours.")


def cifar_10_changes(private: Reading, changed: Reading) -> Table | Note:
    """Return what both activations come to on CIFAR-10, as in Figure 3 and changed.

    Args:
        private: of Figure 3.
        changed: of the same with other pixels, noise, rate or network.
    """
    if changed.profile == "smoke":
        return _NO_COLOURS
    if not changed.found:
        return not_yet_run("CIFAR-10 with other pixels or another network", changed.command)
    dataset, both = dataset_of(changed), _with_unchanged(private, changed)
    finals = both.finals
    rows = []
    for label, ours in finals.groupby("label", sort=False):
        activation, change = _parts(str(label))
        theirs = change in AS_PUBLISHED and published_accuracy(dataset, f"DP-SGD, {activation}")
        rows.append(
            {
                "changed": change,
                "activation": activation,
                "published": theirs.accuracy if theirs else None,
                **over_seeds(ours.test_accuracy),
                "gradient norm": ours.gradient_norm.median(),
                "clipped": ours.clipped_fraction.median(),
            }
        )
    return Table(
        name="tempered-sigmoids-cifar-10-changes",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, with the settings of Figure "
            "3 but for what is changed: median, minimum and maximum over seeds, beside what is "
            "published for this network at this ε; the mean norm of gradients before clipping, and "
            "the fraction clipped, in that epoch. Computed on "
            f"{both.devices}.{_ahead(finals)}"
            f"{diverged(dataset, private, changed)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.1%}",
            **dict.fromkeys(("median", "minimum", "maximum"), "{:.2%}"),
            "gradient norm": "{:.3g}",
            "clipped": "{:.0%}",
        },
    )


def cifar_10_rates(private: Reading, changed: Reading) -> Figure | Note:
    """Draw accuracy against epsilon on CIFAR-10 as in Figure 3, and at larger learning rates.

    Args:
        private: of Figure 3.
        changed: of the same with other pixels, noise, rate or network.
    """
    if changed.profile == "smoke":
        return _NO_COLOURS
    if not changed.found:
        return not_yet_run("CIFAR-10 at other learning rates", changed.command)
    dataset, both = dataset_of(changed), _with_unchanged(private, changed)
    rates = replace(both, found=[pair for pair in both.found if _parts(pair[0])[1] in RATES])
    data = spread_over_seeds(rates.curves) if rates.found else pd.DataFrame()
    if data.empty:
        return not_yet_run("CIFAR-10 at other learning rates", changed.command)
    data[["activation", "changed"]] = [_parts(label) for label in data.label]
    shown = [change for change in RATES if change in set(data.changed)]
    with canvas(1, len(shown), size=(3.2 * len(shown), 3.6), sharey=True) as (figure, panels):
        for axes, change in zip(panels, shown, strict=True):
            for activation, rows in data[data.changed == change].groupby("activation"):
                draw_spread(axes, str(activation), rows, STYLE[str(activation)])
            draw_published(axes, dataset)
            axes.set(xlabel="ε spent (PLD)", title=_rate_said(change))
        panels[0].set_ylabel("test accuracy")
        panels[0].legend(loc="lower right", fontsize="small")
    said = "; ".join(
        f"{rows.activation.iloc[0]} {rows['median'].iloc[-1]:.1%} at "
        f"{_rate_said(rows.changed.iloc[0])}"
        for _, rows in data.groupby("label", sort=False)
    )
    return Figure(
        fig=figure,
        name="tempered-sigmoids-cifar-10-rates",
        caption=(
            f"Test accuracy against ε on {DATASETS[dataset]} at several learning rates: median "
            f"(line) and minimum to maximum (band) over {seeds_of(rates.curves)}, computed on "
            f"{rates.devices}. {spending_of(changed)}. Stars: published, at the published ε."
            f"{diverged(dataset, rates)}"
        ),
        alt=(
            f"A panel for each learning rate, {len(shown)} in all, with the published accuracies "
            f"as stars in each. After the last epoch: {said}."
        ),
        data=data,
    )


def _rate_said(change: str) -> str:
    return "the rate of Figure 3" if change == NOTHING else change


def _with_unchanged(private: Reading, changed: Reading) -> Reading:
    return replace(changed, found=[*private.on(dataset_of(changed)).found, *changed.found])


def _parts(label: str) -> tuple[str, str]:
    """Return the activation, and what is changed."""
    activation, _, change = label.partition(", ")
    return activation, change or NOTHING


def _ahead(finals: pd.DataFrame) -> str:
    """Say where tanh ends ahead of relu by its median, and where behind, if both are run."""
    medians = finals.groupby("label", sort=False).test_accuracy.median()
    medians.index = pd.MultiIndex.from_tuples(map(_parts, medians.index))
    both = medians.unstack(0, sort=False).reindex(columns=["tanh", "relu"])
    gains = both.tanh - both.relu
    said = [
        f"{where} with changed: {', '.join(gains.index[chosen])}"
        for where, chosen in (("ahead of relu", gains > 0), ("not ahead", gains <= 0))
        if chosen.any()
    ]
    return f" By the median, tanh ends {'; '.join(said)}." if said else ""
