"""What a notebook's profile needs: stored results, or those of a training that comes first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dpstudy.errors import UserError, check_known
from dpstudy.lab import readings
from dpstudy.lab.experiment import NOTEBOOK_PROFILES
from dpstudy.parts.data.images import DATASETS

if TYPE_CHECKING:
    from dpstudy.lab.experiment import Experiment
    from dpstudy.lab.readings import Reading


def prepare(
    experiment: Experiment, profile: str, *, dataset: str | None = None, seeds: int | None = None
) -> Reading:
    """Return what a notebook's profile needs of an experiment.

    "stored" reads and trains nothing; "smoke" and "full" train what is missing first. Where a
    search cannot choose what it trains next, a line on standard error says why. Of an experiment
    that has no runs on `dataset`, what is stored of others is read; "smoke" trains its tiny runs.

    Args:
        experiment: whose runs.
        profile: "stored", "smoke" or "full".
        dataset: only this one, at paper scale; by default all.
        seeds: that many, 0 to seeds - 1, instead of the experiment's own number.

    Raises:
        UserError: an unknown profile or dataset, or seeds below 1.
    """
    check_known("profile", profile, NOTEBOOK_PROFILES)
    if dataset in DATASETS and dataset not in experiment.datasets:
        profile, dataset = "smoke" if profile == "smoke" else "stored", None
    if profile != "stored":
        # Imported only here: reading needs nothing of what trains.
        from dpstudy.gradients import devices

        devices.one_device_a_core()
        _train(experiment, profile, dataset, seeds)
    return readings.read(experiment, "smoke" if profile == "smoke" else "full", dataset, seeds)


def _train(experiment: Experiment, profile: str, dataset: str | None, seeds: int | None) -> None:
    from dpstudy.lab import search
    from dpstudy.lab.trainer import train_with_bar

    more = True
    while more:
        runs = experiment.runs(profile, dataset=dataset, seeds=seeds)
        train_with_bar(experiment, runs, profile)
        try:
            more = search.choose(experiment, profile, dataset) > 0
        except UserError as error:
            print(error, file=sys.stderr)
            more = False
