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
    CIFAR_10_CHANGES,
    FIGURE_2,
    FIGURE_3,
    FIGURE_3_CALIBRATED,
    TABLE_3,
    TABLE_3_SEARCH,
)
from dpstudy.figures.page import Points
from dpstudy.figures.tempered_sigmoids.noise import gain_said, paired_gain
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
            _activation(common, Stored(CIFAR_10_CHANGES), Stored(TABLE_3_SEARCH)),
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


@dataclass(frozen=True)
class Lead:
    """How far one variant's accuracies are above another's.

    Attributes:
        gain: the difference of the medians.
        certain: whether every seed of the first is above every seed of the second.
        behind: whether every seed is below.
    """

    gain: float
    certain: bool
    behind: bool

    @classmethod
    def of(cls, above: pd.DataFrame, below: pd.DataFrame) -> Lead:
        """Compare the last accuracies of two variants, one row a seed."""
        first, second = above.test_accuracy, below.test_accuracy
        apart = first.min() > second.max(), first.max() < second.min()
        return cls(first.median() - second.median(), *apart)

    def __str__(self) -> str:
        where = "the seeds overlap"
        if self.certain or self.behind:
            where = f"every seed {'above' if self.certain else 'below'}"
        return f"{points(self.gain)} in the median, {where},"


def _activation(common: Stored, changed: Stored, searched: Stored) -> str:
    """Advise on the activation, by the common setting and, where they are run, by better ones."""
    leads = {d: {"in one setting": _lead(common, d)} for d in common.complete}
    for dataset, found in leads.items():
        if dataset in changed.complete:
            found["at four times the rate"] = _lead(changed, dataset, ", four times the rate")
        if dataset in searched.complete:
            found["each in its best setting"] = _lead(searched, dataset, ", private, best")
    if not leads:
        return _unknown("Whether tanh is better than relu under DP-SGD", common)
    every = [lead for found in leads.values() for lead in found.values()]
    head = "Try both: whether tanh is better than relu depends on the data and the settings"
    if all(lead.certain for lead in every):
        head = "Replace relu by tanh, at the same ε"
    if not any(lead.gain > 0 for lead in every):
        head = "Do not expect tanh to be better than relu"

    def say(dataset: str) -> str:
        return " and ".join(f"{where} {lead}" for where, lead in leads[dataset].items())

    return _sentence(head, say, common)


def _lead(stored: Stored, dataset: str, setting: str = "") -> Lead:
    """Return by how much tanh is above relu in a setting, which ends the labels."""
    return Lead.of(
        *(stored.of(dataset, f"{activation}{setting}") for activation in ("tanh", "relu"))
    )


def _family(sweeps: Stored) -> str:
    if not sweeps.complete:
        return _unknown("Whether a search over (s, T, o) finds more than tanh", sweeps)
    found = {dataset: Sweep.of(reading) for dataset, reading in sweeps.complete.items()}

    # With seeds that the best did not win by: the best of many at one seed is high by chance alone.
    leads = {d: Lead.of(*(sweeps.of(d, label) for label in ("best", "tanh"))) for d in found}
    head = "Take tanh first; a search over (s, T, o) may add a little, which seeds may hide"
    if any(lead.certain for lead in leads.values()):
        head = "Search over (s, T, o) only after tanh, and train the winner with several seeds"
    if not any(lead.gain > 0 for lead in leads.values()):
        head = "Do not search over (s, T, o): the best triplet is no better than tanh"

    def say(dataset: str) -> str:
        sweep = found[dataset]
        return (
            f"the best of {len(sweep.triplets)} against tanh {leads[dataset]} and {sweep.rivals} "
            "others come within two standard deviations of a seed"
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
        gain = paired_gain(common.complete[dataset], calibrated.complete[dataset], "tanh")
        changes = gain_said(gain) if gain is not None else "an unknown amount"
        return (
            f"{spent}, and noise calibrated to the quoted ε adds to tanh {changes}, seed for seed,"
        )

    return _sentence("Account with a current accountant", say, common)


def _gradients(common: Stored) -> str:
    if not common.complete:
        return _unknown("How large gradients are before clipping", common)

    def say(dataset: str) -> str:
        relu, tanh = (common.of(dataset, label) for label in ("relu", "tanh"))
        relu, tanh = relu[~relu.diverged], tanh[~tanh.diverged]
        if relu.empty or tanh.empty:
            return f"every run with {'relu' if relu.empty else 'tanh'} diverged,"
        times = relu.gradient_norm.median() / tanh.gradient_norm.median()
        clipped = [f"{of.clipped_fraction.median():.0%}" for of in (relu, tanh)]
        return (
            f"at the end relu's norm is {times:.1f} times tanh's, while {clipped[0]} of relu's "
            f"gradients and {clipped[1]} of tanh's are clipped,"
        )

    head = (
        "Compare activations by the norm of gradients before clipping, not by the fraction clipped "
        "alone, and on public data, since no ε covers it"
    )
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
