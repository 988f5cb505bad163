"""A search goes on where its results point: proposals first, then the best with more seeds."""

import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner
from results_for_tests import RUN, TINY, result_of

from dpstudy import cli
from dpstudy.errors import UserError
from dpstudy.lab import choosing, profiles, records, store
from dpstudy.lab.choices import Choice
from dpstudy.lab.choosing import choose
from dpstudy.lab.readings import read
from dpstudy.lab.search import Search, Space
from dpstudy.papers import EXPERIMENTS


def at(label, dataset, point):
    return replace(RUN, dataset=dataset, learning_rate=point[0])


POINTS = {"try 1": (0.1,), "try 2": (0.4,)}
SEARCH = Search(
    name="tiny-search",
    title="Two rates given, two proposed",
    variants={label: (at(label, "mnist", point),) for label, point in POINTS.items()},
    seeds={"mnist": 1},
    groups={"best": ("try 1", "try 2", "try 3", "try 4")},
    best_seeds=3,
    space=Space((None,), POINTS, at),
)
# Without a sampler: the best of what is given.
SWEEP = replace(SEARCH, name="tiny-sweep", groups={"best": ("try 1", "try 2")}, space=None)


@pytest.fixture
def sampler(monkeypatch):
    """Propose 0.25 and 0.25 plus a thousandth for each result before, and note what was asked."""
    asked = []

    def propose(levels, tried, count, seed):
        asked.append((levels, tried, count, seed))
        return [(0.25 + 0.001 * (seed + k),) for k in range(count)]

    monkeypatch.setattr(choosing, "propose", propose)
    monkeypatch.setattr(choosing.importlib.metadata, "version", lambda name: "5.6.7")
    return asked


def keep(search, accuracy):
    for _, run in search.labelled():
        store.write(search.folder(), result_of(run, accuracy=round(accuracy(run), 6)))


def near(rate):
    """Return an accuracy that is best at a learning rate; other seeds are worse."""
    return lambda run: 0.9 - abs(run.learning_rate - rate) / 10 - 0.01 * run.seed


def test_nothing_is_chosen_before_all_that_is_known_is_stored(results, sampler):
    assert choose(SEARCH) == 0
    store.write(SEARCH.folder(), result_of(at("", "mnist", (0.1,))))
    assert choose(SEARCH) == 0
    assert sampler == [] and SEARCH.chosen() == {}


def test_a_search_proposes_then_trains_its_best_again_and_ends(results, sampler):
    assert (read(SEARCH).needed, read(SEARCH).lacking) == (7, 7)
    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 2
    # What was tried, and what it came to: 0.1 and 0.4 are 0.15 away from 0.25.
    assert sampler == [((None,), [((0.1,), 0.885), ((0.4,), 0.885)], 2, 2)]
    assert choose(SEARCH) == 0, "the proposals are not trained yet"
    rates = {label: run.learning_rate for label, run in SEARCH.labelled()}
    assert rates == {"try 1": 0.1, "try 2": 0.4, "try 3": 0.252, "try 4": 0.253}
    assert SEARCH.chosen()["mnist", "try 3"].by == "Optuna 5.6.7, GPSampler, from 2 results"
    assert (read(SEARCH).needed, read(SEARCH).lacking) == (7, 5)

    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 1
    best = [run for label, run in SEARCH.labelled() if label == "best"]
    # Not seed 0: by its luck the setting was chosen.
    assert [run.seed for run in best] == [1, 2, 3]
    assert {run.learning_rate for run in best} == {0.252}
    assert len(SEARCH.runs()) == 7 and len(read(SEARCH).missing) == 3

    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 0
    reading = read(SEARCH)
    assert (reading.needed, reading.lacking, reading.undecided) == (7, 0, ())
    assert len(sampler) == 1


def test_a_run_that_diverged_is_a_bad_setting_not_a_missing_one(results, sampler):
    keep(SWEEP, near(0.1))
    [one] = [run for _, run in SWEEP.labelled() if run.learning_rate == 0.1]
    store.write(SWEEP.folder(), result_of(one, epochs=2))
    assert choose(SWEEP) == 1
    choice = SWEEP.chosen()["mnist", "best"]
    assert choice.run.learning_rate == 0.4
    assert choice.by == "the highest test accuracy of 2 at seed 0: try 2"


def test_searches_do_not_see_each_other_s_choices(results):
    keep(SWEEP, near(0.1))
    choose(SWEEP)
    assert SEARCH.chosen() == {}
    assert [label for _, label in SEARCH.undecided()] == ["try 3", "try 4", *["best"] * 3]


def test_a_damaged_choice_is_named_and_never_replaced(results, sampler):
    keep(SWEEP, near(0.1))
    choose(SWEEP)
    [path] = records.folder("searches").iterdir()
    path.write_text(path.read_text().replace("try 1", "try 2"))
    damaged = path.read_bytes()
    [line] = read(SWEEP).damaged
    assert line.startswith("searches/tiny-sweep-mnist-best.json: changed after it was stored")
    assert read(SWEEP).lacking == 3
    with pytest.raises(UserError, match=r"to choose again, remove this file first"):
        choose(SWEEP)
    assert path.read_bytes() == damaged


def test_a_damaged_choice_is_none_of_the_smoke_profile_s_business(results, sampler):
    keep(SWEEP, near(0.1))
    choose(SWEEP)
    [path] = records.folder("searches").iterdir()
    path.write_text("cut short")
    assert read(SWEEP).damaged and read(SWEEP, "smoke").damaged == []


def test_what_is_stored_as_the_best_is_the_best_of_its_whole_group():
    """Also where the group has grown since."""
    for search in filter(lambda one: isinstance(one, Search), EXPERIMENTS.values()):
        for (dataset, label), choice in search.chosen().items():
            if label in search.groups:
                runs = dict(search.labelled(dataset=dataset, seeds=1))
                tried = choosing.accuracies(search, dataset, label)
                assert set(tried) == set(search.groups[label])
                assert runs[max(tried, key=tried.get)] == choice.run


def test_smoke_runs_choose_nothing(results):
    assert SEARCH.undecided("smoke") == []
    assert {label for label, _ in SEARCH.labelled("smoke")} == set(POINTS)


def test_without_optuna_one_line_says_how_to_go_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match="optuna, which is not installed here: `make search`"):
        choosing.propose((None,), [((0.1,), 0.9)], 1, 0)


# --- on the command line -------------------------------------------------------------------------


@pytest.fixture
def run(results, monkeypatch):
    """`dpstudy run` of a search, with trainings made up."""
    from dpstudy.lab import trainer

    def train(runs, folder, *, budget, finish, report, most):
        missing = [run for run in runs if not (folder / f"{run.identity}.json").exists()]
        trained.append(len(missing))
        for one in missing:
            store.write(folder, result_of(one, accuracy=round(near(0.25)(one), 6)))
        return trainer.campaign.Outcome()

    trained = []
    monkeypatch.setattr("dpstudy.lab.experiment.SMOKE", TINY)
    monkeypatch.setattr(trainer.campaign, "train_missing", train)
    monkeypatch.setattr("dpstudy.parts.images.load", lambda name: None)

    def run(search, *options):
        monkeypatch.setattr("dpstudy.papers.EXPERIMENTS", {search.name: search})
        arguments = ["run", search.name, "--workers", "1", *options]
        return CliRunner().invoke(cli.main, arguments), trained

    return run


def test_run_goes_on_until_the_search_has_ended(run, sampler):
    done, trained = run(SEARCH)
    assert done.exit_code == 0, done.output
    assert trained == [2, 2, 3]
    assert "tiny-search: 2 settings more to try" in done.output
    assert run(SEARCH)[0].exit_code == 0 and trained == [2, 2, 3, 0]


def test_run_without_a_sampler_keeps_what_it_trained_and_says_how_to_go_on(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    done, trained = run(SEARCH)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("dpstudy: what a search tries next is proposed")
    assert trained == [2] and len(read(SEARCH).found) == 2
    # A sweep's best needs none. What it tries is stored already: they are the search's runs.
    done, trained = run(SWEEP)
    assert done.exit_code == 0 and trained == [2, 0, 3]


def test_run_without_pandas_keeps_what_it_trained_and_says_how_to_go_on(run, monkeypatch):
    """A bare training node has none; a sweep's best needs it as well."""
    monkeypatch.delattr("dpstudy.lab.choosing")
    for name in ("dpstudy.lab.choosing", "dpstudy.lab.readings"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("dpstudy.lab.readings")
    monkeypatch.setitem(sys.modules, "pandas", None)
    done, trained = run(SWEEP)
    assert (done.exit_code, trained) == (2, [2])
    [*_, line] = done.stderr.splitlines()
    assert line.startswith("dpstudy: what tiny-sweep trains next is chosen with the help of pandas")


def test_the_full_profile_of_a_notebook_goes_on_until_the_search_has_ended(run, sampler):
    run(SWEEP)  # So that trainings are made up.
    reading = profiles.prepare(SEARCH, "full")
    assert (len(reading.found), reading.lacking) == (7, 0)


def test_the_full_profile_says_why_a_search_does_not_go_on(run, monkeypatch, capsys):
    run(SWEEP)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert profiles.prepare(SEARCH, "full").lacking == 5
    assert "optuna, which is not installed here" in capsys.readouterr().err


def test_a_foreign_record_among_the_choices_breaks_nothing(results):
    SEARCH.keep("mnist", "try 3", Choice(RUN, "a test", (0.5,)))
    path = records.folder("searches") / f"{SEARCH.name}-mnist-other.json"
    records.write(path, "searches", {"dataset": "mnist"})
    assert list(SEARCH.chosen()) == [("mnist", "try 3")]
    [error] = SEARCH.damaged_choices()
    assert error.reason == "a choice without 'point'"
    assert SWEEP.chosen() == {} and SWEEP.damaged_choices() == []


def test_a_choice_survives_its_file(results):
    SEARCH.keep("mnist", "try 3", Choice(RUN, "a test", (0.5,)))
    assert SEARCH.chosen() == {("mnist", "try 3"): Choice(RUN, "a test", (0.5,))}
