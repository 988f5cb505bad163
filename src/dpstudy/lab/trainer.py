"""Train an experiment's runs where they are wanted: with a bar, and with their epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tqdm import tqdm

from dpstudy.lab import campaign, store

if TYPE_CHECKING:
    from distributed import Client

    from dpstudy.lab.campaign import Outcome, Progress
    from dpstudy.lab.experiment import Experiment
    from dpstudy.lab.store import Result
    from dpstudy.parts.run import Run


def train_with_bar(
    experiment: Experiment,
    runs: list[Run],
    profile: str,
    *,
    budget: float = math.inf,
    client: Client | None = None,
    most: int | None = None,
) -> Outcome:
    """Train and store those of `runs` that are missing, with a bar over all their epochs.

    The bar shows the runs done, running and waiting, and the time left for all of them from the
    speed measured so far. The runs are trained in this process, on all of its devices, or side by
    side on the cluster of a Dask `client`; `most` of them at once.
    """
    total = sum(run.epochs for run in runs)
    # Mean speed: runs side by side end their epochs in bursts, which no recent speed follows.
    shown = {"unit": "epoch", "dynamic_ncols": True, "smoothing": 0, "miniters": 1}
    with tqdm(total=total, desc=experiment.name, **shown) as bar:

        def report(progress: Progress) -> None:
            bar.set_postfix(
                done=progress.runs_done,
                running=progress.runs_running,
                waiting=progress.runs_waiting,
                accuracy=f"{progress.accuracy:.3f}",
            )
            new = progress.epochs_done - bar.n
            # A report is of one epoch: what was stored before, or a run that diverged will not
            # need, must not count as speed.
            bar.initial += max(new - 1, 0)
            bar.update(new)

        folder = store.runs_folder(profile)
        hopeless = experiment.hopeless(profile)
        options = {"budget": budget, "report": report, "most": most, "hopeless": hopeless}
        if client is None:
            outcome = campaign.train_missing(runs, folder, finish=finisher(), **options)
        else:
            # Dask takes a second to import, and a bare node has none.
            from dpstudy.lab import workers

            outcome = workers.train_missing(client, runs, folder, finish=finisher(), **options)
        if not outcome.unfinished:
            # Found stored, or diverged: there is nothing left to wait for.
            bar.update(bar.total - bar.n)
        return outcome


def finisher() -> Callable[[Result], Result]:
    """Return what completes a result: its epsilon, where dp-accounting is installed.

    A bare training node has none; `dpstudy results merge` completes what comes from there.
    """
    try:
        import dpstudy.privacy.run_epsilon  # noqa: F401
    except ModuleNotFoundError:
        return lambda result: result
    return store.with_epsilon
