"""Many runs side by side: a pinned single-threaded process a core, or any Dask cluster.

Each worker trains one cohort at a time; results come back to the caller, who stores them. When a
worker is lost Dask gives its cohort to another, which goes on from the last checkpoint where the
two share a file system.
"""

import contextlib
import logging
import math
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import dask
from distributed import CancelledError, Client, Future, LocalCluster, WorkerPlugin, get_worker, wait
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from dpstudy.errors import UserError
from dpstudy.gradients import devices
from dpstudy.lab import campaign
from dpstudy.lab.campaign import Campaign
from dpstudy.lab.experiment import Pruning
from dpstudy.lab.store import Result
from dpstudy.parts.run import Run

TOPIC = "dpstudy-epoch"
_KEPT = "what was done is kept, and the same command goes on"
# Seconds between looks at whether a cluster has grown, and those that it has to show a worker.
NEW_WORKERS_EVERY, FIRST_WORKER_WITHIN = 5.0, 60.0
# Read when a worker first uses jax: one thread and one device, for the one core it is pinned to.
SINGLE_THREADED = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_NUM_CPU_DEVICES": "1",
}
# A worker looks at its own stack a hundred times a second: on the core that it trains on, that took
# a third of the time. And memory given back to the system at once is only asked for again.
UNDISTURBED = {
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.pre-spawn-environ": {},
}


class PinToCore(WorkerPlugin):
    """Keeps each worker of this machine on a core of its own, where the system can."""

    def setup(self, worker: Any) -> None:
        """Pin the worker by its number in the cluster."""
        # A terminal's Ctrl-C is for all its processes. That of the campaign ends the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})


@contextlib.contextmanager
def connect(scheduler: str | None, workers: int | None = None) -> Iterator[Client]:
    """Open the Dask cluster at an address, "tcp://host:8786", or one of this machine's `workers`.

    UserError where an address has another form, nothing answers there, no worker joins, or one has
    not this version of the package.
    """
    if scheduler is not None and not re.fullmatch(r"(tcp://)?[^/\s]+:\d+", scheduler):
        raise UserError(f"scheduler must be an address as tcp://host:8786, got {scheduler!r}")
    with contextlib.ExitStack() as opened:
        cluster = scheduler or opened.enter_context(_this_machine(workers))
        try:
            client = opened.enter_context(Client(cluster, timeout=5))
            client.wait_for_workers(1, timeout=FIRST_WORKER_WITHIN)
        except (OSError, ValueError) as error:
            where = "on this machine" if scheduler is None else f"at {scheduler}"
            raise UserError(f"no Dask cluster is at work {where}: {error}") from error
        if scheduler is None:
            client.register_plugin(PinToCore())
        else:
            _check_package(client)
        # Where a connection is lost Dask logs stack traces: `_lost` says it in a line.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        yield client


def _check_package(client: Client) -> None:
    here = metadata.version("dpstudy")
    for worker, there in client.run(metadata.version, "dpstudy", on_error="return").items():
        if there != here:
            has = "no dpstudy" if isinstance(there, Exception) else f"dpstudy {there}"
            raise UserError(f"the worker at {worker} has {has}: install {here} where it runs")


@contextlib.contextmanager
def _this_machine(workers: int | None) -> Iterator[LocalCluster]:
    alone = {"threads_per_worker": 1, "memory_limit": 0, "env": SINGLE_THREADED}
    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
    with dask.config.set(UNDISTURBED):
        cluster = LocalCluster(n_workers=workers or devices.available_cores(), **alone, **quiet)
        try:
            yield cluster
        finally:
            # A worker that is still starting, since one before it died, may not stop in time: it
            # ends with this process, and why the other died is what there is to say.
            with contextlib.suppress(TimeoutError):
                cluster.close()


def train(client: Client, work: Campaign) -> None:
    """Train a campaign on a cluster.

    A worker trains one run at once unless the campaign says how many: this process cannot know what
    the workers' devices hold. What a worker raises is raised here; UserError where the workers died
    or left, or the scheduler was lost.
    """
    # The longest first: one begun late is waited for by all other workers.
    waiting = sorted(work.cohorts(1), key=lambda runs: -sum(map(_cost, runs)))
    running: dict[Future, list[Run]] = {}
    seen = time.monotonic()  # a worker, last
    client.subscribe_topic(TOPIC, lambda event: work.progress(*event[1]))
    try:
        while waiting or running:
            threads = _threads(client)
            if threads:
                seen = time.monotonic()
            elif time.time() >= work.deadline:
                break  # Nobody is left to stop at the deadline.
            elif time.monotonic() - seen > FIRST_WORKER_WITHIN:
                raise UserError(f"no worker is left; {_KEPT}")
            # A cohort to each thread as it becomes free. Dask would deal out all of them at once,
            # and has left workers idle for minutes while runs waited for another.
            while waiting and len(running) < threads:
                cohort = waiting.pop(0)
                what = cohort, work.folder.resolve(), work.deadline, work.pruning
                key = "-".join(run.identity for run in cohort)
                running[client.submit(train_on_worker, *what, key=key)] = cohort
            for future in _ended(running):
                for result in future.result():
                    work.settle(result)
                work.close(running.pop(future))
                future.release()  # Or Dask would answer by it when the cohort is to go on.
    except (KilledWorker, CancelledError, CommClosedError) as error:
        raise _lost(error) from error
    finally:
        if client.status == "running":  # Else there is nobody to tell.
            client.cancel(list(running), force=True)
            client.unsubscribe_topic(TOPIC)


def _cost(run: Run) -> float:
    numbers = run.dataset.examples * math.prod(run.dataset.image_shape)
    return run.epochs * numbers * run.network.width**2  # both ends of a convolution have the width


def _threads(client: Client) -> int:
    """Return how many cohorts the cluster trains at once; CommClosedError if it is lost."""
    if client.status == "running":
        with contextlib.suppress(OSError):
            return sum(client.nthreads().values())
    raise CommClosedError("scheduler-connection-lost")


def _ended(running: Iterable[Future]) -> list[Future]:
    if not running:
        time.sleep(NEW_WORKERS_EVERY)
    with contextlib.suppress(TimeoutError, CancelledError):
        wait(list(running), timeout=NEW_WORKERS_EVERY, return_when="FIRST_COMPLETED")
    return [future for future in running if future.done()]


def _lost(error: Exception) -> UserError:
    why = f"the Dask cluster dropped the work ({getattr(error, 'reason', error)})"
    if isinstance(error, KilledWorker):
        why = f"workers died training {error.task}: train fewer at once (--workers, --cohort)"
    return UserError(f"{why}; {_KEPT}")


def train_on_worker(
    cohort: list[Run], folder: Path, deadline: float, pruning: Pruning
) -> list[Result]:
    """Train a cohort to its end or to the deadline, telling of each epoch; return what ended."""
    results = []
    for run, seen in campaign.train_cohort(cohort, folder, deadline, pruning):
        if isinstance(seen, Result):
            results.append(seen)
        else:
            get_worker().log_event(TOPIC, (run.identity, seen.number, seen.row["test_accuracy"]))
    return results
