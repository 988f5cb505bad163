"""Tempered sigmoids (Papernot et al., AAAI 2021): the runs behind its figures and tables.

All settings are the common configuration, Table 5 of "Losing less", unless said otherwise. Its
noise costs about the epsilon that this paper quotes for MNIST and Fashion-MNIST, but on CIFAR-10
less than half of it: there it is lowered.
"""

from __future__ import annotations

from dpstudy.lab import design
from dpstudy.lab.experiment import Experiment
from dpstudy.lab.search import Search
from dpstudy.parts.activation import TANH, Linear, Relu, Tempered
from dpstudy.parts.dataset import Images
from dpstudy.parts.measure import Norms
from dpstudy.parts.mechanism import FlatClipping, NoPrivacy
from dpstudy.parts.network import TemperedCifar
from dpstudy.parts.optimizer import Adam, Sgd
from dpstudy.parts.run import Run, vary
from dpstudy.parts.sampling import Poisson, Shuffled

BASE = {
    "mnist": Run(),
    "fashion-mnist": Run(
        dataset=Images("fashion-mnist"),
        mechanism=FlatClipping(noise_multiplier=2.15),
        sampling=Poisson(2048),
        optimizer=Sgd(4.0),
    ),
    "cifar-10": Run(
        # Table 5 is from a search of Tramer and Boneh's, whose code normalises CIFAR-10 alone.
        dataset=Images("cifar-10", normalization="imagenet"),
        network=TemperedCifar(),
        # Costs the quoted 7.53 by the accounting of the paper's time, as a test checks.
        mechanism=FlatClipping(noise_multiplier=0.8981),
        sampling=Poisson(1024),
        optimizer=Sgd(1.0),
        epochs=30,
    ),
}
ACTIVATIONS = {"relu": Relu(), "tanh": TANH}


def on_digits_and_clothes(runs: dict[str, Run]) -> tuple[Run, ...]:
    """Return the runs on MNIST and Fashion-MNIST: CIFAR-10 has settings of its own, `cifar_10`."""
    return tuple(runs[dataset] for dataset in ("mnist", "fashion-mnist"))


def with_activation(run: Run, name: str) -> Run:
    """Return the run with relu, or with tanh: the tempered sigmoid (2, 2, 1)."""
    return vary(run, activation=ACTIVATIONS[name])


FIGURE_3 = Experiment(
    name="tempered-sigmoids-figure-3",
    title="Accuracy against epsilon, relu and tanh (tempered sigmoids, Figure 3)",
    variants={
        activation: tuple(with_activation(run, activation) for run in BASE.values())
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 10, "fashion-mnist": 10, "cifar-10": 5},
)

# The paper's baseline for MNIST is the accuracy and the epsilon that TensorFlow Privacy's tutorial
# reported first, of this network with these settings: batch, epochs, rate, C and sigma. The script
# with these settings names no activation, and draws its weights as He et al.: a later one has relu.
_TUTORIAL = Run(
    mechanism=FlatClipping(clip_norm=1.0, noise_multiplier=1.12),
    sampling=Poisson(256),
    optimizer=Sgd(0.08, momentum=0.0),
    epochs=60,
)
TUTORIAL = Experiment(
    name="tempered-sigmoids-tutorial",
    title="relu and tanh in the settings of the paper's baseline (tempered sigmoids, Table 3)",
    variants={
        **{
            activation: (with_activation(_TUTORIAL, activation),) for activation in ("relu", "tanh")
        },
        "relu, He": (vary(_TUTORIAL, activation=Relu(), init="he"),),
        "as scripted": (vary(_TUTORIAL, activation=Linear(), init="he"),),
        "relu, later": (
            vary(_TUTORIAL, activation=Relu(), learning_rate=0.15, noise_multiplier=1.1),
        ),
    },
    seeds={"mnist": 10},
    repeated={"relu, He": 5, "as scripted": 5, "relu, later": 5},
)

# Plain SGD at the learning rate that the paper's own search found without privacy (Table 4; for
# Fashion-MNIST, the only dataset it gives).
NOT_PRIVATE: dict[str, Run] = {
    dataset: vary(run, mechanism=NoPrivacy(), batch=512, optimizer=Sgd(0.107, momentum=0.0))
    for dataset, run in BASE.items()
}

TABLE_3 = Experiment(
    name="tempered-sigmoids-table-3-not-private",
    title="Accuracy without privacy, relu and tanh (tempered sigmoids, Table 3 and text)",
    variants={
        activation: tuple(
            with_activation(run, activation) for run in on_digits_and_clothes(NOT_PRIVATE)
        )
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 3, "fashion-mnist": 3},
)

# --- Figure 2: the family -----------------------------------------------------------------------

TRIPLET = ("scale", "inverse_temperature", "offset")
# The average of the best tenth of the paper's triplets (text on Figure 2).
BEST_TRIPLETS = {
    "mnist": (1.97, 2.27, 1.15),
    "fashion-mnist": (2.27, 2.61, 1.28),
    "cifar-10": (1.58, 3.0, 0.71),
}
# The paper does not print its ranges. These hold its averages, away from their own middle.
TRIPLET_RANGES = ((0.5, 5.0), (0.5, 6.0), (0.0, 3.0))
TRIPLETS = tuple(
    tuple(map(design.between, point, TRIPLET_RANGES)) for point in design.fill(64, dimensions=3)
)


def with_triplet(run: Run, triplet: tuple[float, ...]) -> Run:
    """Return the run with the tempered sigmoid (s, T, o)."""
    return vary(run, activation=Tempered(*triplet))


def triplet_label(triplet: tuple[float, ...]) -> str:
    """Return a triplet as a label: each number with its letter."""
    return ", ".join(f"{name}={value:g}" for name, value in zip("sTo", triplet, strict=True))


FIGURE_2 = Search(
    name="tempered-sigmoids-figure-2",
    title="Accuracy over the family (s, T, o) (tempered sigmoids, Figure 2)",
    variants={
        "tanh": tuple(vary(run, activation=TANH) for run in BASE.values()),
        "published": tuple(
            with_triplet(run, BEST_TRIPLETS[run.dataset.name]) for run in BASE.values()
        ),
        **{
            triplet_label(triplet): tuple(with_triplet(run, triplet) for run in BASE.values())
            for triplet in TRIPLETS
        },
    },
    seeds=dict.fromkeys(BASE, 1),
    repeated={"tanh": 5, "published": 5},
    in_smoke=("tanh", *map(triplet_label, TRIPLETS[:2])),
    groups={"best": tuple(map(triplet_label, TRIPLETS))},
)

# --- Figure 3 at the epsilon it quotes, and with the sampling it used ---------------------------

BATCHES = (256, 512, 1024, 2048)
EPOCHS = {"mnist": (20, 40, 60), "fashion-mnist": (20, 40, 60), "cifar-10": (15, 30, 45)}
# The least noise multipliers at which these batches and epochs cost the epsilon that the paper
# quotes (2.93, 2.7, 7.53), by PLD: `accounting.noise_multiplier_for` computed them, and a test
# computes them again. Typed in because machines that train have no accounting. A row a batch.
_CALIBRATED = {
    "mnist": (
        (0.76568, 0.88037, 0.98008),
        (0.90075, 1.0819, 1.2348),
        (1.1082, 1.3899, 1.6222),
        (1.4108, 1.8325, 2.1733),
    ),
    "fashion-mnist": (
        (0.78838, 0.91465, 1.0241),
        (0.93491, 1.134, 1.3012),
        (1.1606, 1.4688, 1.7216),
        (1.4893, 1.9485, 2.318),
    ),
    "cifar-10": (
        (0.5695, 0.62111, 0.65943),
        (0.63259, 0.70362, 0.75857),
        (0.71769, 0.81979, 0.90148),
        (0.83408, 0.98447, 1.1069),
    ),
}
CALIBRATED = {
    (dataset, batch, epochs): noise
    for dataset, rows in _CALIBRATED.items()
    for batch, row in zip(BATCHES, rows, strict=True)
    for epochs, noise in zip(EPOCHS[dataset], row, strict=True)
}


def calibrated(run: Run) -> Run:
    """Return the run at the noise multiplier that costs the epsilon quoted for its dataset."""
    noise = CALIBRATED[run.dataset.name, run.sampling.batch, run.epochs]
    return vary(run, noise_multiplier=noise)


FIGURE_3_CALIBRATED = Experiment(
    name="tempered-sigmoids-calibrated",
    title="Figure 3 with the noise that a current accountant asks for at the quoted epsilon",
    variants={
        activation: tuple(
            calibrated(with_activation(run, activation)) for run in on_digits_and_clothes(BASE)
        )
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 10, "fashion-mnist": 10},
)

SHUFFLED = Experiment(
    name="tempered-sigmoids-shuffled",
    title="Figure 3 with shuffled batches, as the library that the paper cites forms them",
    variants={
        activation: tuple(
            vary(with_activation(run, activation), sampling=Shuffled(run.sampling.batch))
            for run in BASE.values()
        )
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 5, "fashion-mnist": 5, "cifar-10": 3},
    in_smoke=("tanh",),
)

# --- Figures 4 and 5: norms ----------------------------------------------------------------------

FIGURES_4_5 = Experiment(
    name="tempered-sigmoids-figures-4-5",
    title="Norms of gradients and activations (tempered sigmoids, Figures 4 and 5)",
    variants={
        f"{activation}, {kind}": tuple(
            vary(with_activation(run, activation), measures=(Norms(),))
            for run in on_digits_and_clothes(runs)
        )
        for kind, runs in (("private", BASE), ("not private", NOT_PRIVATE))
        for activation in ("relu", "tanh")
    },
    seeds={"mnist": 5, "fashion-mnist": 5},
)

# --- Table 4: learning rates and optimizers -------------------------------------------------------

# Each grid doubles from rate to rate and holds the published one. The paper does not print its
# clipping norm; with C = 0.1 a private rate has to be larger, so that its grid reaches further up.
# That of private SGD had eight rates at first: the last was the best of them, and two were added.
TABLE_4_RATES = {
    ("SGD", "not private"): [0.107 * 2.0**k for k in range(-3, 4)],
    ("SGD", "private"): [0.332 * 2.0**k for k in range(0, 10)],
    ("Adam", "not private"): [0.00106 * 2.0**k for k in range(-3, 4)],
    ("Adam", "private"): [0.00132 * 2.0**k for k in range(-3, 4)],
}


def _table_4(optimizer: str, kind: str, rate: float) -> Run:
    run = {"private": BASE, "not private": NOT_PRIVATE}[kind]["fashion-mnist"]
    rate = float(f"{rate:.3g}")
    return vary(run, optimizer=Sgd(rate, momentum=0.0) if optimizer == "SGD" else Adam(rate))


TABLE_4 = Search(
    name="tempered-sigmoids-table-4",
    title="SGD and Adam over learning rates, tanh (tempered sigmoids, Table 4)",
    variants={
        f"{optimizer}, {kind}, {rate:.3g}": (_table_4(optimizer, kind, rate),)
        for (optimizer, kind), rates in TABLE_4_RATES.items()
        for rate in rates
    },
    seeds={"fashion-mnist": 1},
    in_smoke=tuple(
        f"{optimizer}, {kind}, {rates[4]:.3g}"
        for (optimizer, kind), rates in TABLE_4_RATES.items()
        if optimizer == "SGD" or kind == "private"
    ),
    groups={
        f"{optimizer}, {kind}, best": tuple(f"{optimizer}, {kind}, {rate:.3g}" for rate in rates)
        for (optimizer, kind), rates in TABLE_4_RATES.items()
    },
)

EXPERIMENTS = (
    FIGURE_3,
    TUTORIAL,
    TABLE_3,
    FIGURE_2,
    FIGURE_3_CALIBRATED,
    SHUFFLED,
    FIGURES_4_5,
    TABLE_4,
)


def of_temperature(inverse_temperature: float) -> Experiment:
    """Return the experiment of a reader's own T: the member (2, T, 1) beside tanh."""
    own = with_triplet(BASE["mnist"], (2.0, inverse_temperature, 1.0))
    return Experiment(
        name="tempered-sigmoids-own-temperature",
        title="A temperature of the reader's own",
        variants={"tanh": (BASE["mnist"],), f"T = {inverse_temperature:g}": (own,)},
        seeds={"mnist": 1},
    )
