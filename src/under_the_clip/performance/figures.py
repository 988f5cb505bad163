"""What a private step costs, here and elsewhere, and how near it is to the machine's."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.lab import store
from dpstudy.lab.store import Result
from dpstudy.page.figure import STYLES, Figure, Note, Several, Table, canvas, not_yet_run
from dpstudy.parts.data.images import DATASETS
from under_the_clip.forms import Measurement
from under_the_clip.performance import timings
from under_the_clip.performance.timings import COMMAND, OURS

NETWORKS = {"mnist": "MNIST network", "cifar-10": "CIFAR-10 network"}
STYLE = dict(zip(NETWORKS, STYLES, strict=False))
# Each series: what varies, its column, and how its axis is named.
SERIES = {
    "by_batch": ("batch", "batch size"),
    "by_width": ("width", "channels, times the paper's"),
    "side_by_side": ("processes", "runs side by side"),
}


def stored() -> Measurement | None:
    """Return the last stored measurement; None before the first `make bench`."""
    return timings.latest()[0]


def warnings_of(measured: Measurement | None) -> Note | None:
    """Return a note that names damaged records and failed contestants; None if there are none."""
    lines = [f"Left out: {line}." for line in timings.latest()[1]]
    for comparison in measured.comparisons if measured else ():
        lines += [
            f"Failed on the {NETWORKS[comparison.network]}: {name}, {reason}."
            for name, reason in comparison.failed.items()
        ]
    return Note("Incomplete", " ".join(lines)) if lines else None


def in_short(measured: Measurement | None) -> Figure | Note:
    """Draw how many times as long as our private step each other contestant's takes."""
    if measured is None:
        return not_yet_run("The comparison of steps", COMMAND)
    data = timings.contestants(measured)
    data = data[(data.name != OURS) & data.ratio.notna()]
    if data.empty:
        return Note("No ratios", "The stored measurement lacks our own step.")
    names = list(data.groupby("name").ratio.median().sort_values().index)
    with canvas(size=(7.2, 3.0)) as (figure, [axes]):
        of_each = data.groupby("network", sort=False)
        for shift, (network, rows) in zip((0.12, -0.12), of_each, strict=False):
            style = STYLE[str(network)]
            at = [shift - names.index(name) for name in rows.name]
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(rows.ratio, at, label=NETWORKS[str(network)], **mark)
            axes.hlines(at, rows.ratio_low, rows.ratio_high, color=style.color)
        axes.axvline(1, color="0.4", linewidth=1)
        axes.set(xscale="log", xlabel="time of a step over that of our private step")
        _name_ticks(axes.xaxis)
        axes.set_yticks([-at for at in range(len(names))], names)
        axes.legend(fontsize="small", loc="upper right")
    said = "; ".join(
        f"{row.name}, {NETWORKS[row.network]}: {row.ratio:.2f}" for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="performance-in-short",
        caption=(
            "Times our private step: median and quartiles of ratios within "
            f"{measured.settings.rounds} rounds. {measured.machine}."
        ),
        alt=f"Times as long as our private step. {said}.",
        data=data,
    )


def times(measured: Measurement | None) -> Several | Note:
    """Return every contestant's step, a table a network, folded but for the first."""
    if measured is None:
        return not_yet_run("The contest", COMMAND)
    found = dict(list(timings.contestants(measured).groupby("network", sort=False)))
    tables = tuple(_times(measured, str(network), table) for network, table in found.items())
    return Several(tables, tuple(NETWORKS[str(network)] for network in found))


def _times(measured: Measurement, network: str, table: pd.DataFrame) -> Table:
    data = pd.DataFrame(
        {
            "": [f"{r.name} ({r.variant})" if r.variant else r.name for r in table.itertuples()],
            "private": table.private.map({True: "yes", False: "no"}),
            "ms a step": table.seconds * 1e3,
            "low": table.seconds_low * 1e3,
            "high": table.seconds_high * 1e3,
            "times ours": table.ratio,
            "of the machine's rate": table.rate,
            "peak MB": table.peak / 1e6,
            "of it libraries": table.baseline / 1e6,
            "first step, s": table.first_step,
        }
    )
    megabytes = dict.fromkeys(("peak MB", "of it libraries"), "{:,.0f}")
    seconds = dict.fromkeys(("ms a step", "low", "high", "first step, s"), "{:.1f}")
    return Table(
        name=f"performance-{network}",
        caption=(
            f"{NETWORKS[network]}, batch {table.batch.iloc[0]}: median and quartiles over "
            f"{measured.settings.rounds} rounds, each contestant in its best setting (in brackets: "
            "a microbatch's examples, or the like). Times ours: the median of ratios within a "
            f"round, and not the ratio of two medians. The first step compiles. {measured.machine}."
        ),
        data=data,
        formats=megabytes | seconds | {"times ours": "{:.2f}", "of the machine's rate": "{:.0%}"},
        merged={"quartiles": "{low}–{high}"},
    )


def undone(measured: Measurement | None) -> Table | Note:
    """Return how much longer our step takes with one thing undone, on both networks."""
    if measured is None or not measured.undone:
        return not_yet_run("The table of what each part is worth", COMMAND)
    rows: dict[str, dict[str, str]] = {}
    for row in timings.undone(measured).itertuples():
        told = f"{row.ratio:.2f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})"
        rows.setdefault(row.name, {})[f"{NETWORKS[row.network]}, times"] = told
        rows[row.name][f"{NETWORKS[row.network]}, ms"] = f"{row.seconds * 1e3:.1f}"
    data = pd.DataFrame.from_dict(rows, orient="index").rename_axis("undone").reset_index()
    return Table(
        name="performance-undone",
        caption=(
            "Our private step on one core, with one thing undone at a time: times as long as with "
            f"nothing undone in the same round, median and quartiles. {measured.machine}."
        ),
        data=data,
    )


def growth(measured: Measurement | None) -> Figure | Note:
    """Draw how our step's cost grows with batch, width, and runs side by side."""
    series = {kind: timings.series(measured, kind) for kind in SERIES} if measured else {}
    series = {kind: rows for kind, rows in series.items() if not rows.empty}
    if measured is None or not series:
        return not_yet_run("The figure of growth", COMMAND)
    with canvas(1, len(series), size=(3.6 * len(series), 3.4)) as (figure, panels):
        for axes, (kind, rows) in zip(panels, series.items(), strict=True):
            _draw_growth(axes, kind, rows)
        panels[0].legend(fontsize="small")
    data = pd.concat([r.assign(series=k) for k, r in series.items()], ignore_index=True)
    return Figure(
        fig=figure,
        name="performance-growth",
        caption=(
            "Examples a second in our private step, median and quartiles: by batch size and by "
            "width with all cores in one process; and of all runs together, each in a "
            f"single-threaded process pinned to a core of its own. {measured.machine}."
        ),
        alt=" ".join(_describe_growth(kind, rows) for kind, rows in series.items()),
        data=data,
    )


def _draw_growth(axes: Axes, kind: str, rows: pd.DataFrame) -> None:
    column, label = SERIES[kind]
    for network, points in rows.groupby("network", sort=False):
        points, style = points.sort_values(column), STYLE[str(network)]
        speed = points.examples_per_second
        axes.errorbar(
            points[column],
            speed,
            yerr=[
                speed - points.examples_per_second_low,
                points.examples_per_second_high - speed,
            ],
            **style.line,
            capsize=2,
            label=NETWORKS[str(network)],
        )
    axes.set(xlabel=label, ylabel="examples/s", yscale="log")
    _name_ticks(axes.yaxis)
    if kind == "side_by_side":
        axes.set_xticks(sorted(rows[column].unique()))
        axes.margins(x=0.2)
    else:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _name_ticks(axis: Axis) -> None:
    """Name 1, 2 and 5 times each power of ten on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _describe_growth(kind: str, rows: pd.DataFrame) -> str:
    column, label = SERIES[kind]
    parts = []
    for network, points in rows.groupby("network", sort=False):
        first, last = (points.sort_values(column).iloc[at] for at in (0, -1))
        parts.append(
            f"{NETWORKS[str(network)]} from {first.examples_per_second:.0f} examples a second "
            f"at {first[column]:g} to {last.examples_per_second:.0f} at {last[column]:g}"
        )
    return f"By {label}: {'; '.join(parts)}."


def repeats() -> Table | Note:
    """Return how far apart the two trainings of each run that was trained twice are."""
    again, _ = store.read_all(store.results_folder() / "repeats")
    first, _ = store.read_all(store.runs_folder(), again)
    rows = [_repeat(first[name], again[name]) for name in sorted(again) if name in first]
    if not rows:
        return Note("Repeats", "No run is stored twice.")
    data = pd.DataFrame(rows).sort_values(["dataset", "private", "seed"], ignore_index=True)
    most = 100 * data["most apart"].max()
    return Table(
        name="repeats",
        caption=(
            f"{len(data)} runs trained twice, from the same seed: test accuracy at the last epoch, "
            f"and the most that the two differ after any epoch. At most {most:.2f} points."
        ),
        data=data,
        formats={
            "first": "{:.2%}",
            "again": "{:.2%}",
            "most apart": lambda apart: f"{100 * apart:.2f} points",
        },
    )


def _repeat(first: Result, again: Result) -> dict[str, object]:
    curves = (np.array(one.curve["test_accuracy"]) for one in (first, again))
    run = first.run
    return {
        "dataset": DATASETS[run.dataset.name],
        "private": "yes" if run.private else "no",
        "seed": run.seed,
        "first": first.curve["test_accuracy"][-1],
        "again": again.curve["test_accuracy"][-1],
        "most apart": float(np.max(np.abs(np.subtract(*curves)))),
        "machines": " and ".join(dict.fromkeys(one.provenance["device"] for one in (first, again))),
    }
