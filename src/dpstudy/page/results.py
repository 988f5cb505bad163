"""Variants with what papers state, their captions, the table of both, and that of all gains.

What holds of every figure, such as what its epsilon is true for, is said in "How to read".
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from dpstudy.lab.comparison import Estimate, pairs
from dpstudy.lab.published import Accuracy, Number
from dpstudy.lab.readings import Reading
from dpstudy.lab.store import CHANCE
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.lab.wording import epsilon, points, rounded_down
from dpstudy.page.figure import Note, Table, fields
from dpstudy.page.quantity import Quantity
from dpstudy.parts.data.images import DATASETS
from dpstudy.parts.mechanism import CLAIMED_ACCOUNTANTS

# What becomes of a run that diverged: where accuracies are shown, and where norms are.
AT_CHANCE = f"at chance ({CHANCE:.0%}) from there on"
LEFT_OUT = "left out from there on"


def caption(
    shown: str,
    runs: pd.DataFrame,
    *more: str,
    fate: str = AT_CHANCE,
    over: str = "median and range over",
    seeds: str = "",
) -> str:
    """Return the caption of what shows some runs of one dataset, as in `Reading.finals`.

    Dataset, what is shown and over how many seeds, more sentences, and the fate of runs that
    diverged. `seeds` says how many, in words, where only some of the runs are shown.
    """
    seeds = seeds or seeds_of(runs)
    on = DATASETS[runs.dataset.iloc[0]]
    of = ", one seed each" if seeds == "1 seed" else f", {over} {seeds}"
    said = [f"{on}: {shown}{of}.", *more]
    said += [f"Diverged, and {fate}: {count}." for count in [int(runs.diverged.sum())] if count]
    said += [f"Given up on their way: {count}." for count in [int(runs.stopped.sum())] if count]
    return " ".join(filter(None, said))


def seeds_of(runs: pd.DataFrame) -> str:
    """Count the seeds behind each label, in words."""
    counts = runs.groupby("label").seed.nunique()
    low, high = counts.min(), counts.max()
    if low != high:
        return f"{low} to {high} seeds"
    return "1 seed" if low == 1 else f"{low} seeds"


def stated(
    accuracies: Sequence[Accuracy], reading: Reading, methods: Mapping[str, str]
) -> dict[str, Accuracy | None]:
    """Return what a paper states on a reading's dataset, by label; None where it states nothing.

    `methods` says by label under what name the paper states it.
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
    """Return a variant a style; title, published method and label are templates with its name."""
    theirs = stated(accuracies, reading, {name: method.format(name) for name in styles})
    return [
        Variant(reading, label.format(name), title.format(name), style, theirs[name])
        for name, style in styles.items()
    ]


# Columns of epsilon, as "How to read" explains them, by what accountants fill them in: those of
# Poisson sampling, and those of shuffled batches.
EPSILONS = {
    "ε (RDP 2019)": ("epsilon_rdp-2019", "epsilon_claimed-rdp-2019"),
    "ε at least": ("epsilon_shuffled-at-least",),
    "ε proven": ("epsilon_pld", "epsilon_shuffled-pld"),
}
# The same of a mechanism whose paper accounts for it otherwise than is proven here.
CLAIMED_AND_PROVEN = {
    "ε claimed": tuple(f"epsilon_claimed-{claim}" for claim in CLAIMED_ACCOUNTANTS),
    "ε at least": EPSILONS["ε at least"],
    "ε proven": EPSILONS["ε proven"],
}

# What a paper's accounting gives that prints no ε.
SENSITIVITY_1 = "ε with sensitivity 1"
# Seeds: of two, Student's t makes an interval of hundreds of points.
_FOR_AN_INTERVAL = 3
FORMATS = {
    "published": "{:.1%}",
    **dict.fromkeys(("median", "seed 0"), "{:.2%}"),
    **dict.fromkeys(("minimum", "maximum"), lambda share: f"{100 * share:.2f}"),
    **dict.fromkeys(("points", "low", "high"), lambda gain: points(gain).removesuffix(" points")),
    **dict.fromkeys(
        ("published ε", "ε if none is longer", SENSITIVITY_1, *EPSILONS, *CLAIMED_AND_PROVEN),
        epsilon,
    ),
    "longest norm seen": "{:.1f}",
    # A lower bound, so that what is shown is one too.
    "ε at least": rounded_down,
}
# A range is not broken over lines.
_TO = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}"
MERGED = {
    "published": "{published}, {published in}",
    "ours": f"{{median}} ({{minimum}}{_TO}{{maximum}})",
    "mean gain, points": f"{{points}} ({{low}}{_TO}{{high}})",
}


def results(
    lines: Sequence[Variant],
    *more: str,
    name: str,
    shown: str,
    over: Mapping[str, str] | None = None,
    settings: Sequence[Quantity] = (),
    spent: Mapping[str, Sequence[str]] = EPSILONS,
) -> Table | Note:
    """Return test accuracies at the last epoch beside the published ones, and their epsilons.

    A note, if none of the lines, of one dataset, is stored. One of which nothing is stored has
    dashes beside what is published, and is left out if nothing is. A gain is `over` another line,
    by the names of both; the caption, with `more` sentences, is to say so. `settings` are fields of
    the runs, `spent` columns of epsilon, each the first stored of some of `Reading.finals`.
    """
    named, over = {line.name: line for line in lines}, over or {}
    rows = [
        {
            "technique": line.name,
            **{of.label: line.setting(of.column) for of in settings},
            **of_published(line),
            **spread(line.accuracy),
            **gain(line, named.get(over.get(line.name, ""))),
            **epsilons(line, spent),
        }
        for line in lines
        if line.published is not None or len(line.results)
    ]
    if not any(len(line.results) for line in lines):
        return none_stored(name)
    return table_of(rows, name, caption(shown, finals_of(lines), *more), settings)


def none_stored(name: str) -> Note:
    """Return what stands in place of a figure or table of which nothing is stored."""
    return Note(name, "None of these runs is stored yet.")


def of_published(line: Variant) -> dict[str, object]:
    """Return the columns of what the paper states for a line."""
    of = line.published
    return {"published": of and of.accuracy, "published in": of and of.source.where}


def spread(accuracy: pd.Series) -> dict[str, float | None]:
    """Return the columns that hold accuracies, one a seed; one alone has no range."""
    low, high = (accuracy.min(), accuracy.max()) if len(accuracy) > 1 else (None, None)
    median = accuracy.median()
    return {"median": median, "minimum": low, "maximum": high, "seeds": len(accuracy)}


def quartiles(values: pd.Series, name: str = "seconds") -> dict[str, float]:
    """Return the median and, under NAME_low and NAME_high, the quartiles."""
    low, median, high = values.quantile([0.25, 0.5, 0.75])
    return {name: median, f"{name}_low": low, f"{name}_high": high}


def gain(line: Variant, other: Variant | None) -> dict[str, object]:
    """Return the columns of a mean gain over another line, with its 95 % interval over seeds.

    Of one or two seeds there is no interval; where one is not stored, no gain.
    """
    columns: dict[str, object] = dict.fromkeys(("points", "low", "high"))
    if other is None or line.accuracy.empty or other.accuracy.empty:
        return columns
    first, second = line.accuracy, other.accuracy
    if min(len(first), len(second)) < _FOR_AN_INTERVAL:
        return columns | {"points": first.mean() - second.mean()}
    estimate = Estimate.difference(first, second)
    return {"points": estimate.value, "low": estimate.low, "high": estimate.high}


def epsilons(line: Variant, spent: Mapping[str, Sequence[str]] = EPSILONS) -> dict[str, object]:
    """Return the columns of the epsilons of a line's runs, computed, and published if not there."""
    ours = {name: line.median(*columns) for name, columns in spent.items()}
    if "ε claimed" in ours:
        return ours
    return {"published ε": line.published and line.published.claimed_epsilon} | ours


def table_of(
    rows: list[dict[str, object]],
    name: str,
    said: str,
    settings: Sequence[Quantity] = (),
    merged: Mapping[str, str] | None = None,
) -> Table:
    """Return the table of such rows, without the columns that none of them has."""
    data = pd.DataFrame(rows)
    missing, together = set(data.columns[data.isna().all()]), {}
    for column, form in (MERGED | (merged or {})).items():
        parts = set(fields(form)) & set(data.columns)
        if parts - missing:
            together[column] = form
            missing -= parts  # A column that is shown as a part of one has dashes in its place.
    data = data.drop(columns=list(missing))
    formats = FORMATS | {of.label: of.form for of in settings}
    formats = {column: form for column, form in formats.items() if column in data}
    return Table(name=name, caption=said, data=data, formats=formats, merged=together)


def gains_of(
    dataset: str, published: tuple[Number, Number] | None, found: Mapping[str, Sequence[Variant]]
) -> list[dict[str, object]]:
    """Return rows for `gains`: of what is published, and of each comparison that is stored.

    Of both accuracies published, and both lines of a comparison, the one that gains is second.
    `seeds` are those that it is paired by, or, where it is of all, the fewer of both lines.
    `low` and `high` are the 95 % interval over seeds; they are missing of one or two seeds, and of
    what is published, as all but its points are.
    """
    rows: list[dict[str, object]] = []
    if published is not None:
        base, better = (number.value for number in published)
        rows.append({"dataset": dataset, "comparison": "published", "points": better - base})
    for comparison, (other, line) in found.items():
        if len(line.results) and len(other.results):
            both = line.accuracy, other.accuracy
            common = pairs(*both)
            seeds = min(map(len, both)) if common is None else len(common)
            row = {"dataset": dataset, "comparison": comparison, "seeds": seeds}
            medians = [of.median() for of in both]
            row |= zip(("median", "median of the other"), medians, strict=True)
            rows.append(row | gain(line, other))
    return rows


def gains_table(rows: Sequence[Mapping[str, object]], name: str) -> Table | Note:
    """Return every gain of a page, rows of `gains_of`, in one table with intervals and seeds.

    A note, if all that there is of them is published.
    """
    if not any("seeds" in row for row in rows):
        return none_stored(name)
    data = pd.DataFrame(rows).assign(dataset=[DATASETS[str(row["dataset"])] for row in rows])
    return Table(
        name=name,
        caption="Gains in points of test accuracy after the last epoch, with their 95 % intervals "
        "over seeds.",
        data=data[["dataset", "comparison", "points", "low", "high", "seeds"]],
        formats={of: FORMATS[of] for of in ("points", "low", "high")} | {"seeds": "{:.0f}"},
        merged={"mean gain, points": MERGED["mean gain, points"]},
    )
