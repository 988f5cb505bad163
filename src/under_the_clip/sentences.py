"""What the pages' sentences say of stored runs: gains, standings, accuracies, verdicts.

A page's script has cells tagged `facts`, which the notebook leaves out. They read what the
sentences need and assert what the sentences mean; `{{ points(gained) }}` in the text is filled in
when notebooks are made, and a test fills it in again.
"""

from functools import cache

from dpstudy.lab import readings
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome
from under_the_clip.claims import ledger
from under_the_clip.experiments import find

DATASETS = MNIST, FASHION, CIFAR = "mnist", "fashion-mnist", "cifar-10"
SMALL = MNIST, FASHION
# An interval that includes 0 and lies within so much of it is said to show two methods level.
LEVEL = 0.005


def judged(claim: str) -> Outcome:
    """Return what became of a claim."""
    return _outcomes()[claim]


@cache
def _outcomes() -> dict[str, Outcome]:
    return {entry.id: entry.outcome for entry in ledger().entries}


@cache
def reading(experiment: str, dataset: str | None = None) -> Reading:
    """Return what is stored of an experiment."""
    return readings.read(find(experiment), dataset=dataset)


def variant(experiment: str, dataset: str | None, label: str) -> Variant:
    """Return what is stored of a variant."""
    return Variant(reading(experiment, dataset), label)


def gain(first: Variant, second: Variant) -> Estimate:
    """Return what a variant gains over another, in accuracy after the last epoch."""
    return Estimate.difference(first.accuracy, second.accuracy)


def lead(claim: str) -> Estimate:
    """Return the difference that a claim was judged by."""
    ours = judged(claim).ours
    return Estimate(*(ours[f"difference{end}"] for end in ("", "_low", "_high")), "")


def standing(gained: Estimate) -> str:
    """Return the word for a gain, as "How to read" defines it.

    >>> standing(Estimate(0.006, 0.002, 0.010, "5 seeds"))
    'ahead'
    >>> standing(Estimate(0.001, -0.002, 0.004, "5 seeds"))
    'level'
    >>> standing(Estimate(0.001, -0.012, 0.014, "5 seeds"))
    'too close to call'
    """
    if gained.low > 0 or gained.high < 0:
        return "ahead" if gained.low > 0 else "behind"
    return "level" if max(-gained.low, gained.high) <= LEVEL else "too close to call"


def points(gained: Estimate | float, digits: int = 1) -> str:
    """Return the size of a gain, or of a loss, in percentage points.

    >>> points(-0.0061)
    '0.6'
    """
    return f"{100 * abs(getattr(gained, 'value', gained)):.{digits}f}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent.

    >>> percent(0.98113)
    '98.1'
    """
    return f"{100 * share:.{digits}f}"


def accuracy(of: Variant, digits: int = 1) -> str:
    """Return a variant's median accuracy after the last epoch, in percent."""
    return percent(of.accuracy.median(), digits)
