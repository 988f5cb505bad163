"""What the tanh filter's paper (Amian, 2022) claims.

Its figures have no numbers in the text; their legends are not in the text that we have.
"""

from __future__ import annotations

from dpstudy.ledger.claim import Claim, moment, propositions
from dpstudy.ledger.evidence import Runs
from dpstudy.ledger.rules import Difference
from dpstudy.papers.tanh_filter.experiments import CIFAR_10, FIGURES
from dpstudy.papers.tanh_filter.propositions import sensitivity

RULED = moment("2026-11-24 23:18")
SETTINGS = "In the tutorial's settings, since the paper prints neither network, rate nor epochs."


def _runs(label: str) -> Runs:
    return Runs(FIGURES, label)


_TRAINING = (
    Claim(
        "tanh-filter-better",
        "Section IV, Figures 2 and 3",
        "With the same noise, the filter is more accurate than DP-SGD.",
        {
            dataset: Difference(Runs(runs, "range 1"), Runs(runs, "DP-SGD"))
            for dataset, runs in (("mnist", FIGURES), ("cifar-10", CIFAR_10))
        },
        RULED,
        headline=True,
        remark=SETTINGS,
    ),
    Claim(
        "tanh-filter-range",
        "Section IV, Figures 2 and 3",
        "The range of the filter's output has no significant effect on accuracy.",
        {"mnist": Difference(_runs("range 5"), _runs("range 1"), "alike")},
        RULED,
        remark="Five times the range against the range as it is.",
    ),
    Claim(
        "tanh-filter-expansion",
        "Section IV, Figures 4 and 5",
        "A larger expansion of the active range lowers the accuracy.",
        {"mnist": Difference(_runs("expanded by 2"), _runs("expanded by 10"))},
        RULED,
        remark="Twice the range against ten times.",
    ),
)

CLAIMS = _TRAINING + propositions(
    (sensitivity,),
    headlines=("tanh-filter-sensitivity-one", "tanh-filter-root-n"),
)
