"""A search goes on where its results point: what was proposed, then the best with more seeds."""

from dataclasses import replace

import pytest
from results_for_tests import RUN, TINY, dpstudy, result_of, rewrite

from dpstudy.errors import UserError
from dpstudy.lab import campaign, records, store, train, transfer
from dpstudy.lab.readings import read
from dpstudy.lab.search import Choice, FollowUp, Search, accuracies, choose
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.run import vary
from under_the_clip.experiments import EXPERIMENTS


def at(rate):
    return vary(RUN, dataset=Images("mnist"), learning_rate=rate)


RATES = {"try 1": 0.1, "try 2": 0.4}
SEARCH = Search(
    name="tiny-search",
    title="Two rates given, two proposed once",
    variants={label: (at(rate),) for label, rate in RATES.items()},
    seeds={"mnist": 1},
    groups={"best": ("try 1", "try 2", "try 3", "try 4")},
    best_seeds=3,
)
# The best of what is given.
SWEEP = replace(SEARCH, name="tiny-sweep", groups={"best": ("try 1", "try 2")})


def rate_of(run):
    return run.optimizer.learning_rate


def propose():
    """Store what was proposed once."""
    for label, rate in (("try 3", 0.252), ("try 4", 0.253)):
        SEARCH.keep("mnist", label, at(rate), "a sampler, from 2 results", (rate,))


def keep(search, accuracy):
    for _, run in search.labelled():
        store.write(store.runs_folder(), result_of(run, accuracy=round(accuracy(run), 6)))


def near(rate):
    """Return an accuracy that is best at a learning rate; other seeds are worse."""
    return lambda run: 0.9 - abs(rate_of(run) - rate) / 10 - 0.01 * run.seed


def test_nothing_is_chosen_before_all_of_a_group_is_stored(results):
    assert choose(SWEEP) == 0
    store.write(store.runs_folder(), result_of(at(0.1)))
    assert choose(SWEEP) == 0
    assert SWEEP.chosen() == {}


def test_a_search_tries_what_was_proposed_then_trains_its_best_again_and_ends(results):
    assert (read(SEARCH).needed, read(SEARCH).lacking) == (7, 7)
    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 0, "half of the group is not proposed"
    propose()
    assert choose(SEARCH) == 0, "the proposals are not trained yet"
    rates = {label: rate_of(run) for label, run in SEARCH.labelled()}
    assert rates == {"try 1": 0.1, "try 2": 0.4, "try 3": 0.252, "try 4": 0.253}
    assert SEARCH.chosen()["mnist", "try 3"].point == (0.252,)
    assert (read(SEARCH).needed, read(SEARCH).lacking) == (7, 5)

    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 1
    best = [run for label, run in SEARCH.labelled() if label == "best"]
    # Not seed 0: by its luck the setting was chosen.
    assert [run.seed for run in best] == [1, 2, 3]
    assert {rate_of(run) for run in best} == {0.252}
    assert len(SEARCH.runs()) == 7 and len(read(SEARCH).missing) == 3

    keep(SEARCH, near(0.25))
    assert choose(SEARCH) == 0
    reading = read(SEARCH)
    assert (reading.needed, reading.lacking, reading.undecided) == (7, 0, ())


def test_what_follows_from_the_best_waits_for_the_choice_and_changes_it(results):
    then = {"wide": FollowUp("best", lambda run: vary(run, width=2.0), seeds=2)}
    search = replace(SWEEP, then=then)
    assert search.undecided()[-2:] == [("mnist", "wide")] * 2
    keep(search, near(0.1))
    choose(search)
    [best] = {replace(run, seed=0) for label, run in search.labelled() if label == "best"}
    wide = [run for label, run in search.labelled() if label == "wide"]
    assert wide == [replace(vary(best, width=2.0), seed=seed) for seed in (0, 1)]
    assert search.undecided() == []


def test_a_dataset_without_a_group_s_variants_waits_for_nothing_of_it(results):
    elsewhere = vary(at(0.2), dataset=Images("fashion-mnist"))
    search = replace(
        SWEEP,
        variants=SWEEP.variants | {"other": (at(0.3), elsewhere)},
        groups=SWEEP.groups | {"best of other": ("other",)},
        seeds={"mnist": 1, "fashion-mnist": 1},
    )
    assert search.groups_on("fashion-mnist") == ["best of other"]
    waiting = {label for name, label in search.undecided() if name == "fashion-mnist"}
    assert waiting == {"best of other"}
    store.write(store.runs_folder(), result_of(elsewhere))
    assert choose(search, dataset="fashion-mnist") == 1
    assert search.undecided(dataset="fashion-mnist") == []


def test_a_best_that_is_trained_no_further_is_not_with_a_number_of_seeds_either(results):
    search = replace(SWEEP, best_seeds=0)
    keep(search, near(0.1))
    choose(search)
    assert [label for label, _ in search.labelled(seeds=2)] == ["try 1", "try 2"] * 2
    assert search.undecided(seeds=2) == []


def test_a_run_that_diverged_is_a_bad_setting_not_a_missing_one(results):
    keep(SWEEP, near(0.1))
    [one] = [run for _, run in SWEEP.labelled() if rate_of(run) == 0.1]
    store.write(store.runs_folder(), result_of(one, epochs=2))
    assert choose(SWEEP) == 1
    choice = SWEEP.chosen()["mnist", "best"]
    assert rate_of(choice.run) == 0.4
    assert choice.by == "the highest test accuracy of 2 at seed 0: try 2"


def test_a_choice_among_examples_held_out_says_so(results):
    held_out = {
        label: tuple(vary(run, held_out=10_000) for run in runs)
        for label, runs in SWEEP.variants.items()
    }
    search = replace(SWEEP, variants=held_out)
    keep(search, near(0.1))
    assert choose(search) == 1
    assert search.chosen()["mnist", "best"].by.startswith("the highest held-out accuracy of 2")


def test_a_run_that_was_given_up_is_not_the_best_though_what_went_on_fell_below_it(results):
    given_up, went_on = (run for _, run in SWEEP.labelled())
    behind = result_of(given_up, accuracy=0.4, epochs=2, diverged_at=None, stopped="far behind")
    for one in (behind, result_of(went_on, accuracy=0.1)):
        store.write(store.runs_folder(), one)
    assert choose(SWEEP) == 1
    assert SWEEP.chosen()["mnist", "best"].run == went_on


def test_where_the_best_rate_is_the_outermost_one_beyond_it_is_tried(results):
    search = replace(SWEEP, beyond=2.0)
    for rate in (0.05, 0.025):
        keep(search, near(0.05))
        assert choose(search) == 1
        assert f"best, at rate {rate}" in search.tried("mnist", "best")
        assert rate in map(rate_of, search.runs())
        assert "best" not in {label for _, label in search.chosen()}
    keep(search, near(0.05))
    assert choose(search) == 1 and choose(search) == 0
    assert rate_of(search.chosen()["mnist", "best"].run) == 0.05


def test_rates_beyond_end_where_accuracy_never_stops_to_rise(results):
    search = replace(SWEEP, beyond=2.0)
    for _ in range(7):
        keep(search, lambda run: 0.1 + rate_of(run) / 100)
        assert choose(search) == 1
    assert choose(search) == 0
    assert rate_of(search.chosen()["mnist", "best"].run) == 0.4 * 2**6


def test_searches_do_not_see_each_other_s_choices(results):
    keep(SWEEP, near(0.1))
    choose(SWEEP)
    assert SEARCH.chosen() == {}
    assert [label for _, label in SEARCH.undecided()] == ["try 3", "try 4", *["best"] * 3]


def test_a_damaged_choice_is_named_and_never_replaced(results):
    keep(SWEEP, near(0.1))
    choose(SWEEP)
    [path] = records.folder("searches").iterdir()
    path.write_text(path.read_text().replace("try 1", "try 2"))
    damaged = path.read_bytes()
    [line] = read(SWEEP).damaged
    assert line.startswith("searches/tiny-sweep-mnist-best.json: changed after it was stored")
    assert read(SWEEP, "smoke").damaged == []
    assert read(SWEEP).lacking == 3
    with pytest.raises(UserError, match=r"to choose again, remove this file first"):
        choose(SWEEP)
    assert path.read_bytes() == damaged


def test_what_is_stored_as_the_best_is_the_best_of_its_whole_group():
    """Also where the group has grown since."""
    for search in filter(lambda one: isinstance(one, Search), EXPERIMENTS.values()):
        runs, stored = {}, {}
        for dataset in search.datasets:
            runs[dataset] = dict(search.labelled(dataset=dataset, seeds=1))
            stored[dataset] = accuracies(search, dataset)
        for (dataset, label), choice in search.chosen().items():
            if label in search.groups:
                tried = {one: stored[dataset][one] for one in search.tried(dataset, label)}
                best = max(tried, key=tried.get)
                assert runs[dataset][best] == choice.run


@pytest.mark.parametrize(
    "search", [one for one in EXPERIMENTS.values() if isinstance(one, Search)], ids=lambda s: s.name
)
def test_a_choice_of_each_group_is_found_again_and_packed(results, search):
    """Labels have slashes, commas and apostrophes, which a file's name has not."""
    labels = {*search.groups, *(then.best for then in search.then.values())}
    for dataset in search.datasets:
        for label in labels:
            search.keep(dataset, label, RUN, "made up")
    assert set(search.chosen()) == {(name, label) for name in search.datasets for label in labels}
    count = len(labels) * len(search.datasets)
    assert transfer.export(results, results / "all.tar.gz") == (count, [])
    merged = transfer.merge(results / "other", results / "all.tar.gz")
    assert (merged.added, merged.ignored) == (count, 0)


def test_smoke_runs_choose_nothing(results):
    assert SEARCH.undecided("smoke") == []
    assert {label for label, _ in SEARCH.labelled("smoke")} == set(RATES)


@pytest.fixture
def run(results, monkeypatch):
    """`dpstudy run` of a search, with trainings made up."""

    def made_up(runs, folder, **options):
        missing = [run for run in runs if not (folder / f"{run.identity}.json").exists()]
        trained.append(len(missing))
        for one in missing:
            store.write(folder, result_of(one, accuracy=round(near(0.25)(one), 6), **fields))
        return campaign.CampaignOutcome()

    trained, fields = [], {}
    monkeypatch.setattr("dpstudy.lab.experiment.SMOKE", TINY)
    monkeypatch.setattr(campaign, "train_missing", made_up)
    monkeypatch.setattr("dpstudy.parts.data.images.load", lambda name: None)

    def run(search, **of_results):
        fields.update(of_results)
        monkeypatch.setattr("under_the_clip.experiments.EXPERIMENTS", {search.name: search})
        return dpstudy("run", search.name, "--workers", "1"), trained

    return run


def test_run_goes_on_until_the_search_has_ended(run):
    propose()
    done, trained = run(SEARCH)
    assert done.exit_code == 0, done.output
    assert trained == [4, 3]
    assert "tiny-search: 1 setting more to try" in done.output
    assert run(SEARCH)[0].exit_code == 0 and trained == [4, 3, 0]


def test_run_of_what_is_not_proposed_keeps_what_it_trained(run):
    done, trained = run(SEARCH)
    assert (done.exit_code, trained) == (0, [2])
    assert (len(read(SEARCH).found), read(SEARCH).lacking) == (2, 5)
    # What the sweep tries is stored already: they are the search's runs.
    done, trained = run(SWEEP)
    assert done.exit_code == 0 and trained == [2, 0, 3]


def test_a_bare_node_chooses_by_results_that_have_no_epsilon_yet(run, results, monkeypatch):
    """It has no accounting to state one."""

    def without_accounting(result):
        raise ModuleNotFoundError(name="dp_accounting")

    monkeypatch.setattr(store, "with_epsilon", without_accounting)
    done, trained = run(SWEEP, epsilon={})
    assert (done.exit_code, trained) == (0, [2, 3]), done.output


def test_the_full_profile_says_why_a_search_does_not_go_on(run, monkeypatch, capsys):
    run(SWEEP)
    [path] = records.folder("searches").iterdir()
    path.write_text("cut short")
    assert train.prepare(SWEEP, "full").lacking == 3
    assert "to choose again, remove this file first" in capsys.readouterr().err


def test_a_foreign_record_among_the_choices_breaks_nothing(results):
    SEARCH.keep("mnist", "try 3", RUN, "a test", (0.5,))
    path = records.folder("searches") / f"{SEARCH.name}-mnist-other.json"
    records.write(path, "searches", {"dataset": "mnist"})
    kept = Choice(SEARCH.name, "mnist", "try 3", RUN, "a test", (0.5,))
    assert SEARCH.chosen() == {("mnist", "try 3"): kept}
    [error] = SEARCH.damaged_choices()
    assert error.reason == "a choice without 'point'"
    SEARCH.keep("mnist", "other", RUN, "a test", (0.5,))
    for point in ([10**400], [1e308], [-0.1], ["0.5"], [None], [], 0, "01", {"0.5": 1}):
        rewrite(path, lambda content, point=point: content.update(point=point))
        assert len(SEARCH.damaged_choices()) == 1
    path.unlink()
    assert SWEEP.chosen() == {} and SWEEP.damaged_choices() == []
