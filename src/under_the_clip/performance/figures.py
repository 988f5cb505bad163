"""What a private step costs, here and elsewhere, and how near it is to the machine's."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.page.figure import (
    STYLES,
    Figure,
    Note,
    Several,
    Table,
    canvas,
    not_yet_run,
)
from under_the_clip.performance.timings import COMMAND, OURS, Benchmark, Comparison, latest

NETWORKS = {"mnist": "MNIST network", "cifar-10": "CIFAR-10 network"}
STYLE = dict(zip(NETWORKS, STYLES, strict=False))
# Each series: what varies, its column, and how its axis is named.
SERIES = {
    "by_batch": ("batch", "batch size"),
    "by_width": ("width", "channels, times the paper's"),
    "side_by_side": ("processes", "runs side by side"),
}


def stored() -> Benchmark | None:
    """Return the last stored measurement; None before the first `make bench`."""
    return latest()[0]


def warnings_of(benchmark: Benchmark | None) -> Note | None:
    """Return a note that names damaged records and failed contestants; None if there are none."""
    lines = [f"Left out: {line}." for line in latest()[1]]
    for comparison in benchmark.comparisons if benchmark else ():
        lines += [
            f"Failed on the {_title(comparison)}: {name}, {reason}."
            for name, reason in comparison.failed.items()
        ]
    return Note("Incomplete", " ".join(lines)) if lines else None


def in_short(benchmark: Benchmark | None) -> Figure | Note:
    """Draw how many times as long as our private step each other contestant's takes."""
    if benchmark is None:
        return not_yet_run("The comparison of steps", COMMAND)
    data = benchmark.contestants()
    data = data[(data.name != OURS) & data.ratio.notna()]
    if data.empty:
        return Note("No ratios", "The stored measurement lacks our own step.")
    names = list(data.groupby("name").ratio.median().sort_values().index)
    with canvas(size=(7.2, 3.0)) as (figure, [axes]):
        shifts = (0.12, -0.12)
        for shift, (network, rows) in zip(
            shifts, data.groupby("network", sort=False), strict=False
        ):
            style = STYLE[str(network)]
            at = [shift - names.index(name) for name in rows.name]
            mark = {"color": style.color, "marker": style.marker, "linestyle": "none"}
            axes.plot(rows.ratio, at, label=NETWORKS[str(network)], **mark)
            axes.hlines(at, rows.ratio_low, rows.ratio_high, color=style.color)
        axes.axvline(1, color="0.4", linewidth=1)
        axes.set(xscale="log", xlabel="time of a step over that of our private step")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks([-at for at in range(len(names))], names)
        axes.legend(fontsize="small", loc="upper right")
    said = "; ".join(
        f"{row.name}, {NETWORKS[row.network]}: {row.ratio:.2f}" for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="performance-in-short",
        caption=(
            f"Times our private step: median and quartiles of ratios within {benchmark.rounds} "
            f"rounds. {benchmark.machine}."
        ),
        alt=f"Times as long as our private step. {said}.",
        data=data,
    )


def times(benchmark: Benchmark | None) -> Several | Note:
    """Return every contestant's step, a table a network, folded but for the first."""
    if benchmark is None:
        return not_yet_run("The contest", COMMAND)
    comparisons = benchmark.comparisons
    tables = tuple(_times(benchmark, comparison) for comparison in comparisons)
    return Several(tables, tuple(_title(comparison) for comparison in comparisons))


def _times(benchmark: Benchmark, comparison: Comparison) -> Table:
    table = comparison.table(benchmark.product_rate())
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
        name=f"performance-{comparison.network}",
        caption=(
            f"{_title(comparison)}, batch {comparison.batch}: median and quartiles over "
            f"{benchmark.rounds} rounds, each contestant in its best setting (in brackets: a "
            "microbatch's examples, or the like). Times ours: the median of ratios within a round, "
            f"and not the ratio of two medians. The first step compiles. {benchmark.machine}."
        ),
        data=data,
        formats=megabytes | seconds | {"times ours": "{:.2f}", "of the machine's rate": "{:.0%}"},
        merged={"quartiles": "{low}–{high}"},
    )


def undone(benchmark: Benchmark | None) -> Table | Note:
    """Return how much longer our step takes with one thing undone, on both networks."""
    if benchmark is None or not benchmark.content.undone:
        return not_yet_run("The table of what each part is worth", COMMAND)
    rows: dict[str, dict[str, str]] = {}
    for row in benchmark.undone().itertuples():
        told = f"{row.ratio:.2f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})"
        rows.setdefault(row.name, {})[f"{NETWORKS[row.network]}, times"] = told
        rows[row.name][f"{NETWORKS[row.network]}, ms"] = f"{row.seconds * 1e3:.1f}"
    data = pd.DataFrame.from_dict(rows, orient="index").rename_axis("undone").reset_index()
    return Table(
        name="performance-undone",
        caption=(
            "Our private step on one core, with one thing undone at a time: times as long as with "
            f"nothing undone in the same round, median and quartiles. {benchmark.machine}."
        ),
        data=data,
    )


def growth(benchmark: Benchmark | None) -> Figure | Note:
    """Draw how our step's cost grows with batch, width, and runs side by side."""
    series = {kind: benchmark.series(kind) for kind in SERIES} if benchmark else {}
    series = {kind: rows for kind, rows in series.items() if not rows.empty}
    if benchmark is None or not series:
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
            f"single-threaded process pinned to a core of its own. {benchmark.machine}."
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
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if kind == "side_by_side":
        axes.set_xticks(sorted(rows[column].unique()))
        axes.margins(x=0.2)
    else:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _title(comparison: Comparison) -> str:
    return NETWORKS[comparison.network]


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
