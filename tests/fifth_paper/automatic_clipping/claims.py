"""What "Automatic Clipping" (Bu et al. 2023) claims; not listed: its rates of convergence."""

from __future__ import annotations

from dpstudy.claims.claim import Claim, moment, stated
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Difference, Untested, on
from under_the_clip.automatic_clipping.experiments import NORMS

RULED = moment("2026-11-28 17:00")


def _automatic(than: str, wanted: str) -> dict:
    return on(("mnist",), Difference, Runs(NORMS, "automatic"), Runs(NORMS, than), wanted)


CLAIMS = (
    Claim(
        "automatic-not-below-flat",
        "Abstract",
        "It is as accurate as flat clipping, or more.",
        _automatic("flat", "not below"),
        RULED,
        headline=True,
    ),
    Claim(
        "automatic-needs-no-norm",
        "Section 3",
        "The clipping norm needs no search: it only scales the learning rate.",
        _automatic("automatic, C = 1", "alike"),
        RULED,
    ),
    stated(
        "automatic-on-language",
        "Section 6",
        "It trains language models as well.",
        Untested("no language model is trained here"),
    ),
)
