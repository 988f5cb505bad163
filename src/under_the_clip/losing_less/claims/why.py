"""Claims on the parts of the loss, and on what goes on inside (Sections 3.2, 4.2 and 4.3)."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from dpstudy.claims.claim import Claim
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Difference, Unsupported, Untested, on
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
from under_the_clip.losing_less.claims.accuracy import (
    ALL,
    CE,
    COMPOSITE,
    RULED,
    RULED_AGAIN,
    RULED_OF_SENTENCES,
    RULED_OF_THE_MOST,
    SMALL,
    claim,
    claim_again,
    claim_of_sentences,
    claim_of_the_most,
    claim_with_more,
    on_small,
)
from under_the_clip.losing_less.experiments import (
    ABLATION,
    ADAM,
    EQUATION_9,
    GRID,
    HUBER_BOUNDS,
    INSIDE,
    OTHER_ERRORS,
    SENSITIVITY,
)
from under_the_clip.losing_less.published import CLASS_ACCURACIES

_ANOTHER_DECAY = (
    "the paper's weight decay (Eq. 15) is a part of the loss, before the clip, each layer's by its "
    "size; ours is outside the clip, one for all layers"
)
_ONE_RATE = "Adam has two seeds, at one rate that nobody searched"
# "Initial training iterations": a tenth of the epochs.
EARLY = Quantity("test_accuracy", "test accuracy after epoch 4", "{:.2%}", after(4))


def _ablated(label: str) -> Runs:
    return Runs(ABLATION, label)


PARTS = (
    *(
        claim_with_more(
            f"losing-less-above-{parts.replace(' ', '-')}",
            "Section 4.3, Figure 10",
            says,
            on_small(Difference, COMPOSITE, _ablated(parts)),
        )
        for parts, says in (
            (
                "squared error",
                "None of its parts can be left out: it ends above squared error alone.",
            ),
            (
                "squared error and cross-entropy",
                "It ends above squared error and cross-entropy under the curriculum.",
            ),
            ("squared error and focal", "It ends above itself without the penalty."),
        )
    ),
    claim_again(
        "losing-less-parts-on-features",
        "Section 4.3, Figure 10, second row",
        "On scattering features, too, none of its parts can be left out.",
        on(ALL, Untested, "no part of the loss was trained alone on scattering features"),
    ),
    claim_with_more(
        "losing-less-squared-error-early",
        "Section 4.3, Figure 11",
        "Squared error is ahead of cross-entropy in initial iterations.",
        on_small(Difference, _ablated("squared error"), CE, quantity=EARLY),
        remark="After a tenth of the epochs.",
    ),
    claim_with_more(
        "losing-less-focal-late",
        "Section 4.3, Figure 11",
        "Focal loss is ahead of cross-entropy in later iterations.",
        on_small(Difference, _ablated("focal"), CE),
        remark="At the end.",
    ),
    claim(
        "losing-less-absolute-error",
        "Section 4.3, Figure 12",
        "Squared error ends above absolute error.",
        on_small(Difference, _ablated("squared error"), Runs(OTHER_ERRORS, "absolute error")),
    ),
    claim_of_the_most(
        "losing-less-above-huber",
        "Section 4.3, Figure 12",
        "Squared error ends above Huber's.",
        on_small(Difference, _ablated("squared error"), Runs(OTHER_ERRORS, "Huber, 1")),
        remark="With the largest β of the figure.",
    ),
    claim(
        "losing-less-huber",
        "Section 4.3, Figure 12",
        "A larger β in Huber's error, nearer to squared error, ends higher.",
        on_small(
            Difference,
            *(Runs(OTHER_ERRORS, f"Huber, {HUBER_BOUNDS[end]:g}") for end in (-1, 0)),
        ),
        remark="The largest β of the figure against the smallest.",
    ),
    claim_again(
        "losing-less-above-weight-decay",
        "Section 4.3, Figure 13",
        "The penalty ends above weight decay in its place.",
        on(ALL, Untested, _ANOTHER_DECAY),
    ),
    claim_again(
        "losing-less-weight-decay-helps",
        "Section 4.3, Figure 13",
        "Weight decay ends above no penalty at all.",
        on(ALL, Untested, _ANOTHER_DECAY),
    ),
    *(
        claim_with_more(
            f"losing-less-insensitive-{name.replace('_', '-')}",
            "Section 4.3, Figure 14",
            f"Its {symbol} has a negligible influence.",
            on_small(
                Difference,
                COMPOSITE,
                Runs(SENSITIVITY, f"{name} {GRID[name][end]:g}"),
                "alike",
            ),
            remark=(
                "The end of the grid that is furthest from Table 5. The tolerance is more than the "
                "loss gains with tanh."
            ),
        )
        for name, symbol, end in (
            ("turning_epoch", "e_t", -1),
            ("divisor", "β", -1),
            ("focusing", "γ", 0),
        )
    ),
    claim_with_more(
        "losing-less-adam",
        "Appendix A",
        "Adam does not do better than SGD, with cross-entropy.",
        {
            dataset: rule if isinstance(rule, Untested) else Unsupported(rule, _ONE_RATE)
            for dataset, rule in on_small(
                Difference, Runs(ADAM, "cross-entropy, Adam"), CE, "not above"
            ).items()
        },
    ),
    claim_with_more(
        "losing-less-equation-9",
        "Eq. 9",
        "Its norm as printed, or squared as Eq. 7 means it, makes no difference.",
        on(("mnist",), Difference, Runs(EQUATION_9, "as printed"), COMPOSITE, "alike"),
        remark="A question of this study's, which decides how the loss is read.",
    ),
)


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
    claim_of_the_most(
        "losing-less-most-curved",
        "Section 3.2, Figure 2",
        "The largest of these singular values in training is smaller with the composite loss.",
        on(ALL, Difference, _inside("cross-entropy"), _inside("composite"), quantity=MOST_CURVED),
    ),
)

OF_CLASSES = tuple(
    claim_of_sentences(
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
    )
    for stated in CLASS_ACCURACIES
)
