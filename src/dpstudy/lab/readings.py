"""Stored results as tables for figures, with what is missing and what cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from dpstudy.lab import store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.store import CHANCE, Result
from dpstudy.parts.run import Run

if TYPE_CHECKING:  # What only counts runs has no use for it, and it takes half a second.
    import pandas


@dataclass(frozen=True)
class Reading:
    """What is stored of an experiment, of its `profile`, `dataset` and `seeds` asked for."""

    experiment: Experiment
    profile: str
    dataset: str | None  # all without one
    found: list[tuple[str, Result]]  # by variant label, in the experiment's order
    missing: list[Run]  # needed and not stored
    damaged: list[str]  # a line for each file that cannot be trusted, and is left out
    seeds: int | None = None  # the experiment's own number without one
    undecided: tuple[tuple[str, str], ...] = ()  # dataset and label of what is yet to be chosen
    wanted: tuple[tuple[str, str], ...] = ()  # the same of each run asked for, stored or not

    def on(self, dataset: str) -> Self:
        """Return the part that is of one dataset."""
        found = [pair for pair in self.found if pair[1].run.dataset.name == dataset]
        missing = [run for run in self.missing if run.dataset.name == dataset]
        undecided = tuple(pair for pair in self.undecided if pair[0] == dataset)
        wanted = tuple(pair for pair in self.wanted if pair[0] == dataset)
        part = {"found": found, "missing": missing, "undecided": undecided, "wanted": wanted}
        return replace(self, dataset=dataset, **part)

    @property
    def dataset_name(self) -> str | None:
        """The dataset of its first run; where none is stored, the one asked for."""
        return self.found[0][1].run.dataset.name if self.found else self.dataset

    @property
    def datasets(self) -> list[str]:
        """The datasets of which something is stored, each once."""
        return list(dict.fromkeys(result.run.dataset.name for _, result in self.found))

    @property
    def needed(self) -> int:
        """How many runs the experiment asks for, stored or not."""
        return len(self.found) + self.lacking

    @property
    def lacking(self) -> int:
        """How many of them are not stored."""
        return len(self.missing) + len(self.undecided)

    @property
    def command(self) -> str:
        """The command that runs what is missing."""
        options = [self.experiment.name, "--profile", self.profile]
        if self.dataset is not None and self.profile == "full":
            options += ["--dataset", self.dataset]
        if self.seeds is not None:
            options += ["--seeds", str(self.seeds)]
        return f"dpstudy run {' '.join(options)}"

    @property
    def curves(self) -> pandas.DataFrame:
        """Of each run a row an epoch, with label, dataset, seed, the curve, epsilon by accountant.

        Of the curve what is one number. After the epoch in which it diverged a run is at chance,
        and its other columns are empty.
        """
        rows = self.curves_from_start
        return rows if rows.empty else rows[rows.epoch > 0].reset_index(drop=True)

    @property
    def curves_from_start(self) -> pandas.DataFrame:
        """The same with epoch 0, from before the first step, of the runs that have it."""
        import pandas as pd

        frames = [
            _curve(one).assign(label=label, dataset=one.run.dataset.name, seed=one.run.seed)
            for label, one in self.found
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def labels(self) -> list[str]:
        """The labels of what is stored, each once."""
        return list(dict.fromkeys(label for label, _ in self.found))

    @property
    def finals(self) -> pandas.DataFrame:
        """Of each run a row, with its last epoch, and whether it diverged after it or was given up.

        A diverged run has no last accuracy: it counts as failed, at chance.
        """
        import pandas as pd

        rows = []
        for label, result in self.found:
            columns = result.curve | _epsilon(result)
            row = {
                "label": label,
                "dataset": result.run.dataset.name,
                "seed": result.run.seed,
                "diverged": result.diverged_at is not None,
                "stopped": result.stopped is not None,
                **{name: values[-1] for name, values in columns.items() if values},
            }
            rows.append(row | {"test_accuracy": result.last_accuracy})
        return pd.DataFrame(rows)


def _epsilon(result: Result) -> dict[str, list[float]]:
    return {f"epsilon_{name}": values for name, values in result.epsilon.items()}


def _curve(result: Result) -> pandas.DataFrame:
    import pandas as pd

    nested = {name for name, of in result.curve.items() if any(isinstance(x, list) for x in of)}
    plain = {name: values for name, values in result.curve.items() if name not in nested}
    # As floats: a column in which nothing was finite holds None alone, which is not numeric.
    curve = pd.DataFrame(plain | _epsilon(result), dtype=float)
    if result.diverged_at is not None:
        curve = curve.set_index("epoch")
        first, lived = (int(curve.index[0]), curve.index[-1]) if len(curve) else (1, 0)
        curve = curve.reindex(range(first, result.run.epochs + 1)).reset_index()
        curve["step"] = curve.epoch * result.run.steps_per_epoch
        curve.loc[curve.epoch > lived, "test_accuracy"] = CHANCE
    # One by one: for a mapping of types pandas takes half of the time of all this.
    return curve.assign(epoch=curve.epoch.astype(int), step=curve.step.astype(int))


def read(
    experiment: Experiment,
    profile: str = "full",
    dataset: str | None = None,
    seeds: int | None = None,
) -> Reading:
    """Return what is stored of an experiment; arguments and errors as `Experiment.runs`."""
    wanted = experiment.labelled(profile, dataset=dataset, seeds=seeds)
    folder = store.runs_folder(profile)
    results, errors = store.read_all(folder, [run.identity for _, run in wanted])
    if profile == "full":  # No other makes choices.
        errors += experiment.damaged_choices()
    undecided = tuple(experiment.undecided(profile, dataset=dataset, seeds=seeds))
    found = [(label, results[run.identity]) for label, run in wanted if run.identity in results]
    found = [(label, store.completed(result)) for label, result in found]
    missing = [run for _, run in wanted if run.identity not in results]
    # Named from the results folder on: pages show these lines, on whatever machine.
    places = [(one.path.relative_to(folder.parent).as_posix(), one.reason) for one in errors]
    damaged = [f"{place}: {reason}" for place, reason in places]
    asked = (*((run.dataset.name, label) for label, run in wanted), *undecided)
    return Reading(experiment, profile, dataset, found, missing, damaged, seeds, undecided, asked)
