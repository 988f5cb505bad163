"""Tempered sigmoids (Papernot et al., AAAI 2021): the runs behind its figures and tables.

All settings are the common configuration, Table 5 of "Losing less", unless said otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from dpstudy.experiments.experiment import Experiment
from dpstudy.spec import Run

BASE = {
    "mnist": Run(),
    "fashion-mnist": Run(
        dataset="fashion-mnist", batch=2048, learning_rate=4.0, noise_multiplier=2.15
    ),
    "cifar-10": Run(
        dataset="cifar-10",
        model="tempered-cifar",
        batch=1024,
        epochs=30,
        learning_rate=1.0,
        noise_multiplier=1.54,
    ),
}


def with_activation(run: Run, name: str) -> Run:
    """Return the run with relu, or with tanh: the tempered sigmoid (2, 2, 1)."""
    return replace(run, activation={"relu": "relu", "tanh": "tempered"}[name])


FIGURE_3 = Experiment(
    name="tempered-sigmoids-figure-3",
    title="Accuracy against epsilon, relu and tanh (tempered sigmoids, Figure 3)",
    variants={
        activation: tuple(with_activation(run, activation) for run in BASE.values())
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 10, "fashion-mnist": 10, "cifar-10": 5},
)

# Plain SGD at the learning rate that the paper's own search found without privacy (Table 4; for
# Fashion-MNIST, the only dataset it gives).
NOT_PRIVATE = {
    dataset: replace(
        run,
        mechanism="none",
        noise_multiplier=0.0,
        clip_norm=Run.clip_norm,
        batch=512,
        learning_rate=0.107,
        momentum=0.0,
    )
    for dataset, run in BASE.items()
}

TABLE_3 = Experiment(
    name="tempered-sigmoids-table-3-not-private",
    title="Accuracy without privacy, relu and tanh (tempered sigmoids, Table 3 and text)",
    variants={
        activation: tuple(with_activation(run, activation) for run in NOT_PRIVATE.values())
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 3, "fashion-mnist": 3, "cifar-10": 3},
)

EXPERIMENTS = (FIGURE_3, TABLE_3)
