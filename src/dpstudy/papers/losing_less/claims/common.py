"""What several of this paper's claims share: when they were ruled, and the runs of Figure 3."""

from __future__ import annotations

from dpstudy.ledger.claim import moment
from dpstudy.ledger.evidence import Runs
from dpstudy.papers.losing_less.experiments import FIGURE_3

RULED = moment("2026-11-25 00:00")
RULED_OF_SENTENCES = moment("2026-11-26 03:58")
RULED_OF_THE_MOST = moment("2026-11-26 22:10")
SMALL, ALL = ("mnist", "fashion-mnist"), ("mnist", "fashion-mnist", "cifar-10")
CE, COMPOSITE = (Runs(FIGURE_3, label) for label in ("cross-entropy", "composite"))
