"""Claims on what goes on inside while it trains (Sections 3.2 and 4.2, Figures 1, 2, 5 to 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from dpstudy.claims.claim import Claim
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Difference, on
from dpstudy.lab.quantity import (
    GRADIENT_NORM,
    Quantity,
    after,
    class_accuracy,
    each,
    mean_of_layers,
    most_in_training,
    spread_of_norms,
)
from dpstudy.parts.data.images import CLASSES
from under_the_clip.losing_less.claims.common import (
    ALL,
    RULED,
    RULED_AGAIN,
    RULED_OF_SENTENCES,
    RULED_OF_THE_MOST,
    SMALL,
)
from under_the_clip.losing_less.experiments import INSIDE
from under_the_clip.losing_less.published import CLASS_ACCURACIES

FIRST_GRADIENT_NORM = Quantity("gradient_norm", "gradient norm in the first epoch", sides=after(1))
FIRST_SPREAD = Quantity(
    "clipping-bias.counts",
    "spread of gradient norms after the first epoch",
    sides=spread_of_norms(1),
)
LOGITS = Quantity("layer-norms.logits", "norm of the logits")
PRE_ACTIVATIONS = Quantity(
    "layer-norms.hidden",
    "norm of pre-activations, mean of layers",
    sides=each(mean_of_layers),
)
LAST_WEIGHTS = Quantity("layer-norms.last_weights", "norm of the last layer's weights")
COSINE = Quantity(
    "clipping-bias.cosine", "cosine of clipped to unclipped mean gradient", sides=after(1)
)
CURVATURE = Quantity("smoothness.largest", "largest singular value of the Hessian")
MOST_CURVED = Quantity(
    "smoothness.largest",
    "largest singular value of the Hessian in training",
    sides=each(most_in_training),
)


def _inside(label: str) -> Runs:
    return Runs(INSIDE, label)


# Name, place, what it says, the larger and the smaller side, what is compared, and when ruled.
_ROWS = (
    (
        "logits",
        "Section 4.2, Figures 1 and 6",
        "With cross-entropy the logits grow larger.",
        *("cross-entropy", "composite", LOGITS, RULED),
    ),
    (
        "pre-activations",
        "Section 4.2, Figures 1 and 6",
        "With cross-entropy pre-activations grow larger.",
        *("cross-entropy", "composite", PRE_ACTIVATIONS, RULED_OF_SENTENCES),
    ),
    (
        "last-weights",
        "Section 4.2, Figures 1 and 5",
        "With cross-entropy the weights of the last layer grow larger.",
        *("cross-entropy", "composite", LAST_WEIGHTS, RULED),
    ),
    (
        "gradients",
        "Section 4.2, Figure 7",
        "With the composite loss gradients are smaller.",
        *("cross-entropy", "composite", GRADIENT_NORM, RULED_OF_SENTENCES),
    ),
    (
        "first-gradients",
        "Section 3.2, Figure 1",
        "In the first epoch gradients are smaller with the composite loss.",
        *("cross-entropy", "composite", FIRST_GRADIENT_NORM, RULED_AGAIN),
    ),
    (
        "first-spread",
        "Section 3.2, Figure 1",
        "In the first epoch gradients are more condensed with the composite loss.",
        *("cross-entropy", "composite", FIRST_SPREAD, RULED_AGAIN),
    ),
    (
        "cosine",
        "Section 4.2, Figures 1 and 8",
        "In the first epoch clipping turns the mean gradient less with the composite loss.",
        *("composite", "cross-entropy", COSINE, RULED),
    ),
    (
        "curvature",
        "Section 3.2, Figure 2",
        "The largest singular value of the Hessian is smaller with the composite loss.",
        *("cross-entropy", "composite", CURVATURE, RULED),
    ),
)


_OF_ONE_EPOCH = "After later epochs, which Figure 8 leaves out, it is now and then the other way."


def _why(
    datasets: Sequence[str], suffix: str = "", later: datetime | None = None
) -> Iterator[Claim]:
    for name, where, says, first, second, quantity, ruled in _ROWS:
        yield Claim(
            f"losing-less-{name}{suffix}",
            where,
            says,
            on(datasets, Difference, _inside(first), _inside(second), quantity=quantity),
            ruled if later is None else max(later, ruled),
            headline=name == "logits",
            remark=_OF_ONE_EPOCH if name == "cosine" else "",
        )


WHY = (
    *_why(SMALL),
    *_why(["cifar-10"], "-cifar-10", RULED_OF_THE_MOST),
    Claim(
        "losing-less-most-curved",
        "Section 3.2, Figure 2",
        "The largest of these singular values in training is smaller with the composite loss.",
        on(ALL, Difference, _inside("cross-entropy"), _inside("composite"), quantity=MOST_CURVED),
        RULED_OF_THE_MOST,
    ),
)

OF_CLASSES = tuple(
    Claim(
        f"losing-less-class-{stated.name}",
        "Section 4.2, Figure 9",
        f"The composite loss has more of class {stated.name} right after epoch {stated.epoch}.",
        on(
            (stated.dataset,),
            Difference,
            _inside("composite"),
            _inside("cross-entropy"),
            quantity=Quantity(
                "confusion.counts",
                f"accuracy on class {stated.name}",
                "{:.2%}",
                class_accuracy(CLASSES[stated.dataset].index(stated.name), stated.epoch),
            ),
        ),
        RULED_OF_SENTENCES,
    )
    for stated in CLASS_ACCURACIES
)
