"""What `make bench` stored, as tables: times, memory, and ratios with their spread.

Seconds are those of a step. They, their ratios and what is done a second have columns for the
median and the quartiles, such as seconds, seconds_low and seconds_high.
"""

import math

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.forms import decoded
from dpstudy.page.figure import STYLES, Note
from dpstudy.page.results import quartiles
from under_the_clip.forms import Contest, Contestant, Measurement, Timed

COMMAND = "make bench"
ON_GPU = "python benchmarks/gpu.py"

# The contestant that the others are compared with, by its name in the record.
OURS = "ours"
NETWORKS = {"mnist": "MNIST network", "cifar-10": "CIFAR-10 network"}
# Each private contestant with what trains without privacy in the same library.
WITHOUT = {
    OURS: "ours, not private",
    **dict.fromkeys(
        ("torch.func", "Opacus, hooks", "Opacus, ghost clipping"), "PyTorch, not private"
    ),
    **dict.fromkeys(("vmap(grad)", "jax-privacy"), "JAX, not private"),
}
STYLE = dict(zip(NETWORKS, STYLES, strict=False))
# Each series: what varies, its column, and how its axis is named.
SERIES = {
    "by_batch": ("batch", "batch size"),
    "by_width": ("width", "channels, times the paper's"),
    "side_by_side": ("processes", "runs side by side"),
}


def contestants(measured: Measurement) -> pd.DataFrame:
    """Return one row a contestant and network, in its fastest variant, the fastest of a kind first.

    Columns: network, batch, name, variant, private, seconds, ratio to ours within a round (missing
    where ours is), peak memory from the process' start on and baseline in bytes (baseline: the
    libraries are imported and nothing is done), first_step (seconds, compilation included), and
    rate: the part of `product_rate` that the step's matrix products amount to.
    """
    rate = product_rate(measured)
    return pd.concat([_of(one, rate) for one in measured.comparisons], ignore_index=True)


def _of(contest: Contest, rate: float | None) -> pd.DataFrame:
    fastest: dict[str, Contestant] = {}
    for one in sorted(contest.contestants, key=lambda one: seconds_of(one).median()):
        fastest.setdefault(one.name, one)
    ours = seconds_of(fastest[OURS]) if OURS in fastest else math.nan
    rows = [
        {
            "network": contest.network,
            "batch": contest.batch,
            "name": one.name,
            "variant": one.variant,
            "private": one.private,
            **quartiles(seconds_of(one)),
            **quartiles(seconds_of(one) / ours, "ratio"),
            "peak": max(one.start_peak, one.peak),
            "baseline": one.baseline,
            "first_step": one.first_step,
            "rate": contest.flops / seconds_of(one).median() / rate if rate else None,
        }
        for one in fastest.values()
    ]
    return pd.DataFrame(rows).sort_values("ratio", ignore_index=True)


def product_rate(measured: Measurement) -> float | None:
    """Return operations a second in float32 matrix products, on all cores or the accelerator.

    By whichever library is faster; None if none was measured.
    """
    exact = (one for one in measured.products if not one.pinned and one.precision == "float32")
    return max((one.flops / seconds_of(one).median() for one in exact), default=None)


def series(measured: Measurement, kind: str) -> pd.DataFrame:
    """Return one of the series in which our step grows: one row a point.

    Columns: network, batch, width, processes, seconds, and examples_per_second of all processes
    together. The kinds are those of `SERIES`.
    """
    rows = []
    for one in getattr(measured, kind):
        together = sum(one.batch / pd.Series(s) for s in zip(*one.rounds, strict=True))
        row = {key: getattr(one, key) for key in ("network", "batch", "width", "processes")}
        rows.append(row | quartiles(seconds_of(one)) | quartiles(together, "examples_per_second"))
    return pd.DataFrame(rows)


def undone(measured: Measurement) -> pd.DataFrame:
    """Return our step with one of the things undone that make it fast: one row each.

    Columns: network, name (of what is undone), seconds, and their ratio within a round to the step
    with nothing undone, which comes first.
    """
    rows = []
    plain: dict[str, pd.Series] = {}
    for one in measured.undone:
        seconds = seconds_of(one)
        # The first of a network is the step as it is.
        ratio = quartiles(seconds / plain.setdefault(one.network, seconds), "ratio")
        rows.append({"network": one.network, "name": one.name} | quartiles(seconds) | ratio)
    return pd.DataFrame(rows)


def rates(measured: Measurement) -> pd.DataFrame:
    """Return operations a second in products and in our step: one row each, medians of rounds.

    Columns: "" (what is timed), batch, ms a step, TFLOP/s.
    """
    rows = [(f"product, {one.precision}", None, one) for one in measured.products]
    rows += [
        (f"{NETWORKS[one.network]}, {one.name}", one.batch, one)
        for kind in ("undone", "cohorts", "by_batch")
        for one in getattr(measured, kind)
    ]
    found = pd.DataFrame(
        [
            {"": name, "batch": batch, "ms a step": 1e3 * seconds_of(one).median(), "of": one.flops}
            for name, batch, one in rows
        ]
    )
    return found.assign(**{"TFLOP/s": found["of"] / found["ms a step"] / 1e9}).drop(columns="of")


def seconds_of(one: Timed) -> pd.Series:
    """Return seconds a step by round: of the slowest process where there are several."""
    return pd.Series([max(burst) for burst in one.rounds])


def latest(accelerated: bool = False) -> tuple[Measurement | None, list[str]]:
    """Return the last stored measurement of a processor, or of an accelerator, if there is one.

    And what is wrong with other files.
    """
    found, errors = records.read_all(records.folder("benchmarks"), "benchmarks")
    damaged = [f"{error.path.name}: {error.reason}" for error in errors]
    of_kind = [n for n in found if bool(found[n]["machine"].get("accelerator")) == accelerated]
    if not of_kind:
        return None, damaged
    # Of several machines' on one day the last by name, so that every build shows the same.
    name = max(of_kind, key=lambda name: (found[name]["machine"]["date"], name))
    return decoded(Measurement, found[name]), damaged


def stored(accelerated: bool = False) -> Measurement | None:
    """Return the last stored measurement, as `latest`; None before there is one."""
    return latest(accelerated)[0]


def warnings_of(measured: Measurement | None) -> Note | None:
    """Return a note that names damaged records and failed contestants; None if there are none."""
    lines = [f"Left out: {line}." for line in latest()[1]]
    for comparison in measured.comparisons if measured else ():
        lines += [
            f"Failed on the {NETWORKS[comparison.network]}: {name}, {reason}."
            for name, reason in comparison.failed.items()
        ]
    return Note("Incomplete", " ".join(lines)) if lines else None
