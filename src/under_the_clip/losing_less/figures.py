"""Chapter 3: the composite loss and cross-entropy, end to end and on scattering features."""

from __future__ import annotations

from functools import partial

import pandas as pd
from scipy import stats

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.curves import curves
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Figure, Note, Table, not_yet_run
from dpstudy.page.gains import gains, gains_of
from dpstudy.page.published import lines_of
from dpstudy.page.quantity import (
    ACCURACY,
    CLIPPED,
    EPSILON,
    GRADIENT_NORM,
    LEARNING_RATE,
    Quantity,
)
from dpstudy.page.results import results
from dpstudy.page.search import against, techniques
from dpstudy.parts.data.images import DATASETS
from under_the_clip.losing_less.experiments import ABLATION, EQUAL_EFFORT, FIGURE_3
from under_the_clip.losing_less.published import ACCURACIES, ACCURACIES_ON_FEATURES, NUMBERS

CE, COMPOSITE = "cross-entropy", "composite"
STYLE = {CE: 1, COMPOSITE: 0}
INSIDE = STYLE | {"squared error": 2}
ABLATED = {
    "squared error": 2,
    "focal": 3,
    "squared error and cross-entropy": 4,
    "squared error and focal": 5,
}
TABLE_5 = "at the settings of Table 5"
TURN = "squared error that turns to cross-entropy, over cross-entropy at its best rate"
OWN = {name: f"each at its own best rate, {name}" for name in ("tanh", "relu")}
_GAINS = {
    "published": 2,
    TABLE_5: 1,
    TURN: 4,
    **{comparison: at for comparison, at in zip(OWN.values(), (0, 3), strict=True)},
}
LOGITS = Quantity("layer-norms.logits", "mean norm of the logits", log=True)
LAST_WEIGHTS = Quantity("layer-norms.last_weights", "norm of the last weights", log=True)
COSINE = Quantity("clipping-bias.cosine", "cosine, clipped to unclipped", "{:.3f}")
CURVATURE = Quantity("smoothness.largest", "largest singular value", log=True)

both = partial(lines_of, styles=STYLE, accuracies=ACCURACIES)
both_on_features = partial(lines_of, styles=STYLE, accuracies=ACCURACIES_ON_FEATURES)


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


@for_each_dataset("Figure 3")
def figure_3(reading: Reading) -> Figure | Note:
    """Draw test accuracy against epsilon, both losses (Figure 3)."""
    return curves(
        both(reading, method="{}"),
        ACCURACY,
        along=EPSILON,
        name="losing-less-figure-3",
        shown="test accuracy against ε",
    )


@for_each_dataset("Figure 4")
def figure_4(reading: Reading) -> Figure | Note:
    """Draw test accuracy against epsilon on scattering features, both losses (Figure 4)."""
    return curves(
        both_on_features(reading, method="{}"),
        ACCURACY,
        along=EPSILON,
        name="losing-less-figure-4",
        shown="test accuracy against ε on scattering features",
    )


@for_each_dataset("On scattering features")
def on_features(reading: Reading, linear: Reading, released: Reading) -> Table:
    """Return the accuracies at the last epoch on scattering features, by network and scaling."""
    of = {
        "{}": (reading, "{}", ACCURACIES_ON_FEATURES),
        "{}, linear": (linear, "{}", ()),
        "{}, released statistics": (released, "{}", ()),
        "{}, linear, released statistics": (released, "{}, linear", ()),
    }
    return results(
        [
            line
            for title, (found, label, published) in of.items()
            for line in lines_of(found, STYLE, published, title=title, label=label)
        ],
        "Gains: of the composite loss over cross-entropy.",
        name="losing-less-on-features",
        shown="test accuracy on scattering features at the last epoch",
        over={title.format(COMPOSITE): title.format(CE) for title in of},
    )


@for_each_dataset("Section 4.1")
def section_4_1(reading: Reading, not_private: Reading) -> Table:
    """Return the accuracies at the last epoch, and those without privacy."""
    return results(
        [
            *lines_of(not_private, {"not private": 0}, ACCURACIES, method="{}", label=CE),
            *both(reading, method="{}"),
        ],
        "Gain: of the composite loss over cross-entropy.",
        name="losing-less-section-4-1",
        shown="test accuracy at the last epoch",
        over={COMPOSITE: CE},
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


@for_each_dataset("Norms of logits and weights")
def norms(reading: Reading) -> Figure | Note:
    """Draw the norms of logits and of the last layer's weights by epoch (Figures 1, 5 and 6)."""
    return curves(
        lines_of(reading, INSIDE),
        LOGITS,
        LAST_WEIGHTS,
        name="losing-less-norms",
        shown="norms of what the loss sees, and of the last layer",
    )


@for_each_dataset("Gradients, and how many of them are clipped")
def clipped(reading: Reading) -> Figure | Note:
    """Draw the mean norm of gradients and the fraction that is clipped, by epoch."""
    return curves(
        lines_of(reading, INSIDE),
        GRADIENT_NORM,
        CLIPPED,
        name="losing-less-clipped",
        shown="the mean norm of an epoch's gradients, and the fraction of them that is clipped",
    )


@for_each_dataset("What clipping turns, and how curved the loss is")
def bias_and_curvature(reading: Reading) -> Figure | Note:
    """Draw cosine of clipped and unclipped gradients, and the Hessian (Figures 1, 2 and 8)."""
    return curves(
        lines_of(reading, INSIDE),
        COSINE,
        CURVATURE,
        name="losing-less-bias-and-curvature",
        shown="the mean gradient after clipping against before, and the loss' Hessian",
    )


@for_each_dataset("The parts of the loss")
def ablation(reading: Reading, whole: Reading) -> Table:
    """Return what the parts of the loss come to, alone and in pairs (Figures 10 and 11)."""
    lines = [*both(whole), *lines_of(reading, ABLATED)]
    return results(
        lines,
        "Gains: over cross-entropy.",
        name="losing-less-ablation",
        shown="test accuracy of the loss and of its parts",
        over={line.name: CE for line in lines if line.name != CE},
    )


@for_each_dataset("The parts of the loss, by ε")
def ablation_curves(reading: Reading, whole: Reading) -> Figure | Note:
    """Draw the parts of the loss against epsilon (Figures 10 and 11)."""
    return curves(
        [*both(whole), *lines_of(reading, ABLATED)],
        ACCURACY,
        along=EPSILON,
        name="losing-less-ablation-curves",
        shown="test accuracy of the loss and of its parts against ε",
    )


@for_each_dataset("What is changed")
def changed(reading: Reading, whole: Reading) -> Table:
    """Return variants of an experiment beside the composite loss at Table 5's settings."""
    return results(
        [*both(whole), *(Variant(reading, label) for label in reading.labels)],
        name=reading.experiment.name,
        shown="test accuracy, with what is named in place of the composite loss of Table 5",
    )


@for_each_dataset("Each loss at its own best rate")
def equal_effort(reading: Reading) -> Figure:
    """Draw the accuracy on held-out examples over the learning rate, each loss and activation."""
    return against(
        techniques(reading, {}),
        LEARNING_RATE,
        name="losing-less-rates",
        shown="accuracy on held-out training examples against the learning rate",
    )


@for_each_dataset("Each loss at its own best rate, trained on all examples")
def at_own_rate(reading: Reading) -> Table:
    """Return both losses and parts of the composite one, relu and tanh, each at its best rate."""
    labels = [label for label in reading.labels if "rate x" not in label]
    over = {label: label.replace(COMPOSITE, CE) for label in labels if COMPOSITE in label}
    over |= {
        label: f"{COMPOSITE}, {label.rpartition(', ')[-1]}" for label in labels if "with" in label
    }
    return results(
        [Variant(reading, label) for label in labels],
        "Gains: of the composite loss over cross-entropy, and of a part left out over all.",
        name="losing-less-equal-effort",
        shown="test accuracy, each at the rate that is best on held-out examples",
        over=over,
    )
