"""When a run is given up: a rule stated beforehand, so that a sweep spends its hours where it pays.

After a third of its epochs a run that is ten points of accuracy behind the best of its rivals at
that epoch is stopped, and stored as stopped, with the reason. Rivals are other settings of the same
thing, stored already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpstudy.lab import store

if TYPE_CHECKING:
    from dpstudy.parts.run import Run

SHARE = 1 / 3
BEHIND = 0.1


@dataclass(frozen=True)
class Hopeless:
    """The rule, for the runs of an experiment.

    Attributes:
        rivals: by a run's identity, those of its rivals; a run that is not here is never given up.
    """

    rivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def among(cls, groups: Iterable[Iterable[Run]]) -> Hopeless:
        """Return the rule for groups of runs, each the rivals of all others of its group."""
        named = [tuple(run.identity for run in group) for group in groups]
        return cls({one: group for group in named for one in group})

    def why(self, run: Run, epoch: int, accuracy: float, folder: Path) -> str | None:
        """Say why a run is given up after an epoch; None if it is not.

        Args:
            run: the run.
            epoch: the number of epochs done.
            accuracy: its test accuracy.
            folder: where results are stored.
        """
        if run.identity not in self.rivals or epoch != max(1, round(SHARE * run.epochs)):
            return None
        stored, _ = store.read_all(folder, self.rivals[run.identity])
        best = max(
            (
                rival.curve["test_accuracy"][rival.curve["epoch"].index(epoch)]
                for rival in stored.values()
                if epoch in rival.curve["epoch"]
            ),
            default=0.0,
        )
        if best - accuracy < BEHIND:
            return None
        return (
            f"after {epoch} of {run.epochs} epochs {100 * accuracy:.1f} %, where the best of its "
            f"rivals had {100 * best:.1f} %"
        )
