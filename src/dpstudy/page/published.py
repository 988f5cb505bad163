"""Variants as figures and tables have them: with a name, a style, and what a paper states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpstudy.lab.published import Accuracy
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant


def stated(
    accuracies: Sequence[Accuracy], reading: Reading, methods: Mapping[str, str]
) -> dict[str, Accuracy | None]:
    """Return what a paper states on a reading's dataset; None where it states nothing.

    Args:
        accuracies: of the paper.
        reading: of one dataset.
        methods: by label, under what name the paper states it.
    """
    by_name = {one.method: one for one in accuracies if one.dataset == reading.dataset_name}
    return {label: by_name.get(method) for label, method in methods.items()}


def lines_of(
    reading: Reading,
    styles: Mapping[str, int],
    accuracies: Sequence[Accuracy] = (),
    *,
    title: str = "{}",
    method: str = "",
    label: str = "{}",
) -> list[Variant]:
    """Return a variant a style.

    Args:
        reading: of one dataset.
        styles: by name.
        accuracies: that the paper states.
        title: of a variant, as a template with its name.
        method: under what name its accuracy is published, likewise; of none, if it is empty.
        label: of the variant in its experiment, likewise.
    """
    theirs = stated(accuracies, reading, {name: method.format(name) for name in styles})
    return [
        Variant(reading, label.format(name), title.format(name), style, theirs[name])
        for name, style in styles.items()
    ]
