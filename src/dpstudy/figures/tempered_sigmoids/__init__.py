"""Chapter 2: the tempered sigmoid family, and what it does for DP-SGD. One module a topic."""

from dpstudy.figures.tempered_sigmoids.accuracy import (
    accuracy_against_epsilon,
    baseline,
    settings,
    table_3,
)
from dpstudy.figures.tempered_sigmoids.advice import practitioner
from dpstudy.figures.tempered_sigmoids.at_zero import around_zero
from dpstudy.figures.tempered_sigmoids.changes import cifar_10_changes, cifar_10_rates
from dpstudy.figures.tempered_sigmoids.common import warnings_of
from dpstudy.figures.tempered_sigmoids.fairness import class_accuracy, class_spread
from dpstudy.figures.tempered_sigmoids.family import FAMILY, distance_from_tanh, family
from dpstudy.figures.tempered_sigmoids.noise import calibrated_noise, poisson_and_shuffled
from dpstudy.figures.tempered_sigmoids.norms import (
    errors_by_norm,
    gradient_norms,
    norms,
    norms_compared,
)
from dpstudy.figures.tempered_sigmoids.own import own_member, own_temperature
from dpstudy.figures.tempered_sigmoids.rates import learning_rates, table_4
from dpstudy.figures.tempered_sigmoids.searches import layer_wise, table_3_search
from dpstudy.figures.tempered_sigmoids.sweep import cluster, family_sweep

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
    "layer_wise",
    "learning_rates",
    "norms",
    "norms_compared",
    "own_member",
    "own_temperature",
    "poisson_and_shuffled",
    "practitioner",
    "settings",
    "table_3",
    "table_3_search",
    "table_4",
    "warnings_of",
]
