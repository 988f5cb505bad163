"""What "Losing Less" (Shamsabadi and Papernot, PoPETs 2023) claims.

Its figures print no numbers; what its text says of them is an ordering, decided at Table 5's
settings, where it has them, and beside that at equal effort. Not listed: what it cites, what
Section 4 says of its own search, and the ablation on scattering features (Figure 10,
second row), of which nothing runs here.
"""

from __future__ import annotations

from dpstudy.ledger.claim import Claim, moment, propositions
from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.published import Number
from dpstudy.ledger.quantity import (
    COSINE,
    CURVATURE,
    GRADIENT_NORM,
    LAST_WEIGHTS,
    LOGITS,
    PRE_ACTIVATIONS,
    AfterEpoch,
    ClassAccuracy,
    WithinEpsilon,
)
from dpstudy.ledger.rules import Difference, Gain, OnDataset, Throughout, Value, on
from dpstudy.papers.losing_less.experiments import (
    ABLATION,
    EQUAL_EFFORT,
    EQUATION_9,
    FIGURE_3,
    FIGURE_4,
    FREE,
    GRID,
    HUBER_BOUNDS,
    INSIDE,
    OTHER_ERRORS,
    SENSITIVITY,
    WEIGHT_DECAY,
)
from dpstudy.papers.losing_less.propositions import convergence, equations, mean_value
from dpstudy.papers.losing_less.published import CLASS_ACCURACIES, NUMBERS
from dpstudy.parts.images import CLASSES

RULED = moment("2026-11-25 00:00")
RULED_OF_SENTENCES = moment("2026-11-26 03:58")
RULED_ON_FEATURES = moment("2026-11-25 00:20")
SMALL, ALL = ("mnist", "fashion-mnist"), ("mnist", "fashion-mnist", "cifar-10")
CE, COMPOSITE = (Runs(FIGURE_3, label) for label in ("cross-entropy", "composite"))
FEATURES_CE, FEATURES_COMPOSITE = (
    Runs(FIGURE_4, label) for label in ("cross-entropy", "composite")
)
EPSILON = NUMBERS["epsilon"]
# "Initial training iterations": a tenth of the epochs.
EARLY = AfterEpoch("test_accuracy", "test accuracy after epoch 4", share=True, epoch=4)
BELOW_1_5 = WithinEpsilon("test_accuracy", "test accuracy at ε < 1.5", share=True, epsilon=1.5)
BELOW_1_5_THEN = WithinEpsilon(
    "test_accuracy", "test accuracy at ε < 1.5", share=True, epsilon=1.5, accountant="rdp-2019"
)
BELOW_2 = WithinEpsilon(
    "test_accuracy", "test accuracy at ε < 2", share=True, epsilon=2.0, accountant="rdp-2019"
)


def _of(name: str) -> OnDataset[Number]:
    return lambda dataset: NUMBERS[f"{dataset}, {name}"]


def _ablated(label: str) -> Runs:
    return Runs(ABLATION, label)


def _inside(label: str) -> Runs:
    return Runs(INSIDE, label)


def _better(name: str, where: str, says: str, other: Runs, remark: str = "") -> Claim:
    """Return the claim that the composite loss ends above another, on the small datasets."""
    return Claim(name, where, says, on(SMALL, Difference, COMPOSITE, other), RULED, remark=remark)


_AS_MANY_EPOCHS = (
    "At ε by the accounting of the paper's time, so that as many epochs fit in as in the paper."
)
_TRAINING = (
    Claim(
        "losing-less-better",
        "Abstract, Figure 3",
        "The composite loss ends at a higher accuracy than cross-entropy at the same ε.",
        on(ALL, Difference, COMPOSITE, CE),
        RULED,
        headline=True,
        remark="At the settings of Table 5, which were searched with cross-entropy.",
    ),
    Claim(
        "losing-less-better-at-equal-effort",
        "Abstract, Figure 3",
        "It ends higher than cross-entropy, each at its own best learning rate.",
        on(
            SMALL,
            Difference,
            Runs(EQUAL_EFFORT, "composite, tanh"),
            Runs(EQUAL_EFFORT, "cross-entropy, tanh"),
        ),
        RULED,
        headline=True,
        remark="Of five, chosen on held-out training examples.",
    ),
    Claim(
        "losing-less-better-with-relu",
        "Abstract, Figure 3",
        "It ends higher than cross-entropy with relu in place of tanh.",
        on(
            SMALL,
            Difference,
            Runs(EQUAL_EFFORT, "composite, relu"),
            Runs(EQUAL_EFFORT, "cross-entropy, relu"),
        ),
        RULED,
    ),
    Claim(
        "losing-less-throughout",
        "Figure 3",
        "It is ahead whatever ε has been spent.",
        on(ALL, Throughout, COMPOSITE, CE),
        RULED,
        headline=True,
    ),
    Claim(
        "losing-less-early",
        "Section 4.1",
        "It is ahead early on, at half the ε.",
        on(ALL, Difference, COMPOSITE, CE, quantity=BELOW_1_5),
        RULED,
        remark="At the ε of that sentence, by PLD, so that more epochs than the paper's fit in.",
    ),
    Claim(
        "losing-less-composite-accuracy",
        "Section 4.1",
        "The accuracy of the composite loss.",
        on(("cifar-10",), Value, _of("composite"), COMPOSITE, EPSILON, at_least=True),
        RULED,
        headline=True,
    ),
    Claim(
        "losing-less-cross-entropy-accuracy",
        "Section 4.1",
        "The accuracy of cross-entropy: the most over five runs.",
        on(ALL, Value, _of("cross-entropy"), CE, EPSILON),
        RULED,
        headline=True,
    ),
    Claim(
        "losing-less-gain",
        "Abstract, Section 4.1",
        "What the composite loss gains over cross-entropy.",
        on(
            ("cifar-10",),
            Gain,
            (_of("composite"), _of("cross-entropy")),
            COMPOSITE,
            CE,
            EPSILON,
            at_least=True,
        ),
        RULED_OF_SENTENCES,
        headline=True,
        remark="By the accuracies that the text gives; the abstract rounds their difference up.",
    ),
    *(
        Claim(
            f"losing-less-early-{name}-accuracy",
            "Section 4.1",
            f"The accuracy of {words} before half of the ε is spent.",
            on(
                ("cifar-10",),
                Value,
                _of(f"{name}, ε < 1.5"),
                runs,
                at_least=promised,
                quantity=BELOW_1_5_THEN,
            ),
            RULED_OF_SENTENCES,
            remark=_AS_MANY_EPOCHS,
        )
        for name, words, runs, promised in (
            ("composite", "the composite loss", COMPOSITE, True),
            ("cross-entropy", "cross-entropy", CE, False),
        )
    ),
    Claim(
        "losing-less-not-private",
        "Section 4.1",
        "The accuracy without privacy.",
        on(SMALL, Value, _of("not private"), Runs(FREE, "cross-entropy")),
        RULED,
    ),
)

_ON_FEATURES = (
    Claim(
        "losing-less-features-better",
        "Section 4.1, Figure 4",
        "On scattering features, too, the composite loss ends above cross-entropy.",
        on(ALL, Difference, FEATURES_COMPOSITE, FEATURES_CE),
        RULED_ON_FEATURES,
        headline=True,
        remark="At the settings of Table 5, which were searched with cross-entropy.",
    ),
    Claim(
        "losing-less-features-throughout",
        "Section 4.1, Figure 4",
        "On scattering features it is ahead whatever ε has been spent.",
        on(ALL, Throughout, FEATURES_COMPOSITE, FEATURES_CE),
        RULED_ON_FEATURES,
    ),
    Claim(
        "losing-less-features-early",
        "Section 4.1",
        "On scattering features it is ahead before all of the ε is spent.",
        on(("cifar-10",), Difference, FEATURES_COMPOSITE, FEATURES_CE, quantity=BELOW_2),
        RULED_ON_FEATURES,
        remark=_AS_MANY_EPOCHS,
    ),
    Claim(
        "losing-less-features-composite-accuracy",
        "Section 4.1",
        "The accuracy of the composite loss on scattering features.",
        on(
            ("cifar-10",),
            Value,
            _of("features, composite, ε < 2"),
            FEATURES_COMPOSITE,
            at_least=True,
            quantity=BELOW_2,
        ),
        RULED_ON_FEATURES,
        remark=_AS_MANY_EPOCHS,
    ),
    Claim(
        "losing-less-features-cross-entropy-accuracy",
        "Section 4.1",
        "The accuracy of cross-entropy on scattering features.",
        on(
            ("cifar-10",),
            Value,
            _of("features, cross-entropy, ε < 2"),
            FEATURES_CE,
            quantity=BELOW_2,
        ),
        RULED_ON_FEATURES,
        remark=_AS_MANY_EPOCHS,
    ),
)

_ABLATION = (
    _better(
        "losing-less-above-squared-error",
        "Section 4.3, Figure 10",
        "None of its parts can be left out: it ends above squared error alone.",
        _ablated("squared error"),
    ),
    _better(
        "losing-less-above-squared-error-and-cross-entropy",
        "Section 4.3, Figure 10",
        "It ends above squared error and cross-entropy under the curriculum.",
        _ablated("squared error and cross-entropy"),
    ),
    _better(
        "losing-less-above-squared-error-and-focal",
        "Section 4.3, Figure 10",
        "It ends above itself without the penalty.",
        _ablated("squared error and focal"),
    ),
    Claim(
        "losing-less-squared-error-early",
        "Section 4.3, Figure 11",
        "Squared error is ahead of cross-entropy in initial iterations.",
        on(SMALL, Difference, _ablated("squared error"), CE, quantity=EARLY),
        RULED,
        remark="After a tenth of the epochs.",
    ),
    Claim(
        "losing-less-focal-late",
        "Section 4.3, Figure 11",
        "Focal loss is ahead of cross-entropy in later iterations.",
        on(SMALL, Difference, _ablated("focal"), CE),
        RULED,
        remark="At the end.",
    ),
    Claim(
        "losing-less-absolute-error",
        "Section 4.3, Figure 12",
        "Squared error ends above absolute error.",
        on(SMALL, Difference, _ablated("squared error"), Runs(OTHER_ERRORS, "absolute error")),
        RULED,
    ),
    Claim(
        "losing-less-huber",
        "Section 4.3, Figure 12",
        "A larger β in Huber's error, nearer to squared error, ends higher.",
        on(
            SMALL,
            Difference,
            *(Runs(OTHER_ERRORS, f"Huber, {HUBER_BOUNDS[end]:g}") for end in (-1, 0)),
        ),
        RULED,
        remark="The largest β of the figure against the smallest.",
    ),
    Claim(
        "losing-less-above-weight-decay",
        "Section 4.3, Figure 13",
        "The penalty ends above weight decay in its place.",
        on(SMALL, Difference, COMPOSITE, Runs(WEIGHT_DECAY, "weight decay, best")),
        moment("2026-11-25 03:56"),
        remark="Weight decay at its best of four coefficients.",
    ),
    Claim(
        "losing-less-weight-decay-helps",
        "Section 4.3, Figure 13",
        "Weight decay ends above no penalty at all.",
        on(
            SMALL,
            Difference,
            Runs(WEIGHT_DECAY, "weight decay, best"),
            _ablated("squared error and focal"),
        ),
        moment("2026-11-25 03:56"),
        remark="Weight decay at its best of four coefficients.",
    ),
    *(
        Claim(
            f"losing-less-insensitive-{name.replace('_', '-')}",
            "Section 4.3, Figure 14",
            f"Its {symbol} has a negligible influence.",
            on(
                SMALL,
                Difference,
                COMPOSITE,
                Runs(SENSITIVITY, f"{name} {GRID[name][end]:g}"),
                "alike",
            ),
            RULED,
            remark="The end of the grid that is furthest from Table 5.",
        )
        for name, symbol, end in (
            ("turning_epoch", "e_t", -1),
            ("divisor", "β", -1),
            ("focusing", "γ", 0),
        )
    ),
    Claim(
        "losing-less-equation-9",
        "Eq. 9",
        "Its norm as printed, or squared as Eq. 7 means it, makes no difference.",
        on(("mnist",), Difference, Runs(EQUATION_9, "as printed"), COMPOSITE, "alike"),
        RULED,
        remark="A question of this study's, which decides how the loss is read.",
    ),
)

_WHY = tuple(
    Claim(
        f"losing-less-{name}",
        where,
        says,
        on(SMALL, Difference, _inside(first), _inside(second), quantity=quantity),
        ruled,
        headline=name == "logits",
    )
    for name, where, says, first, second, quantity, ruled in (
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
            "Section 4.2, Figures 1 and 7",
            "With the composite loss gradients are smaller.",
            *("cross-entropy", "composite", GRADIENT_NORM, RULED_OF_SENTENCES),
        ),
        (
            "cosine",
            "Section 4.2, Figures 1 and 8",
            "Clipping turns the mean gradient less with the composite loss.",
            *("composite", "cross-entropy", COSINE, RULED),
        ),
        (
            "curvature",
            "Section 3.2, Figure 2",
            "The largest singular value of the Hessian is smaller with the composite loss.",
            *("cross-entropy", "composite", CURVATURE, RULED),
        ),
    )
)

_CLASSES = tuple(
    Claim(
        f"losing-less-class-{stated.name}",
        "Section 4.2, Figure 9",
        f"The composite loss has more of class {stated.name} right after epoch {stated.epoch}.",
        on(
            (stated.dataset,),
            Difference,
            _inside("composite"),
            _inside("cross-entropy"),
            quantity=ClassAccuracy(
                "confusion.counts",
                f"accuracy on class {stated.name}",
                share=True,
                number=CLASSES[stated.dataset].index(stated.name),
                epoch=stated.epoch,
            ),
        ),
        RULED_OF_SENTENCES,
    )
    for stated in CLASS_ACCURACIES
)

CLAIMS = (
    _TRAINING
    + _ON_FEATURES
    + _ABLATION
    + _WHY
    + _CLASSES
    + propositions(
        (equations, mean_value, convergence),
        headlines=("gradient-norm-sum", "smoothness", "sse-exponential"),
    )
)
