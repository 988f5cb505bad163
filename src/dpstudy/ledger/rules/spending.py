"""What runs spent, proven and by the accounting of a paper's time, against what it quotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpstudy.ledger.evidence import Selector, Trained
from dpstudy.ledger.published import Number
from dpstudy.ledger.rules.measures import only
from dpstudy.ledger.rules.rule import Rule
from dpstudy.ledger.verdict import Outcome, UndecidedError, graded
from dpstudy.ledger.wording import rounded_down

_PROVEN = ("pld", "shuffled-pld")
_OF_ITS_TIME = ("rdp-2019", "claimed-rdp-2019")
_AT_LEAST = "shuffled-at-least"
_PROOF = {
    "poisson": "(Poisson sampling) ε = {:.3g} is proven",
    "shuffled": "(shuffled batches) ε = {:.3g} is proven, and that for one example blanked, not "
    "added or removed",
}
_NO_LESS = ", and from clipping, noise and shuffling alone less than {} cannot be proven"


@dataclass(frozen=True)
class AtEpsilon(Rule):
    """What a run spent, proven for the sampling it performed, is at most the quoted epsilon.

    Attributes:
        variant: whose runs.
    """

    variant: Selector
    kind: ClassVar[str] = "at-epsilon"
    full: ClassVar[str] = (
        "The proven ε of the runs, for the sampling they performed, is at most the quoted one."
    )
    # A bound on privacy that is exceeded is not kept in part.
    partial: ClassVar[str] = "Never."
    numbers: ClassVar[tuple[int, ...]] = (1,)

    def decide(self, published: tuple[Number, ...], *sides: Sequence[Trained]) -> Outcome:
        """See `Rule`."""
        [quoted], [variant] = published, only(sides[0])
        spent, old = variant.epsilon(*_PROVEN), variant.epsilon(*_OF_ITS_TIME)
        if spent is None or old is None:
            raise UndecidedError(f"no epsilon is stored for {variant.label}")
        holds = round(spent, quoted.decimals) <= quoted.value
        proof = _PROOF[variant.run.sampling.kind].format(spent)
        ours = {"proven": spent, "of_its_time": old}
        if (least := variant.epsilon(_AT_LEAST)) is not None:
            proof += _NO_LESS.format(rounded_down(least))
            ours["at_least"] = least
        return Outcome(
            graded(holds, False),
            f"For the runs of {variant.label} {proof}; the accounting of the paper's time says "
            f"{old:.3g}.",
            ours,
            f"{spent:.3g}",
        )


def require_enough_spent(variant: Trained, quoted: Number) -> None:
    """Hold that a failure to reach a number is not for want of epsilon.

    Raises:
        UndecidedError: by the accounting of the time the runs spent less than is quoted.
    """
    old = variant.epsilon(*_OF_ITS_TIME)
    if old is None or round(old, quoted.decimals) < quoted.value:
        spent = "nothing" if old is None else f"ε = {old:.3g}"
        raise UndecidedError(
            f"the runs of {variant.label} spent {spent} by the accounting of the paper's time, "
            f"less than the {quoted} that the number is published for"
        )


def require_no_more_spent(variant: Trained, quoted: Number) -> None:
    """Hold that a success is not bought with more epsilon than is quoted.

    Raises:
        UndecidedError: what the runs are proven to spend is more, or is unknown.
    """
    proven = variant.epsilon(*_PROVEN)
    if proven is None or round(proven, quoted.decimals) > quoted.value:
        spent = "an unknown ε" if proven is None else f"ε = {proven:.3g}"
        raise UndecidedError(
            f"the runs of {variant.label} spent {spent}, proven, more than the {quoted} that the "
            "number is published for"
        )


def spent(variant: Trained) -> str:
    """Say what the runs of a variant spent, as an appendix to a sentence; nothing if unknown."""
    proven, old = variant.epsilon(*_PROVEN), variant.epsilon(*_OF_ITS_TIME)
    if proven is None or old is None:
        return ""
    return f"; ε = {proven:.3g} proven, {old:.3g} by the accounting of the paper's time"
