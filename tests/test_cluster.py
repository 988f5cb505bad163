"""Runs on workers: the same results as one after the other, and none lost with a worker."""

import os
import signal
import time
from dataclasses import replace
from unittest import mock

import pytest
from results_for_tests import RUN, contents, seeds

from dpstudy import campaign, cluster, store
from dpstudy.errors import UserError

# As in test_training.py: a run of some steps does not earn back what optimising takes.
LITTLE_OPTIMISED = " --xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="module")
def client():
    flags = {"XLA_FLAGS": cluster.SINGLE_THREADED["XLA_FLAGS"] + LITTLE_OPTIMISED}
    with (
        mock.patch.dict(cluster.SINGLE_THREADED, flags),
        cluster.connect(None, workers=2) as client,
    ):
        yield client


def accuracies(results):
    return {result.run.seed: result.curve["test_accuracy"] for result in results}


def test_workers_store_what_one_process_stores_and_nothing_twice(client, tmp_path):
    reported = []
    one = campaign.train_missing(seeds(3), tmp_path / "one")
    many = cluster.train_missing(client, seeds(3), tmp_path / "many", report=reported.append)
    assert sorted(contents(tmp_path / "many")) == sorted(contents(tmp_path / "one"))
    for seed, expected in accuracies(one.stored).items():
        # Sums are ordered otherwise on one thread: a test example or two of 1,000 may tip.
        assert accuracies(many.stored)[seed] == pytest.approx(expected, abs=0.005)
    assert reported[-1].epochs_done == reported[-1].epochs_total == 3 * RUN.epochs
    again = cluster.train_missing(client, seeds(3), tmp_path / "many")
    assert (len(again.stored), again.already) == (0, 3)


def test_nothing_else_works_on_a_worker_s_core(client):
    def settings():
        import dask

        return dask.config.get("distributed.worker.profile.enabled"), dict(os.environ)

    profiled, environment = client.submit(settings).result()
    assert not profiled
    assert "MALLOC_TRIM_THRESHOLD_" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"


def test_a_lost_worker_loses_no_run_of_its_cohort(client, tmp_path):
    runs, killed = seeds(4, replace(RUN, epochs=12)), []
    workers = list(client.run(os.getpid).values())

    def kill_one(progress):
        if progress.epoch == 3 and not killed:
            # Of the worker's process alone: its nanny starts another.
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    outcome = cluster.train_missing(client, runs, tmp_path, report=kill_one, most=2)
    assert killed
    found, errors = store.read_all(tmp_path)
    assert errors == []
    assert set(found) == {run.identity for run in runs}
    assert len(outcome.stored) == 4
    assert all(len(result.curve["epoch"]) == 12 for result in found.values())


def test_a_budget_stops_the_workers_too(client, tmp_path):
    started = time.monotonic()
    long = replace(RUN, epochs=10_000)
    outcome = cluster.train_missing(client, [long], tmp_path, budget=2.0)
    assert (outcome.stored, outcome.unfinished) == ([], 1)
    assert time.monotonic() - started < 60


def test_a_mistake_on_a_worker_is_the_same_mistake_here(client, tmp_path, monkeypatch):
    monkeypatch.delenv("DPSTUDY_DATA", raising=False)
    nowhere = replace(RUN, dataset="mnist", batch=500)
    client.run(lambda: os.environ.pop("DPSTUDY_DATA", None))
    client.run(lambda: os.environ.update(XDG_CACHE_HOME="/nonexistent", http_proxy="127.0.0.1:9"))
    client.run(lambda: os.environ.update(https_proxy="127.0.0.1:9"))
    with pytest.raises(UserError, match="mnist"):
        cluster.train_missing(client, [nowhere], tmp_path)


def test_where_no_scheduler_answers_one_line_says_so():
    with (
        pytest.raises(UserError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"),
        cluster.connect("tcp://127.0.0.1:1"),
    ):
        pass
