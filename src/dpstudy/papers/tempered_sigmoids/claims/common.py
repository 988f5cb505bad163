"""What the claims share: whose runs decide them, and rules by dataset."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dpstudy.ledger.claim import Claim, moment
from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.published import Number
from dpstudy.ledger.quantity import (
    ACCURACY,
    Quantity,
)
from dpstudy.ledger.rules import (
    Difference,
    Gain,
    Ratio,
    Rule,
    Untested,
    Value,
)
from dpstudy.ledger.rules.measures import BY_INTERVALS
from dpstudy.papers.tempered_sigmoids import cifar_10, experiments, searches
from dpstudy.papers.tempered_sigmoids.experiments import FIGURE_2, FIGURE_3, TABLE_4, TUTORIAL
from dpstudy.papers.tempered_sigmoids.published import NUMBERS
from dpstudy.papers.tempered_sigmoids.rules import Cluster

M, F, C = "mnist", "fashion-mnist", "cifar-10"
TWO, ALL = (M, F), (M, F, C)
# When what they ask of the runs was last changed: each activation at its own best setting.
OWN_BEST = moment("2026-11-24 20:10")
BUDGETS, RATES = moment("2026-11-21 23:12"), moment("2026-11-22 02:15")

RELU, TEMPERED, BEST = "DP-SGD, relu", "DP-SGD, tempered sigmoid", "DP-SGD, best of Figure 2"
BASELINE, TUTORIAL_EPSILON, SHARE = (
    NUMBERS[name]
    for name in ("baseline, in the tutorial", "epsilon of the tutorial", "share of best triplets")
)
SHARED = "At one setting for both activations, that of our Figure 3."
SWEEP = Runs(FIGURE_2, "s=*")

Rules = dict[str, Rule]
# From a dataset to runs of it, or to the ε that is quoted for it.
OnDataset = Callable[[str], Runs]
Quoted = Callable[[str], Number]


def of(dataset: str, name: str) -> Number:
    """Return a published number of a dataset."""
    return NUMBERS[f"{dataset}, {name}"]


def quoted(dataset: str) -> Number:
    """Return the ε that the paper quotes for a dataset."""
    return of(dataset, "epsilon")


def in_3(_: str) -> Number:
    """Return the ε of the introduction."""
    return NUMBERS["epsilon of the introduction"]


def shared(activation: str) -> OnDataset:
    """Return the runs at one setting for both activations, our Figure 3."""
    return lambda _: Runs(FIGURE_3, activation)


def own(activation: str) -> OnDataset:
    """Return each activation's runs at its own best setting."""
    there = Runs(cifar_10.CIFAR_10_RATES, f"{activation}, best")
    elsewhere = Runs(searches.TABLE_3_SEARCH, f"{activation}, private, best")
    return lambda d: there if d == C else elsewhere


def trained(activation: str) -> OnDataset:
    """Return the runs at one setting for both; on CIFAR-10, where neither trains there, its own."""
    return lambda d: own(activation)(d) if d == C else Runs(FIGURE_3, activation)


def free(activation: str) -> OnDataset:
    """Return the runs without privacy."""
    there = Runs(cifar_10.CIFAR_10_NOT_PRIVATE, f"{activation}, best")
    elsewhere = Runs(experiments.TABLE_3, activation)
    return lambda d: there if d == C else elsewhere


def at_3(activation: str) -> OnDataset:
    """Return the runs that spend at most an ε of 3."""
    there = Runs(cifar_10.CIFAR_10_RATES, f"{activation}, epsilon 3")
    return lambda d: there if d == C else Runs(FIGURE_3, activation)


def measured(activation: str, kind: str = "private") -> OnDataset:
    """Return the runs that record norms."""
    there = (own if kind == "private" else free)(activation)(C)
    elsewhere = Runs(experiments.FIGURES_4_5, f"{activation}, {kind}")
    return lambda d: there if d == C else elsewhere


def in_tutorial(label: str) -> OnDataset:
    """Return the runs in the settings of the tutorial that the baseline is from."""
    return lambda _: Runs(TUTORIAL, label)


def table_4(technique: str) -> OnDataset:
    """Return the runs at the best learning rate of an optimizer."""
    return lambda _: Runs(TABLE_4, f"{technique}, best")


def best_triplet(_: str) -> Runs:
    """Return the runs of the best triplet of Figure 2."""
    return Runs(FIGURE_2, "best")


def value(
    on: tuple[str, ...], name: str, runs: OnDataset, epsilon: Quoted | None = quoted, *more: bool
) -> Rules:
    """Return by dataset that a variant reaches a published accuracy, at an ε if one is given."""
    return {d: Value(of(d, name), runs(d), epsilon and epsilon(d), *more) for d in on}


def gain(
    on: tuple[str, ...],
    names: tuple[str, str],
    first: OnDataset,
    second: OnDataset,
    epsilon: Quoted = quoted,
    at_least: bool = True,
) -> Rules:
    """Return by dataset that one variant gains over another what two numbers are apart."""
    first_name, second_name = names
    return {
        d: Gain((of(d, first_name), of(d, second_name)), first(d), second(d), epsilon(d), at_least)
        for d in on
    }


def apart(
    on: tuple[str, ...],
    first: OnDataset,
    second: OnDataset,
    wanted: str = "above",
    quantity: Quantity = ACCURACY,
) -> Rules:
    """Return by dataset that one variant is above another, not above it, or alike."""
    return {d: Difference(first(d), second(d), wanted, quantity) for d in on}


def times(
    on: tuple[str, ...], first: OnDataset, second: OnDataset, quantity: Quantity, *names: str
) -> Rules:
    """Return by dataset that a quantity is larger by a factor, or at one level without one."""
    numbers = tuple(NUMBERS[name] for name in names)
    return {d: Ratio(first(d), second(d), quantity, numbers) for d in on}


def cluster(names: Callable[[str], str]) -> Rules:
    """Return by dataset that the best tenth of the sweep averages to the numbers so named."""
    return {
        d: Cluster(
            tuple(NUMBERS[names(d).format(s)] for s in "sTo"), SHARE, SWEEP, experiments.TRIPLET
        )
        for d in ALL
    }


def untested(reason: str, name: str) -> Rules:
    """Return that no run can decide the claim on Fashion-MNIST and CIFAR-10, and why."""
    return {d: Untested(reason, (of(d, name),)) for d in (F, C)}


def claim(
    name: str,
    where: str,
    says: str,
    rules: Rules,
    ruled: datetime = BY_INTERVALS,
    **options: object,
) -> Claim:
    """Return a claim whose rules are as old as the intervals, unless said otherwise."""
    return Claim(name, where, says, rules, ruled, **options)
