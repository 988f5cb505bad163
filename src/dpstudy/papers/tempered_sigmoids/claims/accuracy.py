"""What the activation brings: Table 3, Figure 3, Table 4, and at what ε."""

from __future__ import annotations

from dpstudy.ledger.claim import moment
from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.quantity import (
    EPOCHS,
)
from dpstudy.ledger.rules import (
    Difference,
    Spent,
    Throughout,
    Untested,
    Value,
)
from dpstudy.papers.tempered_sigmoids import experiments
from dpstudy.papers.tempered_sigmoids.claims.common import (
    ALL,
    BASELINE,
    BUDGETS,
    OWN_BEST,
    RATES,
    RELU,
    SHARED,
    TEMPERED,
    TUTORIAL_EPSILON,
    TWO,
    F,
    M,
    apart,
    at_3,
    claim,
    free,
    gain,
    in_3,
    in_tutorial,
    of,
    own,
    quoted,
    shared,
    table_4,
    trained,
    untested,
    value,
)
from dpstudy.papers.tempered_sigmoids.experiments import FIGURE_3, TABLE_4, TUTORIAL
from dpstudy.papers.tempered_sigmoids.published import NUMBERS
from dpstudy.papers.tempered_sigmoids.rules import BestRate, RatesApart

TRAINING = (
    claim(
        "above-relu",
        "Abstract",
        "A bounded activation trains better than relu under DP-SGD.",
        apart(ALL, own("tanh"), own("relu")),
        OWN_BEST,
        headline=True,
        remark="tanh and relu, each at its own best setting.",
    ),
    claim(
        "above-relu-shared",
        "Abstract",
        "The same at one setting for both.",
        {
            d: Difference(Runs(FIGURE_3, "tanh"), Runs(FIGURE_3, "relu"), trains=of(d, RELU))
            for d in ALL
        },
        OWN_BEST,
        remark="That of our Figure 3.",
    ),
    claim(
        "no-worse",
        "Introduction, Evaluating the Family",
        "A tempered sigmoid, here tanh, does no worse than relu.",
        apart(ALL, own("relu"), own("tanh"), "not above"),
        OWN_BEST,
        remark="Each at its own best setting.",
    ),
    claim(
        "table-3-tempered",
        "Introduction, Table 3",
        "The accuracy of tempered sigmoids, here tanh, under DP-SGD.",
        value(ALL, TEMPERED, own("tanh"), quoted, True),
        OWN_BEST,
        headline=True,
        remark="The best of a search, as in the paper.",
    ),
    claim(
        "figure-3-tanh",
        "text on Figure 3",
        "The accuracy of tanh, with everything else as for relu.",
        value(ALL, "DP-SGD, tanh", shared("tanh"), quoted, True),
        remark=SHARED,
    ),
    claim(
        "introduction-epsilon",
        "Introduction",
        "Tempered sigmoids reach the accuracy of Table 3 at an ε below 3.",
        value(ALL, TEMPERED, at_3("tanh"), in_3, True),
        OWN_BEST,
    ),
    claim(
        "table-3-relu",
        "Table 3",
        "The accuracy of relu under DP-SGD.",
        value(ALL, RELU, own("relu")),
        OWN_BEST,
        headline=True,
        remark="The best of a search, as in the paper.",
    ),
    claim(
        "table-3-relu-shared",
        "Table 3",
        "The same at one setting for both.",
        value(ALL, RELU, shared("relu")),
        remark="That of our Figure 3.",
    ),
    claim(
        "baseline-relu",
        "Experimental Setup, Table 3",
        "The state of the art, which the paper says it reproduces with relu exactly.",
        {M: Value(BASELINE, Runs(TUTORIAL, "relu"), TUTORIAL_EPSILON)}
        | untested("the paper prints no settings", RELU),
        remark="In the settings of the tutorial that reports it, from Glorot's weights.",
    ),
    claim(
        "baseline-relu-he",
        "Experimental Setup, Table 3",
        "The same from the initial weights that the tutorial's script draws.",
        {M: Value(BASELINE, Runs(TUTORIAL, "relu, He"), TUTORIAL_EPSILON)},
    ),
    claim(
        "baseline-as-scripted",
        "the tutorial that the baseline is from",
        "The same of the network as the tutorial's script has it, with no activation.",
        {M: Value(BASELINE, Runs(TUTORIAL, "as scripted"), TUTORIAL_EPSILON)},
    ),
    claim(
        "baseline-relu-later",
        "the same tutorial, later",
        "The accuracy of relu in the settings of the later script, which has relu.",
        {
            M: Value(
                NUMBERS["relu, in the later tutorial"],
                Runs(TUTORIAL, "relu, later"),
                NUMBERS["epsilon of the later tutorial"],
            )
        },
    ),
    claim(
        "table-3-gain",
        "Table 3 and its text",
        "Tempered sigmoids gain this much over relu at the same ε.",
        gain(ALL, (TEMPERED, RELU), own("tanh"), own("relu")),
        OWN_BEST,
        headline=True,
        remark="Each at its own best setting.",
    ),
    claim(
        "table-3-gain-shared",
        "Table 3 and its text",
        "The same at one setting for both.",
        gain(ALL, (TEMPERED, RELU), shared("tanh"), shared("relu")),
        remark="That of our Figure 3.",
    ),
    claim(
        "introduction-gain",
        "Introduction",
        "The same at an ε below 3.",
        gain(ALL, (TEMPERED, f"{RELU}, in the introduction"), at_3("tanh"), at_3("relu"), in_3),
        OWN_BEST,
    ),
    claim(
        "baseline-gain",
        "text on Figure 3 for tanh, Table 3 for relu",
        "The same in the settings of the baseline and at its ε.",
        gain(
            (M,),
            ("DP-SGD, tanh", RELU),
            in_tutorial("tanh"),
            in_tutorial("relu"),
            lambda _: TUTORIAL_EPSILON,
        ),
    ),
    claim(
        "table-3-no-search",
        "text on Table 3",
        'The results "do not call for large-scale hyperparameter finetuning".',
        apart(ALL, own("tanh"), shared("tanh"), "alike"),
        OWN_BEST,
        remark="tanh at the one setting of our Figure 3 against the best of a search.",
    ),
    claim(
        "table-3-not-private",
        "Table 3",
        "The accuracy of relu without privacy.",
        value(ALL, "SGD, relu", free("relu"), None),
        OWN_BEST,
        headline=True,
    ),
    claim(
        "text-tanh",
        "text on Figure 2",
        "The accuracy of tanh without privacy.",
        value(TWO, "SGD, tanh", free("tanh"), None),
    ),
    claim(
        "text-alike",
        "text on Figure 2",
        "Without privacy, relu and tanh are equally good.",
        apart(TWO, free("relu"), free("tanh"), "alike"),
    ),
    claim(
        "table-3-cost",
        "Table 3",
        "What privacy still costs: from relu without it to tempered sigmoids with it.",
        gain(ALL, ("SGD, relu", TEMPERED), free("relu"), own("tanh"), at_least=False),
        OWN_BEST,
    ),
    claim(
        "figure-3-throughout",
        "text on Figure 3",
        "tanh is above relu whatever ε has been spent.",
        {d: Throughout(trained("tanh")(d), trained("relu")(d)) for d in ALL},
        OWN_BEST,
        headline=True,
        remark="At one setting for both; on CIFAR-10 each at its own best rate.",
    ),
    claim(
        "faster-convergence",
        "Introduction",
        "Tempered sigmoids converge faster than relu.",
        apart(ALL, trained("relu"), trained("tanh"), quantity=EPOCHS),
        OWN_BEST,
        remark="By the epochs to the accuracy at which relu ends, in those runs.",
    ),
)

SPENDING = (
    claim(
        "true-epsilon",
        "Experimental Setup, Table 3",
        "Training costs at most this ε.",
        {M: Spent(quoted(M), Runs(TUTORIAL, "relu"))}
        | untested("neither the paper nor what it cites prints the noise", "epsilon"),
        BUDGETS,
        headline=True,
        remark="The baseline, with batches drawn as the accounting assumes.",
    ),
    claim(
        "true-epsilon-shuffled",
        "Experimental Setup, Table 3",
        "The same with shuffled batches, as the library that the paper cites forms them.",
        {d: Spent(quoted(d), Runs(experiments.SHUFFLED, "tanh")) for d in TWO},
        moment("2026-11-21 13:32"),
        remark='At the noise of "Losing less", which the accounting of the time puts near this ε.',
    ),
    claim(
        "epsilon-accuracy",
        "Experimental Setup",
        "With stronger guarantees than the quoted ε, the accuracy of the baseline is lower.",
        apart((M,), lambda _: Runs(experiments.FIGURE_3_CALIBRATED, "relu"), shared("relu")),
        remark="relu with the noise that spends it all, against the larger one of our Figure 3.",
    ),
)

OPTIMIZERS = (
    claim(
        "table-4-alike",
        "text on Table 4",
        'With privacy, the optimizer "does not influence results as much" as the learning rate.',
        apart((F,), table_4("SGD, private"), table_4("Adam, private"), "alike"),
        headline=True,
        remark="Read as equally good, once each has its best rate.",
    ),
    claim(
        "table-4-alike-not-private",
        "text on Table 4",
        "The same without privacy.",
        apart((F,), table_4("SGD, not private"), table_4("Adam, not private"), "alike"),
    ),
    *(
        claim(
            f"table-4-{name.lower()}",
            "Table 4",
            f"The accuracy of {name} at its best learning rate.",
            value((F,), f"{name}, searched", table_4(technique), *options),
        )
        for name, technique, *options in (
            ("DP-SGD", "SGD, private", quoted, True),
            ("DP-Adam", "Adam, private", quoted, True),
            ("SGD", "SGD, not private", None),
            ("Adam", "Adam, not private", None),
        )
    ),
    *(
        claim(
            f"table-4-learning-rate-{name.lower()}",
            "Table 4",
            f"The best learning rate of {name}.",
            {F: BestRate(NUMBERS[f"learning rate, {name}"], Runs(TABLE_4, f"{technique}, [0-9]*"))},
            RATES,
        )
        for name, technique in (
            ("DP-Adam", "Adam, private"),
            ("SGD", "SGD, not private"),
            ("Adam", "Adam, not private"),
        )
    ),
    claim(
        "table-4-learning-rate-dp-sgd",
        "Table 4",
        "The best learning rate of DP-SGD.",
        {
            F: Untested(
                "it scales with the inverse of a clipping norm that is not printed",
                (NUMBERS["learning rate, DP-SGD"],),
            )
        },
        RATES,
    ),
    claim(
        "table-4-rates-differ",
        "text on Table 4",
        "The best learning rates differ with privacy and without, here those of Adam.",
        {
            F: RatesApart(
                (NUMBERS["learning rate, DP-Adam"], NUMBERS["learning rate, Adam"]),
                Runs(TABLE_4, "Adam, private, best"),
                Runs(TABLE_4, "Adam, not private, best"),
            )
        },
        RATES,
        remark="The paper's own are less far apart than this rule asks.",
    ),
)
