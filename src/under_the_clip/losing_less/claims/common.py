"""What several of this paper's claims share: when they were ruled, and the runs of Figure 3."""

from __future__ import annotations

from dpstudy.claims.claim import moment
from dpstudy.claims.evidence import Runs
from dpstudy.claims.rules import Rule, Untested, on
from under_the_clip.losing_less.experiments import FIGURE_3

RULED = moment("2026-11-25 00:00")
RULED_OF_SENTENCES = moment("2026-11-26 03:58")
RULED_OF_THE_MOST = moment("2026-11-26 22:10")
# After a second reading of the paper.
RULED_AGAIN = moment("2026-11-27 15:35")
# After the study was recomputed from outside; since then variants are paired by the seeds that both
# have.
RULED_WITH_MORE = moment("2026-11-28 14:30")
SMALL, ALL = ("mnist", "fashion-mnist"), ("mnist", "fashion-mnist", "cifar-10")
CE, COMPOSITE = (Runs(FIGURE_3, label) for label in ("cross-entropy", "composite"))


def on_small(rule: type[Rule], *about: object, **options: object) -> dict[str, Rule]:
    """Return a rule on the small datasets; on CIFAR-10, of which the paper says it too, none."""
    lacking = on(("cifar-10",), Untested, "it was not run on CIFAR-10")
    return on(SMALL, rule, *about, **options) | lacking
