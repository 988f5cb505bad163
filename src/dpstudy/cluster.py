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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
from distributed import Client, LocalCluster, WorkerPlugin, as_completed, get_worker

from dpstudy import campaign, devices, store
from dpstudy.campaign import Outcome, Progress
from dpstudy.errors import UserError
from dpstudy.spec import Run

if TYPE_CHECKING:
    from dpstudy.store import Result

TOPIC = "dpstudy-epoch"
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
        UserError: nothing answers at that address.
    """
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=5)
        except (OSError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        with client:
            yield client
        return
    count = workers or devices.available_cores()
    with (
        dask.config.set(UNDISTURBED),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.ERROR,
            env=SINGLE_THREADED,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Pinned())
        yield client


def train_missing(
    client: Client,
    runs: Iterable[Run],
    folder: Path,
    *,
    budget: float = math.inf,
    finish: Callable[[Result], Result] = lambda result: result,
    report: Callable[[Progress], None] = lambda progress: None,
    most: int | None = None,
) -> Outcome:
    """Train the runs that `folder` does not hold yet on a cluster; see `campaign.train_missing`.

    `most` is how many runs a worker trains at once, by default one: this process cannot know what
    the workers' devices hold.

    Raises:
        StoreError, DataError, TrainingError: as there, from whichever worker met it first.
    """
    plan = campaign.Plan.of(runs, folder)

    def heard(event: tuple[float, dict[str, Any]]) -> None:
        identity, epoch, accuracy = event[1]["run"], event[1]["epoch"], event[1]["accuracy"]
        if identity in plan.missing:
            report(plan.progress(plan.missing[identity], epoch, accuracy))

    deadline = time.time() + budget
    client.subscribe_topic(TOPIC, heard)
    futures = {}
    waiting = list(plan.missing.values())
    while waiting:
        cohort = campaign.next_cohort(waiting, folder, most or 1)
        mine = [run for run in waiting if run in cohort]
        waiting = [run for run in waiting if run not in cohort]
        fields = [run.to_dict() for run in cohort]
        key = "-".join(run.identity for run in cohort)
        future = client.submit(
            train_on_worker, fields, str(folder.resolve()), deadline, key=key, retries=2
        )
        futures[future] = cohort, len(mine)
    outcome = Outcome(already=plan.already)
    try:
        for future in as_completed(futures):
            results, (cohort, count) = future.result(), futures[future]
            for result in results:
                campaign.settle(outcome, folder, result, finish)
            campaign.close(outcome, folder, cohort, unfinished=count - len(results))
    finally:
        client.cancel(list(futures), force=True)
        client.unsubscribe_topic(TOPIC)
    return outcome


def train_on_worker(cohort: list[dict[str, Any]], folder: str, deadline: float) -> list[Result]:
    """Train a cohort to its end or to the deadline, telling of each epoch; return what ended."""
    runs, results = [Run.from_dict(fields) for fields in cohort], []
    for run, seen in campaign.train_cohort(runs, Path(folder), deadline):
        if isinstance(seen, store.Result):
            results.append(seen)
            continue
        what = {"run": run.identity, "epoch": seen.epoch, "accuracy": seen.test_accuracy}
        get_worker().log_event(TOPIC, what)
    return results
