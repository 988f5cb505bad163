"""What the claims share: which runs decide them, datasets, dates, and published numbers."""

from __future__ import annotations

from functools import partial

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import OnDataset
from dpstudy.claims.rules.measures import BY_INTERVALS
from dpstudy.lab.published import Number
from dpstudy.lab.search import Search
from under_the_clip.tempered_sigmoids.experiments import (
    CIFAR_10_NOT_PRIVATE,
    CIFAR_10_RATES,
    FIGURE_3,
    FIGURES_4_5,
    TABLE_3,
    TABLE_3_SEARCH,
    TUTORIAL,
)
from under_the_clip.tempered_sigmoids.published import NUMBERS

M, F, C = "mnist", "fashion-mnist", "cifar-10"
TWO, ALL = (M, F), (M, F, C)
# By when what they ask of the runs was last changed, unless said otherwise: to intervals; and later
# to each activation at its own best setting.
claim = partial(Claim, ruled=BY_INTERVALS)
later_claim = partial(Claim, ruled=moment("2026-11-24 20:10"))
# What the paper says and the first lists left out: ruled after the runs.
claim_after = partial(Claim, ruled=moment("2026-11-26 18:20"))
# Judged anew when the study was recomputed from outside; so are variants that are since then paired
# by the seeds that both have.
claim_again = partial(Claim, ruled=moment("2026-11-28 14:30"))


def of(name: str) -> OnDataset[Number]:
    """Return the published number of that name on a dataset."""
    return lambda dataset: NUMBERS[f"{dataset}, {name}"]


EPSILON, RELU, TEMPERED = map(of, ("epsilon", "DP-SGD, relu", "DP-SGD, tempered sigmoid"))


def best(search: Search, technique: str) -> Runs:
    """Return the runs of the best setting that a search found for a technique."""
    return Runs(search, f"{technique}, best")


def own(activation: str) -> OnDataset[Runs]:
    """Return an activation's runs at its own best setting."""
    there = best(CIFAR_10_RATES, activation)
    return _but_on_cifar_10(best(TABLE_3_SEARCH, f"{activation}, private"), there)


def shared(activation: str) -> Runs:
    """Return the runs at one setting for both activations, our Figure 3."""
    return Runs(FIGURE_3, activation)


def trained(activation: str) -> OnDataset[Runs]:
    """Return the runs at one setting for both; on CIFAR-10, where neither trains there, its own."""
    return _but_on_cifar_10(shared(activation), own(activation)("cifar-10"))


def free(activation: str) -> OnDataset[Runs]:
    """Return the runs without privacy."""
    return _but_on_cifar_10(Runs(TABLE_3, activation), best(CIFAR_10_NOT_PRIVATE, activation))


def measured(activation: str, kind: str = "private") -> OnDataset[Runs]:
    """Return the runs that record norms."""
    there = (own if kind == "private" else free)(activation)("cifar-10")
    return _but_on_cifar_10(Runs(FIGURES_4_5, f"{activation}, {kind}"), there)


def in_tutorial(label: str) -> Runs:
    """Return runs in the settings of the tutorial that the baseline is from."""
    return Runs(TUTORIAL, label)


def _but_on_cifar_10(elsewhere: Runs, there: Runs) -> OnDataset[Runs]:
    return lambda dataset: there if dataset == "cifar-10" else elsewhere
