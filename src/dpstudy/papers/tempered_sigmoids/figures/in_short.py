"""The chapter in one figure: what tanh gains over relu, as published and as found, by dataset."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dpstudy.lab.readings import Reading, read
from dpstudy.ledger.estimate import Estimate
from dpstudy.ledger.verdict import UndecidedError
from dpstudy.page.figure import STYLES, Figure, Note, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids.cifar_10 import CIFAR_10_CHANGES, CIFAR_10_RATES
from dpstudy.papers.tempered_sigmoids.experiments import FIGURE_3
from dpstudy.papers.tempered_sigmoids.published import NUMBERS
from dpstudy.papers.tempered_sigmoids.searches import TABLE_3_SEARCH
from dpstudy.parts.images import DATASETS

SHARED, OWN, HIGHER = (
    "one setting for both",
    "each at its own best",
    "four times the rate, one seed",
)
STYLE = {"published": STYLES[2], SHARED: STYLES[1], OWN: STYLES[0], HIGHER: STYLES[4]}


class Pair(NamedTuple):
    """Where tanh and relu are compared: the labels of an experiment."""

    kind: str
    reading: Reading
    tanh: str
    relu: str


def gains() -> pd.DataFrame:
    """Return what tanh gains over relu in test accuracy, a row a dataset and comparison.

    `low` and `high` are the 95 % interval over seeds; they are missing of one seed.
    """
    rows = []
    for dataset in FIGURE_3.datasets:
        tanh, relu = (
            NUMBERS[f"{dataset}, DP-SGD, {name}"].value for name in ("tempered sigmoid", "relu")
        )
        rows.append({"dataset": dataset, "comparison": "published", "gain": tanh - relu})
        rows += [_row(dataset, pair) for pair in _pairs(dataset) if _has(pair)]
    return pd.DataFrame(rows)


def _pairs(dataset: str) -> list[Pair]:
    shared = Pair(SHARED, read(FIGURE_3, dataset=dataset), "tanh", "relu")
    if dataset != "cifar-10":
        search = read(TABLE_3_SEARCH, dataset=dataset)
        return [shared, Pair(OWN, search, "tanh, private, best", "relu, private, best")]
    own = Pair(OWN, read(CIFAR_10_RATES), "tanh, best", "relu, best")
    if _has(own):
        return [shared, own]
    higher = (f"{activation}, four times the rate" for activation in ("tanh", "relu"))
    return [shared, Pair(HIGHER, read(CIFAR_10_CHANGES), *higher)]


def _has(pair: Pair) -> bool:
    labels = {label for label, _ in pair.reading.found}
    return {pair.tanh, pair.relu} <= labels


def _row(dataset: str, pair: Pair) -> dict[str, object]:
    finals = pair.reading.finals.set_index("seed")
    tanh, relu = (finals[finals.label == label].test_accuracy for label in (pair.tanh, pair.relu))
    row = {"dataset": dataset, "comparison": pair.kind, "gain": tanh.mean() - relu.mean()}
    row |= {"tanh": tanh.median(), "relu": relu.median(), "seeds": len(tanh)}
    try:
        estimate = Estimate.difference(tanh, relu)
    except UndecidedError:
        return row
    return row | {"gain": estimate.value, "low": estimate.low, "high": estimate.high}


def in_short() -> Figure | Note:
    """Draw what tanh gains over relu, published and found, with its interval over seeds."""
    data = gains()
    if set(data.comparison) == {"published"}:
        return not_yet_run("What tanh gains", f"dpstudy run {FIGURE_3.name}")
    with canvas(size=(7.2, 3.0)) as (figure, (axes,)):
        places = {name: -at for at, name in enumerate(FIGURE_3.datasets)}
        for shift, (kind, rows) in zip(
            (0.24, 0.08, -0.08, -0.24), data.groupby("comparison", sort=False), strict=False
        ):
            style, at = STYLE[str(kind)], rows.dataset.map(places) + shift
            points = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(100 * rows.gain, at, label=kind, **points)
            if "low" in rows:
                axes.hlines(at, 100 * rows.low, 100 * rows.high, color=style.color)
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set(xlabel="points of test accuracy that tanh gains over relu, at the quoted ε")
        axes.set_yticks(list(places.values()), [DATASETS[name] for name in places])
        axes.legend(fontsize="small", loc="lower left", bbox_to_anchor=(1, 0))
    said = "; ".join(
        f"{DATASETS[row.dataset]}, {row.comparison}: {100 * row.gain:+.2f}"
        + ("" if pd.isna(row.low) else f" ({100 * row.low:+.2f} to {100 * row.high:+.2f})")
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="tempered-sigmoids-in-short",
        caption=(
            "What tanh gains over relu under DP-SGD. Lines: 95 % intervals over seeds, paired. On "
            "MNIST and Fashion-MNIST each activation's own best is that of a search of 24 settings."
        ),
        alt=f"Gains in points. {said}.",
        data=data,
    )
