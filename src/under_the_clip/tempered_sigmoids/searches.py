"""Tempered sigmoids: the searches, of a triplet for each layer and of Table 3's best settings."""

from __future__ import annotations

from dpstudy.lab.search import Search
from dpstudy.parts.networks.activation import LayerWise, Tempered
from dpstudy.parts.optimizer import Adam, Sgd
from dpstudy.parts.run import Run, vary
from under_the_clip import designs
from under_the_clip.tempered_sigmoids.experiments import (
    ACTIVATIONS,
    BASE,
    BATCHES,
    EPOCHS,
    KINDS,
    calibrated,
)

# --- Layer-wise triplets --------------------------------------------------------------------------

# Around the paper's averages: three layers' triplets, all drawn from as far out as Figure 2's, are
# almost never all good.
NEAR_RANGES = ((1.0, 3.0), (1.0, 4.0), (0.5, 1.5))


def _activation(point: designs.Point) -> Tempered | LayerWise:
    numbers = list(map(designs.between, point, 3 * NEAR_RANGES))
    layers = tuple(Tempered(*numbers[at : at + 3]) for at in range(0, len(point), 3))
    return LayerWise(layers) if len(layers) > 1 else layers[0]


_LAYER_WISE = {
    kind: {
        f"{kind} {number:02d}": (vary(BASE["mnist"], activation=_activation(point)),)
        for number, point in enumerate(designs.fill(25, dimensions), start=1)
    }
    for kind, dimensions in (("shared", 3), ("layer-wise", 9))
}
LAYER_WISE = Search(
    name="tempered-sigmoids-layer-wise",
    title="A triplet for each layer against one for all (tempered sigmoids, Conclusions)",
    variants=_LAYER_WISE["shared"] | _LAYER_WISE["layer-wise"],
    seeds={"mnist": 1},
    in_smoke=("shared 01", "layer-wise 01"),
    groups={f"{kind}, best": tuple(tried) for kind, tried in _LAYER_WISE.items()},
)

# --- Table 3: the best of a search ----------------------------------------------------------------

# Where learning rates are searched: by optimizer, with privacy and without. SGD has the momentum
# of the common configuration.
SEARCH_RATES = {
    ("sgd", True): (0.1, 10.0),
    ("adam", True): (3e-4, 3e-2),
    ("sgd", False): (3e-3, 0.3),
    ("adam", False): (1e-4, 1e-2),
}
WIDTHS = (0.5, 1.0, 2.0)
OPTIMIZERS = {"sgd": Sgd, "adam": Adam}
SEARCH_BUDGET = {"private": 24, "not private": 12}
SEARCH_TRIED = {
    f"{activation}, {kind}": tuple(
        f"{activation}, {kind}, {number:02d}" for number in range(1, budget + 1)
    )
    for activation in ACTIVATIONS
    for kind, budget in SEARCH_BUDGET.items()
}


def searched(label: str, dataset: str, point: designs.Point) -> Run:
    """Return the run at a point: (filters, learning rate, optimizer, batch, epochs)."""
    activation, kind, _ = label.split(", ")
    width, rate, optimizer, batch, epochs = point
    chosen = designs.among(optimizer, tuple(OPTIMIZERS))
    rate = designs.between_in_log(rate, SEARCH_RATES[chosen, kind == "private"])
    run = vary(
        KINDS[kind][dataset],
        activation=ACTIVATIONS[activation],
        width=designs.among(width, WIDTHS),
        optimizer=OPTIMIZERS[chosen](rate),
        batch=designs.among(batch, BATCHES),
        epochs=designs.among(epochs, EPOCHS[dataset]),
    )
    return calibrated(run) if run.private else run


# The first half fills the space evenly, the same points for both activations. Each of the others
# was proposed by a Gaussian process in view of those before it, and is stored as a choice.
TABLE_3_SEARCH = Search(
    name="tempered-sigmoids-table-3-search",
    title="Best settings of a search, at the quoted epsilon (tempered sigmoids, Table 3)",
    variants={
        label: tuple(searched(label, dataset, point) for dataset in BASE)
        for labels in SEARCH_TRIED.values()
        for label, point in zip(labels, designs.fill(len(labels) // 2, dimensions=5), strict=False)
    },
    seeds=dict.fromkeys(BASE, 1),
    in_smoke=("relu, private, 02", "tanh, private, 02"),
    groups={f"{technique}, best": labels for technique, labels in SEARCH_TRIED.items()},
)

EXPERIMENTS = (LAYER_WISE, TABLE_3_SEARCH)
