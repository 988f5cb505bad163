"""Train what is missing and store it.

A run's state is kept after every epoch, so that one stopped by a time budget, Ctrl-C or a killed
process goes on where it was, with the same numbers as if it had never stopped.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

from dpstudy import files
from dpstudy.errors import UserError
from dpstudy.gradients import devices
from dpstudy.lab import checkpoints, store
from dpstudy.lab.checkpoints import Checkpoint
from dpstudy.lab.experiment import Pruning
from dpstudy.lab.store import Result
from dpstudy.parts.run import Run, cohort_of
from dpstudy.training import loop
from dpstudy.training.loop import Divergence, Epoch

NEVER = Pruning()


@dataclass
class CampaignOutcome:
    """What became of a campaign: results `stored`, how many were `already` or are `unfinished`."""

    stored: list[Result] = field(default_factory=list)
    already: int = 0  # stored before, or by another process
    unfinished: int = 0  # not reached by the time budget, or stopped by it at an epoch


@dataclass(frozen=True)
class Progress:
    """One epoch of one run is done: `epoch` counts from 1, `accuracy` of the test set is 0 to 1.

    The rest is of the whole campaign: `epochs_done` of `epochs_total` and `runs_done` with those
    found finished, `runs_running` and `runs_waiting`.
    """

    run: Run
    epoch: int
    accuracy: float
    epochs_done: int
    epochs_total: int
    runs_done: int
    runs_running: int
    runs_waiting: int


@dataclass
class Campaign:
    """What is to be trained, how far it is, and what came of it: told by whoever trains.

    A cohort that was stopped goes on as a whole. It may hold runs that are not wanted here, which
    are stored all the same, and runs that are stored already, which stay as they are. The fields
    are the arguments of `train_missing`.
    """

    runs: Iterable[Run]
    folder: Path
    budget: float = math.inf
    finish: Callable[[Result], Result] = lambda result: result
    report: Callable[[Progress], None] = lambda progress: None
    most: int | None = None
    pruning: Pruning = NEVER

    def __post_init__(self) -> None:
        self.deadline = time.time() + self.budget
        self._wanted = {run.identity: run for run in self.runs}
        self._reached = dict.fromkeys(self._wanted, 0)  # epochs done
        self._held: set[str] = set()
        self._stored: list[Result] = []
        # Now: they are accounted for and stored only once they have trained for hours.
        for run in (missing := self._missing()):
            run.check_accountable()
        if missing and self.budget > 0:
            store.check_writable(self.folder)
            for cohort in checkpoints.stopped_cohorts(self.folder):
                self.close(cohort)  # Whoever stored them was killed before this.

    def cohorts(self, most: int | None = None) -> Iterator[list[Run]]:
        """Yield the runs to train next, together, as many as the campaign or `most` says."""
        tried: set[str] = set()
        while waiting := [run for run in self._missing() if run.identity not in tried]:
            cohort = next_cohort(waiting, self.folder, self.most or most)
            yield cohort
            tried |= {run.identity for run in cohort}

    def _missing(self) -> list[Run]:
        # Another process may train as well.
        for path in store.stored_files(self.folder):
            self._hold(path.stem)
        return [run for identity, run in self._wanted.items() if identity not in self._held]

    def _hold(self, identity: str) -> None:
        """Note that a run is stored: nothing of it is left to wait for, though it diverged."""
        self._held.add(identity)
        if identity in self._wanted:
            self._reached[identity] = self._wanted[identity].epochs

    def progress(self, identity: str, epoch: int, accuracy: float) -> None:
        """Note that an epoch of a run is done, and report how far the campaign is."""
        if identity not in self._wanted:
            return
        # A run that starts again after its worker was lost does not count backwards.
        self._reached[identity] = max(self._reached[identity], epoch)
        done = sum(self._reached[i] >= run.epochs for i, run in self._wanted.items())
        begun = sum(epochs > 0 for epochs in self._reached.values())
        epochs = {
            "epochs_done": sum(self._reached.values()),
            "epochs_total": sum(run.epochs for run in self._wanted.values()),
        }
        waiting = {"runs_running": begun - done, "runs_waiting": len(self._wanted) - begun}
        run = self._wanted[identity]
        self.report(Progress(run, epoch, accuracy, **epochs, runs_done=done, **waiting))

    def settle(self, result: Result) -> None:
        """Store what a run came to, once: a cohort that goes on tells of it again."""
        if result.run.identity not in self._held:
            result = self.finish(result)
            # What another process has stored meanwhile, or a damaged file in its place, stays.
            with contextlib.suppress(FileExistsError):
                store.write(self.folder, result, replace=False)
                self._stored.append(result)
        self._hold(result.run.identity)

    def close(self, cohort: Sequence[Run]) -> None:
        """Forget how far a cohort is, once all its runs are stored."""
        if all(run.identity in self._held for run in cohort):
            checkpoints.path_of(self.folder, cohort).unlink(missing_ok=True)

    def outcome(self) -> CampaignOutcome:
        """Return what became of the runs."""
        left = len(self._missing())
        mine = {result.run.identity for result in self._stored}
        return CampaignOutcome(self._stored, len(self._wanted.keys() - mine) - left, left)


def in_this_process(work: Campaign) -> None:
    """Train a campaign's cohorts one after the other, on all devices of this process."""
    for cohort in work.cohorts():
        for run, seen in train_cohort(cohort, work.folder, work.deadline, work.pruning):
            if isinstance(seen, Epoch):
                work.progress(run.identity, seen.number, seen.row["test_accuracy"])
            else:
                work.settle(seen)
        work.close(cohort)


def train_missing(
    runs: Iterable[Run],
    folder: Path,
    *,
    budget: float = math.inf,
    finish: Callable[[Result], Result] = lambda result: result,
    report: Callable[[Progress], None] = lambda progress: None,
    most: int | None = None,
    pruning: Pruning = NEVER,
    on: Callable[[Campaign], None] = in_this_process,
) -> CampaignOutcome:
    """Train the runs that `folder` does not hold yet, one cohort after the other, and store them.

    Args:
        runs: those wanted.
        folder: where results are stored, and checkpoints under `.checkpoints`.
        budget: seconds; no epoch is started that would, by the slowest one's time, end later.
        finish: completes a result before it is stored, such as by its epsilon.
        report: called after every epoch of every run.
        most: how many runs to train at once; by default one on a CPU, and on an accelerator as
            many as its memory holds.
        pruning: which runs to give up.
        on: what trains the cohorts: this process, or `workers.train` on a cluster.

    Raises:
        StoreError: a result could not be written.
        DataError: a dataset is missing or damaged.
        TrainingError: a run is void.
        UserError: the device has not the memory for so many runs at once, or no epsilon could be
            stated for one of them.

    >>> train_missing([Run()], Path("nowhere"), budget=0)
    CampaignOutcome(stored=[], already=0, unfinished=1)
    """
    work = Campaign(runs, folder, budget, finish, report, most, pruning)
    on(work)
    return work.outcome()


def next_cohort(waiting: Sequence[Run], folder: Path, most: int | None = None) -> list[Run]:
    """Return the first run's cohort that was stopped, or it and what can be trained with it."""
    first = waiting[0]
    begun = list(checkpoints.stopped_cohorts(folder))
    for cohort in begun:
        if first in cohort:
            return cohort  # As it was, so that its numbers are the same.
    fresh = [
        run
        for run in waiting
        if cohort_of(run) == cohort_of(first) and not any(run in cohort for cohort in begun)
    ]
    if most is None:
        most = 1 if devices.backend() == "cpu" else first.network.cohort
    return fresh[:most]


def train_cohort(
    runs: Sequence[Run], folder: Path, deadline: float, pruning: Pruning = NEVER
) -> Iterator[tuple[Run, Epoch | Result]]:
    """Yield each run's epochs and its result, unless the deadline (`time.time()`) came first."""
    if time.time() >= deadline:
        return
    devices.backend()
    _keep_compiled_programs()
    store.forget_peak()
    dataset = runs[0].dataset.load()
    data = checkpoints.witness_of(dataset)
    path = checkpoints.path_of(folder, runs)
    begun = checkpoints.load(path, runs, data)
    sitting = {"commit": store.commit(), "device": devices.name()}
    if begun.sittings[-1:] != [sitting]:
        begun.sittings.append(sitting)
    yield from _so_far(begun, dataset.fingerprint)
    slowest, start = 0.0, time.monotonic()
    epochs = loop.train(runs, dataset, begun.microbatch, begun.states)
    for seen, states in _in_memory(epochs, path, len(runs)):
        seconds = time.monotonic() - start
        slowest, start = max(slowest, seconds), time.monotonic()
        begun.seconds += seconds / len(runs)
        begun.states = states
        going_on = [index for index, end in enumerate(begun.ended) if end is None]
        reached = _note(begun, seen, pruning, folder)
        # Results first: no checkpoint has the last epoch's.
        for index in going_on:
            if begun.ended[index] is not None:
                yield runs[index], _result(begun, index, dataset.fingerprint)
        if None in begun.ended:
            checkpoints.save(path, begun)
        yield from reached
        if None not in begun.ended or time.time() + slowest > deadline:
            return


def _in_memory(epochs: Iterator[Any], kept: Path, runs: int) -> Iterator[Any]:
    """Yield the epochs; raise UserError where the memory of the device does not hold them."""
    try:
        yield from epochs
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        again = f", and remove {kept}, which holds them together" if kept.exists() else ""
        raise UserError(
            f"the device has not the memory to train {runs} run{'s' if runs > 1 else ''} at once: "
            f"train fewer (--cohort){again}"
        ) from error


def _so_far(begun: Checkpoint, fingerprint: str) -> Iterator[tuple[Run, Epoch | Result]]:
    # Whoever trained before may have been killed before results of diverged runs were stored.
    for index, run in enumerate(begun.runs):
        yield from ((run, epoch) for epoch in begun.epochs[index][-1:] if epoch.number)
        if begun.ended[index] is not None:
            yield run, _result(begun, index, fingerprint)


def _note(
    begun: Checkpoint, seen: list[Epoch | Divergence], pruning: Pruning, folder: Path
) -> list[tuple[Run, Epoch]]:
    """Add an epoch of a cohort to its curves, and how runs end; return the epochs reached."""
    reached = []
    for index, (run, what) in enumerate(zip(begun.runs, seen, strict=True)):
        if begun.ended[index] is not None:
            continue
        if isinstance(what, Divergence):
            begun.ended[index] = {"diverged_at": what.step, "stopped": None}
            continue
        begun.epochs[index].append(what)
        reached += [(run, what)] if what.number else []
        why = pruning.why(run, what.number, what.row["test_accuracy"], folder)
        if what.number == run.epochs or why is not None:
            begun.ended[index] = {"diverged_at": None, "stopped": why}
    return reached


@functools.cache
def _keep_compiled_programs() -> None:
    """Keep them in the user's cache; `$JAX_COMPILATION_CACHE_DIR` names another place."""
    if jax.config.jax_compilation_cache_dir is None:
        with contextlib.suppress(UserError):  # This user has no home, and no cache.
            jax.config.update("jax_compilation_cache_dir", str(files.cache_folder() / "compiled"))


def _result(begun: Checkpoint, index: int, fingerprint: str) -> Result:
    provenance = store.provenance(
        begun.seconds,
        devices.name(),
        dataset_fingerprint=fingerprint,
        **({"sittings": begun.sittings} if len(begun.sittings) > 1 else {}),
        microbatch=begun.microbatch,
        cohort=len(begun.runs),
        peak_megabytes=store.peak_megabytes(),
    )
    return Result(begun.runs[index], **begun.columns(index), provenance=provenance)
