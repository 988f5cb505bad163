"""What searches chose to run, each choice a record: `results/searches/NAME.json`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dpstudy.lab import records, store
from dpstudy.lab.store import DamagedError
from dpstudy.parts.part import SpecError
from dpstudy.parts.run import Run

KIND = "searches"


@dataclass(frozen=True)
class Choice:
    """What a search chose to run.

    Attributes:
        run: at seed 0.
        by: what chose it, in words.
        point: of the unit cube, if it was proposed.
    """

    run: Run
    by: str
    point: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Kept:
    """A choice with its place.

    Attributes:
        experiment: the name of the search.
        dataset: the dataset it was chosen for.
        label: the variant's.
        choice: what was chosen.
    """

    experiment: str
    dataset: str
    label: str
    choice: Choice

    @property
    def name(self) -> str:
        """The record's file name."""
        slug = re.sub(r"[^\w.]+", "-", self.label, flags=re.ASCII).strip("-")
        return f"{self.experiment}-{self.dataset}-{slug}.json"


def write(folder: Path, kept: Kept) -> None:
    """Store a choice in a folder of such records.

    Raises:
        StoreError: it could not be written.
    """
    choice = kept.choice
    content = {
        "experiment": kept.experiment,
        "dataset": kept.dataset,
        "label": kept.label,
        "run": choice.run.to_dict(),
        "by": choice.by,
        "point": choice.point and list(choice.point),
    }
    records.write(folder / kept.name, KIND, content)


def read(path: Path) -> Kept:
    """Read a stored choice.

    Raises:
        DamagedError: the file is cut short, altered, foreign, or named for another choice.
    """
    content = records.read(path, KIND)
    try:
        point = content["point"] and tuple(map(float, content["point"]))
        choice = Choice(Run.from_dict(content["run"]), content["by"], point)
        kept = Kept(content["experiment"], content["dataset"], content["label"], choice)
        name = kept.name
    except KeyError as error:
        raise DamagedError(path, f"a choice without {error.args[0]!r}") from error
    except (SpecError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(path, f"not a choice of this version: {error}") from error
    if path.name != name:
        raise DamagedError(path, f"holds the choice of {name}, which its name does not say")
    return kept


def read_all(folder: Path, search: str = "") -> tuple[list[Kept], list[DamagedError]]:
    """Return the choices in a folder, and what is wrong with the other files.

    Args:
        folder: of such records.
        search: the name of one, to read no more than its own; by default all.
    """
    start = f"{search}-" if search else ""
    paths = (path for path in store.stored_files(folder) if path.name.startswith(start))
    kept, errors = store.read_each(paths, read)
    return list(kept.values()), errors
