"""Chapter 2: the tempered sigmoid family, and what it does for DP-SGD. One module a topic."""

from dpstudy.papers.tempered_sigmoids.figures.accuracy import (
    accuracy_against_epsilon,
    baseline,
    settings,
    table_3,
)
from dpstudy.papers.tempered_sigmoids.figures.at_zero import around_zero
from dpstudy.papers.tempered_sigmoids.figures.changes import cifar_10_changes, cifar_10_rates
from dpstudy.papers.tempered_sigmoids.figures.common import warnings_of
from dpstudy.papers.tempered_sigmoids.figures.fairness import class_accuracy, class_spread
from dpstudy.papers.tempered_sigmoids.figures.family import FAMILY, distance_from_tanh, family
from dpstudy.papers.tempered_sigmoids.figures.in_short import in_short
from dpstudy.papers.tempered_sigmoids.figures.noise import calibrated_noise, poisson_and_shuffled
from dpstudy.papers.tempered_sigmoids.figures.norms import (
    errors_by_norm,
    gradient_norms,
    norms,
    norms_compared,
)
from dpstudy.papers.tempered_sigmoids.figures.own import own_member, own_temperature
from dpstudy.papers.tempered_sigmoids.figures.rates import learning_rates, table_4
from dpstudy.papers.tempered_sigmoids.figures.searches import layer_wise, table_3_search
from dpstudy.papers.tempered_sigmoids.figures.sweep import cluster, family_sweep

__all__ = [
    "FAMILY",
    "accuracy_against_epsilon",
    "around_zero",
    "baseline",
    "calibrated_noise",
    "cifar_10_changes",
    "cifar_10_rates",
    "class_accuracy",
    "class_spread",
    "cluster",
    "distance_from_tanh",
    "errors_by_norm",
    "family",
    "family_sweep",
    "gradient_norms",
    "in_short",
    "layer_wise",
    "learning_rates",
    "norms",
    "norms_compared",
    "own_member",
    "own_temperature",
    "poisson_and_shuffled",
    "settings",
    "table_3",
    "table_3_search",
    "table_4",
    "warnings_of",
]
