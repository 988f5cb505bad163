"""What a search costs, on a page: in all, by a fixed and by a random number of trials, and left."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from dpstudy.lab.readings import Reading, read
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.panels import HEIGHT, LETTER, WIDTH
from dpstudy.page.sliders import Sliders
from dpstudy.parts.data.images import DATASETS
from dpstudy.privacy.private_selection import Trials
from under_the_clip.designs import EPSILON
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.search_cost import board, costs, released
from under_the_clip.search_cost.published import SEARCHES, UNKNOWN

# Of the opening figure: what a column is called, its style, where its name stands, and how.
_LINES = {
    "composed": ("all of them\nare counted", 2, (6.2, 10.2), "right"),
    "geometric": ("a random number,\ngeometric law", 1, (45, 6.9), "right"),
    "logarithmic": ("a random number,\nlogarithmic law", 0, (150, 4.6), "left"),
    "one": ("stated: as if it were one run", 4, (12, 3.7), "left"),
}
_ON = {"end-to-end": "pixels", "ScatterNet": "features"}
# Where the number of trials stands that no paper prints.
_NOWHERE = 2600


def in_short() -> Figure:
    """Draw the ε of a whole search against its number of trials, and how many papers tried."""
    data = costs.totals().assign(one=EPSILON)
    small = {"fontsize": "small", "linespacing": 1.1}
    with canvas(size=(5.6, 3.5)) as (figure, (axes,)):
        for column, (name, style, place, side) in _LINES.items():
            line = {"color": STYLES[style].color, "linestyle": STYLES[style].dash, "linewidth": 2}
            axes.plot(data.trials, data[column], **line)
            axes.text(*place, name, color=STYLES[style].color, ha=side, va="center", **small)
        tried = {f"{of.paper}, {_ON[of.network]}": int(of.trials.value) for of in SEARCHES}
        mark = {"color": STYLES[4].color, "markersize": 8, "linestyle": "none"}
        arrow = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.8, "relpos": (1, 0.5)}
        beside = {"ha": "right", "va": "center", "arrowprops": arrow} | small
        for row, (what, trials) in enumerate(sorted(tried.items(), key=lambda pair: pair[1])):
            axes.plot(trials, EPSILON, STYLES[4].marker, **mark)
            at = 0.9 * trials, 2.2 - 0.75 * row
            axes.annotate(f"{what}: {trials}", (trials, EPSILON), at, **beside)
        axes.plot(_NOWHERE, EPSILON, STYLES[4].marker, **mark, markerfacecolor="white")
        axes.text(3300, 2.6, ",\n".join(UNKNOWN), ha="right", va="top", **small)
        axes.set(xscale="log", xlabel="trials, in the mean where random", ylabel="ε in all")
        axes.set(xlim=(0.9, 3600), ylim=(0, 11))
        axes.set_xticks([1, 10, 100, 1000, _NOWHERE], ["1", "10", "100", "1,000", "?"])
        axes.set_xticks([], minor=True)
    said = "; ".join(
        f"{int(row.trials):,} trials: {row.logarithmic:.1f} by the logarithmic law, "
        f"{row.geometric:.1f} by the geometric"
        + ("" if pd.isna(row.composed) else f", {row.composed:.1f} if all are counted")
        for row in data.itertuples()
    )
    marks = "; ".join(f"{what}: {trials} trials" for what, trials in tried.items())
    return Figure(
        fig=figure,
        name="search-total",
        caption="The recipe's first edition on CIFAR-10, of which one run costs 3. Triangles: how "
        "many settings the papers, or the code they build on, tried on one dataset. Hollow: not "
        "printed.",
        alt=f"ε of a whole search against its number of trials, where one costs 3. {said}. "
        f"Stated is 3 for any number. {marks}; not printed: {', '.join(UNKNOWN)}.",
        data=data,
    )


def told(chances: Mapping[str, tuple[float, float]]) -> Figure:
    """Draw how likely what is released is, with your example and without it, by what was done."""
    rows = [
        {
            "released": what,
            "with you": here,
            "without you": there,
            "ε at least": np.log(here / there),
        }
        for what, (here, there) in chances.items()
    ]
    data = pd.DataFrame(rows)
    with canvas(size=(5.2, 0.9 + 0.5 * len(rows))) as (figure, (axes,)):
        axes.hlines(-data.index, data["without you"], data["with you"], color="0.6", linewidth=2)
        for column, style in (("without you", STYLES[4]), ("with you", STYLES[0])):
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(data[column], -data.index, label=column, markersize=9, **mark)
        for at, row in enumerate(data.to_dict("records")):
            middle = (row["with you"] * row["without you"]) ** 0.5, -at
            above = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"ε ≥ {row['ε at least']:.1f}", middle, fontsize="small", **above)
        axes.set(xscale="log", xlabel="how likely it has failed", ylim=(0.5 - len(rows), 0.7))
        axes.set_yticks(-data.index, data.released)
        axes.grid(visible=False, axis="y")
        legend_below(figure)
    form = "{released}: {with you:.2g} with you, {without you:.2g} without you"
    said = "; ".join(form.format(**row) for row in rows)
    return Figure(
        fig=figure,
        name="search-told",
        caption="What is released has failed: how likely, with your example and without. The "
        "farther apart the marks, the more it tells.",
        alt=f"Two marks a row on a logarithmic axis, apart by ε at least. {said}.",
        data=data,
    )


_COUNTS = {"1": (1, 1), "2 or 3": (2, 3), "4 to 10": (4, 10), "11 to 30": (11, 30), "more": (31, 0)}


def laws(mean: float) -> Figure:
    """Draw how often a search has how many trials, by the law of their number."""
    rows = []
    for law in costs.CHOSEN:
        stop = Trials(mean, law).stop
        of = stats.geom(stop) if law == "geometric" else stats.logser(1 - stop)
        for count, (low, high) in _COUNTS.items():
            share = of.sf(low - 1) - (of.sf(high) if high else 0)
            rows.append({"trials": count, "law": law, "share of searches": float(share)})
    data = pd.DataFrame(rows)
    with canvas(size=(5.2, 2.5)) as (figure, (axes,)):
        for number, (law, of) in enumerate(data.groupby("law", sort=False)):
            at = np.arange(len(of)) + 0.4 * number - 0.2
            axes.bar(at, 100 * of["share of searches"], 0.38, label=law, **STYLES[number].area)
        axes.set_xticks(range(len(_COUNTS)), _COUNTS)
        axes.set(xlabel=f"trials of a search, {mean:g} in the mean", ylabel="% of searches")
        axes.grid(visible=False, axis="x")
        legend_below(figure)
    said = "; ".join(
        f"{law}, {count}: {share:.0%}" for count, law, share in data.itertuples(index=False)
    )
    return Figure(
        fig=figure,
        name="search-laws",
        caption=f"How many trials a search has, {mean:g} in the mean. The logarithmic law is the "
        "cheaper: more often one, now and then very many.",
        alt=f"Shares of searches by law and number of trials. {said}.",
        data=data,
    )


def published() -> Table:
    """Return each search whose number of trials is printed, and what it would cost at random."""
    data = costs.published().assign(dataset=lambda of: of.dataset.map(DATASETS))
    columns = ("paper", "dataset", "network", "trials", "grid", "one", *costs.CHOSEN, "source")
    return Table(
        name="search-published",
        caption="Searches with a printed number of trials. ε by PLD of one run, and of the best of "
        "as many runs in the mean, if their number and their settings had been drawn at random. "
        "Dashes: a mechanism without a proven ε near the one that is claimed.",
        data=data[[*columns]].rename(columns={"one": "one run"}),
        formats=dict.fromkeys(("one run", *costs.CHOSEN), "{:.2f}"),
    )


def lost() -> Figure | Note:
    """Draw what one trial of the recipe loses where the best of many costs no more than one run."""
    reading = read(RECIPE_SEARCH)
    of_each = [_lost(reading, dataset) for dataset in reading.datasets]
    if not of_each:
        return not_yet_run("The recipe at what is left", reading.command)
    data = pd.concat(of_each, ignore_index=True)
    size = WIDTH * len(of_each) + 0.5, HEIGHT
    with canvas(1, len(of_each), size=size, sharey=True) as (figure, panels):
        for axes, (dataset, of) in zip(panels, data.groupby("dataset", sort=False), strict=True):
            for number, (law, by) in enumerate(of.groupby("law", sort=False)):
                line = STYLES[number].line
                axes.fill_between(
                    by.trials, by.lost_low, by.lost_high, color=line["color"], alpha=0.2
                )
                axes.plot(by.trials, by.lost, **line)
                if axes is panels[0]:  # above the upper line, below the lower one
                    upper = law == "logarithmic"
                    place, side = ((70, -0.8), "right") if upper else ((3, -2.4), "left")
                    axes.text(*place, f"{law}\nlaw", color=line["color"], ha=side)
            axes.axhline(0, color="0.3", linewidth=1)
            axes.set(xscale="log", xlabel="trials in the mean", title=DATASETS[dataset])
            axes.set_xticks(costs.ASKED, map(str, costs.ASKED))
            axes.set_xticks([], minor=True)
        panels[0].set_ylabel("points, against one run")
    said = "; ".join(
        f"{DATASETS[row.dataset]}, {row.trials} trials, {row.law}: {row.lost:+.2f} "
        f"({row.lost_low:+.2f} to {row.lost_high:+.2f})"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="search-lost",
        caption="What one trial of the recipe's first edition loses where the best of many costs "
        "ε = 3 in all, against one run at 3, with 95 % intervals. What the search gains is not "
        "counted.",
        alt=f"Points lost against the mean number of trials. {said}.",
        data=data,
    )


def _lost(reading: Reading, dataset: str) -> pd.DataFrame:
    found = released.at_the_same_total(reading.on(dataset), dataset)
    return found.assign(**{end: 100 * found[end] for end in ("lost", "lost_low", "lost_high")})


def at_a_total_of_3(paid_for: Reading, borrowed: Reading) -> Figure | Note:
    """Draw the board: what each method reaches whose search is paid for, and with none to pay."""
    data = board.rows(paid_for, borrowed)
    if data.empty or board.PAYS not in set(data.settings):
        return _not_yet_run(paid_for, borrowed)
    kinds = {
        board.UNCOUNTED: (2, "one run above ε = 3"),
        board.PAYS: (0, "ε = 3 in all"),
        board.BORROWS: (4, "one run at ε = 3"),
    }
    # Not in the mean: on photographs, which are harder, one method alone was searched.
    by_method = data[data.settings == board.PAYS].groupby("method").accuracy.max()
    named = [*dict.fromkeys([*by_method.sort_values(ascending=False).index, *data.method])]
    drawn = list(dict.fromkeys(data.dataset))
    size = WIDTH * len(drawn) + LETTER * max(map(len, named)), 1.5 + 0.3 * len(named)
    with canvas(1, len(drawn), size=size, sharey=True) as (figure, panels):
        for axes, dataset in zip(panels, drawn, strict=True):
            for settings, (style, spent) in kinds.items():
                of = data[(data.dataset == dataset) & (data.settings == settings)]
                at = [-named.index(method) for method in of.method]
                mark = {"color": STYLES[style].color, "marker": STYLES[style].marker}
                hollow = {"markerfacecolor": "white"} if settings == board.UNCOUNTED else {}
                axes.hlines(at, 100 * of.minimum, 100 * of.maximum, color=mark["color"])
                label = f"{settings}: {spent}" if len(at) else None
                axes.plot(100 * of.accuracy, at, **mark, **hollow, linestyle="none", label=label)
            axes.set(title=DATASETS[dataset], xlabel="accuracy, %", ylim=(0.5 - len(named), 0.5))
            axes.set_yticks([-number for number in range(len(named))], named)
        legend_below(figure)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, {row.method}, {row.settings}: {row.accuracy:.2%}"
        for row in data.itertuples()
    )
    fewest = data.seeds[data.settings == board.PAYS].min()
    return Figure(
        fig=figure,
        name="search-board",
        caption=f"Mean accuracy and range over {fewest} seeds or more, on held-out examples; the "
        "recipe is its first edition. Above 3: the noise is that of training on all examples, and "
        "these are fewer. A row without a mark was not run.",
        alt=f"Accuracy by method and by how its settings were found. {said}.",
        data=data,
    )


def _not_yet_run(*readings: Reading) -> Note:
    takes = board.hours(*readings)
    how_long = "" if np.isnan(takes) else f" They take about {takes:.0f} hours of one core."
    told = f"The board at ε = 3 in all: its runs are not stored.{how_long} To run them:"
    return Note("Not yet run", told, "\n".join(reading.command for reading in readings))


_TRIALS, _BEST = "trials in the mean", "the best of as many settings is tried, {} law"


def by_slider() -> Sliders:
    """Return what a search costs of which one run costs 3, by its trials."""
    data = costs.totals()
    shown = pd.DataFrame({_TRIALS: data.trials})
    for law in costs.CHOSEN:
        shown[f"ε in all, {law} law"] = data[law]
    for law in costs.CHOSEN:
        shown[_BEST.format(law)] = [
            100 * Trials(count, law).chance_of_trying(1 / count) for count in data.trials
        ]
    forms = {of: "{:.0f} %" if of.startswith("the best") else "{:.2f}" for of in shown}
    return Sliders(
        name="search-by-trials",
        caption="Of a run that costs ε = 3: the recipe's first edition on CIFAR-10. By PLD, "
        "rounded up.",
        data=shown,
        inputs={_TRIALS: 10},
        formats=forms | {_TRIALS: "{:g}"},
    )
