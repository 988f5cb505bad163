"""Runs on workers: the same results as one after the other, and none lost with a worker."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from unittest import mock

import dask
import pytest
from results_for_tests import RUN, contents, environment, result_of, seeds

from dpstudy.errors import UserError
from dpstudy.lab import campaign, store, workers
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import vary
from under_the_clip.networks import TemperedCifar


@pytest.fixture(scope="module")
def client():
    flags = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {workers.SINGLE_THREADED['XLA_FLAGS']}"}
    with (
        mock.patch.dict(workers.SINGLE_THREADED, flags),
        workers.connect(None, workers=2) as client,
    ):
        yield client


def accuracies(results):
    return {result.run.seed: result.curve["test_accuracy"] for result in results}


def test_workers_store_what_one_process_stores_and_nothing_twice(client, tmp_path):
    reported = []
    one = campaign.train_missing(seeds(3), tmp_path / "one")
    many = workers.train_missing(client, seeds(3), tmp_path / "many", report=reported.append)
    assert sorted(contents(tmp_path / "many")) == sorted(contents(tmp_path / "one"))
    for seed, expected in accuracies(one.stored).items():
        # Sums are ordered otherwise on one thread: a test example or two of 1,000 may tip.
        assert accuracies(many.stored)[seed] == pytest.approx(expected, abs=0.005)
    assert reported[-1].epochs_done == reported[-1].epochs_total == 3 * RUN.epochs
    again = workers.train_missing(client, seeds(3), tmp_path / "many")
    assert (len(again.stored), again.already) == (0, 3)


def test_nothing_else_works_on_a_worker_s_core(client):
    def settings():
        import dask

        return dask.config.get("distributed.worker.profile.enabled"), dict(os.environ)

    profiled, environment = client.submit(settings).result()
    assert not profiled
    assert "MALLOC_TRIM_THRESHOLD_" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"


def test_ctrl_c_is_for_the_campaign_alone(client):
    """A terminal sends it to all processes: each worker would print a stack trace."""
    handlers = client.run(lambda: signal.getsignal(signal.SIGINT)).values()
    assert set(handlers) == {signal.SIG_IGN}


def test_no_run_waits_for_a_worker_that_has_another(client, tmp_path, monkeypatch):
    """Dealt out all at once, some did while the other worker was idle."""
    submit, most = client.submit, []

    def watched(*args, **kwargs):
        future = submit(*args, **kwargs)
        most.append(max(map(len, client.processing().values())))
        return future

    monkeypatch.setattr(client, "submit", watched)
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: time.sleep(0.3) or [])
    outcome = workers.train_missing(client, seeds(6), tmp_path)
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
    workers.train_missing(client, [*short, wide, mnist, long, cifar], tmp_path)
    assert begun == [cifar, mnist, long, wide, *short]


def test_a_cluster_that_grows_is_used(tmp_path, monkeypatch):
    def until_there_are_two(cohort, folder, *_):
        (folder / str(os.getpid())).touch()
        deadline = time.time() + 60
        while len(os.listdir(folder)) < 2 and time.time() < deadline:
            time.sleep(0.05)
        return []

    monkeypatch.setattr(workers, "NEW_WORKERS_EVERY", 0.1)
    monkeypatch.setattr(workers, "train_on_worker", until_there_are_two)
    with workers.connect(None, workers=1) as client:
        nthreads = client.nthreads

        def then_more():
            client.cluster.scale(2)
            return nthreads()

        monkeypatch.setattr(client, "nthreads", then_more)
        workers.train_missing(client, seeds(2), tmp_path)
    assert len(os.listdir(tmp_path)) == 2


def test_a_lost_worker_loses_no_run_of_its_cohort(client, tmp_path):
    runs, killed = seeds(4, replace(RUN, epochs=12)), []
    processes = list(client.run(os.getpid).values())

    def kill_one(progress):
        if progress.epoch == 3 and not killed:
            # Of the worker's process alone: its nanny starts another.
            killed.append(processes[0])
            os.kill(processes[0], signal.SIGKILL)

    outcome = workers.train_missing(client, runs, tmp_path, report=kill_one, most=2)
    assert killed
    found, errors = store.read_all(tmp_path)
    assert errors == []
    assert set(found) == {run.identity for run in runs}
    assert len(outcome.stored) == 4
    assert all(result.curve["epoch"] == list(range(13)) for result in found.values())


def test_a_run_that_diverged_is_not_lost_with_the_worker_of_its_cohort(client, tmp_path):
    """Its result was still to come back, with those of the rest."""
    # The update overflows in the third epoch.
    good, diverges = replace(RUN, epochs=12), vary(RUN, epochs=12, learning_rate=7e19)
    processes, killed = list(client.run(os.getpid).values()), []

    def kill_all(progress):
        if progress.epoch == 5 and not killed:
            killed.extend(processes)
            for process in processes:
                os.kill(process, signal.SIGKILL)

    outcome = workers.train_missing(client, [good, diverges], tmp_path, report=kill_all, most=2)
    assert killed
    assert (len(outcome.stored), outcome.unfinished) == (2, 0)
    found, _ = store.read_all(tmp_path)
    assert found[diverges.identity].diverged_at in (5, 6)
    assert found[diverges.identity].curve["epoch"] == [0, 1, 2]
    assert found[good.identity].curve["epoch"] == list(range(13))


def test_a_stopped_cohort_goes_on_whole_for_one_of_its_runs(client, tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.train_missing(seeds(2), tmp_path, most=2, report=stop)
    outcome = workers.train_missing(client, seeds(1), tmp_path)
    assert {result.run for result in outcome.stored} == set(seeds(2))
    assert (outcome.already, outcome.unfinished) == (0, 0)
    assert set(contents(tmp_path)) == {f"{run.identity}.json" for run in seeds(2)}


def test_a_worker_that_dies_of_a_run_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        workers.connect(None, workers=1) as client,
        pytest.raises(UserError) as caught,
    ):
        workers.train_missing(client, [RUN], tmp_path)
    assert str(caught.value) == (
        f"workers died training {RUN.identity}: train fewer at once (--workers, --cohort); what "
        "was done is kept, and the same command goes on"
    )


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
LOST = (
    "the Dask cluster dropped the work (scheduler-connection-lost); what was done is kept, and "
    "the same command goes on"
)


@pytest.fixture(params=[1])
def elsewhere(request):
    """A process that is a scheduler and its workers, one unless told otherwise."""
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, *str(request.param).split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_lost_scheduler_is_one_line(elsewhere, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(workers, "train_on_worker", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with (
        workers.connect(elsewhere.stdout.readline().strip()) as client,
        pytest.raises(UserError) as caught,
    ):
        workers.train_missing(client, [RUN], tmp_path)
    assert str(caught.value) == LOST
    assert "distributed.client" not in {record.name for record in caplog.records}, "stack traces"


def test_a_scheduler_lost_for_good_while_a_result_is_stored_is_the_same_line(
    elsewhere, tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "train_on_worker", lambda cohort, *_: [result_of(cohort[0])])

    def lose(result):
        elsewhere.kill()
        while client.status != "closed":
            time.sleep(0.1)
        return result

    with (
        workers.connect(elsewhere.stdout.readline().strip()) as client,
        pytest.raises(UserError) as caught,
    ):
        workers.train_missing(client, seeds(2), tmp_path, finish=lose)
    assert str(caught.value) == LOST
    assert len(contents(tmp_path)) == 1


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
    long = replace(RUN, epochs=5_000)
    outcome = workers.train_missing(client, [long], tmp_path, budget=2.0)
    assert (outcome.stored, outcome.unfinished) == ([], 1)
    assert time.monotonic() - started < 60


def test_a_mistake_on_a_worker_is_the_same_mistake_here(tmp_path, monkeypatch):
    nowhere = {"XDG_CACHE_HOME": "/nonexistent", "http_proxy": "127.0.0.1:9"}
    monkeypatch.setattr(
        workers, "SINGLE_THREADED", nowhere | {"https_proxy": nowhere["http_proxy"]}
    )
    monkeypatch.delenv("DPSTUDY_DATA", raising=False)
    with (
        workers.connect(None, workers=1) as client,
        pytest.raises(UserError, match="mnist"),
    ):
        workers.train_missing(client, [vary(RUN, dataset=Images("mnist"), batch=500)], tmp_path)


def test_where_no_scheduler_answers_one_line_says_so():
    with (
        pytest.raises(UserError, match=r"^no Dask cluster is at work at tcp://127\.0\.0\.1:1: "),
        workers.connect("tcp://127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize("elsewhere", [0], indirect=True)
def test_a_scheduler_that_no_worker_joins_is_one_line(elsewhere, monkeypatch):
    monkeypatch.setattr(workers, "FIRST_WORKER_WITHIN", 0.5)
    with (
        pytest.raises(
            UserError, match=r"^no Dask cluster is at work at tcp://.*: Only 0/1 workers "
        ),
        workers.connect(elsewhere.stdout.readline().strip()),
    ):
        pass


@pytest.mark.parametrize("elsewhere", ["1 foreign"], indirect=True)
def test_a_worker_without_the_package_is_one_line(elsewhere):
    line = rf"^the worker at tcp://.* has no dpstudy: install {version('dpstudy')} where it runs$"
    with (
        pytest.raises(UserError, match=line),
        workers.connect(elsewhere.stdout.readline().strip()),
    ):
        pass


def test_a_budget_ends_a_campaign_that_has_lost_all_its_workers(client, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "NEW_WORKERS_EVERY", 0.1)
    monkeypatch.setattr(client, "nthreads", dict)
    outcome = workers.train_missing(client, seeds(2), tmp_path, budget=0.5)
    assert (outcome.stored, outcome.unfinished) == ([], 2)


def test_a_campaign_whose_workers_have_all_left_does_not_wait_for_ever(
    client, tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "NEW_WORKERS_EVERY", 0.1)
    monkeypatch.setattr(workers, "FIRST_WORKER_WITHIN", 0.5)
    monkeypatch.setattr(client, "nthreads", dict)
    with pytest.raises(UserError, match=r"^no worker is left; what was done is kept"):
        workers.train_missing(client, seeds(2), tmp_path)
