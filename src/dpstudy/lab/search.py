"""A search: an experiment in which the best of several settings is chosen, and trained again.

The settings of a group are tried with seed 0; the best is then trained with seeds 1 to n, since the
best of many owes part of its lead to the seed that it was chosen by. Each choice is stored as a
record, so that a search goes on where it was. A label of a group that is no variant is that of a
setting that was proposed in view of earlier results: it is found through its stored choice. So are
learning rates beyond those of a group, where the best has the smallest of them or the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dpstudy.lab import choices, records
from dpstudy.lab.choices import Choice, Kept
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.store import DamagedError
from dpstudy.parts.run import Run


@dataclass(frozen=True)
class Then:
    """What is trained once the best of a group is known: the same with something changed.

    Attributes:
        best: the label of the best of the group.
        change: from the best run to this one.
        seeds: how many, from 0.
    """

    best: str
    change: Callable[[Run], Run]
    seeds: int


def further_rate(best: str, rate: str) -> str:
    """Return the label of a setting of a group with a learning rate beyond the group's own."""
    return f"{best}, at rate {rate}"


@dataclass(frozen=True, kw_only=True)
class Search(Experiment):
    """An experiment with choices to make on its way.

    Attributes:
        groups: by label of the best of a group, the labels of all that are tried.
        best_seeds: how many seeds the best of a group is trained with, besides the one it won by.
        then: by label, what follows from the best of a group.
        beyond: the factor by which a further learning rate is smaller or larger, where the best of
            a group has the smallest or the largest; 0 tries none.
    """

    groups: Mapping[str, tuple[str, ...]]
    best_seeds: int = 5
    then: Mapping[str, Then] = field(default_factory=dict)
    beyond: float = 0.0

    def labelled(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, Run]]:
        """Return (variant label, run) pairs, with those chosen so far; see `Experiment`."""
        given = super().labelled(profile, dataset=dataset, seeds=seeds)
        if profile != "full":
            return given
        chosen = self.chosen()
        return given + [
            (label, self._run(chosen[name, choice], label).at_seed(seed))
            for name, label, choice, seeds_of in self._later(chosen, dataset, seeds)
            if (name, choice) in chosen
            for seed in seeds_of
        ]

    def undecided(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, str]]:
        """Return dataset and label of each run that is still to be chosen."""
        if profile != "full":
            return []
        chosen = self.chosen()
        return [
            (name, label)
            for name, label, choice, seeds_of in self._later(chosen, dataset, seeds)
            if (name, choice) not in chosen
            for _ in seeds_of
        ]

    def tried(self, dataset: str, best: str) -> tuple[str, ...]:
        """Return the labels that are tried of a group: its own, and those of further rates."""
        return self._tried(self.chosen(), dataset, best)

    def _tried(self, chosen: Iterable[tuple[str, str]], dataset: str, best: str) -> tuple[str, ...]:
        further = further_rate(best, "")
        more = (label for name, label in chosen if name == dataset and label.startswith(further))
        return (*self.groups[best], *more)

    def _later(
        self, chosen: Mapping[tuple[str, str], Choice], dataset: str | None, seeds: int | None
    ) -> Iterator[tuple[str, str, str, range]]:
        """Yield dataset, label, the choice that it hangs on, and the seeds of what comes later."""
        for name in self.datasets if dataset is None else (dataset,):
            for best in self.groups:
                for label in self._tried(chosen, name, best):
                    if label not in self.variants:
                        yield name, label, label, range(seeds or self.seeds[name])
                more = seeds or self.best_seeds if self.best_seeds else 0
                yield name, best, best, range(1, more + 1)
            for label, then in self.then.items():
                yield name, label, then.best, range(seeds or then.seeds)

    def _run(self, choice: Choice, label: str) -> Run:
        return self.then[label].change(choice.run) if label in self.then else choice.run

    def chosen(self) -> dict[tuple[str, str], Choice]:
        """Return the stored choices by dataset and label."""
        kept, _ = choices.read_all(records.folder(choices.KIND), self.name)
        return {(one.dataset, one.label): one.choice for one in kept if one.experiment == self.name}

    def damaged_choices(self) -> list[DamagedError]:
        """Return what is wrong with stored choices that cannot be read."""
        return choices.read_all(records.folder(choices.KIND), self.name)[1]

    def keep(self, dataset: str, label: str, choice: Choice) -> None:
        """Store a choice.

        Raises:
            StoreError: it could not be written.
        """
        choices.write(records.folder(choices.KIND), Kept(self.name, dataset, label, choice))
