"""Chapter 3: the composite loss and cross-entropy, end to end and on scattering features."""

from __future__ import annotations

from functools import partial

import pandas as pd
from scipy import stats

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Figure, Note, Table, not_yet_run
from dpstudy.page.gains import gains, gains_of
from dpstudy.page.results import lines_of
from dpstudy.parts.data.images import DATASETS
from under_the_clip.losing_less.experiments import ABLATION, EQUAL_EFFORT, FIGURE_3
from under_the_clip.losing_less.published import ACCURACIES, NUMBERS

CE, COMPOSITE = "cross-entropy", "composite"
STYLE = {CE: 1, COMPOSITE: 0}
INSIDE = STYLE | {"squared error": 2}
TABLE_5 = "at the settings of Table 5"
TURN = "squared error that turns to cross-entropy, over cross-entropy at its best rate"
OWN = {name: f"each at its own best rate, {name}" for name in ("tanh", "relu")}
_GAINS = {
    "published": 2,
    TABLE_5: 1,
    TURN: 4,
    **{comparison: at for comparison, at in zip(OWN.values(), (0, 3), strict=True)},
}

both = partial(lines_of, styles=STYLE, accuracies=ACCURACIES)


def all_gains() -> list[dict[str, object]]:
    """Return what the loss and its turn gain, published and found, by dataset and comparison."""
    rows = []
    for dataset in FIGURE_3.datasets:
        found = {TABLE_5: both(read(FIGURE_3, dataset=dataset))}
        if dataset in EQUAL_EFFORT.datasets:
            reading = read(EQUAL_EFFORT, dataset=dataset)
            turned = Variant(read(ABLATION, dataset=dataset), "squared error and cross-entropy")
            found[TURN] = Variant(reading, f"{CE}, tanh"), turned
            found |= {OWN[name]: both(reading, label=f"{{}}, {name}") for name in OWN}
        names = [f"{dataset}, {loss}" for loss in STYLE]
        if all(name in NUMBERS for name in names):
            rows += gains_of(dataset, tuple(NUMBERS[name] for name in names), found)
        else:
            rows += gains_of(dataset, None, found)
    return rows


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: what the composite loss gains, by dataset."""
    rows = all_gains()
    if {row["comparison"] for row in rows} == {"published"}:
        return not_yet_run("What the composite loss gains", f"dpstudy run {FIGURE_3.name}")
    return gains(
        rows,
        _GAINS,
        name="losing-less-in-short",
        caption=(
            "What the composite loss, and one part of it, gain over cross-entropy. Lines: 95 % "
            "intervals over seeds. Best rates are of five for each loss, chosen on held-out "
            "training examples; the part has the rate of Table 5."
        ),
        axis="points of test accuracy gained over cross-entropy, at the same ε",
    )


@for_each_dataset("The paper's tests")
def significance(reading: Reading) -> Table | Note:
    """Return the paper's three tests, and the interval of the difference paired by seed."""
    ce, composite = (line.accuracy for line in both(reading))
    both_have = ce.index.intersection(composite.index)
    ce, composite = ce[both_have], composite[both_have]
    if len(both_have) < 3:
        return Note("The paper's tests", "Three seeds of each loss are needed.")
    # Three datasets are three tests: Bonferroni's correction, in which no order matters.
    gained, of_three = (Estimate.difference(composite, ce, of) for of in (1, 3))
    paired = stats.ttest_rel(composite, ce).pvalue
    rows = [
        ("Shapiro-Wilk, cross-entropy", "Shapiro-Wilk", stats.shapiro(ce).pvalue),
        ("Shapiro-Wilk, composite", "Shapiro-Wilk", stats.shapiro(composite).pvalue),
        ("Levene", "Levene", stats.levene(ce, composite).pvalue),
        ("t-test, two samples", "t-test", stats.ttest_ind(composite, ce).pvalue),
        ("t-test, paired by seed", "", paired),
        ("t-test, paired, for three datasets", "", min(1.0, 3 * paired)),
    ]
    dataset = reading.dataset_name
    data = pd.DataFrame(rows, columns=["test", "published", "p"])
    theirs = (NUMBERS.get(f"{dataset}, {test}") for test in data.published)
    data["published"] = [number and number.value for number in theirs]
    return Table(
        name="losing-less-significance",
        caption=(
            f"{DATASETS[dataset]}: p-values of the paper's tests and of the paired one, over "
            f"{len(ce)} seeds. The gain is {100 * gained.value:+.2f} points (95 % interval "
            f"{100 * gained.low:.2f} to {100 * gained.high:.2f}; "
            f"{100 * of_three.low:.2f} to {100 * of_three.high:.2f} where the intervals of three "
            "datasets hold together)."
        ),
        data=data,
        formats=dict.fromkeys(("published", "p"), "{:.2g}"),
    )
