"""What a practitioner should take from the chapter: five sentences that the stored runs support.

A sentence is about the datasets whose runs are all stored, and names the others as not yet run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from dpstudy.lab import readings
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.readings import Reading
from dpstudy.ledger.wording import rounded_down
from dpstudy.page.figure import Points
from dpstudy.papers.tempered_sigmoids.experiments import (
    CIFAR_10_CHANGES,
    FIGURE_2,
    FIGURE_3,
    FIGURE_3_CALIBRATED,
    SHUFFLED,
    TABLE_3,
    TABLE_4,
)
from dpstudy.papers.tempered_sigmoids.figures.common import Lead
from dpstudy.papers.tempered_sigmoids.figures.noise import gain_said, paired_gain
from dpstudy.papers.tempered_sigmoids.figures.rates import OPTIMIZERS
from dpstudy.papers.tempered_sigmoids.figures.sweep import NORMS, Sweep
from dpstudy.papers.tempered_sigmoids.searches import TABLE_3_SEARCH
from dpstudy.parts.images import DATASETS

SCALE = ("mnist", "fashion-mnist", "cifar-10")
TRY_BOTH = "Try both: whether tanh is better than relu depends on the data and the settings"


@dataclass
class Stored:
    """The readings of an experiment, by dataset: those that lack no run, and the others begun."""

    experiment: Experiment
    complete: dict[str, Reading] = field(init=False)
    begun: dict[str, Reading] = field(init=False)

    def __post_init__(self) -> None:
        whole = readings.read(self.experiment)
        by_dataset = {dataset: whole.on(dataset) for dataset in whole.experiment.datasets}
        self.complete = {d: reading for d, reading in by_dataset.items() if not reading.lacking}
        self.begun = {
            d: reading for d, reading in by_dataset.items() if reading.found and reading.lacking
        }

    def of(self, dataset: str, label: str) -> pd.DataFrame:
        """Return a variant's last epochs, one row a seed."""
        finals = self.complete[dataset].finals
        return finals[finals.label == label]


# One variant of an experiment: what is stored of all, and its label.
Variant = tuple[Stored, str]


def practitioner() -> Points:
    """Return the five sentences."""
    common, sweeps, searched = Stored(FIGURE_3), Stored(FIGURE_2), Stored(TABLE_3_SEARCH)
    calibrated, rates = Stored(FIGURE_3_CALIBRATED), Stored(TABLE_4)

    def best_of_searches(kind: str) -> list[Variant]:
        of_rates = [(rates, f"{optimizer}, {kind}, best") for optimizer in OPTIMIZERS]
        return [*of_rates, (searched, f"tanh, {kind}, best")]

    private = [(common, "tanh"), (calibrated, "tanh"), *best_of_searches("private")]
    free = [(Stored(TABLE_3), "tanh"), *best_of_searches("not private")]
    return Points(
        (
            _activation(common, Stored(CIFAR_10_CHANGES), searched),
            _family(sweeps),
            _accountant(common, calibrated, Stored(SHUFFLED)),
            _gradients(sweeps),
            _cost(private, free),
        )
    )


def _sentence(head: str, say: Callable[[str], str], *needed: Stored) -> str:
    """Join what there is to say of each dataset, and name those that cannot be spoken of yet."""
    able = [d for d in SCALE if all(d in stored.complete for stored in needed)]
    rest = [d for d in SCALE if d not in able]
    said = "; ".join(f"{say(d)} on {DATASETS[d]}" for d in able)
    return f"{head}: {said}{f' ({_lacking(rest, *needed)})' if rest else ''}."


def _lacking(datasets: list[str], *needed: Stored) -> str:
    """Name the datasets that cannot be spoken of, those of which nothing is stored first."""
    begun = [d for d in datasets if any(d in stored.begun for stored in needed)]
    said = {"not yet run": [d for d in datasets if d not in begun], "not all run yet": begun}
    return "; ".join(
        f"{how}: {', '.join(DATASETS[d] for d in names)}" for how, names in said.items() if names
    )


def _unknown(question: str, stored: Stored) -> str:
    return f"{question} is not yet run (dpstudy run {stored.experiment.name})."


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
    against = _reversed(changed, [d for d in leads if d in changed.complete])
    head = TRY_BOTH
    if all(lead.certain for lead in every):
        head = _replace_where([d for d in leads if d not in against], everywhere=not against)
    if not any(lead.gain > 0 for lead in every):
        head = "Do not expect tanh to be better than relu"

    spent = {
        "in one setting": (common, "tanh"),
        "at four times the rate": (changed, "tanh, four times the rate"),
        "each in its best setting": (searched, "tanh, private, best"),
    }

    def say(dataset: str) -> str:
        # Each at its own: the search has the noise that the quoted epsilon asks for.
        return " and ".join(
            f"{where} {lead}, at ε = "
            f"{spent[where][0].of(dataset, spent[where][1]).epsilon_pld.max():.2f} (PLD)"
            for where, lead in leads[dataset].items()
        )

    return _sentence(head, say, common) + "".join(against.values())


def _replace_where(datasets: list[str], *, everywhere: bool) -> str:
    """Advise tanh on the datasets where nothing stored speaks against it, if there are any."""
    if everywhere:
        return "Replace relu by tanh, at the same ε"
    if not datasets:
        return TRY_BOTH
    where = " and ".join(DATASETS[dataset] for dataset in datasets)
    return f"Replace relu by tanh on {where}, at the same ε, and try both on other data"


def _reversed(changed: Stored, counted: list[str]) -> dict[str, str]:
    """Say, by dataset, where runs that count in no lead yet have relu ahead at another rate."""
    said = {}
    for dataset, reading in (changed.complete | changed.begun).items():
        if dataset in counted:
            continue
        finals = reading.finals.set_index("label").test_accuracy
        both = [f"{activation}, four times the rate" for activation in ("tanh", "relu")]
        if not set(both) <= set(finals.index):
            continue
        tanh, relu = (finals[[label]] for label in both)
        if tanh.median() < relu.median():
            seeds = min(len(tanh), len(relu))
            said[dataset] = (
                f" On {DATASETS[dataset]} at four times the rate relu is ahead by "
                f"{100 * (relu.median() - tanh.median()):.2f} points, with {seeds} "
                f"seed{'s' if seeds > 1 else ''} so far."
            )
    return said


def _lead(stored: Stored, dataset: str, setting: str = "") -> Lead:
    """Return by how much tanh is above relu in a setting, which ends the labels."""
    return Lead.of(
        *(
            stored.of(dataset, f"{activation}{setting}").test_accuracy
            for activation in ("tanh", "relu")
        )
    )


def _family(sweeps: Stored) -> str:
    if not sweeps.complete:
        return _unknown("Whether a search over (s, T, o) finds more than tanh", sweeps)
    found = {dataset: Sweep.of(reading) for dataset, reading in sweeps.complete.items()}

    # With seeds that the best did not win by: the best of many at one seed is high by chance alone.
    leads = {
        d: Lead.of(*(sweeps.of(d, label).test_accuracy for label in ("best", "tanh")))
        for d in found
    }
    head = "Take tanh first; a search over (s, T, o) may add a little, which seeds may hide"
    if any(lead.certain for lead in leads.values()):
        head = "Search over (s, T, o) only after tanh, and train the winner with several seeds"
    if not any(lead.gain > 0 for lead in leads.values()):
        head = "Do not search over (s, T, o): the best triplet is no better than tanh"

    def say(dataset: str) -> str:
        sweep = found[dataset]
        return (
            f"the best of {len(sweep.triplets)} against tanh {leads[dataset]}, and {sweep.rivals} "
            "others come within two standard deviations of a seed"
        )

    return _sentence(head, say, sweeps)


def _accountant(common: Stored, calibrated: Stored, shuffled: Stored) -> str:
    if not common.complete:
        return _unknown("What a current accountant says of the same runs", common)

    def say(dataset: str) -> str:
        tanh = common.of(dataset, "tanh")
        spent = f"ε = {tanh['epsilon_rdp-2019'].max():.2f} of the paper's time is "
        spent += f"{tanh.epsilon_pld.max():.2f} by PLD"
        if dataset in shuffled.complete:
            least = shuffled.of(dataset, "tanh")["epsilon_shuffled-at-least"].max()
            spent += " (of shuffled batches, clipping and noise certify no less than "
            spent += f"{rounded_down(least)})"
        if dataset not in calibrated.complete:
            return f"{spent}, and what the difference buys is not yet run,"
        gain = paired_gain(common.complete[dataset], calibrated.complete[dataset], "tanh")
        changes = gain_said(gain) if gain is not None else "an unknown amount"
        reached = calibrated.of(dataset, "tanh").epsilon_pld.max()
        return (
            f"{spent}, and noise lowered until PLD gives the quoted {reached:.2f} adds to tanh "
            f"{changes}, seed for seed,"
        )

    head = "Sample by Poisson, and account for it with a current accountant"
    return _sentence(head, say, common)


def _gradients(sweeps: Stored) -> str:
    if not sweeps.complete:
        return _unknown("What errors rank with over the family", sweeps)
    ranks = {
        dataset: [Sweep.of(reading).rank_with_errors(name) for name in NORMS]
        for dataset, reading in sweeps.complete.items()
    }
    head = "Do not rank activations by their gradients before clipping"
    if all(clipped > norm for norm, clipped in ranks.values()):
        head = "Look at the fraction of gradients clipped rather than at their mean norm"
    if all(norm > clipped for norm, clipped in ranks.values()):
        head = "Look at the mean norm of gradients rather than at the fraction clipped"

    def say(dataset: str) -> str:
        norm, clipped = ranks[dataset]
        return (
            f"over the family errors rank with the norm by {norm:.2f} and with the fraction by "
            f"{clipped:.2f}"
        )

    return _sentence(f"{head}, and on public data, since no ε covers either", say, sweeps)


def _cost(private: list[Variant], free: list[Variant]) -> str:
    """Say what privacy costs; the common setting, first of each list, must be run."""
    first_private, first_free = private[0][0], free[0][0]
    if not set(first_private.complete) & set(first_free.complete):
        return _unknown("What privacy still costs with tanh", first_free)

    def best(dataset: str, tried: list[Variant]) -> pd.DataFrame:
        able = [stored.of(dataset, label) for stored, label in tried if dataset in stored.complete]
        return max(able, key=lambda runs: runs.test_accuracy.median())

    def say(dataset: str) -> str:
        with_privacy, without = best(dataset, private), best(dataset, free)
        return (
            f"tanh has {with_privacy.test_accuracy.median():.1%} at "
            f"ε = {with_privacy.epsilon_pld.max():.2f} (PLD) and "
            f"{without.test_accuracy.median():.1%} without privacy"
        )

    head = "Know what privacy still costs with tanh, in the best that was run of each"
    return _sentence(head, say, first_private, first_free)
