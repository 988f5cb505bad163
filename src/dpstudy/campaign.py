"""Train what is missing and store it: many runs, each safe from being cut off.

After every epoch a run's state is kept as a checkpoint beside the results, so that a run stopped
by a time budget, Ctrl-C or a killed process goes on where it was, with the same numbers as if it
had never stopped. A finished run is stored at once and its checkpoint removed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpstudy import data, store, training
from dpstudy.store import Result
from dpstudy.training import Divergence, Epoch, State

if TYPE_CHECKING:
    from dpstudy.spec import Run

CURVE = ("epoch", "step", "test_accuracy", "test_loss", "train_loss", "gradient_norm",
         "clipped_fraction")  # fmt: skip


@dataclass
class Outcome:
    """What became of the runs of a campaign."""

    stored: list[Result] = field(default_factory=list)
    already: int = 0
    unfinished: int = 0
    """Runs that the time budget did not reach, or stopped at an epoch."""


@dataclass(frozen=True)
class Progress:
    """One epoch of one run is done: what a progress display needs to know."""

    run: Run
    epoch: int
    epochs_done: int
    """Over all runs of the campaign, those found finished included."""
    epochs_total: int
    accuracy: float


@dataclass
class Rows:
    """The curve of a run so far, and the seconds spent on it over all its sittings."""

    epochs: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0


def train_missing(
    runs: Iterable[Run],
    folder: Path,
    *,
    budget: float = math.inf,
    finish: Callable[[Result], Result] = lambda result: result,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Train the runs that `folder` does not hold yet, one after the other, and store them.

    Args:
        runs: the runs wanted.
        folder: where results are stored, and checkpoints under `.checkpoints`.
        budget: seconds; no epoch is started that would, by the slowest one's time, end later.
        finish: completes a result before it is stored, such as by its epsilon.
        report: called after every epoch.

    Raises:
        StoreError: a result could not be written.
        DataError: a dataset is missing or damaged.
        TrainingError: a run is void.
    """
    plan = Plan.of(runs, folder)
    outcome = Outcome(already=plan.already)
    done, deadline = plan.epochs_before, time.time() + budget
    for run in plan.missing.values():
        result = None
        for item in train_one(run, folder, deadline):
            if isinstance(item, Epoch):
                done_here = done + item.epoch
                report(Progress(run, item.epoch, done_here, plan.epochs_total, item.test_accuracy))
            else:
                result = item
        done += run.epochs
        settle(outcome, folder, run, result, finish)
    return outcome


@dataclass(frozen=True)
class Plan:
    """What a campaign has to do: the runs not stored yet, and the epochs done before it."""

    missing: dict[str, Run]
    already: int
    epochs_before: int
    epochs_total: int

    @classmethod
    def of(cls, runs: Iterable[Run], folder: Path) -> Plan:
        """Compare the runs wanted with what `folder` holds."""
        wanted = {run.identity: run for run in runs}
        have = {path.stem for path in store.stored_files(folder)} & set(wanted)
        return cls(
            missing={identity: run for identity, run in wanted.items() if identity not in have},
            already=len(have),
            epochs_before=sum(wanted[identity].epochs for identity in have),
            epochs_total=sum(run.epochs for run in wanted.values()),
        )


def settle(
    outcome: Outcome,
    folder: Path,
    run: Run,
    result: Result | None,
    finish: Callable[[Result], Result],
) -> None:
    """Store what a run came to, remove its checkpoint, and count it."""
    if result is None:
        outcome.unfinished += 1
        return
    result = finish(result)
    store.write(folder, result)
    _checkpoint(folder, run).unlink(missing_ok=True)
    outcome.stored.append(result)


def train_one(run: Run, folder: Path, deadline: float) -> Iterator[Epoch | Result]:
    """Yield the run's epochs, then its result, unless the deadline (`time.time()`) came first."""
    if time.time() >= deadline:
        return
    _keep_compiled_programs()
    dataset = data.load(run.dataset)
    rows, state = load_checkpoint(_checkpoint(folder, run), run)
    yield from rows.epochs
    diverged_at = None
    slowest = 0.0
    start = time.monotonic()
    for seen, reached in training.train(run, dataset, state):
        if isinstance(seen, Divergence):
            diverged_at = seen.step
            break
        now = time.monotonic()
        rows.epochs.append(seen)
        rows.seconds += now - start
        slowest, start = max(slowest, now - start), now
        yield seen
        if seen.epoch < run.epochs:
            save_checkpoint(_checkpoint(folder, run), rows, reached)
            if time.time() + slowest > deadline:
                return
    yield _result(run, rows, diverged_at, dataset.fingerprint)


@functools.cache
def _keep_compiled_programs() -> None:
    """Have later processes find what this one compiles, in the user's cache.

    `$JAX_COMPILATION_CACHE_DIR` names another place.
    """
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(data.cache_folder() / "compiled"))


def _result(run: Run, rows: Rows, diverged_at: int | None, fingerprint: str) -> Result:
    return Result(
        run=run,
        curve={name: [_plain(getattr(row, name)) for row in rows.epochs] for name in CURVE},
        class_accuracy=[_plain(x) for x in rows.epochs[-1].class_accuracy] if rows.epochs else [],
        diverged_at=diverged_at,
        provenance=store.provenance(
            wall_seconds=rows.seconds, fingerprint=fingerprint, device=device_name()
        ),
    )


def _plain(value: float) -> float | None:
    """Round to what float32 holds; JSON has no infinity, and a loss can reach it."""
    if isinstance(value, int):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None


def device_name() -> str:
    """Return what the runs of this process are computed on, in words."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return f"{available_cores()} x CPU core ({_processor()})"
    return f"{jax.device_count()} x {device.device_kind} ({device.platform})"


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    """Return the processor's model, where the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _checkpoint(folder: Path, run: Run) -> Path:
    return folder / ".checkpoints" / f"{run.identity}.npz"


def save_checkpoint(path: Path, rows: Rows, state: State) -> None:
    """Keep a run's state and curve so far, atomically."""
    content: dict[str, Any] = {
        f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))
    }
    epochs = json.dumps([dataclasses.asdict(row) for row in rows.epochs])
    buffer = io.BytesIO()
    np.savez(buffer, epochs=np.array(epochs), seconds=np.float64(rows.seconds), **content)
    sealed = buffer.getvalue()
    store.write_atomically(path, hashlib.sha256(sealed).digest() + sealed)


def load_checkpoint(path: Path, run: Run) -> tuple[Rows, State | None]:
    """Return a run's curve and state so far; nothing, where there is no usable checkpoint.

    A checkpoint is a cache: one that is damaged, or was written by a version whose state has
    another shape, only costs the time to train again.
    """
    if not path.exists():
        return Rows(), None
    # Not by jax.eval_shape: the compiler options of `initial_params` forbid tracing through it.
    shapes, tree = jax.tree.flatten(training.start(run))
    try:
        sealed = path.read_bytes()
        if hashlib.sha256(sealed[32:]).digest() != sealed[:32]:
            return Rows(), None
        with np.load(io.BytesIO(sealed[32:])) as saved:
            leaves = [saved[f"leaf{i}"] for i in range(len(shapes))]
            epochs = [Epoch(**row) for row in json.loads(str(saved["epochs"]))]
            seconds = float(saved["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return Rows(), None
    if [leaf.shape for leaf in leaves] != [shape.shape for shape in shapes]:
        return Rows(), None
    return Rows(epochs, seconds), jax.tree.unflatten(tree, [jax.numpy.asarray(x) for x in leaves])
