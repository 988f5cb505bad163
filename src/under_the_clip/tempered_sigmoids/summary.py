"""The front page's row on tempered sigmoids."""

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.wording import points
from dpstudy.parts.data.images import DATASETS
from under_the_clip.tempered_sigmoids.published import NUMBERS
from under_the_clip.verdicts import gains


def what_is_left(judged: Ledger) -> tuple[str, str]:
    """Return what the paper claims, and what is left of it."""
    published = []
    for entry in judged.entries:
        if entry.claim.id == "table-3-gain":
            better, worse = (
                NUMBERS[f"{entry.dataset}, DP-SGD, {kind}"].value
                for kind in ("tempered sigmoid", "relu")
            )
            published.append(f"{points(better - worse, 1)} on {DATASETS[entry.dataset]}")
    claimed = f"A bounded activation in place of relu: {', '.join(published)}, at the same ε."
    gained = gains(judged, "table-3-gain")
    return claimed, f"Each at the best of a search, on CIFAR-10 of its rate alone: {gained}"
