"""A search: an experiment in which the best of several settings is chosen, and trained again.

The settings of a group are tried with seed 0; the best is then trained with seeds 1 to n, since the
best of many owes part of its lead to the seed that it was chosen by. A label of a group that is no
variant is that of a setting that was proposed in view of earlier results: it is found through its
stored choice. So are learning rates beyond those of a group, where the best is at their edge.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpstudy.lab import records, store
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.forms import check_numbers
from dpstudy.lab.store import DamagedError, StoreError
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run, vary

KIND = "searches"
# Rates beyond a group's own, in case accuracy never stops to rise.
_MOST_BEYOND = 6


@dataclass(frozen=True)
class Choice:
    """What a search chose to run, and under what label."""

    experiment: str
    dataset: str
    label: str
    run: Run  # at seed 0
    by: str  # what chose it, in words
    point: tuple[float, ...] | None = None  # of the unit cube, if it was proposed

    @property
    def name(self) -> str:
        """The record's file name."""
        slug = re.sub(r"[^\w.]+", "-", self.label, flags=re.ASCII).strip("-")
        return f"{self.experiment}-{self.dataset}-{slug}.json"


def write_choice(folder: Path, choice: Choice) -> None:
    """Store a choice in a folder of such records, or raise StoreError."""
    content = vars(choice) | {"run": choice.run.to_dict()}
    records.write(folder / choice.name, KIND, content)


def read_choice(path: Path) -> Choice:
    """Read a stored choice; DamagedError if it is cut short, altered, foreign or misnamed."""
    return _read_choice(path, store.content_of(path))


@functools.lru_cache(maxsize=1024)  # a search asks for its choices again at each step
def _read_choice(path: Path, stored: bytes) -> Choice:
    content = records.read(path, KIND, stored)
    try:
        if (point := content["point"]) is not None:
            check_numbers("point", point, 0, 1)
            point = tuple(map(float, point))
        place = (content[name] for name in ("experiment", "dataset", "label"))
        choice = Choice(*place, Run.from_dict(content["run"]), content["by"], point)
        name = choice.name
    except KeyError as error:
        raise DamagedError(path, f"a choice without {error.args[0]!r}") from error
    except (SpecError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"not a choice of this version: {error}") from error
    if path.name != name:
        raise DamagedError(path, f"holds the choice of {name}, which its name does not say")
    return choice


def read_choices(folder: Path, search: str = "") -> tuple[list[Choice], list[DamagedError]]:
    """Return the choices in a folder, of one search alone if named, and what else is wrong."""
    start = f"{search}-" if search else ""
    found, errors = store.read_each(store.stored_files(folder, start=start), read_choice)
    return list(found.values()), errors


@dataclass(frozen=True)
class FollowUp:
    """What is trained once the best of a group is known: the same with something changed."""

    best: str  # the label of the best of the group
    change: Callable[[Run], Run]  # from the best run to this one
    seeds: int  # how many, from 0


@dataclass(frozen=True, kw_only=True)
class Search(Experiment):
    """An experiment with choices to make on its way."""

    groups: Mapping[str, tuple[str, ...]]  # by label of the best, the labels of all tried
    best_seeds: int = 5  # of the best of a group, besides the one it won by
    then: Mapping[str, FollowUp] = field(default_factory=dict)  # by label
    # The factor by which a further learning rate is smaller or larger, where the best of a group
    # has the smallest or the largest; 0 tries none.
    beyond: float = 0.0

    def labelled(
        self, profile: str = "full", *, dataset: str | None = None, seeds: int | None = None
    ) -> list[tuple[str, Run]]:
        """Return (variant label, run) pairs, with those chosen so far; see `Experiment`."""
        labelled = super().labelled(profile, dataset=dataset, seeds=seeds)
        chosen = self.chosen() if profile == "full" else {}
        for name, label, choice, seeds_of in self._later(chosen, dataset, seeds):
            if (name, choice) in chosen:
                best = chosen[name, choice].run
                run = self.then[label].change(best) if label in self.then else best
                labelled += [(label, run.at_seed(seed)) for seed in seeds_of]
        return labelled

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

    def groups_on(self, dataset: str) -> list[str]:
        """Return the labels of the best of each group, but of those of other datasets alone."""
        on = {
            label: any(run.dataset.name == dataset for run in runs)
            for label, runs in self.variants.items()
        }
        # What was proposed on the way is no variant.
        return [
            best
            for best, labels in self.groups.items()
            if any(on.get(label, True) for label in labels)
        ]

    def tried(self, dataset: str, best: str) -> tuple[str, ...]:
        """Return the labels that are tried of a group: its own, and those of further rates."""
        return self._tried(self.chosen(), dataset, best)

    def _tried(self, chosen: Iterable[tuple[str, str]], dataset: str, best: str) -> tuple[str, ...]:
        further = f"{best}, at rate "
        more = (label for name, label in chosen if name == dataset and label.startswith(further))
        return (*self.groups[best], *more)

    def _later(
        self, chosen: Mapping[tuple[str, str], Choice], dataset: str | None, seeds: int | None
    ) -> Iterator[tuple[str, str, str, range]]:
        """Yield dataset, label, the choice that it hangs on, and the seeds of what comes later."""
        for name in self.datasets if dataset is None else (dataset,):
            for best in self.groups_on(name):
                for label in self._tried(chosen, name, best):
                    if label not in self.variants:
                        yield name, label, label, range(seeds or self.seeds[name])
                more = (seeds or self.best_seeds) if self.best_seeds else 0
                yield name, best, best, range(1, more + 1)
            for label, then in self.then.items():
                yield name, label, then.best, range(seeds or then.seeds)

    def chosen(self) -> dict[tuple[str, str], Choice]:
        """Return the stored choices by dataset and label."""
        found, _ = read_choices(records.folder(KIND), self.name)
        return {(one.dataset, one.label): one for one in found if one.experiment == self.name}

    def damaged_choices(self) -> list[DamagedError]:
        """Return what is wrong with stored choices that cannot be read."""
        return read_choices(records.folder(KIND), self.name)[1]

    def keep(
        self, dataset: str, label: str, run: Run, by: str, point: tuple[float, ...] | None = None
    ) -> None:
        """Store a choice; errors as `write_choice`."""
        write_choice(records.folder(KIND), Choice(self.name, dataset, label, run, by, point))


def choose(search: Experiment, profile: str = "full", dataset: str | None = None) -> int:
    """Choose what a search trains next, and store it; return how many.

    Of each group the best, or a further learning rate. 0 where it waits for results or is at its
    end, where the experiment is no search, and in the smoke profile. StoreError where an earlier
    choice is damaged, or one could not be stored.
    """
    if not isinstance(search, Search) or profile != "full":
        return 0
    for error in search.damaged_choices():
        raise StoreError(f"{error}; to choose again, remove this file first")
    count = 0
    for name in search.datasets if dataset is None else (dataset,):
        known = accuracies(search, name)
        count += sum(_choose(search, name, best, known) for best in search.groups_on(name))
    return count


def _choose(search: Search, dataset: str, best: str, at_seed_0: Mapping[str, float]) -> int:
    if (dataset, best) in search.chosen():
        return 0
    labels = search.tried(dataset, best)
    tried = {label: at_seed_0[label] for label in labels if label in at_seed_0}
    if len(tried) < len(labels):
        return 0
    winner = max(tried, key=lambda label: tried[label])
    known = dict(search.labelled(dataset=dataset, seeds=1))
    rate = _rate_beyond([known[label] for label in labels], known[winner], search.beyond)
    last = len(labels) >= len(search.groups[best]) + _MOST_BEYOND
    if rate is None or last:
        edge = "" if rate is None else ", at the edge of all that were tried"
        which = "held-out" if known[winner].dataset.held_out else "test"
        by = f"the highest {which} accuracy of {len(tried)} at seed 0: {winner}{edge}"
        search.keep(dataset, best, known[winner], by)
    else:
        label, run = f"{best}, at rate {rate:.3g}", vary(known[winner], learning_rate=rate)
        search.keep(dataset, label, run, f"the best of {len(tried)} is at the edge")
    return 1


def _rate_beyond(runs: Sequence[Run], winner: Run, factor: float) -> float | None:
    """Return the next learning rate where the winner's is the outermost; None where it is not."""
    rates, own = [run.optimizer.learning_rate for run in runs], winner.optimizer.learning_rate
    if not factor or min(rates) < own < max(rates):
        return None
    return own * factor if own == max(rates) else own / factor


def accuracies(search: Search, dataset: str) -> dict[str, float]:
    """Return the accuracy at seed 0 of what is stored, by label: test, or held-out where asked."""
    labelled = search.labelled(dataset=dataset, seeds=1)
    tried = {label: run.identity for label, run in labelled if run.seed == 0}
    found, _ = store.read_all(store.runs_folder(), list(tried.values()))
    # What was given up was far behind, and what went on may have diverged.
    return {
        label: 0.0 if one.stopped is not None else one.last_accuracy
        for label, name in tried.items()
        if (one := found.get(name))
    }
