"""Runs on workers: the same results as one after the other, and none lost with a worker."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from unittest import mock

import pytest
from results_for_tests import RUN, OneDense, contents, environment, result_of, seeds

from dpstudy.errors import UserError
from dpstudy.lab import campaign, checkpoints, store, workers
from dpstudy.lab.checkpoints import Checkpoint
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import vary
from under_the_clip.networks import TemperedCifar

# What workers do with a run does not depend on its network, which they compile.
QUICK = vary(RUN, network=OneDense())


@pytest.fixture(scope="module")
def one_worker():
    """The cluster of this file while it is small: each worker takes ten seconds to train."""
    flags = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {workers.SINGLE_THREADED['XLA_FLAGS']}"}
    with (
        mock.patch.dict(workers.SINGLE_THREADED, flags),
        workers.connect(None, workers=1) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(one_worker):
    one_worker.cluster.scale(2)
    one_worker.wait_for_workers(2)
    return one_worker


def train_on(client, runs, folder, **options):
    return campaign.train_missing(runs, folder, on=partial(workers.train, client), **options)


def accuracies(results):
    return {result.run.seed: result.curve["test_accuracy"] for result in results}


@pytest.mark.smoke
def test_a_cluster_that_grows_is_used(one_worker, tmp_path, monkeypatch):
    def until_there_are_two(cohort, folder, *_):
        (folder / str(os.getpid())).touch()
        deadline = time.time() + 30
        while len(os.listdir(folder)) < 2:
            assert time.time() < deadline, "the other worker has no run"
            time.sleep(0.05)
        return []

    monkeypatch.setattr(workers, "NEW_WORKERS_EVERY", 0.1)
    monkeypatch.setattr(workers, "train_on_worker", until_there_are_two)
    nthreads = one_worker.nthreads
    assert len(nthreads()) == 1, "no other test may have come before"

    def then_more():
        one_worker.cluster.scale(2)
        return nthreads()

    monkeypatch.setattr(one_worker, "nthreads", then_more)
    train_on(one_worker, seeds(2), tmp_path)
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.smoke
def test_workers_store_what_one_process_stores_and_nothing_twice(client, tmp_path):
    reported = []
    runs = seeds(4, QUICK)
    one = campaign.train_missing(runs, tmp_path / "one", most=2)
    many = train_on(client, runs, tmp_path / "many", most=2, report=reported.append)
    assert sorted(contents(tmp_path / "many")) == sorted(contents(tmp_path / "one"))
    for seed, expected in accuracies(one.stored).items():
        # Sums are ordered otherwise on one thread: a test example or two of 1,000 may tip.
        assert accuracies(many.stored)[seed] == pytest.approx(expected, abs=0.005)
    assert reported[-1].epochs_done == reported[-1].epochs_total == 4 * QUICK.epochs
    again = train_on(client, runs, tmp_path / "many")
    assert (len(again.stored), again.already) == (0, 4)


def test_a_worker_has_its_core_to_itself_and_hears_no_ctrl_c(client):
    """A terminal sends Ctrl-C to all processes: each worker would print a stack trace."""

    def settings():
        import dask

        profiled = dask.config.get("distributed.worker.profile.enabled")
        return profiled, dict(os.environ), signal.getsignal(signal.SIGINT)

    for profiled, environ, handler in client.run(settings).values():
        assert not profiled
        assert "MALLOC_TRIM_THRESHOLD_" not in environ
        assert environ["OMP_NUM_THREADS"] == "1"
        assert handler is signal.SIG_IGN


def test_no_run_waits_for_a_worker_that_has_another(client, tmp_path, monkeypatch):
    """Dealt out all at once, some did while the other worker was idle."""
    submit, most = client.submit, []

    def watched(*args, **kwargs):
        future = submit(*args, **kwargs)
        most.append(max(map(len, client.processing().values())))
        return future

    monkeypatch.setattr(client, "submit", watched)
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: time.sleep(0.3) or [])
    outcome = train_on(client, seeds(6), tmp_path)
    assert outcome.unfinished == len(most) == 6
    assert max(most) <= 1


def test_the_longest_runs_are_begun_first(client, tmp_path, monkeypatch):
    """A long one begun last would be waited for by an idle worker."""
    begun, submit = [], client.submit

    def noted(function, cohort, *args, **kwargs):
        begun.append(cohort[0])
        return submit(function, cohort, *args, **kwargs)

    monkeypatch.setattr(client, "submit", noted)
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: [])
    short, wide = seeds(2), vary(RUN, width=0.5)
    long = replace(RUN, epochs=5 * RUN.epochs)
    # Fewer epochs of fewer examples, as in the study: colours and larger images cost more.
    mnist = replace(RUN, dataset=Images("mnist"), epochs=40)
    cifar = replace(mnist, dataset=Images("cifar-10"), network=TemperedCifar(), epochs=30)
    train_on(client, [*short, wide, mnist, long, cifar], tmp_path)
    assert begun == [cifar, mnist, long, wide, *short]


def test_a_stopped_cohort_goes_on_whole_for_one_of_its_runs(client, tmp_path, monkeypatch):
    cohort = seeds(2)
    checkpoints.save(checkpoints.path_of(tmp_path, cohort), Checkpoint.fresh(cohort, "data"))
    monkeypatch.setattr(workers, "train_on_worker", lambda runs, *_: list(map(result_of, runs)))
    outcome = train_on(client, cohort[:1], tmp_path)
    assert {result.run for result in outcome.stored} == set(cohort)
    assert (outcome.already, outcome.unfinished) == (0, 0)
    assert set(contents(tmp_path)) == {f"{run.identity}.json" for run in cohort}


ELSEWHERE = """
import importlib.metadata, sys, time
from distributed import LocalCluster


def of_a_foreign_environment(name):
    raise importlib.metadata.PackageNotFoundError(name)


if "foreign" in sys.argv:
    importlib.metadata.version = of_a_foreign_environment
cluster = LocalCluster(
    n_workers=int(sys.argv[1]), processes=False, host="127.0.0.1", protocol="tcp",
    dashboard_address=":0",
)
print(cluster.scheduler_address, flush=True)
time.sleep(600)
"""


@pytest.fixture(params=[1])
def elsewhere(request):
    """A process that is a scheduler and its workers, one unless told otherwise; or nothing."""
    if request.param is None:
        yield None
        return
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, *str(request.param).split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("train", "kept"),
    [
        (lambda *_: os.kill(os.getpid(), signal.SIGKILL), 0),
        (lambda cohort, *_: [result_of(cohort[0])], 1),
    ],
)
def test_a_lost_scheduler_is_one_line_also_while_a_result_is_stored(
    elsewhere, tmp_path, monkeypatch, caplog, train, kept
):
    monkeypatch.setattr(workers, "train_on_worker", train)

    def lose(result):
        elsewhere.kill()
        while client.status != "closed":
            time.sleep(0.1)
        return result

    with (
        workers.connect(elsewhere.stdout.readline().strip()) as client,
        pytest.raises(UserError) as caught,
    ):
        train_on(client, seeds(2), tmp_path, finish=lose)
    lost = "the Dask cluster dropped the work (scheduler-connection-lost); what was done is kept, "
    assert str(caught.value) == f"{lost}and the same command goes on"
    assert len(contents(tmp_path)) == kept
    assert "distributed.client" not in {record.name for record in caplog.records}, "stack traces"


def test_workers_that_do_not_stop_in_time_hide_no_mistake(monkeypatch):
    stuck = mock.MagicMock()
    stuck.close.side_effect = stuck.__exit__.side_effect = TimeoutError
    monkeypatch.setattr(workers, "LocalCluster", lambda **_: stuck)
    monkeypatch.setattr(workers, "Client", mock.MagicMock())
    with pytest.raises(UserError, match="why"), workers.connect(None):
        raise UserError("why")
    stuck.close.assert_called_once()


def test_a_budget_stops_the_workers_too(client, tmp_path):
    started = time.monotonic()
    long = seeds(2, replace(QUICK, epochs=5_000))
    outcome = train_on(client, long, tmp_path, budget=2.0, most=2)
    assert (outcome.stored, outcome.unfinished) == ([], 2)
    assert time.monotonic() - started < 60


def test_a_mistake_on_a_worker_is_the_same_mistake_here(client, tmp_path):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "127.0.0.1:9")
    nowhere["XDG_CACHE_HOME"] = "/nonexistent"

    def lose_the_data():
        before = dict(os.environ)
        os.environ.pop("DPSTUDY_DATA", None)
        os.environ.update(nowhere)
        return before

    def find_it_again(before):
        os.environ.clear()
        os.environ.update(before)

    before = client.run(lose_the_data)
    try:
        with pytest.raises(UserError, match="mnist"):
            train_on(client, [vary(RUN, dataset=Images("mnist"), batch=500)], tmp_path)
    finally:
        client.run(find_it_again, next(iter(before.values())))


@pytest.mark.parametrize(
    ("elsewhere", "line"),
    [
        (None, r"no Dask cluster is at work at tcp://127\.0\.0\.1:1: "),
        (0, r"no Dask cluster is at work at tcp://.*: Only 0/1 workers "),
        ("1 foreign", rf"the worker at tcp://.* has no dpstudy: install {version('dpstudy')} whe"),
    ],
    indirect=["elsewhere"],
)
def test_a_cluster_that_is_of_no_use_is_one_line(elsewhere, line, monkeypatch):
    monkeypatch.setattr(workers, "FIRST_WORKER_WITHIN", 10 if "install" in line else 0.5)
    address = elsewhere.stdout.readline().strip() if elsewhere else "tcp://127.0.0.1:1"
    with pytest.raises(UserError, match=f"^{line}"), workers.connect(address):
        pass


@pytest.mark.parametrize(
    "address", ["", " ", "tls://h:1", "ucx://h:1", "tcp://h", "h", "://", "h:x"]
)
def test_an_address_that_is_none_is_refused_at_once(address):
    line = f"^scheduler must be an address as tcp://host:8786, got {re.escape(repr(address))}$"
    with pytest.raises(UserError, match=line), workers.connect(address):
        pass


def test_a_campaign_whose_workers_have_all_left_ends(client, tmp_path, monkeypatch):
    """By its budget, or when none has come back for a while."""
    monkeypatch.setattr(workers, "NEW_WORKERS_EVERY", 0.1)
    monkeypatch.setattr(client, "nthreads", dict)
    outcome = train_on(client, seeds(2), tmp_path, budget=0.5)
    assert (outcome.stored, outcome.unfinished) == ([], 2)
    monkeypatch.setattr(workers, "FIRST_WORKER_WITHIN", 0.5)
    with pytest.raises(UserError, match=r"^no worker is left; what was done is kept"):
        train_on(client, seeds(2), tmp_path)


# Last: what is lost here has to be imported, traced and trained again.


@pytest.mark.faults
def test_what_a_lost_worker_had_begun_is_done_by_another(client, tmp_path, monkeypatch):
    def die_of_the_first(cohort, *_):
        if cohort[0].seed == 0 and not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [result_of(run) for run in cohort]

    monkeypatch.setattr(workers, "train_on_worker", die_of_the_first)
    outcome = train_on(client, seeds(3), tmp_path / "runs")
    assert (tmp_path / "begun").exists()
    assert {result.run for result in outcome.stored} == set(seeds(3))
    assert (outcome.already, outcome.unfinished) == (0, 0)


@pytest.mark.faults
@pytest.mark.parametrize("lost", [1, 2])
def test_lost_workers_lose_no_run_of_their_cohorts(client, tmp_path, lost):
    """Nor the result, still to come back, of one that diverged: in the third epoch."""
    good, processes, killed = replace(RUN, epochs=6), list(client.run(os.getpid).values()), []
    diverges = vary(good, learning_rate=7e19)
    runs = [good, diverges, *seeds(3, good)[1:]]

    def kill_all(progress):
        if progress.epoch == 4 and not killed:
            # Of the workers' processes alone: their nannies start others.
            killed.extend(processes[:lost])
            for process in killed:
                os.kill(process, signal.SIGKILL)

    outcome = train_on(client, runs, tmp_path, report=kill_all, most=2)
    assert killed
    assert (len(outcome.stored), outcome.unfinished) == (4, 0)
    found, errors = store.read_all(tmp_path)
    assert errors == []
    diverged = found.pop(diverges.identity)
    assert diverged.diverged_at in (5, 6)
    assert diverged.curve["epoch"] == [0, 1, 2]
    assert set(found) == {run.identity for run in runs if run != diverges}
    assert all(result.curve["epoch"] == list(range(7)) for result in found.values())


@pytest.mark.faults
def test_a_worker_that_dies_of_a_run_is_one_line(client, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(UserError) as caught:
        train_on(client, [RUN], tmp_path)
    assert str(caught.value) == (
        f"workers died training {RUN.identity}: train fewer at once (--workers, --cohort); what "
        "was done is kept, and the same command goes on"
    )
