"""Which runs decide the claims: on CIFAR-10 others than on MNIST and Fashion-MNIST."""

from __future__ import annotations

from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import OnDataset
from dpstudy.lab.search import Search
from under_the_clip.tempered_sigmoids.cifar_10 import CIFAR_10_NOT_PRIVATE, CIFAR_10_RATES
from under_the_clip.tempered_sigmoids.experiments import FIGURE_3, FIGURES_4_5, TABLE_3, TUTORIAL
from under_the_clip.tempered_sigmoids.searches import TABLE_3_SEARCH


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
