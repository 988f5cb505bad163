"""The front page: what each paper claimed, and what is left of it."""

from __future__ import annotations

import pandas as pd

from dpstudy.claims.ledger import Entry, Ledger
from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.lab.verdict import Verdict
from dpstudy.lab.wording import epsilon, points
from dpstudy.page.figure import Table
from dpstudy.page.results import gain
from dpstudy.parts.data.images import DATASETS
from under_the_clip.backpropagation_clipping import published as backpropagation_clipping
from under_the_clip.losing_less import published as losing_less
from under_the_clip.losing_less.experiments import FIGURE_3
from under_the_clip.tanh_filter.experiments import AT_EQUAL_EPSILON, CIFAR_10, EXPANDED
from under_the_clip.tanh_filter.figures import further_seeds
from under_the_clip.tempered_sigmoids.published import NUMBERS


def what_is_left(judged: Ledger) -> Table:
    """Return a row a paper: what it claimed, and what is left."""
    said = {
        "tempered sigmoids": _tempered_sigmoids(judged),
        "losing less": _losing_less(judged),
        "backpropagation clipping": _backpropagation_clipping(judged),
        "tanh filter": _tanh_filter(judged),
    }
    rows = [
        {"paper": paper, "claimed": claimed, "what is left": left}
        for paper, (claimed, left) in said.items()
    ]
    return Table(
        name="what-is-left",
        caption=(
            "The four papers: what each changes and promises, and what is left of it here so far. "
            "Points are means over seeds, with the 95 % interval in brackets."
        ),
        data=pd.DataFrame(rows),
    )


def _entry(judged: Ledger, name: str) -> Entry:
    return next(entry for entry in judged.entries if entry.id == name)


def _holds(judged: Ledger, name: str) -> bool:
    return _entry(judged, name).outcome.verdict is Verdict.REPRODUCED


def gains(judged: Ledger, claim: str) -> str:
    """Return what a claim's runs gain, by dataset, and on which datasets they are not stored."""
    ours, missing = [], []
    for entry in judged.entries:
        if entry.claim.id != claim:
            continue
        name = DATASETS[entry.dataset]
        if "difference" in (found := entry.outcome.ours):
            ends = (found[f"difference_{end}"] for end in ("low", "high"))
            ours.append(f"{_gain(found['difference'], *ends)} on {name}")
        else:
            found, needed = entry.outcome.found, entry.outcome.needed
            missing.append(f"{name} ({found} of {needed} runs so far)" if found else name)
    still = [f"not run on {' and '.join(missing)}"] if missing else []
    return "; ".join([", ".join(ours)] * bool(ours) + still) + "."


def _gain(value: float, low: float, high: float) -> str:
    interval = f"{100 * low:.2f} to {100 * high:.2f}".replace("-", "−")
    return f"{points(value)} ({interval})"


def _tempered_sigmoids(judged: Ledger) -> tuple[str, str]:
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
    return claimed, f"Each at the best of its search, at the published ε: {gained}"


def _losing_less(judged: Ledger) -> tuple[str, str]:
    before, after = (
        100 * losing_less.NUMBERS[f"cifar-10, {loss}"].value
        for loss in ("cross-entropy", "composite")
    )
    holds = _holds(judged, "gradient-norm-sum")
    early = [e.outcome.verdict for e in judged.entries if e.claim.id == "losing-less-early-most"]
    most = "It gains most early, as the paper says. " * (set(early) == {Verdict.REPRODUCED})
    false = "is false: it adds norms where the true bound multiplies them. Small weights and "
    eq_11 = "holds" if holds else f"{false}activations still bound gradients"
    return (
        f"Another loss under a curriculum: {before:.1f} to {after:.1f} % on CIFAR-10 at ε < 3.",
        f"{most}Against cross-entropy at the paper's settings, at the end: "
        f"{gains(judged, 'losing-less-better')} "
        f"Each at its own best rate: {gains(judged, 'losing-less-better-at-equal-effort')} "
        f"The bound behind its penalty, Eq. 11, {eq_11}.",
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
    # It has the paper's accounting, and noise for the sensitivity that is proven.
    first = "holds" if _holds(judged, "privacy-of-the-run") else "is not proven"
    return (
        f"Clips inside backpropagation: {100 * accuracy:.1f} % on MNIST at ε = "
        f"{mnist.claimed_epsilon:g}.",
        "The ε is wrong, if its tables come from the public code, as we infer: there the "
        "sensitivity, but not the clip, is divided by the batch size, so that "
        f"the noise was {mnist.batch:,} times too small. The ε of the first correction of the code "
        f"{first}; the noise of the second {targets}. "
        f"Against flat clipping, both at a true ε of 3: {gains(judged, 'backprop-better')} "
        f"Against tempered sigmoids: {gains(judged, 'backprop-better-than-tempered')}",
    )


def _tanh_filter(judged: Ledger) -> tuple[str, str]:
    one = "holds" if _holds(judged, "tanh-filter-sensitivity-one") else "is no bound"
    return (
        "An elementwise tanh in place of clipping: more accuracy with the noise of DP-SGD.",
        "The ε is wrong: the paper proves a sensitivity of √n for n parameters and computes with "
        f"1, which {one}. At the same noise, which gives the filter no usable ε: "
        f"{gains(judged, 'tanh-filter-better')}{_tuned()}{_filter_made_sound()}",
    )


def _tuned() -> str:
    """Say what DP-SGD reaches on CIFAR-10 where its rate was searched, if that is stored."""
    flat, tuned = (
        Variant(read(runs, dataset="cifar-10"), label)
        for runs, label in ((CIFAR_10, "DP-SGD"), (FIGURE_3, "cross-entropy"))
    )
    if not len(flat.results) or not len(tuned.results):
        return ""
    spent = tuned.median("epsilon_pld")
    return (
        f" On CIFAR-10 DP-SGD ends at {100 * flat.accuracy.median():.1f} %, at a rate that nobody "
        f"searched; with tanh and searched settings that network has "
        f"{100 * tuned.accuracy.median():.1f} % at ε = {epsilon(spent)}."
    )


def _filter_made_sound() -> str:
    """Say what the filter gains with a clip after it, once that is stored with several seeds."""
    searched, wider = (read(one, dataset="mnist") for one in (AT_EQUAL_EPSILON, EXPANDED))
    own, flat = (
        Variant(searched, f"{name}, best") for name in ("filter, then clipped", "flat clipping")
    )
    published = Variant(further_seeds(wider), "filter, then clipped, k = 1")
    wide, narrow = gain(published, flat), gain(own, flat)
    if wide["low"] is None or narrow["low"] is None:
        return ""
    at = own.run.mechanism.active_range
    return (
        " With a clip after it, against flat clipping at a true ε of 3 on MNIST: "
        f"{_gain(*wide.values())}; with the active range that its own search chose, {at:.1g}: "
        f"{_gain(*narrow.values())}."
    )
