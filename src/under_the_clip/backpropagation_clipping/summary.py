"""The front page's row on backpropagation clipping."""

from dpstudy.claims.ledger import Ledger
from under_the_clip.backpropagation_clipping.published import ACCURACIES, BACKPROPAGATION_CLIPPING
from under_the_clip.verdicts import gains, holds


def what_is_left(judged: Ledger) -> tuple[str, str]:
    """Return what the paper claims, and what is left of it."""
    mnist = BACKPROPAGATION_CLIPPING[0]
    [accuracy] = (
        value.accuracy
        for value in ACCURACIES
        if (value.dataset, value.method) == ("mnist", "as published")
    )
    targets = "gives" if holds(judged, "corrected-code-targets") else "does not give"
    # It has the paper's accounting, and noise for the sensitivity that is proven.
    first = "holds" if holds(judged, "privacy-of-the-run") else "is not proven"
    return (
        f"Clips inside backpropagation: {100 * accuracy:.1f} % on MNIST at ε = "
        f"{mnist.claimed_epsilon:g}.",
        "The ε is wrong, if its tables come from the public code, as we infer: there the "
        "sensitivity, but not the clip, is divided by the batch size, so that "
        f"the noise was {mnist.batch:,} times too small. The ε of the first correction of the code "
        f"{first}; the noise of the second {targets} the ε that it aims at. "
        f"Against flat clipping, both at a true ε of 3: {gains(judged, 'backprop-better')} "
        f"Against tempered sigmoids: {gains(judged, 'backprop-better-than-tempered')}",
    )
