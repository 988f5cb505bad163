"""What the claims share: datasets, dates, and published numbers by dataset."""

from __future__ import annotations

from functools import partial

from dpstudy.claims.claim import Claim, moment
from dpstudy.claims.rules import OnDataset
from dpstudy.claims.rules.measures import BY_INTERVALS
from dpstudy.lab.published import Number
from under_the_clip.tempered_sigmoids.published import NUMBERS

M, F, C = "mnist", "fashion-mnist", "cifar-10"
TWO, ALL = (M, F), (M, F, C)
# By when what they ask of the runs was last changed, unless said otherwise: to intervals; and later
# to each activation at its own best setting.
claim = partial(Claim, ruled=BY_INTERVALS)
later_claim = partial(Claim, ruled=moment("2026-11-24 20:10"))
# What the paper says and the first lists left out: ruled after the runs.
claim_after = partial(Claim, ruled=moment("2026-11-26 18:20"))
# Judged anew when the study was recomputed from outside; so are variants that are since then paired
# by the seeds that both have.
AGAIN = moment("2026-11-28 14:30")


def of(name: str) -> OnDataset[Number]:
    """Return the published number of that name on a dataset."""
    return lambda dataset: NUMBERS[f"{dataset}, {name}"]


EPSILON, RELU, TEMPERED = map(of, ("epsilon", "DP-SGD, relu", "DP-SGD, tempered sigmoid"))
