"""CIFAR-10, whose settings were made for another network: what changing some of them brings."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpstudy.figures.page import Note, Table, not_yet_run
from dpstudy.figures.tempered_sigmoids.common import dataset_of, diverged, published_accuracy
from dpstudy.readings import Reading
from dpstudy.spec import DATASETS

NOTHING = "nothing"
# What the paper's accuracies are of, as far as it says: its network, at the quoted epsilon.
AS_PUBLISHED = (NOTHING, "pixels in [0, 1]", "four times the rate", "twice the rate")


def cifar_10_changes(private: Reading, changed: Reading) -> Table | Note:
    """Return what both activations come to on CIFAR-10, as in Figure 3 and changed.

    Args:
        private: of Figure 3.
        changed: of the same with other pixels, noise, rate or network.
    """
    if changed.profile == "smoke":
        return Note("CIFAR-10 alone", "The images of the smoke profile have no colours.")
    if not changed.found:
        return not_yet_run("CIFAR-10 with other pixels or another network", changed.command)
    dataset = dataset_of(changed)
    found = [*private.on(dataset).found, *changed.found]
    finals = replace(changed, found=found).finals
    rows = []
    for label, ours in finals.groupby("label", sort=False):
        activation, change = _parts(str(label))
        theirs = change in AS_PUBLISHED and published_accuracy(dataset, f"DP-SGD, {activation}")
        rows.append(
            {
                "changed": change,
                "activation": activation,
                "published": theirs.accuracy if theirs else None,
                "median": ours.test_accuracy.median(),
                "minimum": ours.test_accuracy.min(),
                "maximum": ours.test_accuracy.max(),
                "seeds": len(ours),
                "gradient norm": ours.gradient_norm.median(),
                "clipped": ours.clipped_fraction.median(),
            }
        )
    return Table(
        name="tempered-sigmoids-cifar-10-changes",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, with the settings of Figure "
            "3 but for what is changed: median, minimum and maximum over seeds, beside what is "
            "published for this network at this ε; the mean norm of gradients before clipping, and "
            "the fraction clipped, in that epoch. Computed on "
            f"{replace(changed, found=found).devices}.{_ahead(finals)}"
            f"{diverged(dataset, private, changed)}"
        ),
        data=pd.DataFrame(rows),
        formats={
            "published": "{:.1%}",
            **dict.fromkeys(("median", "minimum", "maximum"), "{:.2%}"),
            "gradient norm": "{:.3g}",
            "clipped": "{:.0%}",
        },
    )


def _parts(label: str) -> tuple[str, str]:
    """Return the activation, and what is changed."""
    activation, _, change = label.partition(", ")
    return activation, change or NOTHING


def _ahead(finals: pd.DataFrame) -> str:
    """Say where tanh ends ahead of relu by its median, and where behind, if both are run."""
    medians = finals.groupby("label", sort=False).test_accuracy.median()
    medians.index = pd.MultiIndex.from_tuples(map(_parts, medians.index))
    both = medians.unstack(0, sort=False).reindex(columns=["tanh", "relu"])
    gains = both.tanh - both.relu
    said = [
        f"{where} with changed: {', '.join(gains.index[chosen])}"
        for where, chosen in (("ahead of relu", gains > 0), ("not ahead", gains <= 0))
        if chosen.any()
    ]
    return f" By the median, tanh ends {'; '.join(said)}." if said else ""
