"""Which runs an experiment needs: all different, at the paper's scale or tiny, seed by seed."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from results_for_tests import EXPERIMENT, RUN, result_of, seeds, small_smoke_runs

from dpstudy import store
from dpstudy.errors import UserError
from dpstudy.experiments import EXPERIMENTS, find
from dpstudy.experiments import experiment as experiments
from dpstudy.experiments.experiment import NOTEBOOK_PROFILES, results_folder
from dpstudy.published import END_TO_END
from dpstudy.spec import Run

ALL = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
FIGURE_3 = find("tempered-sigmoids-figure-3")


@ALL
@pytest.mark.parametrize("profile", ["smoke", "full"])
def test_every_run_is_needed_once(experiment, profile):
    runs = experiment.runs(profile)
    assert runs
    assert Counter(run.identity for run in runs).most_common(1)[0][1] == 1


@ALL
def test_every_dataset_has_every_variant_with_its_number_of_seeds(experiment):
    for dataset, count in experiment.seeds.items():
        runs = experiment.labelled(dataset=dataset)
        assert {run.dataset for _, run in runs} == {dataset}
        assert Counter(label for label, _ in runs) == dict.fromkeys(experiment.variants, count)
        for label in experiment.variants:
            assert [run.seed for name, run in runs if name == label] == list(range(count))
    assert experiment.runs() == [
        run for dataset in experiment.datasets for run in experiment.runs(dataset=dataset)
    ]


@ALL
def test_no_run_is_left_out_because_its_dataset_has_no_seeds(experiment):
    assert {run.dataset for runs in experiment.variants.values() for run in runs} == set(
        experiment.datasets
    )


@ALL
def test_an_interrupted_campaign_has_as_many_seeds_of_each_variant(experiment):
    for dataset in experiment.datasets:
        order = [run.seed for run in experiment.runs(dataset=dataset)]
        assert order == sorted(order)


@ALL
def test_the_smoke_profile_needs_no_dataset_and_no_patience(experiment):
    runs = experiment.runs("smoke")
    assert {run.dataset for run in runs} == {"mnist-5k"}
    assert sum(run.epochs * run.steps_per_epoch for run in runs) <= 1_000
    assert {label for label, _ in experiment.labelled("smoke")} == set(experiment.variants)


@ALL
def test_names_and_titles_are_fit_for_the_command_line_and_the_page(experiment):
    assert find(experiment.name) is experiment
    assert experiment.name == experiment.name.lower() and " " not in experiment.name
    assert experiment.title.strip()


def test_seeds_asked_for_replace_the_experiment_s_own():
    assert {run.seed for run in FIGURE_3.runs(dataset="mnist", seeds=1)} == {0}
    assert len(FIGURE_3.runs(dataset="mnist", seeds=12)) == 24
    assert {run.seed for run in FIGURE_3.runs("smoke", seeds=3)} == {0, 1, 2}
    # A seed means the same run, however many are asked for.
    assert FIGURE_3.runs(seeds=1, dataset="mnist") == FIGURE_3.runs(dataset="mnist")[:2]


@pytest.mark.parametrize("profile", ["smoke", "full"])
def test_mistakes_are_one_line_that_names_what_is_valid(profile):
    with pytest.raises(UserError, match=r"^seeds must be at least 1, got 0$"):
        FIGURE_3.runs(profile, seeds=0)
    with pytest.raises(UserError, match=r"has no dataset 'mars'; one of: mnist, fashion-mnist, ci"):
        FIGURE_3.runs(profile, dataset="mars")
    with pytest.raises(UserError, match=r"^unknown profile 'huge'; one of: smoke, full$"):
        FIGURE_3.runs("huge")
    with pytest.raises(UserError, match=r"^unknown experiment 'figure-3'; one of: tempered-sig"):
        find("figure-3")


def test_figure_3_compares_nothing_but_the_activation():
    for dataset in FIGURE_3.datasets:
        relu, tanh = FIGURE_3.runs(dataset=dataset, seeds=1)
        assert (relu.activation, tanh.activation) == ("relu", "tempered")
        assert (tanh.scale, tanh.inverse_temperature, tanh.offset) == (2.0, 2.0, 1.0)
        assert replace(relu, activation="tempered") == tanh
        assert tanh.sampling == "poisson" and tanh.mechanism == "flat"


def test_figure_3_has_the_settings_that_are_published():
    for published in END_TO_END:
        runs = FIGURE_3.runs(dataset=published.dataset)
        for name in ("batch", "epochs", "noise_multiplier", "clip_norm", "learning_rate"):
            assert {getattr(run, name) for run in runs} == {getattr(published, name)}, name


def test_the_mnist_runs_are_those_asked_of_the_study():
    asked = Run(
        dataset="mnist",
        epochs=40,
        batch=512,
        learning_rate=0.5,
        momentum=0.9,
        clip_norm=0.1,
        noise_multiplier=1.23,
        sampling="poisson",
    )
    runs = FIGURE_3.runs(dataset="mnist")
    assert [run for run in runs if run.activation == "tempered"] == seeds(10, asked)
    assert [run for run in runs if run.activation == "relu"] == seeds(
        10, replace(asked, activation="relu")
    )


# --- where results are ---------------------------------------------------------------------------


def test_results_are_where_the_environment_says(results):
    assert results_folder() == results
    assert results_folder("smoke") == results / ".smoke"
    assert EXPERIMENT.folder() == results / "tiny"
    assert EXPERIMENT.folder("smoke") == results / ".smoke" / "tiny"


@pytest.mark.parametrize("given", ["", None])
def test_results_are_in_the_checkout_unless_the_environment_says_otherwise(monkeypatch, given):
    if given is None:
        monkeypatch.delenv("DPSTUDY_RESULTS", raising=False)
    else:
        monkeypatch.setenv("DPSTUDY_RESULTS", given)
    checkout = Path(experiments.__file__).parents[3]
    root = checkout if (checkout / "pyproject.toml").exists() else Path.cwd()
    assert results_folder() == root / "results"


# --- what a notebook's profile needs -------------------------------------------------------------


@pytest.fixture
def prepare(results, monkeypatch):
    """`prepare`, with trainings counted and made up."""
    from dpstudy.experiments import trainer

    small_smoke_runs(monkeypatch)

    def train(runs, folder, *, budget, finish, report):
        trained.append(len(runs))
        for run in runs:
            store.write(folder, result_of(run))
        return trainer.campaign.Outcome()

    trained = []
    monkeypatch.setattr(trainer.campaign, "train_missing", train)
    trainer.prepare.trained = trained
    return trainer.prepare


def test_the_stored_profile_trains_nothing(prepare):
    reading = prepare(EXPERIMENT, "stored")
    assert prepare.trained == []
    assert (reading.profile, len(reading.missing)) == ("full", 2)


def test_the_smoke_profile_trains_and_reads_its_own_runs(prepare):
    reading = prepare(EXPERIMENT, "smoke", dataset="mnist")
    assert prepare.trained == [2]
    assert [result.run for _, result in reading.found] == seeds(2, RUN)
    assert reading.missing == []


def test_as_many_seeds_are_shown_as_were_trained(prepare):
    for profile in ("smoke", "full"):
        assert len(prepare(EXPERIMENT, profile, seeds=4).found) == 4
        assert len(prepare(EXPERIMENT, profile, seeds=1).found) == 1


def test_a_notebook_s_unknown_profile_is_one_line(prepare):
    for profile in ("tiny", "", "Stored"):
        with pytest.raises(UserError, match=f"'{profile}'; one of: {', '.join(NOTEBOOK_PROFILES)}"):
            prepare(EXPERIMENT, profile)
    assert prepare.trained == []
