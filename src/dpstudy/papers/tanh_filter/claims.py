"""What the tanh filter's paper (Amian, 2022) claims: so far its propositions."""

from __future__ import annotations

from dpstudy.ledger.claim import propositions
from dpstudy.papers.tanh_filter.propositions import sensitivity

CLAIMS = propositions(
    (sensitivity,),
    headlines=(
        "tanh-filter-sensitivity-one",
        "tanh-filter-root-n",
    ),
)
