"""What tuning brings: learning rates (Table 4), a search over settings (Table 3), layers' triplets.

The best of a search is chosen by test accuracy, as in the paper, and the choice is not paid for.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from dpstudy import published
from dpstudy.figures.page import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.figures.tempered_sigmoids.common import (
    dataset_of,
    diverged,
    finals_with,
    for_each_dataset,
    logarithmic,
    logarithmic_rates,
    published_accuracy,
    seeds_of,
)
from dpstudy.readings import Reading
from dpstudy.spec import DATASETS

OPTIMIZERS = ("SGD", "Adam")
KINDS = {"private": STYLES[0], "not private": STYLES[1]}
# The last word of the label under which the winner of a search is trained again.
BEST = "best"
SETTINGS = ("width", "optimizer", "learning_rate", "batch", "epochs")


def learning_rates(reading: Reading) -> Figure | Note:
    """Draw accuracy against the learning rate, SGD and Adam, private and not (Table 4)."""
    if not reading.found:
        return not_yet_run("The learning rates of Table 4", reading.command)
    dataset, data = dataset_of(reading), _with_technique(reading)
    with canvas(1, 2, size=(9.0, 3.8), sharey=True) as (figure, panels):
        for axes, optimizer in zip(panels, OPTIMIZERS, strict=True):
            for kind, style in KINDS.items():
                rows = data[(data.optimizer == optimizer) & (data.kind == kind)]
                tried, again = _tried_and_again(rows)
                axes.plot(tried.learning_rate, tried.test_accuracy, **style.line, label=kind)
                seeds = {"color": style.color, "marker": "_", "markersize": 11, "linestyle": "none"}
                axes.plot(again.learning_rate, again.test_accuracy, **seeds)
                theirs = published_row(dataset, optimizer, kind)
                if theirs is not None:
                    options = {"markersize": 13, "markeredgecolor": "black", "linestyle": "none"}
                    axes.plot(*theirs, marker="*", color=style.color, **options)
            axes.set(xlabel="learning rate", title=optimizer)
            logarithmic_rates(axes)
        panels[0].set_ylabel("test accuracy")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    said = "; ".join(
        f"{technique}: best {best.test_accuracy:.1%} at {best.learning_rate:g}"
        for technique, best, _, _ in _techniques(data)
    )
    tried_with = seeds_of(data[data["last"] != BEST])
    dashes = " Dashes: the best, trained again." if data["last"].eq(BEST).any() else ""
    stars = " Stars: published." if published_row(dataset, "SGD", "private") else ""
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-table-4-rates-{dataset}",
        caption=(
            f"Test accuracy of tanh on {DATASETS[dataset]} against the learning rate, "
            f"{tried_with} each, computed on {reading.devices}.{dashes}{stars}"
            f"{diverged(dataset, reading)}"
        ),
        alt=f"Two panels, SGD and Adam, two curves each. {said}.",
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
        rows.append(
            {
                "technique": technique,
                "published rate": theirs[0],
                "best rate": best.learning_rate,
                "published": theirs[1],
                "median": again.test_accuracy.median(),
                "minimum": again.test_accuracy.min(),
                "maximum": again.test_accuracy.max(),
                "seeds": len(again),
                "in the search": best.test_accuracy,
                "rates tried": len(tried),
                "at the edge": "yes" if best.learning_rate in _edges(tried) else "no",
            }
        )
    return Table(
        name=f"tempered-sigmoids-table-4-{dataset}",
        caption=(
            f"The best learning rate of each optimizer for tanh on {DATASETS[dataset]}, chosen by "
            "the test accuracy of one seed (in the search), and then trained with more: median and "
            "range over those. A best rate at the edge of its grid may have a better one beyond. "
            "The published private rates belong to a clipping norm that the paper does not print. "
            f"Computed on {reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            **dict.fromkeys(("published rate", "best rate"), "{:.3g}"),
            **dict.fromkeys(("median", "minimum", "maximum", "in the search"), "{:.2%}"),
            "published": "{:.1%}",
        },
    )


def published_row(dataset: str, optimizer: str, kind: str) -> tuple[float, float] | None:
    """Return the published learning rate and accuracy of a row of Table 4; None on others."""
    name = f"{'DP-' if kind == 'private' else ''}{optimizer}"
    stated = published_accuracy(dataset, f"{name}, searched")
    if stated is None:
        return None
    return published.number("tempered sigmoids", f"learning rate, {name}").value, stated.accuracy


def _with_technique(reading: Reading) -> pd.DataFrame:
    finals = finals_with(reading, "learning_rate")
    parts = finals.label.str.split(", ", expand=True)
    return finals.assign(optimizer=parts[0], kind=parts[1], last=parts[2])


def _techniques(
    finals: pd.DataFrame,
) -> Iterator[tuple[str, pd.Series, pd.DataFrame, pd.DataFrame]]:
    """Yield each technique's name, its best rate's row, those tried, and the best's trained again.

    A technique of which no run is stored is left out.
    """
    for (optimizer, kind), rows in finals.groupby(["optimizer", "kind"], sort=False):
        tried, again = _tried_and_again(rows)
        if not tried.empty:
            yield f"{optimizer}, {kind}", tried.loc[tried.test_accuracy.idxmax()], tried, again


def _tried_and_again(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs that a search tried, and those of its best with more seeds."""
    again = rows["last"] == BEST
    return rows[~again], rows[again]


def _edges(tried: pd.DataFrame) -> tuple[float, float]:
    return tried.learning_rate.min(), tried.learning_rate.max()


@for_each_dataset
def table_3_search(reading: Reading) -> Table | Note:
    """Return the best settings that a search found for relu and tanh (Table 3)."""
    if not reading.found:
        return not_yet_run("The search of Table 3", reading.command)
    dataset = dataset_of(reading)
    finals = finals_with(reading, *SETTINGS)
    names = finals.label.str.rsplit(", ", n=1)
    finals = finals.assign(technique=names.str[0], last=names.str[1])
    rows = []
    for technique, of_one in finals.groupby("technique"):
        tried, best = _tried_and_again(of_one)
        winner = tried.loc[tried.test_accuracy.idxmax()]
        theirs = published_accuracy(dataset, _published_name(str(technique)))
        rows.append(
            {
                "technique": technique,
                "published": theirs.accuracy if theirs else None,
                "median": best.test_accuracy.median(),
                "minimum": best.test_accuracy.min(),
                "maximum": best.test_accuracy.max(),
                "seeds": len(best),
                "in the search": winner.test_accuracy,
                "median of the search": tried.test_accuracy.median(),
                "settings tried": len(tried),
                "filters": f"{winner.width:g} x",
                "optimizer": winner.optimizer,
                "learning rate": winner.learning_rate,
                "batch": winner.batch,
                "epochs": winner.epochs,
                "ε (PLD)": winner.get("epsilon_pld"),
            }
        )
    return Table(
        name=f"tempered-sigmoids-table-3-search-{dataset}",
        caption=(
            f"The best of a search over filters (multiples of the paper's), optimizer, learning "
            f"rate, batch and epochs on {DATASETS[dataset]}; with privacy the noise is what PLD "
            "asks for at the quoted ε. Half of the settings fill the space evenly, the same for "
            "relu and tanh; the others were proposed by a Gaussian process, in view of those "
            "before them. The setting with the highest test accuracy at one seed (in the search) "
            "was then trained with more: median and range over those seeds. Computed on "
            f"{reading.devices}.{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.1%}",
            **dict.fromkeys(
                ("median", "minimum", "maximum", "in the search", "median of the search"), "{:.2%}"
            ),
            "learning rate": "{:.3g}",
            "ε (PLD)": "{:.2f}",
        },
    )


def _published_name(technique: str) -> str:
    activation, kind = technique.split(", ")
    if kind == "not private":
        return f"SGD, {activation}"
    return f"DP-SGD, {'tempered sigmoid' if activation == 'tanh' else activation}"


def layer_wise(reading: Reading) -> Figure | Note:
    """Draw what as many triplets for each layer, and for all layers, come to (Conclusions)."""
    if not reading.found:
        return not_yet_run("The search over layers' triplets", reading.command)
    dataset, finals = dataset_of(reading), reading.finals
    again = finals.label.str.endswith(BEST)
    tried = finals[~again].assign(kind=finals.label.str.rsplit(" ", n=1).str[0])
    data = tried.sort_values(["kind", "test_accuracy"], ascending=False, ignore_index=True)
    data["rank"] = data.groupby("kind").cumcount() + 1
    winners = finals[again].groupby("label").test_accuracy
    with canvas(size=(6.4, 3.8)) as (figure, (axes,)):
        for style, (kind, rows) in zip(STYLES, data.groupby("kind"), strict=False):
            every = max(1, len(rows) // 12)
            error = 1 - rows.test_accuracy
            axes.plot(rows["rank"], error, **style.line, markevery=every, label=kind)
        axes.set(xlabel="rank", ylabel="test error, best at the top")
        logarithmic(axes, "{x:.1%}")
        axes.invert_yaxis()
        axes.legend(fontsize="small")
    said = "; ".join(
        f"{kind}: best {rows.test_accuracy.max():.2%}, median {rows.test_accuracy.median():.2%} of "
        f"{len(rows)}"
        for kind, rows in data.groupby("kind")
    )
    trained_again = "; ".join(
        f"{label}: {values.median():.2%} ({values.min():.2%} to {values.max():.2%})"
        for label, values in winners
    )
    winners_said = f" Trained again with several seeds, {trained_again}." if trained_again else ""
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-layer-wise-{dataset}",
        caption=(
            f"Test error on {DATASETS[dataset]} of tempered sigmoids shared by all layers, and "
            "with a triplet for each, best first; one seed each, computed on "
            f"{reading.devices}. {said}.{winners_said}{diverged(dataset, reading)}"
        ),
        alt=f"Accuracies sorted from the best, one curve a kind. {said}.{winners_said}",
        data=data,
    )
