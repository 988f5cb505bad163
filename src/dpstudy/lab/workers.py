"""Many runs side by side: a pinned single-threaded process a core, or any Dask cluster.

Small networks do not fill several cores: a pinned process a core gets more done than one process
with all of them. Each worker trains one cohort at a time, on such cores a single run; results come
back to the caller, who stores them. Results are content-addressed, so a run trained twice is
stored once, and when a worker is lost Dask gives its cohort to another, which goes on from the last
checkpoint where the two share a file system.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import dask
from distributed import (
    CancelledError,
    Client,
    Future,
    LocalCluster,
    WorkerPlugin,
    get_worker,
)
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoWorkerError

from dpstudy.errors import UserError
from dpstudy.gradients import devices
from dpstudy.lab import campaign, store
from dpstudy.lab.campaign import NEVER, Campaign, Outcome, Progress
from dpstudy.lab.hopeless import Hopeless
from dpstudy.parts.run import Run

if TYPE_CHECKING:
    from dpstudy.lab.store import Result

TOPIC = "dpstudy-epoch"
# Seconds between looks at whether a cluster has grown.
NEW_WORKERS_EVERY = 5.0
# Seconds that a cluster has to show its first worker.
FIRST_WORKER_WITHIN = 60.0
# Read when a worker first uses jax: one thread and one device, for the one core it is pinned to.
SINGLE_THREADED = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_NUM_CPU_DEVICES": "1",
}
# A worker looks at its own stack a hundred times a second unless told not to: on the core that it
# trains on, that took a third of the time. And memory given back to the system at once is only
# asked for again.
UNDISTURBED = {
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.pre-spawn-environ": {},
}


class Pinned(WorkerPlugin):
    """Keeps each worker of this machine on a core of its own, where the system can."""

    def setup(self, worker: Any) -> None:
        """Pin the worker by its number in the cluster."""
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})


@contextlib.contextmanager
def connect(scheduler: str | None, workers: int | None = None) -> Iterator[Client]:
    """Open the cluster at an address, or make one of this machine's cores.

    Args:
        scheduler: such as "tcp://host:8786"; None for this machine.
        workers: processes on this machine, by default one a core.

    Raises:
        UserError: nothing answers at that address, or no worker joins it.
    """
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=5)
        except (OSError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        with client, _closed_quietly(client):
            _await_a_worker(client, scheduler)
            yield client
        return
    with (
        dask.config.set(UNDISTURBED),
        _local_cluster(workers or devices.available_cores()) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Pinned())
        yield client


def _await_a_worker(client: Client, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_WITHIN)
    except TimeoutError as error:
        raise UserError(
            f"no worker joined the Dask scheduler at {scheduler} within {FIRST_WORKER_WITHIN:g} s: "
            "start one, such as by `dask worker`, and try again"
        ) from error


@contextlib.contextmanager
def _local_cluster(workers: int) -> Iterator[LocalCluster]:
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        dashboard_address=None,
        memory_limit=0,
        silence_logs=logging.ERROR,
        env=SINGLE_THREADED,
    )
    try:
        yield cluster
    finally:
        # A worker that is still starting, since one before it died, may not stop in time. It ends
        # with this process; why the other died is what there is to say.
        with contextlib.suppress(TimeoutError):
            cluster.close()


@contextlib.contextmanager
def _closed_quietly(client: Client) -> Iterator[None]:
    """Close a client without Dask's stack traces of a lost connection: `_results` says it."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    try:
        yield
    finally:
        logger.setLevel(logging.CRITICAL)
        client.close()
        logger.setLevel(level)


def train_missing(
    client: Client,
    runs: Iterable[Run],
    folder: Path,
    *,
    budget: float = math.inf,
    finish: Callable[[Result], Result] = lambda result: result,
    report: Callable[[Progress], None] = lambda progress: None,
    most: int | None = None,
    hopeless: Hopeless = NEVER,
) -> Outcome:
    """Train the runs that `folder` does not hold yet on a cluster; see `campaign.train_missing`.

    `most` is how many runs a worker trains at once, by default one: this process cannot know what
    the workers' devices hold.

    Raises:
        StoreError, DataError, TrainingError: as there, from whichever worker met it first.
        UserError: the workers died, or the scheduler was lost.
    """
    work = Campaign(runs, folder, finish, report)

    def heard(event: tuple[float, dict[str, Any]]) -> None:
        _, what = event
        work.progress(what["run"], what["epoch"], what["accuracy"])

    client.subscribe_topic(TOPIC, heard)
    running: dict[Future, list[Run]] = {}
    try:
        for future in _handed_out(
            client, work.cohorts(most or 1), folder, (time.time() + budget, hopeless), running
        ):
            cohort = running.pop(future)
            for result in _results(future, cohort):
                work.settle(result)
            work.close(cohort)
    finally:
        # A client that gave up its scheduler has nobody to tell.
        if client.status in ("running", "connecting"):
            client.cancel(list(running), force=True)
            client.unsubscribe_topic(TOPIC)
    return work.outcome()


def _handed_out(
    client: Client,
    cohorts: Iterable[list[Run]],
    folder: Path,
    until: tuple[float, Hopeless],
    running: dict[Future, list[Run]],
) -> Iterator[Future]:
    """Hand out a cohort to each thread as it becomes free; yield what is done, out of `running`.

    Dask would deal out all of them at once, by its own guess of how long each takes, and has left
    workers idle for minutes while runs waited for another.

    Raises:
        UserError: the scheduler was lost.
    """
    # The longest first: a long one begun last is waited for by all other workers.
    waiting = deque(sorted(cohorts, key=_cost, reverse=True))
    done, threads = SimpleQueue(), 0
    while waiting or running:
        if client.status == "closed":
            raise _dropped("scheduler-connection-lost")
        # While the connection is lost none answers: for as long, the threads are those of before.
        with contextlib.suppress(OSError, AttributeError):
            threads = sum(client.nthreads().values())
        if not threads and time.time() >= until[0]:
            return  # Nobody is left to stop at the deadline.
        while waiting and len(running) < threads:
            cohort = waiting.popleft()
            future = client.submit(
                train_on_worker,
                [run.to_dict() for run in cohort],
                str(folder.resolve()),
                *until,
                key="-".join(run.identity for run in cohort),
                retries=2,
            )
            running[future] = cohort
            future.add_done_callback(done.put)
        with contextlib.suppress(Empty):
            yield done.get(timeout=NEW_WORKERS_EVERY)


def _cost(cohort: Sequence[Run]) -> float:
    """Return what a cohort costs next to others, a coarse measure.

    Examples times numbers an image times the square of the filters, which both ends of a
    convolution have: a run on CIFAR-10 takes longer than any on MNIST, though it has fewer epochs.
    """
    return sum(
        run.epochs
        * run.dataset.examples
        * math.prod(run.dataset.image_shape)
        * run.network.width**2
        for run in cohort
    )


def _results(future: Future, cohort: Sequence[Run]) -> list[Result]:
    """Return what a worker's training of a cohort came to.

    Raises:
        UserError: the worker, or the way to it, was lost.
    """
    try:
        return future.result()
    except KilledWorker as error:
        died = error.allowed_failures + 1
        others = f" and {len(cohort) - 1} more" if len(cohort) > 1 else ""
        raise UserError(
            f"{died} worker{'s' if died > 1 else ''} died training {cohort[0].identity}{others}, "
            "likely for want of memory; what was done is kept: train fewer at a time (--workers, "
            "--cohort), and the same command goes on"
        ) from error
    except (CancelledError, CommClosedError, NoWorkerError) as error:
        raise _dropped(getattr(error, "reason", error)) from error


def _dropped(reason: object) -> UserError:
    return UserError(
        f"the Dask cluster dropped the work ({reason}); what was done is kept, and once the "
        "cluster is back the same command goes on"
    )


def train_on_worker(
    cohort: list[dict[str, Any]], folder: str, deadline: float, hopeless: Hopeless
) -> list[Result]:
    """Train a cohort to its end or to the deadline, telling of each epoch; return what ended."""
    runs, results = [Run.from_dict(fields) for fields in cohort], []
    for run, seen in campaign.train_cohort(runs, Path(folder), deadline, hopeless):
        if isinstance(seen, store.Result):
            results.append(seen)
            continue
        what = {
            "run": run.identity,
            "epoch": seen.number,
            "accuracy": seen.row["test_accuracy"],
        }
        get_worker().log_event(TOPIC, what)
    return results
