"""Chapter 9: what a private step costs, here and elsewhere, and how near it is to the machine's."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.chapters.timings import (
    COMMAND,
    JAX_PRIVACY,
    OPACUS,
    OURS,
    OURS_NOT_PRIVATE,
    PYTORCH,
    VMAP_GRAD,
    Benchmark,
    Comparison,
    latest,
)
from dpstudy.page.figure import STYLES, Figure, Note, Style, Table, canvas, not_yet_run

NETWORKS = {"mnist": "MNIST network", "cifar-10": "CIFAR-10 network"}
STYLE = dict(zip(NETWORKS, STYLES, strict=False))
# What the bars of each style stand for, in the order of the legend.
KINDS = {"ours": STYLES[0], "private": STYLES[3], "not private": STYLES[1]}
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


def ratios(benchmark: Benchmark | None) -> Table | Note:
    """Return how many times as long others take, and what privacy costs in ours."""
    if benchmark is None:
        return not_yet_run("The table of ratios", COMMAND)
    rows: dict[str, dict[str, str]] = {}
    for comparison in benchmark.comparisons:
        for question, answer in _questions(comparison):
            rows.setdefault(question, {})[_title(comparison)] = answer
    if not rows:
        return Note("No ratios", "The stored measurement lacks our own step.")
    data = pd.DataFrame.from_dict(rows, orient="index").rename_axis("").reset_index()
    return Table(
        name="performance-ratios",
        caption=(
            f"Ratios within a round: median, and quartiles over {benchmark.rounds} rounds. "
            f"{benchmark.machine}."
        ),
        data=data,
    )


def _questions(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield each row's head and its answer on one network."""
    opacus = comparison.fastest(*OPACUS)
    peers = {
        "Opacus, its faster mode / ours": opacus,
        "jax-privacy / ours": JAX_PRIVACY,
        "vmap(grad) / ours": VMAP_GRAD,
        "PyTorch without privacy / ours": PYTORCH,
    }
    for question, name in peers.items():
        ratio = comparison.ratio(name) if name else None
        if ratio:
            yield question, str(ratio)
    if ratio := comparison.ratio(OURS, to=OURS_NOT_PRIVATE):
        yield "ours, private / not private", str(ratio)
    if opacus and OURS in comparison:
        modes = [name for name in OPACUS if name in comparison]
        share = comparison.peak(OURS) / min(comparison.peak(name) for name in modes)
        yield "peak memory, ours / Opacus, its leaner mode", f"{share:.2f}"
        share = comparison.grown(OURS) / min(comparison.grown(name) for name in modes)
        yield "the same beyond the imported libraries", f"{share:.2f}"


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


def times(benchmark: Benchmark | None, network: str) -> Table | Note:
    """Return every contestant's step on one network."""
    comparison = _comparison(benchmark, network)
    if benchmark is None or comparison is None:
        return not_yet_run(f"The contest on the {NETWORKS[network]}", COMMAND)
    table = comparison.table(benchmark.product_rate())
    megabytes = table[["peak", "baseline"]] / 1e6
    data = pd.DataFrame(
        {
            "": [_name(row) for row in table.itertuples()],
            "private": table.private.map({True: "yes", False: "no"}),
            "ms a step": table.seconds * 1e3,
            "quartiles": [
                f"{low * 1e3:.1f}–{high * 1e3:.1f}"
                for low, high in zip(table.seconds_low, table.seconds_high, strict=True)
            ],
            "examples/s": table.examples_per_second,
            "times ours": table.ratio,
            "peak MB": megabytes.peak,
            "of it libraries": megabytes.baseline,
            "first step, s": table.first_step,
        }
    )
    return Table(
        name=f"performance-{network}",
        caption=(
            f"A step at batch {comparison.batch} on the {_title(comparison)}, median over "
            f"{benchmark.rounds} rounds, each contestant in its best setting (in brackets). The "
            f"first step compiles. {benchmark.machine}."
        ),
        data=data,
        formats={
            "ms a step": "{:.1f}",
            "examples/s": "{:,.0f}",
            "times ours": "{:.2f}",
            "peak MB": "{:,.0f}",
            "of it libraries": "{:,.0f}",
            "first step, s": "{:.1f}",
        },
    )


def step_times(benchmark: Benchmark | None) -> Figure | Note:
    """Draw the time of a step, by contestant."""
    if benchmark is None:
        return not_yet_run("The figure of step times", COMMAND)
    data = benchmark.contestants()
    comparisons = benchmark.comparisons
    with canvas(1, len(comparisons), size=(5.0 * len(comparisons), 4.2)) as (figure, panels):
        for axes, comparison in zip(panels, comparisons, strict=True):
            rows = data[data.network == comparison.network]
            _bars(axes, rows, rows.seconds * 1e3)
            low, high = rows.seconds - rows.seconds_low, rows.seconds_high - rows.seconds
            axes.errorbar(
                rows.seconds * 1e3,
                range(len(rows)),
                xerr=[low * 1e3, high * 1e3],
                fmt="none",
                ecolor="black",
                capsize=2,
            )
            for at, row in enumerate(rows.itertuples()):
                beside = row.seconds_high * 1e3, at
                text = f"{row.seconds * 1e3:.0f}"
                axes.annotate(text, beside, (5, 0), textcoords="offset points", va="center")
            axes.set(
                xlabel="ms a step",
                xlim=(0, 1.15e3 * rows.seconds_high.max()),
                title=f"{_title(comparison)}, batch {comparison.batch}",
            )
        _legend(figure)
    return Figure(
        fig=figure,
        name="performance-step-times",
        caption=(
            "Time of a training step by contestant: median (bar) and quartiles (line) over "
            f"{benchmark.rounds} rounds. {benchmark.machine}."
        ),
        alt=" ".join(_describe(data, comparison) for comparison in comparisons),
        data=data,
    )


def memory(benchmark: Benchmark | None) -> Figure | Note:
    """Draw peak memory by contestant, and what of it the imported libraries are."""
    if benchmark is None:
        return not_yet_run("The figure of memory", COMMAND)
    data = benchmark.contestants()
    comparisons = benchmark.comparisons
    with canvas(1, len(comparisons), size=(5.0 * len(comparisons), 4.2)) as (figure, panels):
        for axes, comparison in zip(panels, comparisons, strict=True):
            rows = data[data.network == comparison.network].sort_values("peak", ignore_index=True)
            _bars(axes, rows, rows.peak / 1e6)
            axes.plot(
                rows.baseline / 1e6,
                rows.index,
                "|",
                color="black",
                markersize=14,
                markeredgewidth=2,
            )
            axes.set(xlabel="peak memory, MB", title=_title(comparison), xlim=(0, None))
        _legend(figure)
    return Figure(
        fig=figure,
        name="performance-memory",
        caption=(
            "Peak resident memory of each contestant's process, from its start on (bar), and what "
            f"of it there is once the libraries are imported (line). {benchmark.machine}."
        ),
        alt=" ".join(_describe_memory(data, comparison) for comparison in comparisons),
        data=data[["network", "name", "variant", "private", "peak", "baseline"]],
    )


def rates(benchmark: Benchmark | None) -> Figure | Note:
    """Draw what part of the machine's matrix-product rate each contestant reaches."""
    if benchmark is None or benchmark.product_rate() is None:
        return not_yet_run("The figure of rates", COMMAND)
    data = benchmark.contestants()
    comparisons = benchmark.comparisons
    with canvas(1, len(comparisons), size=(5.0 * len(comparisons), 4.2)) as (figure, panels):
        for axes, comparison in zip(panels, comparisons, strict=True):
            rows = data[data.network == comparison.network].reset_index(drop=True)
            _bars(axes, rows, rows.rate)
            axes.set(xlabel="part of the matrix-product rate", title=_title(comparison))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        _legend(figure)
    return Figure(
        fig=figure,
        name="performance-rates",
        caption=(
            "The operations in a step's matrix products, over its time, as a part of the "
            f"{benchmark.product_rate() / 1e9:.0f} GFLOP/s that large float32 products reach on "
            f"all cores. {benchmark.machine}."
        ),
        alt=" ".join(
            f"{_title(c)}: from {rows.rate.min():.0%} to {rows.rate.max():.0%}, "
            f"reached by {rows.name[rows.rate.idxmax()]}."
            for c in comparisons
            for rows in (data[data.network == c.network],)
        ),
        data=data[["network", "name", "variant", "private", "seconds", "rate"]],
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


def _bars(axes: Axes, rows: pd.DataFrame, lengths: pd.Series) -> None:
    for at, (row, length) in enumerate(zip(rows.itertuples(), lengths, strict=True)):
        axes.barh(at, length, **_style(row).area, linewidth=0.6)
    axes.set_yticks(range(len(rows)), [row.name for row in rows.itertuples()])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def _style(row: object) -> Style:
    if not row.private:
        return KINDS["not private"]
    return KINDS["ours" if row.name.startswith(OURS) else "private"]


def _legend(figure: Canvas) -> None:
    patches = [Patch(**style.area, label=kind) for kind, style in KINDS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize="small")


def _comparison(benchmark: Benchmark | None, network: str) -> Comparison | None:
    comparisons = benchmark.comparisons if benchmark else []
    return next((c for c in comparisons if c.network == network), None)


def _title(comparison: Comparison) -> str:
    return NETWORKS[comparison.network]


def _name(row: object) -> str:
    return f"{row.name} ({row.variant})" if row.variant else row.name


def _describe(data: pd.DataFrame, comparison: Comparison) -> str:
    rows = data[data.network == comparison.network]
    each = ", ".join(f"{row.name} {row.seconds * 1e3:.0f}" for row in rows.itertuples())
    return f"{_title(comparison)}, ms a step: {each}."


def _describe_memory(data: pd.DataFrame, comparison: Comparison) -> str:
    rows = data[data.network == comparison.network].sort_values("peak")
    each = ", ".join(f"{row.name} {row.peak / 1e6:.0f}" for row in rows.itertuples())
    return f"{_title(comparison)}, peak MB: {each}."


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
