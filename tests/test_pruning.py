"""A run far behind its rivals is given up, once, by the rule; others are not."""

from results_for_tests import RUN, result_of, seeds

from dpstudy.lab import campaign, store
from dpstudy.lab.experiment import Pruning
from dpstudy.parts.run import vary

# Of three epochs a third is one.
FAST, SLOW = vary(RUN, learning_rate=0.5), vary(RUN, learning_rate=0.001)


def stored_with(folder, accuracy):
    # Climbs by a point an epoch, and so has two less after the first of three.
    store.write(folder, result_of(FAST, accuracy=accuracy))


def test_ten_points_behind_after_a_third_of_the_epochs_is_hopeless(tmp_path):
    rule = Pruning.among([[FAST, SLOW]])
    assert rule.why(SLOW, 1, 0.3, tmp_path) is None, "no rival is stored"
    stored_with(tmp_path, 0.52)
    why = "after 1 of 3 epochs 39.9 %, where the best of its rivals had 50.0 %"
    assert rule.why(SLOW, 1, 0.399, tmp_path) == why
    assert rule.why(SLOW, 1, 0.401, tmp_path) is None
    assert rule.why(SLOW, 2, 0.1, tmp_path) is None, "later it goes on"
    assert rule.why(seeds(2)[1], 1, 0.1, tmp_path) is None, "no rival of these"


def counted(into):
    return lambda one: into.append(one) or one


def test_a_hopeless_run_is_stopped_and_stored_as_stopped(tmp_path, monkeypatch):
    stored_with(tmp_path, 0.99)
    rule = Pruning.among([[FAST, SLOW]])
    trained = []
    epochs = campaign.loop.train
    monkeypatch.setattr(
        campaign.loop, "train", lambda *given: map(counted(trained), epochs(*given))
    )
    outcome = campaign.train_missing([SLOW], tmp_path, pruning=rule)
    assert (outcome.unfinished, len(outcome.stored)) == (0, 1)
    stored = store.read(tmp_path / f"{SLOW.identity}.json")
    assert stored.curve["epoch"] == [0, 1]
    assert stored.stopped.startswith("after 1 of 3 epochs ")
    assert stored.diverged_at is None
    assert len(trained) == 2, "no epoch is trained after the one in which it was given up"
    assert not list((tmp_path / ".checkpoints").glob("*"))


def test_one_of_a_cohort_is_stopped_and_the_others_go_on(tmp_path):
    stored_with(tmp_path, 0.99)
    other = vary(RUN, learning_rate=0.3)
    campaign.train_missing([SLOW, other], tmp_path, most=2, pruning=Pruning.among([[FAST, SLOW]]))
    slow, whole = (store.read(tmp_path / f"{run.identity}.json") for run in (SLOW, other))
    assert (slow.curve["epoch"], slow.stopped is None) == ([0, 1], False)
    assert (whole.curve["epoch"], whole.stopped) == ([0, 1, 2, 3], None)
