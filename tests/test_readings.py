"""What is stored becomes tables; what is missing or damaged is named and never a number."""

import math
from dataclasses import replace

import pytest
from results_for_tests import EXPERIMENT, result_of, rewrite, small_smoke_runs

from dpstudy.lab import readings, store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.readings import CHANCE
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.networks.activation import Relu
from dpstudy.parts.run import Run, vary
from dpstudy.privacy import run_epsilon as privacy
from under_the_clip.experiments import EXPERIMENTS

BASE = Run(epochs=3)
ON_BOTH = BASE, replace(BASE, dataset=Images("fashion-mnist"))
TWO = Experiment(
    name="two",
    title="relu and tanh on two datasets",
    variants={"relu": tuple(vary(run, activation=Relu()) for run in ON_BOTH), "tanh": ON_BOTH},
    seeds={"mnist": 3, "fashion-mnist": 1},
)

FIRST = {"epoch": [1], "step": [117], "test_accuracy": [0.5]}


def keep(experiment, label, seed=0, dataset="mnist", profile="full", **fields):
    """Store a result that was never trained for one run of an experiment."""
    [run] = [
        run
        for name, run in experiment.labelled(profile, dataset=dataset, seeds=seed + 1)
        if name == label and run.seed == seed
    ]
    return store.write(store.runs_folder(profile), result_of(run, **fields))


def test_a_store_of_other_runs_is_all_missing_and_has_empty_tables(results):
    store.write(store.runs_folder(), result_of(vary(BASE, learning_rate=9.0)))
    reading = readings.read(TWO)
    assert reading.found == [] and reading.damaged == []
    assert reading.missing == TWO.runs()
    assert reading.curves.empty and reading.finals.empty


def test_what_is_stored_is_found_in_the_experiment_s_order(results):
    keep(TWO, "tanh", seed=1)
    keep(TWO, "relu", seed=1)
    keep(TWO, "tanh", seed=0)
    reading = readings.read(TWO)
    found = [(label, result.run.seed) for label, result in reading.found]
    assert found == [("tanh", 0), ("relu", 1), ("tanh", 1)]
    assert len(reading.missing) == len(TWO.runs()) - 3
    assert not {r.run for _, r in reading.found} & set(reading.missing)


def test_only_the_dataset_asked_for_is_read(results):
    keep(TWO, "tanh")
    keep(TWO, "tanh", dataset="fashion-mnist")
    assert [r.run.dataset.name for _, r in readings.read(TWO).found] == ["mnist", "fashion-mnist"]
    [(_, only)] = readings.read(TWO, dataset="fashion-mnist").found
    assert only.run.dataset.name == "fashion-mnist"


def test_the_smoke_profile_s_results_are_kept_apart(results, monkeypatch):
    small_smoke_runs(monkeypatch)
    keep(EXPERIMENT, "tanh", profile="smoke")
    assert readings.read(EXPERIMENT).found == []
    assert len(readings.read(EXPERIMENT, "smoke").found) == 1


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({}, "dpstudy run two --profile full"),
        ({"dataset": "mnist"}, "dpstudy run two --profile full --dataset mnist"),
        ({"seeds": 2}, "dpstudy run two --profile full --seeds 2"),
        ({"profile": "smoke", "dataset": "mnist"}, "dpstudy run two --profile smoke"),
    ],
)
def test_the_command_is_the_one_that_runs_what_is_missing(results, arguments, command):
    assert readings.read(TWO, **arguments).command == command


def test_a_curve_has_a_row_an_epoch_with_the_epsilon_spent(results):
    keep(TWO, "relu", accuracy=0.8)
    keep(TWO, "tanh", seed=1, accuracy=0.9)
    curves = readings.read(TWO).curves
    assert len(curves) == 6
    tanh = curves[curves.label == "tanh"]
    assert set(tanh.seed) == {1} and set(tanh.dataset) == {"mnist"}
    assert tanh.epoch.tolist() == [1, 2, 3]
    assert tanh.step.tolist() == [117, 234, 351]
    assert tanh.test_accuracy.tolist() == [0.88, 0.89, 0.9]
    assert tanh.epsilon_pld.tolist() == [0.1, 0.2, 0.3]
    assert tanh["epsilon_rdp-2019"].tolist() == [0.2, 0.4, 0.6]


def test_the_final_accuracy_is_that_of_the_last_epoch_not_of_the_best(results):
    best_first = {"epoch": [1, 2, 3], "step": [117, 234, 351], "test_accuracy": [0.7, 0.95, 0.9]}
    keep(TWO, "tanh", curve=best_first, epsilon={})
    final = readings.read(TWO).finals.iloc[0]
    assert final.test_accuracy == 0.9


def test_a_diverged_run_is_at_chance_from_there_on(results):
    keep(TWO, "relu", accuracy=0.9, epochs=1)
    keep(TWO, "tanh", accuracy=0.9)
    reading = readings.read(TWO)
    relu, tanh = reading.finals.itertuples()
    assert (relu.diverged, relu.test_accuracy, relu.epoch) == (True, CHANCE, 1)
    assert (tanh.diverged, tanh.test_accuracy, tanh.epoch) == (False, 0.9, 3)
    curve = reading.curves[reading.curves.label == "relu"]
    assert curve.epoch.tolist() == [1, 2, 3]
    assert curve.step.tolist() == [117, 234, 351]
    assert curve.test_accuracy.tolist() == [0.9, CHANCE, CHANCE]
    assert [math.isnan(value) for value in curve.epsilon_pld] == [False, True, True]


def test_a_run_that_diverged_at_once_is_not_forgotten(results):
    """A median over the survivors alone would flatter an activation that often diverges."""
    for seed in (0, 1):
        keep(TWO, "relu", seed=seed, epochs=0, curve=from_the_start([0.2]), epsilon={})
    keep(TWO, "relu", seed=2)
    reading = readings.read(TWO)
    assert reading.finals.test_accuracy.median() == CHANCE
    last = reading.curves[reading.curves.epoch == 3]
    assert last.test_accuracy.tolist() == [CHANCE, CHANCE, 0.9]


def test_columns_are_numbers_even_where_none_was_finite(results):
    """A loss can overflow in every epoch of a run, and is then stored as nothing."""
    keep(TWO, "relu", curve=FIRST | {"test_loss": [None]}, epsilon={})
    relu = readings.read(TWO).curves.test_loss
    assert relu.dtype == float and math.isnan(relu[0])
    keep(TWO, "tanh", curve=FIRST | {"test_loss": [0.5]}, epsilon={})
    losses = readings.read(TWO).curves.test_loss
    assert losses.dtype == float
    assert math.isnan(losses[0]) and losses[1] == 0.5


def from_the_start(values):
    """A curve that begins before the first step."""
    epochs = list(range(len(values)))
    return {"epoch": epochs, "step": [117 * epoch for epoch in epochs], "test_accuracy": values}


def test_a_table_begins_with_the_first_epoch_though_more_is_stored(results):
    curve = from_the_start([0.1, 0.8, 0.95, 0.9])
    keep(TWO, "tanh", curve=curve, epsilon={"pld": [0.0, 0.1, 0.2, 0.3]})
    reading = readings.read(TWO)
    assert reading.curves.epoch.tolist() == [1, 2, 3]
    assert reading.curves.test_accuracy.tolist() == [0.8, 0.95, 0.9]
    assert reading.curves.epsilon_pld.tolist() == [0.1, 0.2, 0.3]
    assert reading.finals.test_accuracy.tolist() == [0.9], "the last, not the best"
    # What diverged in its first epoch has the state before it, and no epoch.
    keep(TWO, "tanh", curve=from_the_start([0.1]), epsilon={"pld": [0.0]}, diverged_at=5)
    curves = readings.read(TWO).curves
    assert curves.epoch.tolist() == [1, 2, 3]
    assert curves.test_accuracy.tolist() == [CHANCE] * 3


def test_of_a_measure_of_many_numbers_a_table_has_no_column(results):
    angles = {"norms.angles": [[0.1, 0.2], [0.3, None], [0.5, 0.6]], "norms.gradient": [1, 2, 3]}
    keep(TWO, "tanh", curve=result_of(BASE).curve | angles)
    curves = readings.read(TWO).curves
    assert "norms.angles" not in curves
    assert curves["norms.gradient"].tolist() == [1, 2, 3]


def test_a_run_that_two_experiments_ask_for_is_stored_once(results):
    other = Experiment("other", "the same run", {"the same": (BASE,)}, {"mnist": 1})
    path = keep(TWO, "tanh")
    [(label, result)] = readings.read(other).found
    assert (label, result.run) == ("the same", BASE)
    assert store.stored_files(store.runs_folder()) == [path]


def test_a_result_without_its_epsilon_is_completed(results):
    keep(TWO, "tanh", epsilon={})
    [(_, result)] = readings.read(TWO).found
    assert result.epsilon == privacy.epsilon_curve(result.run, result.curve["step"])


def test_a_number_that_changes_in_the_store_changes_in_the_table(results):
    keep(TWO, "tanh", accuracy=0.9)
    before = readings.read(TWO).finals
    path = keep(TWO, "tanh", accuracy=0.8)
    assert readings.read(TWO).finals.test_accuracy[0] == before.test_accuracy[0] - 0.1
    rewrite(path, lambda content: content["curve"].update(test_accuracy=[0.1, 0.2, 0.3]))
    assert readings.read(TWO).finals.test_accuracy[0] == 0.3


def test_every_stored_run_is_some_experiment_s_and_states_its_epsilon(of_the_study):
    stored, damaged = store.read_all(store.runs_folder())
    wanted = {run.identity for experiment in EXPERIMENTS.values() for run in experiment.runs()}
    assert stored and not damaged and set(stored) <= wanted
    assert not [
        name for name, result in stored.items() if result.run.private and not result.epsilon
    ]
