"""The guide's tables: the best stored setting by dataset and epsilon, and what choices gain.

Computed from whatever is stored, so that a better setting takes its place by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from dpstudy.claims.ledger import Ledger
from dpstudy.lab.comparison import Estimate
from dpstudy.page.figure import Note, Table
from dpstudy.parts.data.images import DATASETS
from under_the_clip.chapters import papers
from under_the_clip.explorer.rows import Setting
from under_the_clip.verdicts import gains

WANTED = (3.0, 1.0, 8.0)
# An epsilon is about the wanted one from three quarters of it to a tenth more.
ABOUT = (0.75, 1.1)
LEAST_SEEDS = 3
NOTHING = "no stored run"


def best(
    found: Iterable[Setting], dataset: str, epsilon: float, seeds: int = LEAST_SEEDS
) -> Setting | None:
    """Return the setting with the best mean accuracy at about a proven epsilon.

    Args:
        found: to choose from; of those whose accuracy is on held-out examples none is taken.
        dataset: its name, such as "mnist".
        epsilon: about which; see `ABOUT`.
        seeds: the least that count.
    """
    low, high = (share * epsilon for share in ABOUT)
    fit = [
        one
        for one in found
        if one.run.dataset.name == dataset
        and not one.run.dataset.held_out
        and len(one.runs) >= seeds
        and low <= (one.proven or 0) <= high
    ]
    return max(fit, key=lambda one: one.accuracy.mean(), default=None)


def starting_points(found: Sequence[Setting]) -> Table:
    """Return the best stored setting by dataset and wanted epsilon, or that there is none."""
    data = pd.DataFrame(
        {"dataset": DATASETS[dataset], "wanted ε": epsilon} | _row(best(found, dataset, epsilon))
        for dataset in _datasets(found)
        for epsilon in WANTED
    )
    return Table(
        name="starting-points",
        caption=(
            "The best of stored runs that end at about each ε (three quarters of it to a tenth "
            f"above), by mean test accuracy at the last epoch, of those with {LEAST_SEEDS} seeds "
            "or more; in brackets its 95 % interval, by Student's t. The ε is proven. Settings "
            "that were chosen by test accuracy have not paid for the choice, and the best of many "
            "owes a part to chance."
        ),
        data=data,
        formats={"wanted ε": "about {:g}", "true ε": "{:.2f}", "seeds": "{:.0f}"}
        | dict.fromkeys(("mean", "low", "high"), "{:.2%}"),
        merged={
            "accuracy": "{mean} ({low} to {high})",
            "setting": "{method}, {network}, {settings}",
        },
    )


def ahead_with_fewer_seeds(found: Sequence[Setting]) -> Note | None:
    """Name what would be ahead of a starting point by a point if any number of seeds counted."""
    said = []
    for dataset in _datasets(found):
        for epsilon in WANTED:
            sure, other = (best(found, dataset, epsilon, seeds) for seeds in (LEAST_SEEDS, 1))
            floor = sure.accuracy.mean() if sure else 0
            if other is not None and other.accuracy.mean() > floor + 0.01:
                row = other.row()
                said.append(
                    f"{row['dataset']}, about {epsilon:g}: {other.accuracy.mean():.1%} with "
                    f"{row['network']}, {row['method']} ({other.experiment}: {other.variant})"
                )
    title = f"Fewer than {LEAST_SEEDS} seeds, and ahead by more than a point so far"
    return Note(title, "; ".join(said) + ".") if said else None


def choices(judged: Ledger) -> Table:
    """Return what each choice gains in points, by dataset, where a fair comparison is stored."""
    data = pd.DataFrame(
        {"choice": choice, "points of accuracy gained": gains(judged, claim)}
        for chapter in papers()
        for choice, claim in chapter.choices.items()
    )
    return Table(
        name="choices",
        caption=(
            "What a choice gains in points of test accuracy, with its 95 % interval over seeds, "
            "from the runs of its paper's chapter."
        ),
        data=data,
    )


def _row(one: Setting | None) -> dict[str, object]:
    if one is None:
        return {"method": NOTHING}
    mean = Estimate.mean(one.accuracy)
    ends = {"mean": mean.value, "low": mean.low, "high": mean.high}
    said = ("seeds", "method", "network", "settings", "experiment")
    return {"true ε": one.proven} | ends | {name: one.row()[name] for name in said}


def _datasets(found: Iterable[Setting]) -> list[str]:
    return list(dict.fromkeys(one.run.dataset.name for one in found))
