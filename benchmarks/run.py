"""Time DP-SGD steps, ours and others', side by side, and store what was measured.

Run by `make bench`; the chapter on performance reads what it stores.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import contest
from contest import Entry, Outcome
from problem import BATCH, NETWORKS, Problem, flops
from roster import LESSONS, OURS, PEERS, PRODUCTS
from tqdm import tqdm

import under_the_clip  # noqa: F401 - its kinds of record
from dpstudy.errors import UserError
from dpstudy.lab import records

BATCHES = {"mnist": (64, 128, 256, 512, 1024, 2048), "cifar-10": (64, 128, 256, 512, 1024)}
WIDTHS = {"mnist": (0.5, 1, 2, 4), "cifar-10": (0.5, 1, 2)}
PRODUCT_SIZE = 2048
VERSIONS = ("jax", "jaxlib", "flax", "optax", "numpy", "torch", "opacus", "jax-privacy")


def cores() -> tuple[int, ...]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def contestants(network: str, quick: bool) -> list[Entry]:
    """Return who takes part in the contest on a network, each in all its variants."""
    problem = Problem(network, BATCH[network])
    return [
        Entry(name, peer.module, problem, variant)
        for name, peer in PEERS.items()
        if peer.quick or not quick
        for variant in peer.variants[: 1 if quick else None]
    ]


def side_by_side(network: str, variant: str) -> list[Entry]:
    """Return our step in one pinned single-threaded process, in two, ... and in one a core."""
    problem = Problem(network, BATCH[network])
    return [
        Entry(f"{count} pinned", PEERS[OURS].module, problem, variant, cores()[:count])
        for count in range(1, len(cores()) + 1)
        if count & (count - 1) == 0 or count == len(cores())
    ]


def by_batch(network: str, variant: str) -> list[Entry]:
    """Return our step at several batch sizes."""
    return [
        Entry(f"batch {batch}", PEERS[OURS].module, Problem(network, batch), variant)
        for batch in BATCHES[network]
    ]


def by_width(network: str, variant: str) -> list[Entry]:
    """Return our step at several multiples of the channels."""
    return [
        Entry(
            f"width {width:g}",
            PEERS[OURS].module,
            Problem(network, BATCH[network], width),
            variant,
        )
        for width in WIDTHS[network]
    ]


def undone(network: str, variant: str) -> list[Entry]:
    """Return our step on one core with one of the things undone that make it fast."""
    problem = Problem(network, BATCH[network])
    return [
        Entry(lesson, LESSONS.module, problem, lesson, cores()[:1]) for lesson in LESSONS.variants
    ]


def products() -> list[Entry]:
    """Return the matrix products, with all cores and with one."""
    any_problem = Problem("mnist", 1)
    return [
        Entry(f"{name}, {where}", peer.module, any_problem, str(PRODUCT_SIZE), pinned)
        for name, peer in PRODUCTS.items()
        for where, pinned in (("all cores", (None,)), ("one core", cores()[:1]))
    ]


Series = Callable[[str, str], list[Entry]]


class Session:
    """One run of the benchmark: its length, its progress, and who failed."""

    def __init__(self, networks: tuple[str, ...], rounds: int, seconds: float, quick: bool):
        """Plan it."""
        self.networks, self.rounds, self.seconds, self.quick = networks, rounds, seconds, quick
        self.failed: dict[str, str] = {}
        total = sum(self._share(entries, rounds) for entries, rounds in self._contests())
        form = "{percentage:3.0f}% {bar} {elapsed} gone, {remaining} left, {postfix}"
        self.bar = tqdm(total=total, bar_format=form)

    def _contests(self) -> Iterator[tuple[list[Entry], int]]:
        """Yield what will be held, for the progress bar."""
        yield products(), self.short_rounds
        for network in self.networks:
            yield contestants(network, self.quick), self.rounds
            for entries in self.series:
                yield entries(network, ""), self.short_rounds

    @staticmethod
    def _share(entries: list[Entry], rounds: int) -> int:
        return len(entries) * (contest.START + rounds * contest.BURST)

    @property
    def short_rounds(self) -> int:
        """Rounds where the question is how cost grows, not who is faster."""
        return max(2, self.rounds // 3)

    @property
    def series(self) -> tuple[Series, ...]:
        """The series of our step alone: how its cost grows, and what makes it small."""
        return () if self.quick else (by_batch, by_width, side_by_side, undone)

    def done(self, what: str, share: int) -> None:
        """Move the progress bar."""
        self.bar.set_postfix_str(what, refresh=False)
        self.bar.update(share)

    def hold(self, what: str, entries: list[Entry], rounds: int, **options: Any) -> Outcome:
        """Hold one contest, and say at once who failed."""
        outcome = contest.hold(
            entries, rounds=rounds, seconds=self.seconds, report=self.done, **options
        )
        for name, reason in outcome.failed.items():
            self.failed[f"{what}: {name}"] = reason
            self.bar.write(f"{what}: {name} failed: {reason}", file=sys.stderr)
        return outcome

    def compare(self, network: str) -> dict[str, Any]:
        """Time all contestants on one network."""
        outcome = self.hold(network, contestants(network, self.quick), self.rounds, same_loss=True)
        return {
            "network": network,
            "batch": BATCH[network],
            "parameters": NETWORKS[network].parameters,
            "flops": flops(NETWORKS[network], BATCH[network]),
            "contestants": [
                one.record() | {"private": PEERS[one.entry.name].private}
                for one in outcome.finished
            ],
            "failed": outcome.failed,
        }

    def grow(self, network: str, entries: Series, variant: str) -> list[dict[str, Any]]:
        """Time our step along one series."""
        what = f"{network}, {entries.__name__.replace('_', ' ')}"
        finished = self.hold(what, entries(network, variant), self.short_rounds).finished
        return [
            one.record() | {"network": network, "flops": flops(problem.network, problem.batch)}
            for one in finished
            for problem in (one.entry.problem,)
        ]

    def measure(self) -> dict[str, Any]:
        """Run everything; return what is stored."""
        rates = self.hold("products", products(), self.short_rounds).finished
        content: dict[str, Any] = {
            "products": [one.record() | {"flops": 2 * PRODUCT_SIZE**3} for one in rates],
            "comparisons": [],
        } | {entries.__name__: [] for entries in self.series}
        for network in self.networks:
            comparison = self.compare(network)
            content["comparisons"].append(comparison)
            for entries in self.series:
                variant = best_of_ours(comparison)
                content[entries.__name__] += self.grow(network, entries, variant)
        self.bar.close()
        return content


def best_of_ours(comparison: dict[str, Any]) -> str:
    """Return the variant of ours with the lowest median time, or the default if none ran."""
    times = {
        one["variant"]: statistics.median(max(burst) for burst in one["rounds"])
        for one in comparison["contestants"]
        if one["name"] == OURS
    }
    return min(times, key=times.__getitem__, default=PEERS[OURS].variants[0])


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "processor": processor(),
        "cores": len(cores()),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": installed(),
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def installed() -> dict[str, str]:
    """Return the versions of the libraries that there are, by name."""
    found = {}
    for name in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def processor() -> str:
    """Return the processor's name and, since one name has many, what of it XLA makes use of."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    vectors = [flag for flag in ("avx512f", "avx2") if flag in named.get("flags", "").split()]
    return " ".join([named.get("model name", platform.machine()), *vectors[:1]])


def commit() -> str:
    """Return the commit, with a mark if the package differs from it; empty outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(contest.HERE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "../src", ".")
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")


def store(content: dict[str, Any]) -> Path:
    """Store the measurement under the machine's and the day's name; return where."""
    name = f"cpu-{content['machine']['cores']}-cores-{content['machine']['date']}"
    path = records.folder("benchmarks") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    records.write(path, "benchmarks", content)
    return path


@click.command(context_settings={"show_default": True})
@click.option(
    "--network",
    "networks",
    multiple=True,
    type=click.Choice(sorted(NETWORKS)),
    default=tuple(NETWORKS),
    help="Network to compare on. Stored only if all are.",
)
@click.option("--rounds", type=click.IntRange(2), default=6, help="Bursts of each contestant.")
@click.option("--seconds", type=click.FloatRange(0.01), default=0.5, help="Length of a burst.")
@click.option("--quick", is_flag=True, help="A trial: MNIST alone, few rounds; nothing is stored.")
def main(networks: tuple[str, ...], rounds: int, seconds: float, quick: bool) -> None:
    """Time a DP-SGD step of this package and of others, and store the result.

    Wants a quiet machine. A contestant that fails is named, the others are stored, and the exit
    status is 1.
    """
    if quick:
        networks, rounds, seconds = networks[:1], 2, 0.2
    session = Session(networks, rounds, seconds, quick)
    try:
        settings = {"rounds": rounds, "burst_seconds": seconds}
        content = {"machine": machine(), "settings": settings} | session.measure()
        summarise(content)
        if quick or set(networks) != set(NETWORKS):
            click.echo("Not stored: a trial, or not all networks.")
        else:
            click.echo(f"Stored {store(content)}")
    except UserError as error:
        raise click.ClickException(str(error)) from error
    if session.failed:
        failures = "\n".join(f"  {name}: {reason}" for name, reason in session.failed.items())
        raise click.ClickException(f"{len(session.failed)} failed:\n{failures}")


def summarise(content: dict[str, Any]) -> None:
    """Print each contestant's fastest burst: a first look, no more."""
    for comparison in content["comparisons"]:
        click.echo(
            f"{comparison['network']}, batch {comparison['batch']}: ms a step, MB, s to start"
        )
        for one in comparison["contestants"]:
            fastest = min(seconds for burst in one["rounds"] for seconds in burst) * 1e3
            what = f"{one['name']} {one['variant'] and '(' + one['variant'] + ')'}"
            click.echo(f"{fastest:9.1f} {one['peak'] / 1e6:8.0f} {one['first_step']:7.1f}  {what}")


if __name__ == "__main__":
    main()
