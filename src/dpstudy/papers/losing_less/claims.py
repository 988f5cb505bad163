"""What "Losing Less" (Shamsabadi and Papernot, PoPETs 2023) claims: so far its propositions."""

from __future__ import annotations

from dpstudy.ledger.claim import propositions
from dpstudy.papers.losing_less.propositions import convergence, equations, mean_value

CLAIMS = propositions(
    (
        equations,
        mean_value,
        convergence,
    ),
    headlines=(
        "gradient-norm-sum",
        "smoothness",
        "sse-exponential",
    ),
)
