"""What a practitioner should take from the chapter: five sentences that the stored runs support.

A sentence is about the datasets whose runs are all stored, and names the others as not yet run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from dpstudy import readings
from dpstudy.claims.wording import points
from dpstudy.experiments.experiment import Experiment
from dpstudy.experiments.tempered_sigmoids import (
    FIGURE_2,
    FIGURE_3,
    FIGURE_3_CALIBRATED,
    TABLE_3,
)
from dpstudy.figures.page import Points
from dpstudy.figures.tempered_sigmoids.sweep import Sweep
from dpstudy.readings import Reading
from dpstudy.spec import DATASETS

SCALE = ("mnist", "fashion-mnist", "cifar-10")


@dataclass
class Stored:
    """The readings of an experiment that lack no run, by dataset."""

    experiment: Experiment
    complete: dict[str, Reading] = field(init=False)

    def __post_init__(self) -> None:
        whole = readings.read(self.experiment)
        missing = {run.dataset for run in whole.missing} | {name for name, _ in whole.undecided}
        self.complete = {
            dataset: whole.on(dataset)
            for dataset in whole.experiment.datasets
            if dataset not in missing
        }

    def of(self, dataset: str, label: str) -> pd.DataFrame:
        """Return a variant's last epochs, one row a seed."""
        finals = self.complete[dataset].finals
        return finals[finals.label == label]


def practitioner() -> Points:
    """Return the five sentences."""
    common = Stored(FIGURE_3)
    return Points(
        (
            _activation(common),
            _family(Stored(FIGURE_2)),
            _accountant(common, Stored(FIGURE_3_CALIBRATED)),
            _gradients(common),
            _cost(common, Stored(TABLE_3)),
        )
    )


def _sentence(head: str, say: Callable[[str], str], *needed: Stored) -> str:
    """Join what there is to say of each dataset, and name those that cannot be spoken of yet."""
    able = [d for d in SCALE if all(d in stored.complete for stored in needed)]
    rest = [d for d in SCALE if d not in able]
    said = "; ".join(f"{say(d)} on {DATASETS[d]}" for d in able)
    return f"{head}: {said}{f' ({_not_yet_run(rest)})' if rest else ''}."


def _not_yet_run(datasets: list[str]) -> str:
    return f"not yet run: {', '.join(DATASETS[d] for d in datasets)}"


def _unknown(question: str, stored: Stored) -> str:
    return f"{question} is not yet run (dpstudy run {stored.experiment.name})."


def _activation(common: Stored) -> str:
    gains, apart = {}, {}
    for dataset in common.complete:
        relu, tanh = (common.of(dataset, label).test_accuracy for label in ("relu", "tanh"))
        gains[dataset] = tanh.median() - relu.median()
        apart[dataset] = tanh.min() > relu.max()
    if not gains:
        return _unknown("Whether tanh is better than relu under DP-SGD", common)
    better = [gain > 0 for gain in gains.values()]
    head = "Try both: whether tanh is better than relu depends on the data"
    if all(better):
        head = "Replace relu by tanh, at the same settings and ε"
    if not any(better):
        head = "Do not expect tanh to be better than relu"

    def say(dataset: str) -> str:
        certain = "every seed above every seed of relu" if apart[dataset] else "the seeds overlap"
        return f"{points(gains[dataset])} in the median, {certain},"

    return _sentence(head, say, common)


def _family(sweeps: Stored) -> str:
    if not sweeps.complete:
        return _unknown("Whether a search over (s, T, o) finds more than tanh", sweeps)
    found = {dataset: Sweep.of(reading) for dataset, reading in sweeps.complete.items()}

    def seeds(dataset: str, label: str) -> pd.Series:
        return sweeps.of(dataset, label).test_accuracy

    # Seeds of their own: the best of many at one seed is high by chance alone.
    pays = [seeds(one, "best").min() > seeds(one, "tanh").max() for one in found]
    head = "Search over (s, T, o) only after tanh, and train the winner with several seeds"
    if not any(pays):
        head = "Do not search over (s, T, o): the best triplet is not above tanh seed for seed"

    def say(dataset: str) -> str:
        gain = seeds(dataset, "best").median() - seeds(dataset, "tanh").median()
        sweep = found[dataset]
        return (
            f"the best of {len(sweep.triplets)}, trained again, is {points(gain)} from tanh, and "
            f"{sweep.like_the_best} are within a seed's noise of it,"
        )

    return _sentence(head, say, sweeps)


def _accountant(common: Stored, calibrated: Stored) -> str:
    if not common.complete:
        return _unknown("What a current accountant says of the same runs", common)

    def say(dataset: str) -> str:
        tanh = common.of(dataset, "tanh")
        spent = f"ε = {tanh['epsilon_rdp-2019'].max():.2f} of the paper's time is "
        spent += f"{tanh.epsilon_pld.max():.2f} by PLD"
        if dataset not in calibrated.complete:
            return f"{spent}, and what the difference buys is not yet run,"
        gain = calibrated.of(dataset, "tanh").test_accuracy.median() - tanh.test_accuracy.median()
        return f"{spent}, and noise calibrated to the quoted ε changes tanh by {points(gain)}"

    return _sentence("Account with a current accountant", say, common)


def _gradients(common: Stored) -> str:
    if not common.complete:
        return _unknown("How large gradients are before clipping", common)

    def say(dataset: str) -> str:
        relu, tanh = (common.of(dataset, label) for label in ("relu", "tanh"))
        times = relu.gradient_norm.median() / tanh.gradient_norm.median()
        clipped = [f"{of.clipped_fraction.median():.0%}" for of in (relu, tanh)]
        return (
            f"at the end relu's norm is {times:.1f} times tanh's, while {clipped[0]} of relu's "
            f"gradients and {clipped[1]} of tanh's are clipped,"
        )

    head = "Log the norm of gradients before clipping, not the fraction clipped alone"
    return _sentence(head, say, common)


def _cost(common: Stored, free: Stored) -> str:
    if not set(common.complete) & set(free.complete):
        return _unknown("What privacy still costs with tanh", free)

    def say(dataset: str) -> str:
        accuracies = (of.of(dataset, "tanh").test_accuracy.median() for of in (common, free))
        private, without = accuracies
        return f"tanh has {private:.1%} with privacy and {without:.1%} without"

    return _sentence(
        "Know what privacy still costs when the activation is right", say, common, free
    )
