"""What normalising the pixels of CIFAR-10 is worth."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpstudy.figures.page import Note, Table, not_yet_run
from dpstudy.figures.tempered_sigmoids.common import (
    dataset_of,
    diverged,
    finals_with,
    published_accuracy,
)
from dpstudy.readings import Reading
from dpstudy.spec import DATASETS

PIXELS = {"": "in [0, 1]", "imagenet": "normalised"}


def normalization(private: Reading, unnormalized: Reading) -> Table | Note:
    """Return what both activations come to with pixels in [0, 1], and with normalised ones.

    Args:
        private: of Figure 3.
        unnormalized: of the same without normalisation, where there is any.
    """
    if unnormalized.profile == "smoke":
        return Note("CIFAR-10 alone", "The images of the smoke profile have no colours.")
    if not unnormalized.found:
        return not_yet_run("CIFAR-10 without normalisation", unnormalized.command)
    dataset = dataset_of(unnormalized)
    both = [reading for reading in (private.on(dataset), unnormalized) if reading.found]
    rows = []
    for reading in both:
        finals = finals_with(reading, "normalization")
        for (label, given), ours in finals.groupby(["label", "normalization"]):
            theirs = published_accuracy(dataset, f"DP-SGD, {label}")
            rows.append(
                {
                    "activation": label,
                    "pixels": PIXELS[given],
                    "published": theirs and theirs.accuracy,
                    "median": ours.test_accuracy.median(),
                    "minimum": ours.test_accuracy.min(),
                    "maximum": ours.test_accuracy.max(),
                    "seeds": len(ours),
                    "gradient norm": ours.gradient_norm.median(),
                    "clipped": ours.clipped_fraction.median(),
                }
            )
    found = [pair for reading in both for pair in reading.found]
    return Table(
        name="tempered-sigmoids-normalization",
        caption=(
            f"Test accuracy on {DATASETS[dataset]} at the last epoch, with the settings of Figure "
            "3: median, minimum and maximum over seeds, beside what is published; the mean norm of "
            "gradients before clipping, and the fraction clipped, in that epoch. Normalised: each "
            "colour less ImageNet's mean, over its standard deviation. Computed on "
            f"{replace(unnormalized, found=found).devices}.{diverged(dataset, *both)}"
        ),
        data=pd.DataFrame(rows).sort_values(["activation", "pixels"], ignore_index=True),
        formats={
            "published": "{:.1%}",
            **dict.fromkeys(("median", "minimum", "maximum"), "{:.2%}"),
            "gradient norm": "{:.3g}",
            "clipped": "{:.0%}",
        },
    )
