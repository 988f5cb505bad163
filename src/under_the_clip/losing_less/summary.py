"""The front page's row on losing less."""

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.verdict import Verdict
from under_the_clip.losing_less.published import NUMBERS
from under_the_clip.verdicts import gains, holds


def what_is_left(judged: Ledger) -> tuple[str, str]:
    """Return what the paper claims, and what is left of it."""
    before, after = (
        100 * NUMBERS[f"cifar-10, {loss}"].value for loss in ("cross-entropy", "composite")
    )
    early = [e.outcome.verdict for e in judged.entries if e.claim.id == "losing-less-early-most"]
    most = "It gains most early, as the paper says. " * (set(early) == {Verdict.REPRODUCED})
    false = "is false: it adds norms where the true bound multiplies them. Small weights and "
    eq_11 = (
        "holds"
        if holds(judged, "gradient-norm-sum")
        else f"{false}activations still bound gradients"
    )
    return (
        f"Another loss under a curriculum: {before:.1f} to {after:.1f} % on CIFAR-10 at ε < 3.",
        f"{most}Against cross-entropy at the paper's settings, at the end: "
        f"{gains(judged, 'losing-less-better')} "
        f"Each at its own best rate: {gains(judged, 'losing-less-better-at-equal-effort')} "
        f"The bound behind its penalty, Eq. 11, {eq_11}.",
    )
