"""What a notebook says in prose, and what its numbers are held to: stored runs, and the ledger."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

from dpstudy.claims.ledger import Ledger
from dpstudy.lab import readings
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Outcome
from under_the_clip.claims import ledger
from under_the_clip.experiments import find

ROOT = Path(__file__).parents[1]
DATASETS = MNIST, FASHION, CIFAR = "mnist", "fashion-mnist", "cifar-10"
SMALL = MNIST, FASHION


@cache
def prose_of(page: str) -> str:
    """Return the lines of a page in Markdown, or without comment signs of a notebook, as one."""
    if page.endswith(".md"):
        lines = (ROOT / page).read_text().splitlines()
    else:
        script = (ROOT / f"notebooks/{page}.py").read_text()
        lines = (line.removeprefix("#") for line in script.splitlines())
    return " ".join(" ".join(lines).split())


def said_by(page: str) -> Callable[..., None]:
    """Return an assertion that a page says a fragment, with values filled in."""

    def says(fragment: str, *values: object) -> None:
        wanted = fragment.format(*values) if values else fragment
        assert wanted in prose_of(page), wanted

    return says


def of_the_study(read: Callable) -> Callable:
    """Have a function read the study's own results, whatever the environment names, and once."""

    @cache
    def once(*arguments: object) -> object:
        with mock.patch.dict(os.environ):
            os.environ.pop("DPSTUDY_RESULTS", None)
            return read(*arguments)

    return once


@of_the_study
def study_ledger() -> Ledger:
    """Judge the study's own results: it takes seconds."""
    return ledger()


@cache
def _outcomes() -> dict[str, Outcome]:
    return {entry.id: entry.outcome for entry in study_ledger().entries}


def judged(claim: str) -> Outcome:
    """Return what became of a claim."""
    return _outcomes()[claim]


@of_the_study
def reading(experiment: str, dataset: str | None = None) -> Reading:
    """Return what is stored of an experiment."""
    return readings.read(find(experiment), dataset=dataset)


def variant(experiment: str, dataset: str | None, label: str) -> Variant:
    """Return what is stored of a variant."""
    return Variant(reading(experiment, dataset), label)


def inside_and_flat(dataset: str) -> list[Variant]:
    """Return clips inside backpropagation and flat clipping, with SGD for both."""
    labels = (f"relu / cross-entropy / {side}" for side in ("inside", "flat"))
    return [variant("factorial", dataset, label) for label in labels]


def over(first: Variant, second: Variant) -> Estimate:
    """Return what a variant gains over another."""
    return Estimate.difference(first.accuracy, second.accuracy)


def lead(claim: str) -> Estimate:
    """Return the difference that a claim was judged by."""
    ours = judged(claim).ours
    return Estimate(*(ours[f"difference{end}"] for end in ("", "_low", "_high")), "")


def open_(of: Estimate) -> bool:
    """Return whether an interval leaves open which is ahead."""
    return of.low < 0 < of.high


def percent(value: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{100 * value:.{digits}f}"


def points(of: Estimate, sign: int = 1) -> tuple[str, str, str]:
    """Return a gain and its interval in points; with a sign of -1, a loss."""
    ends = sorted((sign * of.low, sign * of.high))
    return tuple(map(percent, (sign * of.value, *ends)))


def median(of: Variant) -> str:
    """Return the median accuracy after the last epoch, in percent."""
    return percent(of.accuracy.median())
