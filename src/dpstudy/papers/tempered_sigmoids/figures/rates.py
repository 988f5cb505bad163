"""What learning rates bring, SGD and Adam, with privacy and without (Table 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.ledger.published import Accuracy
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids import published
from dpstudy.papers.tempered_sigmoids.figures.common import (
    dataset_of,
    diverged,
    finals_with,
    logarithmic_settings,
    over_seeds,
    published_accuracy,
    seeds_of,
    spending_of,
)
from dpstudy.papers.tempered_sigmoids.figures.searches import (
    BEST,
    range_of,
    tried_and_again,
    winner_of,
)
from dpstudy.parts.images import DATASETS

OPTIMIZERS = ("SGD", "Adam")
KINDS = {"private": STYLES[0], "not private": STYLES[1]}


def learning_rates(reading: Reading) -> Figure | Note:
    """Draw accuracy against the learning rate, SGD and Adam, private and not (Table 4)."""
    if not reading.found:
        return not_yet_run("The learning rates of Table 4", reading.command)
    dataset, data = dataset_of(reading), _with_technique(reading)
    with canvas(1, 2, size=(9.0, 3.8), sharey=True) as (figure, panels):
        for axes, optimizer in zip(panels, OPTIMIZERS, strict=True):
            for kind, style in KINDS.items():
                rows = data[(data.optimizer == optimizer) & (data.kind == kind)]
                tried, again = tried_and_again(rows)
                curve = tried.groupby("learning_rate").test_accuracy.median()
                axes.plot(curve.index, curve, **style.line, label=kind)
                seeds = {"color": style.color, "marker": "_", "markersize": 11, "linestyle": "none"}
                axes.plot(again.learning_rate, again.test_accuracy, **seeds)
                theirs = published_row(dataset, optimizer, kind)
                if theirs is not None:
                    # Filled or not, so that they are told apart in grey.
                    fill = {"color": style.color} if kind == "private" else {"mfc": "white"}
                    options = {"markersize": 13, "markeredgecolor": "black", "linestyle": "none"}
                    axes.plot(*theirs, marker="*", label=f"{kind}, published", **fill, **options)
            axes.set(xlabel="learning rate", title=optimizer)
            logarithmic_settings(axes)
        panels[0].set_ylabel("test accuracy")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    said = "; ".join(
        f"{technique}: best"
        + ("" if math.isnan(best.test_accuracy) else f" {best.test_accuracy:.1%}")
        + f" at {best.learning_rate:g}"
        + (f", with other seeds {range_of(again.test_accuracy)}" if len(again) else "")
        + (f", published {theirs[1]:.1%} at {theirs[0]:g}" if theirs else "")
        for technique, best, _, again in _techniques(data)
        for theirs in [published_row(dataset, best.optimizer, best.kind)]
    )
    tried_with = seeds_of(data[data["last"] != BEST])
    dashes = " Dashes: the best, with other seeds." if data["last"].eq(BEST).any() else ""
    stars = ""
    if published_row(dataset, "SGD", "private"):
        stars = " Stars: published; the private rates belong to a clipping norm that is not."
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-table-4-rates-{dataset}",
        caption=(
            f"Test accuracy of tanh on {DATASETS[dataset]} against the learning rate, "
            f"{tried_with} each, computed on {reading.devices}.{dashes}{stars}"
            f"{diverged(dataset, reading)}"
        ),
        alt=f"Two panels, SGD and Adam, accuracy against the learning rate. {said}.",
        data=data,
    )


def table_4(reading: Reading) -> Table | Note:
    """Return the best learning rate of each optimizer, with privacy and without (Table 4)."""
    if not reading.found:
        return not_yet_run("Table 4", reading.command)
    dataset = dataset_of(reading)
    rows = []
    for technique, best, tried, again in _techniques(_with_technique(reading)):
        theirs = published_row(dataset, best.optimizer, best.kind) or (None, None)
        stated = _stated(dataset, best.optimizer, best.kind)
        rows.append(
            {
                "technique": technique,
                "published rate": theirs[0],
                "best rate": best.learning_rate,
                "published": theirs[1],
                **over_seeds(again.test_accuracy),
                "in the search, seed 0": best.test_accuracy,
                "rates tried": tried.label.nunique(),
                "at the edge": "yes" if best.learning_rate in _edges(tried) else "no",
                "published ε": stated and stated.claimed_epsilon,
                "ε (RDP 2019)": best.get("epsilon_rdp-2019"),
                "ε (PLD)": best.get("epsilon_pld"),
            }
        )
    return Table(
        name=f"tempered-sigmoids-table-4-{dataset}",
        caption=(
            f"The best learning rate of each optimizer on {DATASETS[dataset]}, for tanh (the paper "
            "does not name the activation), chosen by the test accuracy of seed 0. Median and "
            "range: of other seeds at that rate. A best rate at the edge of its grid may have a "
            "better one beyond. The published private rates belong to a clipping norm that the "
            f"paper does not print. {spending_of(reading)}. "
            f"Computed on {reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            **dict.fromkeys(("published rate", "best rate"), "{:.3g}"),
            **dict.fromkeys(("median", "minimum", "maximum", "in the search, seed 0"), "{:.2%}"),
            "published": "{:.1%}",
            **dict.fromkeys(("published ε", "ε (RDP 2019)", "ε (PLD)"), "{:.2f}"),
        },
    )


def published_row(dataset: str, optimizer: str, kind: str) -> tuple[float, float] | None:
    """Return the published learning rate and accuracy of a row of Table 4; None on others."""
    name, stated = _published_name(optimizer, kind), _stated(dataset, optimizer, kind)
    if stated is None:
        return None
    return published.NUMBERS[f"learning rate, {name}"].value, stated.accuracy


def _stated(dataset: str, optimizer: str, kind: str) -> Accuracy | None:
    return published_accuracy(dataset, f"{_published_name(optimizer, kind)}, searched")


def _published_name(optimizer: str, kind: str) -> str:
    return f"{'DP-' if kind == 'private' else ''}{optimizer}"


def _with_technique(reading: Reading) -> pd.DataFrame:
    finals = finals_with(reading, "learning_rate")
    parts = finals.label.str.split(", ", expand=True)
    return finals.assign(optimizer=parts[0], kind=parts[1], last=parts[2])


def _techniques(
    finals: pd.DataFrame,
) -> Iterator[tuple[str, pd.Series, pd.DataFrame, pd.DataFrame]]:
    """Yield each technique's name, its best rate's row, those tried, and other seeds of the best.

    The best is the one that was chosen, or before that the best so far. A technique of which no
    run is stored is left out.
    """
    for (optimizer, kind), rows in finals.groupby(["optimizer", "kind"], sort=False):
        tried, again = tried_and_again(rows)
        yield f"{optimizer}, {kind}", winner_of(tried, again, "learning_rate"), tried, again


def _edges(tried: pd.DataFrame) -> tuple[float, float]:
    return tried.learning_rate.min(), tried.learning_rate.max()
