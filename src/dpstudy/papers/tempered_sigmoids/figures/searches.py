"""What searches bring: settings of all kinds (Table 3), and a triplet for each layer.

The best of a search is chosen by test accuracy, and the choice is not paid for. The paper does not
say by what it chose.
"""

from __future__ import annotations

import math

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.papers.tempered_sigmoids.experiments import BATCHES, EPOCHS
from dpstudy.papers.tempered_sigmoids.figures.common import (
    dataset_of,
    diverged,
    finals_with,
    for_each_dataset,
    of_test_error,
    over_seeds,
    published_accuracy,
    seeds_of,
    spending_of,
)
from dpstudy.papers.tempered_sigmoids.searches import SEARCH_RATES, WIDTHS
from dpstudy.parts.images import DATASETS

# The last word of the label under which the winner of a search is trained again.
BEST = "best"
SETTINGS = ("width", "optimizer", "learning_rate", "batch", "epochs")


def tried_and_again(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs that a search tried, and those of its best with more seeds."""
    again = rows["last"] == BEST
    return rows[~again], rows[again]


def winner_of(tried: pd.DataFrame, again: pd.DataFrame, *settings: str) -> pd.Series:
    """Return the row of seed 0 of what was trained again; the best so far, if nothing was yet.

    Where that row is not stored, or damaged, the settings, without an accuracy.
    """
    first = tried[tried.seed == 0]
    if again.empty:
        first = tried if first.empty else first
        return first.loc[first.test_accuracy.idxmax()]
    chosen = again.iloc[0]
    same = first[(first[list(settings)] == chosen[list(settings)]).all(axis=1)]
    without = pd.Series(chosen.to_dict() | {"test_accuracy": math.nan})
    return without if same.empty else same.iloc[0]


def range_of(values: pd.Series) -> str:
    """Show the median of some accuracies, and from where to where they go."""
    return f"{values.median():.2%} ({values.min():.2%} to {values.max():.2%})"


@for_each_dataset
def table_3_search(reading: Reading) -> Table | Note:
    """Return the best settings that a search found for relu and tanh (Table 3)."""
    if not reading.found:
        return not_yet_run("The search of Table 3", reading.command)
    dataset = dataset_of(reading)
    finals = finals_with(reading, *SETTINGS)
    names = finals.label.str.rsplit(", ", n=1)
    finals = finals.assign(technique=names.str[0], last=names.str[1])
    rows, winners = [], {}
    for technique, of_one in finals.groupby("technique"):
        tried, best = tried_and_again(of_one)
        winner = winners[str(technique)] = winner_of(tried, best, *SETTINGS)
        theirs = published_accuracy(dataset, _published_name(str(technique)))
        rows.append(
            {
                "technique": technique,
                "published": theirs.accuracy if theirs else None,
                "published in": theirs.source.where if theirs else None,
                **over_seeds(best.test_accuracy),
                "in the search, seed 0": winner.test_accuracy,
                "median of the search": tried.test_accuracy.median(),
                "settings tried": len(tried.drop_duplicates(list(SETTINGS))),
                "filters": winner.width,
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
            f"rate, batch and epochs on {DATASETS[dataset]}, by the test accuracy of seed 0. "
            f"{_how_searched(reading, sum(row['settings tried'] for row in rows))}"
            f"{_at_an_edge(reading, winners)}Median and range: of other "
            "seeds at the best setting; they say nothing of how lucky each search was, of which "
            f"there is one a row. {spending_of(reading)}. Computed on {reading.devices}."
            f"{diverged(dataset, reading)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.1%}",
            **dict.fromkeys(
                ("median", "minimum", "maximum", "in the search, seed 0", "median of the search"),
                "{:.2%}",
            ),
            "filters": "{:g} x filters",
            "learning rate": "rate {:.3g}",
            "batch": "batch {}",
            "epochs": "{} epochs",
            "ε (PLD)": "{:.2f}",
        },
        merged={
            "published": "{published}, {published in}",
            "range": "{minimum} to {maximum}",
            "in the search, at seed 0": (
                "best {in the search, seed 0}, median {median of the search}, of {settings tried}"
            ),
            "best setting": "{filters}, {optimizer}, {learning rate}, {batch}, {epochs}",
        },
    )


def _how_searched(reading: Reading, distinct: int) -> str:
    """Say where the settings come from that are stored; the tiny runs of a profile are given."""
    if reading.profile != "full":
        return ""
    stored = {label for label, _ in reading.found if not label.endswith(BEST)}
    proposed = len(stored - set(reading.experiment.variants))
    again = len(stored) - distinct
    others = f"; {proposed} were proposed by a Gaussian process, in view of those before them"
    others += f", {again} of them a second time" if again else ""
    return (
        "With privacy the noise is what PLD asks for at the quoted ε. Of the "
        f"{len(stored)} settings {len(stored) - proposed} fill the space evenly, the same for relu "
        f"and tanh{others if proposed else ''}. "
    )


def _at_an_edge(reading: Reading, winners: dict[str, pd.Series]) -> str:
    """Say how far was searched, and which of the best lie at an edge of that."""
    if reading.profile != "full":
        return ""
    ranges = {
        "filters": ("width", WIDTHS),
        "batch": ("batch", BATCHES),
        "epochs": ("epochs", EPOCHS[dataset_of(reading)]),
    }
    said = ", ".join(
        f"{name} from {levels[0]:g} to {levels[-1]:g}" for name, (_, levels) in ranges.items()
    )
    found: dict[str, list[str]] = {}
    for technique, best in winners.items():
        rates = SEARCH_RATES[best.optimizer, not technique.endswith("not private")]
        of_one = {**ranges, "learning rate": ("learning_rate", rates)}
        at = [name for name, (key, levels) in of_one.items() if _is_an_end(best[key], levels)]
        found.setdefault(", ".join(at), []).append(technique)
    edges = "; ".join(f"{at} ({'; '.join(which)})" for at, which in found.items() if at)
    beyond = f" Best at an edge, beyond which better may lie: {edges}." if edges else ""
    return f"Searched: {said}; learning rates {_rates_searched()}.{beyond} "


def _is_an_end(value: float, levels: tuple[float, ...]) -> bool:
    # A rate is proposed from an interval: one within a hundredth of its end is at the edge too.
    return any(math.isclose(value, end, rel_tol=0.01) for end in (levels[0], levels[-1]))


def _rates_searched() -> str:
    """Say between which learning rates was searched, with privacy and without."""
    return " and ".join(
        ", ".join(
            f"from {low:g} to {high:g} ({optimizer}, {'private' if private else 'not private'})"
            for (optimizer, private), (low, high) in SEARCH_RATES.items()
            if private is with_privacy
        )
        for with_privacy in (True, False)
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
    tried = finals[~again].groupby("label", as_index=False, sort=False).test_accuracy.median()
    tried = tried.assign(kind=tried.label.str.rsplit(" ", n=1).str[0])
    data = tried.sort_values(["kind", "test_accuracy"], ascending=False, ignore_index=True)
    data["rank"] = data.groupby("kind").cumcount() + 1
    winners = finals[again].groupby("label").test_accuracy
    with canvas(size=(6.4, 3.8)) as (figure, (axes,)):
        for style, (kind, rows) in zip(STYLES, data.groupby("kind"), strict=False):
            every = max(1, len(rows) // 12)
            error = 1 - rows.test_accuracy
            axes.plot(rows["rank"], error, **style.line, markevery=every, label=kind)
        axes.set_xlabel("rank")
        of_test_error(axes)
        axes.legend(fontsize="small")
    said = "; ".join(
        f"{kind}: best {rows.test_accuracy.max():.2%}, median {rows.test_accuracy.median():.2%} of "
        f"{len(rows)}"
        for kind, rows in data.groupby("kind")
    )
    trained_again = "; ".join(f"{label}: {range_of(values)}" for label, values in winners)
    winners_said = f" With other seeds, {trained_again}." if trained_again else ""
    return Figure(
        fig=figure,
        name=f"tempered-sigmoids-layer-wise-{dataset}",
        caption=(
            f"Test error on {DATASETS[dataset]} of tempered sigmoids shared by all layers, and "
            f"with a triplet for each, best first; {seeds_of(finals[~again])} each, computed on "
            f"{reading.devices}. {said}.{winners_said} Nine numbers are searched as hard as three: "
            f"a larger search might find more for each layer.{diverged(dataset, reading)}"
        ),
        alt=f"Errors sorted from the best, one curve a kind. {said}.{winners_said}",
        data=data,
    )
