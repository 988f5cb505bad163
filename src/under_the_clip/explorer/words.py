"""A run in words: its method, its network and its settings.

What has no words here goes by its kind, or by the name of its field, so that a part that is added
later is shown without a line in this file.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpstudy.parts.loss import CrossEntropy
from dpstudy.parts.networks.activation import TANH
from dpstudy.parts.part import Part
from dpstudy.parts.run import Run, vary
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.mixture import Mixture
from dpstudy.recipe.run import recipe, second_edition, third_edition, whitened
from dpstudy.recipe.whitened import Drawn

KINDS = {
    "flat": "flat clipping",
    "automatic": "automatic clipping",
    "per-layer": "clipping per layer",
    "tanh-filter-clipped": "tanh filter, then clipped",
    "tanh-filter-normalised": "tanh filter, scaled to a norm",
    "tempered": "tempered sigmoid",
    "layer-wise": "a tempered sigmoid for each layer",
    "linear": "no activation",
    "composite": "composite loss",
    "focal": "focal loss",
    "huber": "Huber's loss",
    "sgd": "SGD",
    "sgd-weight-decay": "SGD with weight decay",
    "adam": "Adam",
    "poisson": "Poisson",
    "tempered-mnist": "2 convolutions, SAME padding",
    "losing-less-mnist": "2 convolutions, padding of 2",
    "backprop-mnist": "2 convolutions, no padding, no biases",
    "tempered-cifar": "8 convolutions, spatial mean",
    "losing-less-cifar": "6 convolutions, 2 dense layers",
    "scattering-mnist": "scattering, 2 convolutions",
    "scattering-cifar": "scattering, 4 convolutions",
    "scattering-linear-mnist": "scattering, linear",
    "scattering-linear-cifar": "scattering, linear",
    "linear-head": "linear, on the recipe's features",
    "hidden-head": "1 hidden layer, on the recipe's features",
}
FIELDS = {
    "clip_norm": "C",
    "noise_multiplier": "σ",
    "learning_rate": "rate",
    "inverse_temperature": "T",
    "scale": "s",
    "offset": "o",
    "width": "filters x",
    "held_out": "accuracy on held-out examples:",
}
EDITIONS = {
    "the recipe": recipe,
    "the recipe, second edition": second_edition,
    "the recipe, third edition": third_edition,
}
# What a paper states of its mechanism, and what no reader sets.
_LEFT_OUT = ("claimed_factor", "claimed_accountant", "parameters", "name")


def method(run: Run) -> str:
    """Return mechanism, activation where there is one, and the loss if not cross-entropy.

    The recipe goes by its name; it is changed where more of its features is than was searched.
    """
    activation, loss = run.network.activation, run.loss
    alike = [name for name, of in EDITIONS.items() if _kinds(run) == _kinds(of("mnist"))]
    for name in alike:
        if _unsearched(run) == _unsearched(EDITIONS[name](run.dataset.name)):
            return name
    if alike:
        return f"{alike[0]}, changed"
    parts = [kind(run.mechanism)]
    if "linear" not in str(run.network.kind):  # what is linear uses no activation
        parts.append("tanh" if activation == TANH else kind(activation))
    return ", ".join(parts if isinstance(loss, CrossEntropy) else [*parts, kind(loss)])


def _unsearched(run: Run) -> Drawn:
    """Return the recipe's features with what is searched put at nothing."""
    run = whitened(run, 0.0) if isinstance(run.dataset, Mixture) else vary(run, exponent=0.0)
    return dataclasses.replace(run.dataset, held_out=0)


def _kinds(run: Run) -> list[type]:
    return [type(part) for part in (run.dataset, run.network, run.mechanism, run.loss)]


def kind(part: Part) -> str:
    """Return the kind of a part in words."""
    name = str(part.kind)
    return KINDS.get(name, name.replace("-", " "))


def settings(run: Run) -> str:
    """Return the numbers of a run in one line; of network, loss and data what is not usual.

    Of the recipe's features that is what an edition does not set, and the exponent.
    """
    sampling, optimizer, activation = run.sampling, run.optimizer, run.network.activation
    said = [
        f"{kind(sampling)} batches of {sampling.batch:,}",
        f"{run.epochs} epochs",
        f"{kind(optimizer)} {' '.join(_fields(optimizer))}",
        *_fields(run.mechanism),
        *(() if activation == TANH else _fields(activation)),
        *(word for part in (run.network, run.loss, run.dataset) for word in _unusual(part)),
    ]
    return ", ".join(said)


def _unusual(part: Part) -> Iterator[str]:
    usual = {field.name: field.default for field in dataclasses.fields(part)}
    if isinstance(part, Mixture):  # of an edition, all but these, or it is said to be changed
        held_out = [f"{FIELDS['held_out']} {part.held_out}"] if part.held_out else []
        return iter([*held_out, f"exponent {part.weighted_blocks[0][0].exponent:g}"])
    if isinstance(part, SyntheticFeatures):  # what the first edition sets itself
        chosen = recipe(part.name).dataset
        usual = {name: getattr(chosen, name) for name in usual} | {"exponent": None}
    return _fields(part, *(name for name in usual if getattr(part, name) == usual[name]))


def _fields(part: Part, *but: str) -> Iterator[str]:
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name not in (*_LEFT_OUT, *but) and value != () and not isinstance(value, Part):
            yield f"{FIELDS.get(field.name, field.name.replace('_', ' '))} {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return " / ".join(map(_value, value))
    if isinstance(value, Part):
        return f"({', '.join(_fields(value))})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
