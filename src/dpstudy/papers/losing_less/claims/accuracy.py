"""Claims on accuracy, end to end and on scattering features (Section 4.1, Figures 3 and 4)."""

from __future__ import annotations

from dpstudy.ledger.claim import Claim, moment
from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.published import Number
from dpstudy.ledger.quantity import WithinEpsilon
from dpstudy.ledger.rules import Difference, Gain, Largest, OnDataset, Throughout, Value, on
from dpstudy.papers.losing_less.claims.common import (
    ALL,
    CE,
    COMPOSITE,
    RULED,
    RULED_OF_SENTENCES,
    RULED_OF_THE_MOST,
    SMALL,
)
from dpstudy.papers.losing_less.experiments import EQUAL_EFFORT, FIGURE_4, FREE
from dpstudy.papers.losing_less.published import NUMBERS

RULED_ON_FEATURES = moment("2026-11-25 00:20")
FEATURES_CE, FEATURES_COMPOSITE = (
    Runs(FIGURE_4, label) for label in ("cross-entropy", "composite")
)
EPSILON = NUMBERS["epsilon"]
BELOW_1_5 = WithinEpsilon(
    "test_accuracy", "test accuracy at a true ε < 1.5", share=True, epsilon=1.5
)
BELOW_1_5_THEN = WithinEpsilon(
    "test_accuracy",
    "test accuracy at ε < 1.5 (RDP 2019)",
    share=True,
    epsilon=1.5,
    accountant="rdp-2019",
)
BELOW_3 = WithinEpsilon(
    "test_accuracy",
    "test accuracy at ε < 3 (RDP 2019)",
    share=True,
    epsilon=3.0,
    accountant="rdp-2019",
)
BELOW_2 = WithinEpsilon(
    "test_accuracy",
    "test accuracy at ε < 2 (RDP 2019)",
    share=True,
    epsilon=2.0,
    accountant="rdp-2019",
)


def _of(name: str) -> OnDataset[Number]:
    return lambda dataset: NUMBERS[f"{dataset}, {name}"]


_AS_MANY_EPOCHS = (
    "At ε by the accounting of the paper's time, so that as many epochs fit in as in the paper."
)
TRAINING = (
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
        "The accuracy of the composite loss: the most over five runs at ε < 3.",
        on(
            ("cifar-10",),
            Largest,
            _of("composite"),
            COMPOSITE,
            at_least=True,
            quantity=BELOW_3,
        ),
        RULED_OF_THE_MOST,
        headline=True,
        remark="The paper says that of cross-entropy's; it is taken to hold of both.",
    ),
    Claim(
        "losing-less-cross-entropy-accuracy",
        "Section 4.1",
        "The accuracy of cross-entropy: the most over five runs at ε < 3.",
        on(ALL, Largest, _of("cross-entropy"), CE, quantity=BELOW_3),
        RULED_OF_THE_MOST,
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

ON_FEATURES = (
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
        "losing-less-features-above-pixels",
        "Section 4.1",
        "With cross-entropy a network on scattering features ends above one on pixels.",
        on(ALL, Difference, FEATURES_CE, CE),
        RULED_OF_THE_MOST,
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
