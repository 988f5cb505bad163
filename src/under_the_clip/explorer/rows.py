"""What is stored, setting by setting: accuracy over seeds, and three epsilons.

Every experiment of the study is read, so that what is stored later joins by itself.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pandas as pd
from docutils.nodes import make_id

from dpstudy.lab import readings, records
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.variant import Variant
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.mechanism import CLAIMED_ACCOUNTANTS, FlatClipping
from dpstudy.parts.run import Run
from under_the_clip.audits.mechanisms import AUDITS
from under_the_clip.experiments import CHAPTER_OF, EXPERIMENTS
from under_the_clip.explorer import words

EPSILONS = ("claimed", "proven", "audited")
# Of the guide: about which ε a best setting is wanted, and of how many seeds.
WANTED = (3.0, 1.0, 8.0)
# An epsilon is about the wanted one from three quarters of it to a tenth more.
ABOUT = (0.75, 1.1)
LEAST_SEEDS = 3
NOTHING = "no stored run"


class Setting(Variant):
    """A variant on one dataset, by the runs that were not given up."""

    @property
    def experiment(self) -> str:
        """The name of its experiment."""
        return self.reading.experiment.name

    @property
    def run(self) -> Run:
        """What was trained, at seed 0 and without measures."""
        return _alone(super().run)

    @property
    def proven(self) -> float | None:
        """The epsilon that is proven of a run at its delta; None where none is finite."""
        return _finite(self.epsilon("pld", "shuffled-pld"))

    @property
    def claimed(self) -> float | None:
        """The epsilon that the paper's own accounting gives; None where no paper accounts for it.

        For DP-SGD that is the accounting of the papers' time.
        """
        plain = isinstance(self.run.mechanism, FlatClipping)
        claims = [f"claimed-{name}" for name in CLAIMED_ACCOUNTANTS]
        return _finite(self.epsilon(*claims, *(["rdp-2019"] if plain else [])))

    @property
    def audited(self) -> float | None:
        """The epsilon that a stored audit of this very run shows at least."""
        return audited().get(self.run)

    def row(self) -> dict[str, object]:
        """Return the setting in words and numbers; see `table`."""
        chapter, accuracy = CHAPTER_OF[self.experiment], self.accuracy
        return {
            "dataset": DATASETS[self.run.dataset.name],
            "paper": chapter.paper or self.experiment.partition("-")[0],
            "experiment": self.experiment,
            "variant": self.label,
            "method": words.method(self.run),
            "network": words.kind(self.run.network),
            "settings": words.settings(self.run),
            "claimed": self.claimed,
            "proven": self.proven,
            "audited": self.audited,
            "seeds": len(self.results),
            # One by one: `agg` takes ten times as long, and there are thousands.
            **{name: round(getattr(accuracy, name)(), 6) for name in ("median", "min", "max")},
            "link": f"{chapter.notebook}.html#{make_id(chapter.section(self.experiment))}",
        }


def settings() -> list[Setting]:
    """Return every setting of which a whole run is stored, experiment by experiment."""
    return [setting for experiment in EXPERIMENTS.values() for setting in _of(experiment)]


def table(found: Iterable[Setting]) -> pd.DataFrame:
    """Return one row a setting, none of them missing a column.

    The columns: dataset, paper, experiment, variant, method, network and settings in words;
    claimed, proven and audited epsilon, missing where there is none; seeds; median, min and max of
    the accuracy over them, as shares; link, the address of the section that shows it.
    """
    return pd.DataFrame([setting.row() for setting in found])


def best(
    found: Iterable[Setting], dataset: str, epsilon: float, seeds: int = LEAST_SEEDS
) -> Setting | None:
    """Return the setting with the best mean accuracy at about a proven epsilon.

    At least so many seeds count, and none whose accuracy is on held-out examples.
    """
    low, high = (share * epsilon for share in ABOUT)
    fit = [
        one
        for one in found
        if one.run.dataset.name == dataset
        and not one.run.dataset.held_out
        and len(one.results) >= seeds
        and low <= (one.proven or 0) <= high
    ]
    return max(fit, key=lambda one: one.accuracy.mean(), default=None)


@cache
def audited() -> dict[Run, float]:
    """Return by run what its stored audit shows: the first listed, which has the worst canary."""
    stored, _ = records.read_all(records.folder("audits"), "audits")
    return {
        _alone(audit.run): stored[audit.name]["lower_bound"]
        for audit in reversed(AUDITS)
        if audit.name in stored
    }


def _of(experiment: Experiment) -> list[Setting]:
    reading = readings.read(experiment)
    # A run that was given up has no accuracy of its last epoch.
    whole = [(label, result) for label, result in reading.found if result.stopped is None]
    settings = dict.fromkeys((label, result.run.dataset.name) for label, result in whole)
    reading = replace(reading, found=whole)
    return [Setting(reading.on(dataset), label) for label, dataset in settings]


def _finite(epsilon: float | None) -> float | None:
    return None if epsilon == math.inf else epsilon


def _alone(run: Run) -> Run:
    return replace(run.at_seed(0), measures=())
