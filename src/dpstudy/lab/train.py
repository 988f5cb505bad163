"""Train what an experiment needs: with a bar, with its epsilon, and with what it chooses then."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dpstudy.errors import UserError, check_known
from dpstudy.lab import search, store
from dpstudy.lab.experiment import NOTEBOOK_PROFILES, Experiment
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.run import Run
from dpstudy.progress import tqdm

if TYPE_CHECKING:
    from distributed import Client

    from dpstudy.lab.campaign import CampaignOutcome, Progress
    from dpstudy.lab.readings import Reading


def prepare(
    experiment: Experiment, profile: str, *, dataset: str | None = None, seeds: int | None = None
) -> Reading:
    """Return what a notebook's profile needs of an experiment.

    "stored" trains nothing; "smoke" and "full" train what is missing first. Where a search cannot
    choose what it trains next, a line on standard error says why. Of an experiment that has no runs
    on `dataset`, what is stored of others is read; "smoke" trains its tiny runs. With `seeds`, that
    many instead of the experiment's own number.

    Raises:
        UserError: an unknown profile or dataset, or seeds below 1.

    >>> prepare(Experiment("none", "No runs", {}, {}), "draft")
    Traceback (most recent call last):
    dpstudy.errors.UserError: unknown profile 'draft'; one of: stored, smoke, full
    """
    from dpstudy.lab import readings  # Only here: a bare node has no pandas.

    check_known("profile", profile, NOTEBOOK_PROFILES)
    if dataset in DATASETS and dataset not in experiment.datasets:
        profile, dataset = "smoke" if profile == "smoke" else "stored", None
    if profile != "stored":
        from dpstudy.gradients import devices

        devices.one_device_a_core()
        _, refusal = train(experiment, profile, dataset=dataset, seeds=seeds)
        if refusal is not None:
            print(refusal, file=sys.stderr)
    return readings.read(experiment, "smoke" if profile == "smoke" else "full", dataset, seeds)


def train(
    experiment: Experiment,
    profile: str,
    *,
    dataset: str | None = None,
    seeds: int | None = None,
    end: float = math.inf,
    client: Client | None = None,
    most: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[int, UserError | None]:
    """Train what an experiment needs, have it choose what it needs then, and train that.

    Return how many runs are left, and why a search could not choose, if it could not. No epoch is
    started after `end`, by `time.monotonic()`. `most` runs are trained at once, as for
    `campaign.train_missing`, on the `client`'s Dask cluster or by this process.
    """
    chosen = 1
    while chosen:
        runs = experiment.runs(profile, dataset=dataset, seeds=seeds)
        budget = end - time.monotonic()
        done = train_with_bar(experiment, runs, profile, client=client, budget=budget, most=most)
        diverged = [r.run.identity for r in done.stored if r.diverged_at is not None]
        tell(
            f"{experiment.name}: {len(done.stored)} stored, {done.already} already there, "
            f"{done.unfinished} left, in {store.runs_folder(profile)}"
            + (f", diverged: {', '.join(diverged)}" if diverged else "")
        )
        if done.unfinished:
            return done.unfinished, None
        try:
            chosen = search.choose(experiment, profile, dataset)
        except UserError as error:
            return 0, error
        if chosen:
            tell(f"{experiment.name}: {chosen} setting{'s' if chosen > 1 else ''} more to try")
    return 0, None


def train_with_bar(
    experiment: Experiment, runs: list[Run], profile: str, client: Client | None = None, **how: Any
) -> CampaignOutcome:
    """Train and store what is missing, with a bar; `how` is for `campaign.train_missing`."""
    # Only here: reading loads nothing of what trains.
    from dpstudy.lab import campaign

    # Mean speed: runs side by side end their epochs in bursts, which no recent speed follows.
    shown = {"unit": "epoch", "dynamic_ncols": True, "smoothing": 0, "miniters": 1}
    with tqdm(total=sum(run.epochs for run in runs), desc=experiment.name, **shown) as bar:

        def report(progress: Progress) -> None:
            bar.set_postfix(
                done=progress.runs_done,
                running=progress.runs_running,
                waiting=progress.runs_waiting,
                accuracy=f"{progress.accuracy:.3f}",
                refresh=False,  # `update` does, as often as one can see
            )
            new = progress.epochs_done - bar.n
            # A report is of one epoch: what was stored before, or a run that diverged will not
            # need, must not count as speed.
            bar.initial += max(new - 1, 0)
            bar.update(new)

        if client is not None:
            # Dask takes a second to import, and a bare node has none.
            from dpstudy.lab import workers

            how["on"] = partial(workers.train, client)
        with contextlib.suppress(ModuleNotFoundError):  # Else `dpstudy results merge` completes it.
            import dpstudy.privacy.run_epsilon  # noqa: F401

            how["finish"] = store.with_epsilon
        how |= {"report": report, "pruning": experiment.pruning(profile)}
        outcome = campaign.train_missing(runs, store.runs_folder(profile), **how)
        if not outcome.unfinished:
            # Found stored, or diverged: there is nothing left to wait for.
            bar.update(bar.total - bar.n)
        return outcome
