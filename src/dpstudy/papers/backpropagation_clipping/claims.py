"""What "Backpropagation Clipping" (Stevens et al., 2022) and its authors' later code claim.

So far the propositions. Not listed: what the paper leaves out itself (padding and bias of
convolutions), and neighbours that it does not name; the chapter on propositions has both.
"""

from __future__ import annotations

from dpstudy.ledger.claim import propositions
from dpstudy.papers.backpropagation_clipping.propositions import (
    concentrated,
    convolution_sensitivity,
    layer_sensitivity,
)

CLAIMS = propositions(
    (
        layer_sensitivity,
        convolution_sensitivity,
        concentrated,
    ),
    headlines=(
        "layer-sensitivity",
        "layer-sensitivity-mean-loss",
        "privacy-of-the-run",
        "corrected-code-targets",
    ),
)
