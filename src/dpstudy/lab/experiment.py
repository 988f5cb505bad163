"""An experiment: a named list of runs, at the paper's scale or small enough to try."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from dpstudy.errors import UserError, check_known, meant
from dpstudy.lab import store
from dpstudy.lab.store import DamagedError
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.scattering import Scattering
from dpstudy.parts.networks.network import SmallCnn
from dpstudy.parts.run import Run, vary

PROFILES = ("smoke", "full")
NOTEBOOK_PROFILES = ("stored", *PROFILES)
SEEDS = 1_000  # at most

# What makes a run small: MNIST-5k, or its scattering where the run is on that; few epochs, a batch
# that gives each epoch 20 steps.
SMOKE = {"dataset": Images("mnist-5k"), "batch": 200, "epochs": 5}
SMOKE_SEEDS = 2
# After what share of its epochs a run is given up, and how far behind.
_SHARE, _BEHIND = 1 / 3, 0.1


@dataclass(frozen=True)
class Pruning:
    """When a run is given up: a rule stated beforehand, for the runs of an experiment.

    After a third of its epochs a run that is ten points of accuracy behind the best stored one of
    its `rivals`, other settings of the same thing, is stored as stopped, with the reason.

    >>> fast, slow = Run(epochs=3), Run(epochs=3, seed=1)
    >>> len(Pruning.among([[fast, slow]]).rivals[slow.identity])  # and each its own
    2
    """

    # By a run's identity, those of its rivals; a run that is not here is never given up.
    rivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def among(cls, groups: Iterable[Iterable[Run]]) -> Self:
        """Return the rule for groups of runs, each the rivals of all others of its group."""
        named = [tuple(run.identity for run in group) for group in groups]
        return cls({one: group for group in named for one in group})

    def why(self, run: Run, epoch: int, accuracy: float, folder: Path) -> str | None:
        """Say why a run is given up, of an `accuracy` 0 to 1 after an `epoch`; None if not."""
        if run.identity not in self.rivals or epoch != max(1, round(_SHARE * run.epochs)):
            return None
        stored, _ = store.read_all(folder, self.rivals[run.identity])
        curves = [one.curve for one in stored.values() if epoch in one.curve["epoch"]]
        then = (curve["test_accuracy"][curve["epoch"].index(epoch)] for curve in curves)
        best = max(then, default=0.0)
        if best - accuracy < _BEHIND:
            return None
        reached = f"after {epoch} of {run.epochs} epochs {100 * accuracy:.1f} %"
        return f"{reached}, where the best of its rivals had {100 * best:.1f} %"


@dataclass(frozen=True)
class Experiment:
    """The runs that one figure or table needs.

    Attributes:
        name: as on the command line.
        title: what it shows, and where in which paper.
        variants: by label, as in the figure, the run at seed 0 and paper scale.
        seeds: by dataset, how many seeds (0 to n - 1) each variant is trained with.
        repeated: by label, how many instead, to show in a sweep what a seed alone changes.
        rivals: groups of labels: a run far behind the others of its group is given up (`pruning`).
        in_smoke: labels of the variants in the smoke profile; empty for all of them.

    >>> widths = {f"width {by}": (vary(Run(), width=by),) for by in (1.0, 2.0)}
    >>> experiment = Experiment("widths", "Two widths", widths, seeds={"mnist": 5})
    >>> [len(experiment.runs()), len(experiment.runs(seeds=3)), len(experiment.runs("smoke"))]
    [10, 6, 4]
    """

    name: str
    title: str
    variants: Mapping[str, tuple[Run, ...]]
    seeds: Mapping[str, int]
    repeated: Mapping[str, int] = field(default_factory=dict)
    rivals: tuple[tuple[str, ...], ...] = ()
    in_smoke: tuple[str, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the experiment at paper scale."""
        return tuple(self.seeds)

    def runs(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[Run]:
        """Return the runs, seed by seed, so that an interrupted campaign compares like with like.

        The profile is "full" for paper scale, or "smoke" for tiny runs on MNIST-5k; `seeds` is how
        many, instead of the experiment's own number.

        Raises:
            UserError: an unknown profile or dataset, or seeds not from 1 to 1,000.
        """
        labelled = self.labelled(profile, dataset=dataset, seeds=seeds)
        return list(dict.fromkeys(run for _, run in labelled))

    def labelled(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, Run]]:
        """Return (variant label, run) pairs; arguments and errors as `runs`."""
        check_known("profile", profile, PROFILES)
        if seeds is not None and not (isinstance(seeds, int) and 1 <= seeds <= SEEDS):
            raise UserError(f"seeds must be a whole number from 1 to {SEEDS}, got {seeds!r}")
        if dataset is not None and dataset not in self.seeds:
            near = meant(dataset, self.seeds)
            raise UserError(f"experiment {self.name} has no dataset {dataset!r}; {near}")
        if profile == "smoke":
            return [
                (label, _small(run).at_seed(seed))
                for seed in range(seeds or SMOKE_SEEDS)
                for label in self.in_smoke or self.variants
                for run in self.variants[label]
                if run.dataset.name == self.datasets[0]
            ]
        datasets = self.datasets if dataset is None else (dataset,)
        return [
            (label, run.at_seed(seed))
            for name in datasets
            for seed in range(seeds or max(self.seeds[name], *self.repeated.values(), 0))
            for label, runs in self.variants.items()
            if seeds or seed < self.repeated.get(label, self.seeds[name])
            for run in runs
            if run.dataset.name == name
        ]

    def pruning(self, profile: str = "full") -> Pruning:
        """Return which of the runs are to be given up on their way; arguments as for `runs`."""
        labelled = self.labelled(profile)
        return Pruning.among(
            [run for label, run in labelled if label in group] for group in self.rivals
        )

    def undecided(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, str]]:
        """Return dataset and label of what a search has yet to choose; arguments as for `runs`."""
        return []

    def damaged_choices(self) -> list[DamagedError]:
        """Return what is wrong with stored choices that cannot be read: see `Search`."""
        return []


def _small(run: Run) -> Run:
    network, small = run.network, SMOKE["dataset"]
    if run.dataset.name == small.name and not isinstance(run.dataset, Images):
        return run  # Features of small data are made for these runs.
    if isinstance(run.dataset, Scattering):
        small = replace(run.dataset, name=small.name, held_out=0)
    if network.image_shape != small.image_shape:
        small = SMOKE["dataset"]
        network = SmallCnn(network.activation, network.width, network.init)
    return vary(run, network=network, **SMOKE | {"dataset": small})
