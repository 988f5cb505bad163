"""The bar over a campaign: what is left is judged by the epochs trained in this sitting alone."""

from dataclasses import replace

import pytest
from results_for_tests import EXPERIMENT, RUN, contents, result_of, seeds
from tqdm import tqdm

from dpstudy.lab import campaign, store, train


@pytest.fixture
def shown(monkeypatch, results):
    """What the bar shows after each report, of a campaign that reports these epochs as done."""

    def watch(epochs_done, unfinished=0):
        seen, bars = [], []

        class Watched(tqdm):
            def __init__(self, *args, **options):
                super().__init__(*args, **options)
                bars.append(self)

        def train_missing(runs, folder, *, report, **options):
            for number in epochs_done:
                report(campaign.Progress(RUN, 1, 0.5, number, 0, 0, 0, 0))
                seen.append(dict(bars[0].format_dict))
            return campaign.CampaignOutcome(unfinished=unfinished)

        monkeypatch.setattr(train, "tqdm", Watched)
        monkeypatch.setattr(campaign, "train_missing", train_missing)
        train.train_with_bar(EXPERIMENT, seeds(4), "full")
        return seen, bars[0]

    return watch


def test_epochs_stored_or_reached_before_do_not_count_as_speed(shown):
    # 31: after a run of 30. 52: a run went on from its 20th epoch. 52 again: one was repeated.
    # 82: one that diverged at its beginning, and an epoch of another.
    seen, _ = shown([31, 32, 52, 52, 53, 82], unfinished=1)
    assert [now["n"] for now in seen] == [31, 32, 52, 52, 53, 82]
    assert [now["n"] - now["initial"] for now in seen] == [1, 2, 3, 3, 4, 5]
    assert all(now["rate"] is None for now in seen)  # so that tqdm takes the mean since the start


def test_a_bar_ends_full_unless_runs_are_left(shown):
    total = 4 * RUN.epochs
    assert shown([1])[1].n == total
    assert shown([1], unfinished=1)[1].n == 1


def test_what_another_experiment_stored_of_the_same_run_is_not_trained_again(results):
    runs = seeds(2)
    for run in runs:
        store.write(store.runs_folder(), result_of(run))
    was = contents(results)
    outcome = train.train_with_bar(replace(EXPERIMENT, name="another"), runs, "full")
    assert (outcome.stored, outcome.already, outcome.unfinished) == ([], 2, 0)
    assert contents(results) == was
