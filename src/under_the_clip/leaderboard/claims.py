"""What a paper claims over another one: claims whose rules compare runs of two papers."""

from __future__ import annotations

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Difference, Untested, on
from under_the_clip.backpropagation_clipping.experiments import AGAINST_FLAT
from under_the_clip.tempered_sigmoids.searches import TABLE_3_SEARCH

BACKPROPAGATION_CLIPPING = (
    Claim(
        "backprop-better-than-tempered",
        "Section 1, Table 1",
        "It is more accurate than tempered sigmoids, at a smaller ε.",
        on(
            ("mnist", "fashion-mnist"),
            Difference,
            Runs(AGAINST_FLAT, "backpropagation clipping, best"),
            Runs(TABLE_3_SEARCH, "tanh, private, best"),
        )
        | {"cifar-10": Untested("its network takes days on the cores of this study")},
        moment("2026-11-27 15:45"),
        headline=True,
        remark="Each at its best of a search, tempered sigmoids at no more true ε.",
    ),
)
