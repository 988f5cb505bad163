"""The rule for a claimed ε that follows from published settings alone, where no run is trained."""

import math
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import ClassVar

from dpstudy.claims.claim import moment
from dpstudy.claims.evidence import Evidence
from dpstudy.claims.rules import Rule
from dpstudy.lab.published import Number
from dpstudy.lab.verdict import Outcome, graded
from dpstudy.lab.wording import epsilon
from dpstudy.privacy.conversions import gdp_epsilon
from under_the_clip.backpropagation_clipping.published import BackpropagationClipping
from under_the_clip.published import DELTA


@dataclass(frozen=True)
class Accounted(Rule):
    """What published settings are proven to cost, without a run, is at most the quoted ε."""

    published: Number
    setting: BackpropagationClipping
    kind: ClassVar[str] = "accounted"
    changed: ClassVar[datetime] = moment("2026-11-27 15:33")
    full: ClassVar[str] = (
        "The ε that is proven of the published settings, without a run, is at most the quoted one, "
        "rounded to as many digits."
    )

    def judge(self, evidence: Evidence, dataset: str) -> Outcome:
        """See `Rule`: nothing stored is asked for."""
        proven = _proven(self.setting)
        return Outcome(
            graded(round(proven, self.published.decimals) <= self.published.value, False),
            f"No run is needed: of the published settings ε = {epsilon(proven)} is proven, for "
            "one example blanked. In batches that are the same in every epoch some gradients "
            "within the clips cost all of it.",
            {"proven": proven},
            f"ε {epsilon(proven)}",
        )


@lru_cache
def _proven(setting: BackpropagationClipping) -> float:
    return gdp_epsilon(math.sqrt(2 * setting.proven_rho), DELTA)
