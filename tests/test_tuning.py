"""What is fastest here is measured once and remembered, and what is remembered is used."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from results_for_tests import RUN

from dpstudy import tuning
from dpstudy.gradients import devices
from dpstudy.lab import trainer
from dpstudy.training.loop import Method


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_fastest_is_remembered_and_used(monkeypatch):
    seconds = {8: 3.0, 16: 1.0, 32: 1.2, 64: 2.0, 128: 0.1}
    asked = []

    def cost(run, method, mesh):
        asked.append(method.microbatch)
        return seconds[method.microbatch], 1000

    monkeypatch.setattr(tuning, "_cost", cost)
    assert tuning.measure(RUN) == Method(16) == tuning.method_for(RUN)
    # Past a size that is half as slow again as the best, larger ones are not tried.
    assert asked == [8, 16, 32, 64]
    assert tuning.method_for(replace(RUN, seed=3, learning_rate=0.1)) == Method(16)
    assert tuning.method_for(replace(RUN, model="backprop-mnist")) == Method(32)


def test_a_real_measurement_chooses_one_of_the_candidates(cache):
    candidates = (Method(10), Method(20))
    assert tuning.measure(replace(RUN, batch=20), candidates) in candidates
    assert (cache / "dpstudy" / "methods.json").exists()


@pytest.mark.parametrize(("step", "times"), [(0.0, 5), (1.5, 2), (60.0, 2)])
def test_long_steps_are_timed_less_often(monkeypatch, step, times):
    clock, ran = [0.0], []

    def program():
        clock[0] += step
        ran.append(step)

    monkeypatch.setattr(tuning.time, "perf_counter", lambda: clock[0])
    assert tuning._shortest(program, ()) == step
    assert len(ran) == times


def test_a_damaged_memory_is_measured_again(cache):
    tuning.measure(replace(RUN, batch=20), (Method(20),))
    for content in ("{", "[]", '{"x": {"method": {"speed": 1}}}'):
        (cache / "dpstudy" / "methods.json").write_text(content)
        assert tuning.method_for(RUN) == Method(32)


def test_only_much_work_is_worth_measuring_and_only_once(monkeypatch):
    many = [replace(RUN, dataset="mnist", epochs=40, seed=seed) for seed in range(2)]
    assert tuning.worthwhile([RUN, RUN]) == []
    assert tuning.worthwhile([*many, RUN]) == many[:1]
    monkeypatch.setattr(tuning, "_cost", lambda run, method, mesh: (1.0, 1))
    tuning.measure(many[0])
    assert tuning.worthwhile(many) == []


def test_a_cohort_fills_half_of_an_accelerator_and_is_one_run_on_a_cpu(monkeypatch):
    monkeypatch.setattr(tuning, "_cost", lambda run, method, mesh: (1.0, 1_000))
    tuning.measure(RUN)
    assert tuning.cohort_size(RUN, 64) == 1
    monkeypatch.setattr(tuning, "memory_bytes", lambda: 40_000)
    # Two devices (conftest.py), 20 runs each.
    assert tuning.cohort_size(RUN, 64) == 40
    assert tuning.cohort_size(RUN, 7) == 7
    monkeypatch.setattr(tuning, "memory_bytes", lambda: 10)
    assert tuning.cohort_size(RUN, 64) == 1


def test_what_workers_do_is_measured_on_a_worker(monkeypatch):
    class Client:
        def __init__(self):
            self.asked = []

        def submit(self, function, *arguments, pure):
            assert not pure  # A second measurement is no repetition of the first.
            self.asked.append(function)
            return SimpleNamespace(result=lambda: function(*arguments))

    def measure(run):
        return Method(16)

    monkeypatch.setattr(tuning, "measure", measure)
    many = [replace(RUN, dataset="mnist", epochs=40, seed=seed) for seed in range(2)]
    client, said = Client(), []
    trainer.measure_methods(many, said.append, client)
    assert client.asked == [tuning.worthwhile, measure]
    assert said[1] == "tempered-mnist: 16 examples"


def test_a_core_alone_and_all_cores_are_measured_apart(monkeypatch):
    monkeypatch.setattr(tuning, "_cost", lambda run, method, mesh: (method.microbatch, 1000))
    for cores, method in ((1, Method(8)), (2, Method(64))):
        monkeypatch.setattr(devices, "available_cores", lambda cores=cores: cores)
        tuning.measure(RUN, (method,))
    assert tuning.method_for(RUN) == Method(64)
    monkeypatch.setattr(devices, "available_cores", lambda: 1)
    assert tuning.method_for(RUN) == Method(8)
