"""The front page: what each paper claimed, what is left of it, and how its claims stand."""

from __future__ import annotations

import pandas as pd

from dpstudy.ledger.ledger import Entry, Ledger
from dpstudy.ledger.verdict import Verdict
from dpstudy.ledger.wording import points
from dpstudy.page.figure import Table
from dpstudy.papers.backpropagation_clipping import published as backpropagation_clipping
from dpstudy.papers.losing_less import published as losing_less
from dpstudy.papers.tempered_sigmoids.published import NUMBERS
from dpstudy.parts.images import DATASETS


def what_is_left(judged: Ledger) -> Table:
    """Return a row a paper: what it claimed, what is left, and a count of its verdicts."""
    said = {
        "tempered sigmoids": _tempered_sigmoids(judged),
        "losing less": _losing_less(judged),
        "backpropagation clipping": _backpropagation_clipping(judged),
        "tanh filter": _tanh_filter(judged),
    }
    rows = [
        {
            "paper": paper,
            "claimed": claimed,
            "what is left": left,
            "verdicts": _counts(judged, paper),
        }
        for paper, (claimed, left) in said.items()
    ]
    return Table(
        name="what-is-left",
        caption=(
            "The four papers: what each changes and promises, what is left of it here so far, and "
            "the verdicts on its claims."
        ),
        data=pd.DataFrame(rows),
    )


def _entry(judged: Ledger, name: str) -> Entry:
    return next(entry for entry in judged.entries if entry.id == name)


def _holds(judged: Ledger, name: str) -> bool:
    return _entry(judged, name).outcome.verdict is Verdict.REPRODUCED


def _tempered_sigmoids(judged: Ledger) -> tuple[str, str]:
    published, ours, missing = [], [], []
    for dataset, name in DATASETS.items():
        key = f"table-3-gain-{dataset}"
        if key not in {entry.id for entry in judged.entries}:
            continue
        better, worse = (
            NUMBERS[f"{dataset}, DP-SGD, {kind}"].value for kind in ("tempered sigmoid", "relu")
        )
        published.append(f"{points(better - worse, 1)} on {name}")
        if "difference" in (found := _entry(judged, key).outcome.ours):
            low, high = (f"{100 * found[f'difference_{end}']:.2f}" for end in ("low", "high"))
            interval = f"{low} to {high}".replace("-", "−")
            ours.append(f"{points(found['difference'])} ({interval}) on {name}")
        else:
            missing.append(f"{name} is not run yet")
    claimed = f"A bounded activation in place of relu: {', '.join(published)}, at the same ε."
    still = f" {'; '.join(missing)}." if missing else ""
    return claimed, f"Each at its own best setting: {', '.join(ours)}.{still}"


def _losing_less(judged: Ledger) -> tuple[str, str]:
    before, after = (100 * value.accuracy for value in losing_less.ACCURACIES)
    holds = _holds(judged, "gradient-norm-sum")
    eq_11 = "holds" if holds else "adds norms that have to be multiplied"
    return (
        f"Another loss under a curriculum: {before:.1f} to {after:.1f} % on CIFAR-10 at ε < 3.",
        f"Not re-run yet. The bound behind its penalty, Eq. 11, {eq_11}.",
    )


def _backpropagation_clipping(judged: Ledger) -> tuple[str, str]:
    mnist = backpropagation_clipping.BACKPROPAGATION_CLIPPING[0]
    [accuracy] = (
        value.accuracy
        for value in backpropagation_clipping.ACCURACIES
        if (value.dataset, value.method) == ("mnist", "as published")
    )
    targets = (
        "gives the ε that it aims at"
        if _holds(judged, "corrected-code-targets")
        else "does not give the ε that it aims at"
    )
    return (
        f"Clips inside backpropagation: {100 * accuracy:.1f} % on MNIST at ε = "
        f"{mnist.claimed_epsilon:g}.",
        "The ε is wrong: the sensitivity was divided by the batch size once too often, so that the "
        f"noise was {mnist.batch:,} times too small. The noise of the corrected code {targets}. "
        "Accuracy at a true ε is not re-run yet.",
    )


def _tanh_filter(judged: Ledger) -> tuple[str, str]:
    one = "holds" if _holds(judged, "tanh-filter-sensitivity-one") else "is not one"
    return (
        "An elementwise tanh in place of clipping: more accuracy at the ε of DP-SGD.",
        "The ε is wrong: the paper proves a sensitivity of √n for n parameters and computes with "
        f"1, which {one}. Not re-run yet.",
    )


def _counts(judged: Ledger, paper: str) -> str:
    counted = judged.of(paper).counts
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.items() if count)
