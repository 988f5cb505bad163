"""One small panel a dataset, side by side: curves named at their lines, and leads of one of two."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from dpstudy.lab.comparison import CONFIDENCE
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.variant import Variant
from dpstudy.page.curves import course, draw_curve, limit, over_seeds
from dpstudy.page.figure import LEADER, STYLES, Figure, Note, canvas, star
from dpstudy.page.quantity import ACCURACY, EPSILON, set_axis
from dpstudy.parts.data.images import DATASETS

# In inches: of a panel, and of a name's letters.
WIDTH, HEIGHT, LETTER = 2.2, 2.5, 0.075
Drawn = Mapping[str, Sequence[Variant]]


def panels(
    drawn: Drawn, of: Quantity = ACCURACY, *, along: Quantity = EPSILON, name: str, caption: str
) -> Figure | Note:
    """Draw medians and ranges over seeds, a panel a dataset, lines named at their ends in one.

    Of at most six lines a dataset; what is not stored is left out. Published values of `ACCURACY`
    are stars. The axis is `EPSILON` or `EPOCH`; the caption has at most 40 words.
    """
    rows = {
        dataset: {line: found for line in lines if len(found := over_seeds(line, of, along))}
        for dataset, lines in drawn.items()
    }
    rows = {dataset: found for dataset, found in rows.items() if found}
    if not rows:
        return _nothing(name, drawn)
    names = {line.name: line.style for found in rows.values() for line in found}
    size = WIDTH * len(rows) + 0.3 + LETTER * max(map(len, names)), HEIGHT
    with canvas(1, len(rows), size=size) as (figure, axes):
        for panel, (dataset, found) in zip(axes, rows.items(), strict=True):
            for line, curve in found.items():
                draw_curve(panel, line, curve, along)
            panel.set_title(DATASETS.get(dataset, dataset), fontsize="medium")
            set_axis(panel.xaxis, along)
            set_axis(panel.yaxis, of)
            if panel is not axes[0]:
                panel.set_ylabel("")
            if of == ACCURACY:
                published = {line: line.published for line in found if line.published is not None}
                for line, one in published.items():
                    at = one.claimed_epsilon, one.accuracy
                    star(panel, *at, STYLES[line.style], f"{line.name}, published")
                limit(panel, found.values(), [one.accuracy for one in published.values()])
        # The first that has most: a narrow page shows the last one last.
        at, fullest = max(enumerate(rows.values()), key=lambda panel: len(panel[1]))
        ends = {line.name: curve for line, curve in fullest.items()}
        _name_at_ends(axes[at], names, ends, along)
    said = "; ".join(
        f"{DATASETS.get(dataset, dataset)}, {line.name} {course(line, of, curve)}"
        for dataset, found in rows.items()
        for line, curve in found.items()
    )
    data = pd.concat(
        curve.assign(dataset=dataset) for dataset, found in rows.items() for curve in found.values()
    )
    data, alt = data.dropna(axis=1, how="all"), f"{of.label} by {along.label}: {said}."
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=data)


def leads(
    drawn: Drawn,
    *,
    name: str,
    caption: str,
    published: Mapping[str, tuple[float, float]] | None = None,
    remarks: Mapping[str, tuple[float, float, str]] | None = None,
) -> Figure | Note:
    """Draw by how many points the second of two lines leads the first, with its 95 % interval.

    Along the epsilon spent. By dataset, `published` are the epsilon and the lead in points, drawn
    as a star, and `remarks` where a word is written into its panel, and the word.
    """
    rows = {dataset: found for dataset, of in drawn.items() if len(found := _lead(*of))}
    if not rows:
        return _nothing(name, drawn)
    published, remarks = published or {}, remarks or {}
    size = WIDTH * len(rows) + 0.5, HEIGHT
    with canvas(1, len(rows), size=size, sharey=True) as (figure, axes):
        for panel, (dataset, lead) in zip(axes, rows.items(), strict=True):
            x, style = lead[EPSILON.column], STYLES[drawn[dataset][1].style]
            panel.fill_between(x, lead.low, lead.high, color=style.color, alpha=0.25)
            panel.plot(x, lead.points, color=style.color, linewidth=2)
            panel.axhline(0, color="0.3", linewidth=1)
            if dataset in published:
                panel.plot(*published[dataset], "*", markersize=13, color="black")
                beside = {"xytext": (-8, 0), "textcoords": "offset points", "ha": "right"}
                panel.annotate("the paper", published[dataset], va="center", **beside)
            if dataset in remarks:
                panel.text(*remarks[dataset], color=style.color)
            panel.set_title(DATASETS.get(dataset, dataset), fontsize="medium")
            set_axis(panel.xaxis, EPSILON)
        axes[0].set_ylabel("lead in points")
        seen = pd.concat(rows.values())
        late = seen[seen.epoch >= 2]
        heights = [*late.points, *late.low.dropna(), *late.high.dropna()]  # none of two seeds
        heights += [lead for _, lead in published.values()]
        axes[0].set_ylim(min(heights) - 0.3, max(heights) + 0.3)
    said = "; ".join(
        f"{DATASETS.get(dataset, dataset)}: from {lead.points.iloc[0]:+.1f} to "
        f"{lead.points.iloc[-1]:+.1f} points at the end ({lead.low.iloc[-1]:+.1f} to "
        f"{lead.high.iloc[-1]:+.1f})"
        for dataset, lead in rows.items()
    )
    stars = "".join(
        f" Published: {lead:+.1f} on {DATASETS.get(dataset, dataset)}."
        for dataset, (_, lead) in published.items()
    )
    data = pd.concat(lead.assign(dataset=dataset) for dataset, lead in rows.items())
    alt = f"Leads in points by {EPSILON.label}. {said}.{stars}"
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=data)


def _lead(first: Variant, second: Variant) -> pd.DataFrame:
    """Return the mean lead in points and its interval, one row an epoch, paired by seed."""
    if not (first.results and second.results):
        return pd.DataFrame()
    column = ACCURACY.column
    apart = 100 * (second.by_epoch(column) - first.by_epoch(column)).dropna(axis=1, how="all")
    seeds = apart.shape[1]
    mean, half = apart.mean(axis=1), np.nan
    if seeds > 2:
        half = stats.t.ppf((1 + CONFIDENCE) / 2, seeds - 1) * apart.std(axis=1) / np.sqrt(seeds)
    rows = pd.DataFrame({"points": mean, "low": mean - half, "high": mean + half, "seeds": seeds})
    spent = second.by_epoch(EPSILON.column).max(axis=1).to_numpy()
    return rows.reset_index().assign(**{EPSILON.column: spent})


def _name_at_ends(
    axes: Axes, names: Mapping[str, int], ends: Mapping[str, pd.DataFrame], along: Quantity
) -> None:
    """Write each line's name right of its end, apart from each other; of absent ones below."""
    scale, (left, right) = axes.yaxis.get_transform(), axes.get_xlim()
    low, high = map(float, scale.transform(axes.get_ylim()))
    x = max(float(rows[along.column].max()) for rows in ends.values())
    ended = {of: float(rows["median"].iloc[-1]) for of, rows in ends.items()}
    at = {of: float(scale.transform(ended[of])) if of in ended else low for of in names}
    step = 0.085 * (high - low)
    order = sorted(names, key=lambda of: at[of])
    places: list[float] = []
    for of in order:
        lowest = places[-1] + step if places else low + step / 2
        places.append(max(min(at[of], high), lowest))
    over = max(0.0, places[-1] - high)
    for of, place in zip(order, places, strict=True):
        end = x, ended.get(of, axes.get_ylim()[0])
        beside = right + 0.05 * (right - left), float(scale.inverted().transform(place - over))
        axes.annotate(
            of,
            end,
            xytext=beside,
            va="center",
            fontsize="small",
            arrowprops=LEADER | {"relpos": (0, 0.5)} if of in ends else None,
            annotation_clip=False,
        )


def _nothing(name: str, drawn: Drawn) -> Note:
    commands = dict.fromkeys(line.reading.command for lines in drawn.values() for line in lines)
    return Note("Not yet run", f"{name}: none of its runs is stored.", "\n".join(commands))


def dots(
    rows: Sequence[Mapping[str, object]],
    *,
    name: str,
    caption: str,
    axis: str,
    chance: Mapping[str, float] | None = None,
) -> Figure | Note:
    """Draw a point and its interval a row, beside a line at 0, a panel a dataset.

    The rows have `dataset`, `row`, `points`, and where there is an interval, `low` and `high`. A
    band shows, by dataset, how far from 0 a point without an interval may be by `chance`. The
    caption says what it means where a dataset lacks a row of others.
    """
    if not rows:
        return _nothing(name, {})
    data = pd.DataFrame([{"low": np.nan, "high": np.nan} | dict(row) for row in rows])
    named = list(dict.fromkeys(data.row))
    drawn = list(dict.fromkeys(data.dataset))
    size = WIDTH * len(drawn) + LETTER * max(map(len, named)), 0.9 + 0.27 * len(named)
    with canvas(1, len(drawn), size=size, sharey=True) as (figure, panels):
        figure.get_layout_engine().set(w_pad=0.1)  # numbers reach beyond their axes
        for panel, dataset in zip(panels, drawn, strict=True):
            of = data[data.dataset == dataset]
            at = [-named.index(row) for row in of.row]
            if chance:
                far = chance.get(dataset, 0)
                panel.axvspan(-far, far, color="0.88", zorder=0)
            panel.margins(y=0.1)
            panel.axvline(0, color="0.3", linewidth=1)
            panel.hlines(at, of.low, of.high, color=STYLES[0].color, linewidth=2)
            panel.plot(of.points, at, "o", color=STYLES[0].color)
            panel.set_title(DATASETS.get(dataset, dataset), fontsize="medium")
            panel.set_yticks([-number for number in range(len(named))], named)
            panel.set_ylim(0.5 - len(named), 0.5)
            panel.set_xlabel(axis)
    said = "; ".join(
        f"{DATASETS.get(row.dataset, row.dataset)}, {row.row}: {row.points:+.2f}"
        + ("" if pd.isna(row.low) else f" ({row.low:+.2f} to {row.high:+.2f})")
        for row in data.itertuples()
    )
    alt = f"{axis}. {said}."
    if len(data) < len(named) * len(drawn):
        caption += " No mark: no such comparison."
    return Figure(fig=figure, name=name, caption=caption, alt=alt, data=data)


def gained(rows: Sequence[Mapping[str, object]], **how: str) -> Figure | Note:
    """Draw rows of `results.gains_of` as `dots`."""
    ends = ["points", "low", "high"]
    data = pd.DataFrame(rows).rename(columns={"comparison": "row"})
    data[ends] = 100 * data.reindex(columns=ends).astype(float)
    return dots(data.to_dict("records"), **how)
