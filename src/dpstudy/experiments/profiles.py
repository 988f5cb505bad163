"""What a notebook's profile needs: stored results, or those of a training that comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpstudy import readings
from dpstudy.errors import UserError
from dpstudy.experiments.experiment import NOTEBOOK_PROFILES

if TYPE_CHECKING:
    from dpstudy.experiments.experiment import Experiment
    from dpstudy.readings import Reading


def prepare(
    experiment: Experiment, profile: str, *, dataset: str | None = None, seeds: int | None = None
) -> Reading:
    """Return what a notebook's profile needs of an experiment.

    "stored" reads and trains nothing; "smoke" and "full" train what is missing first.

    Raises:
        UserError: an unknown profile or dataset.
    """
    if profile not in NOTEBOOK_PROFILES:
        raise UserError(f"unknown profile {profile!r}; one of: {', '.join(NOTEBOOK_PROFILES)}")
    if profile != "stored":
        # Imported only here: reading needs nothing of what trains.
        from dpstudy import devices
        from dpstudy.experiments.trainer import train_with_bar

        devices.one_device_a_core()
        runs = experiment.runs(profile, dataset=dataset, seeds=seeds)
        train_with_bar(experiment, runs, profile)
    return readings.read(experiment, "smoke" if profile == "smoke" else "full", dataset, seeds)
