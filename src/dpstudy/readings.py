"""Stored results as tables for figures, with what is missing and what cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from dpstudy import store

if TYPE_CHECKING:
    from dpstudy.experiments.experiment import Experiment
    from dpstudy.spec import Run
    from dpstudy.store import Result


@dataclass(frozen=True)
class Reading:
    """What is stored of an experiment.

    Attributes:
        experiment: whose results these are.
        profile: "full" or "smoke".
        dataset: the one asked for, or None for all.
        found: (variant label, result) pairs, in the experiment's order.
        missing: runs that are needed and not stored.
        damaged: one line for each file that cannot be trusted; such files are left out.
    """

    experiment: Experiment
    profile: str
    dataset: str | None
    found: list[tuple[str, Result]]
    missing: list[Run]
    damaged: list[str]

    @property
    def command(self) -> str:
        """The command that runs what is missing."""
        options = [self.experiment.name, "--profile", self.profile]
        if self.dataset is not None and self.profile == "full":
            options += ["--dataset", self.dataset]
        return f"dpstudy run {' '.join(options)}"

    @property
    def devices(self) -> str:
        """The devices the results were computed on, in words."""
        return ", ".join(sorted({result.provenance["device"] for _, result in self.found}))

    @property
    def curves(self) -> pd.DataFrame:
        """One row an epoch of each run: label, dataset, seed, the curve, epsilon by accountant."""
        frames = [
            pd.DataFrame(result.curve).assign(
                label=label,
                dataset=result.run.dataset,
                seed=result.run.seed,
                **{f"epsilon_{name}": values for name, values in result.epsilon.items()},
            )
            for label, result in self.found
            if result.curve["epoch"]
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def finals(self) -> pd.DataFrame:
        """One row a run: its last epoch, and whether it diverged before it.

        The last epoch of a diverged run has no accuracy: the run counts as failed, at chance.
        """
        rows = []
        for label, result in self.found:
            last = {name: values[-1] for name, values in result.curve.items() if values}
            spent = {f"epsilon_{name}": v[-1] for name, v in result.epsilon.items() if v}
            if result.diverged_at is not None:
                last["test_accuracy"] = 0.1
            rows.append(
                {
                    "label": label,
                    "dataset": result.run.dataset,
                    "seed": result.run.seed,
                    "diverged": result.diverged_at is not None,
                    **last,
                    **spent,
                }
            )
        return pd.DataFrame(rows)


def read(experiment: Experiment, profile: str = "full", dataset: str | None = None) -> Reading:
    """Return what is stored of an experiment; damaged files are named, never used."""
    results, errors = store.read_all(experiment.folder(profile))
    wanted = experiment.labelled(profile, dataset=dataset)
    return Reading(
        experiment=experiment,
        profile=profile,
        dataset=dataset,
        found=[(label, results[run.identity]) for label, run in wanted if run.identity in results],
        missing=[run for _, run in wanted if run.identity not in results],
        damaged=[str(error) for error in errors],
    )
