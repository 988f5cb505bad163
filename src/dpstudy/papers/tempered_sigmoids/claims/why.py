"""Which members are good, and why: Figures 2, 4 and 5, and fairness."""

from __future__ import annotations

from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.quantity import (
    ACTIVATIONS,
    ACTIVATIONS_SINCE_START,
    CLASS_SPREAD,
    CLIPPED,
    GRADIENT_NORM,
    GRADIENTS,
    GRADIENTS_SINCE_START,
)
from dpstudy.ledger.rules import (
    Difference,
)
from dpstudy.papers.tempered_sigmoids import searches
from dpstudy.papers.tempered_sigmoids.claims.common import (
    ALL,
    BEST,
    OWN_BEST,
    RELU,
    SHARE,
    SWEEP,
    C,
    F,
    M,
    apart,
    best_triplet,
    claim,
    cluster,
    gain,
    measured,
    quoted,
    shared,
    times,
    trained,
    value,
)
from dpstudy.papers.tempered_sigmoids.experiments import FIGURE_3
from dpstudy.papers.tempered_sigmoids.rules import Ranks, Share

FAMILY = (
    claim(
        "figure-2-best",
        "text on Figure 2",
        "The accuracy of the best triplet (s, T, o).",
        value(ALL, BEST, best_triplet, quoted, True),
        headline=True,
        remark="The best at one seed is trained with several.",
    ),
    claim(
        "figure-2-gain",
        "text on Figure 2",
        "The best triplet is better than relu by this much at the same ε.",
        gain(ALL, (BEST, RELU), best_triplet, shared("relu")),
    ),
    claim(
        "figure-2-many",
        "Evaluating the Family, text on Figure 2",
        "Many triplets are better than relu, not one alone.",
        {d: Share(SHARE, SWEEP, Runs(FIGURE_3, "relu")) for d in ALL},
        remark="The paper does not say how many; we ask for as many as it averages.",
    ),
    claim(
        "figure-3-enough",
        "text on Figure 3",
        "tanh is in line with the best triplet of Figure 2.",
        apart(ALL, best_triplet, shared("tanh"), "alike"),
        remark="The paper's own for CIFAR-10 are further apart than this rule allows.",
    ),
    claim(
        "figure-2-near-tanh",
        "text before Figure 3, Table 3",
        "The best tenth of the triplets average close to those of tanh.",
        cluster(lambda _: "{} of tanh"),
        headline=True,
        remark='"To a lesser extent for CIFAR10", says the paper.',
    ),
    claim(
        "figure-2-triplet",
        "text on Figure 2",
        "The best tenth of the triplets average to this.",
        cluster(lambda d: f"{d}, {{}} of the best triplets"),
    ),
    claim(
        "layer-wise",
        "Conclusions",
        "Giving each layer its own (s, T, o) is no better than sharing one.",
        {
            M: Difference(
                Runs(searches.LAYER_WISE, "layer-wise, best"),
                Runs(searches.LAYER_WISE, "shared, best"),
                "not above",
            )
        },
        remark="The best of two searches of one size; a larger one for each layer might find more.",
    ),
)

NORMS = (
    claim(
        "figure-4-relu-explodes",
        "text on Figure 4",
        "Under DP-SGD, relu's gradients are more than this factor larger than without privacy.",
        times(
            (M,),
            measured("relu"),
            measured("relu", "not private"),
            GRADIENTS,
            "growth of relu's gradients",
        )
        | apart((F, C), measured("relu"), measured("relu", "not private"), quantity=GRADIENTS),
        OWN_BEST,
        headline=True,
        remark='The factor is printed for MNIST; "the same" elsewhere is read as larger.',
    ),
    claim(
        "figure-4-tanh-does-not",
        "text on Figure 4",
        "Under DP-SGD, the gradients of tanh are at the level of relu's without privacy.",
        times(ALL, measured("tanh"), measured("relu", "not private"), GRADIENTS),
        OWN_BEST,
    ),
    claim(
        "figure-4-ordering",
        "Figure 4 and its text",
        "Under DP-SGD, gradients are larger with relu than with tanh, whose norm is nearer to C.",
        apart(ALL, trained("relu"), trained("tanh"), quantity=GRADIENT_NORM),
        OWN_BEST,
        remark="The mean norm exceeds the clipping norm C with both.",
    ),
    claim(
        "figure-4-less-clipped",
        "Approach",
        "Clipping discards less with tanh than with relu.",
        apart(ALL, trained("relu"), trained("tanh"), quantity=CLIPPED),
        OWN_BEST,
        remark="Read as clipping fewer gradients; how much each of them loses no run records.",
    ),
    claim(
        "figure-5-relu-explodes",
        "Figure 5, footnote 2",
        "Under DP-SGD, relu's first activations are larger than without privacy.",
        apart(ALL, measured("relu"), measured("relu", "not private"), quantity=ACTIVATIONS),
        OWN_BEST,
    ),
    claim(
        "figure-5-tanh-does-not",
        "text on Figure 4 of arXiv v1",
        "Under DP-SGD, the first activations of tanh are at the level of relu's without privacy.",
        times(ALL, measured("tanh"), measured("relu", "not private"), ACTIVATIONS),
        OWN_BEST,
    ),
    claim(
        "temperature-norms",
        "text before and after Eq. 4",
        'T is "a knob to control the norm of the gradient" of a deep network too.',
        {d: Ranks(SWEEP, "inverse_temperature", GRADIENT_NORM) for d in ALL},
        remark="Over the sweep of Figure 2 under DP-SGD, in which s and o vary too.",
    ),
    claim(
        "figure-4-relu-rises",
        "Introduction",
        "relu's gradients before clipping grow as training under DP-SGD progresses.",
        apart(ALL, measured("relu"), measured("relu"), quantity=GRADIENTS_SINCE_START),
        OWN_BEST,
        headline=True,
        remark="From before the first step to after the last, for any growth.",
    ),
    claim(
        "figure-5-relu-rises",
        "Introduction",
        "relu's activations grow as training under DP-SGD progresses.",
        apart(ALL, measured("relu"), measured("relu"), quantity=ACTIVATIONS_SINCE_START),
        OWN_BEST,
        remark="From before the first step to after the last, for any growth.",
    ),
    claim(
        "fairness-ordering",
        "Broader Impact",
        "The accuracies of the classes spread less with tanh than with relu.",
        apart(ALL, trained("relu"), trained("tanh"), quantity=CLASS_SPREAD),
        OWN_BEST,
        headline=True,
        remark="The paper names no dataset and no unit.",
    ),
    claim(
        "fairness-factor",
        "Broader Impact",
        "They spread this many times more with relu than with tanh.",
        times(
            ALL,
            trained("relu"),
            trained("tanh"),
            CLASS_SPREAD,
            "class spread, relu",
            "class spread, tanh",
        ),
        OWN_BEST,
    ),
)
