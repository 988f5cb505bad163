"""Chapter 2: the tempered sigmoid family (Figures 1 and 2), and what it does for DP-SGD.

First relu and tanh: accuracy, and by class; then members of the family, and the sweep over it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.curves import curves, functions
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.quantity import ACCURACY, CLIPPED, ERROR, GRADIENT_NORM, Quantity, set_axis
from dpstudy.page.results import caption, gains, gains_of, lines_of, seeds_of
from dpstudy.parts.data.images import CLASSES, DATASETS
from dpstudy.parts.networks.activation import TANH, Relu, Tempered
from dpstudy.parts.run import setting
from under_the_clip.tempered_sigmoids.experiments import (
    BASE,
    CIFAR_10_RATES,
    FIGURE_3,
    TABLE_3_SEARCH,
    TRIPLET,
)
from under_the_clip.tempered_sigmoids.published import ACCURACIES, BEST_TRIPLETS, NUMBERS
from under_the_clip.tempered_sigmoids.triplets import REPEATED, AtZero, Sweep, swept

STYLE = {"relu": 1, "tanh": 0}
SHARED, OWN = "one setting for both", "each at its own best"
HIGHER = "four times the rate, one seed"
_GAINS = {"published": 2, SHARED: 1, OWN: 0, HIGHER: 4}

_SETTINGS = {
    "clipping norm C": "clip_norm",
    "noise multiplier σ": "noise_multiplier",
    "expected batch size": "batch",
    "epochs": "epochs",
    "learning rate": "learning_rate",
    "momentum": "momentum",
}

relu_and_tanh = partial(lines_of, styles=STYLE, accuracies=ACCURACIES)


def all_gains() -> list[dict[str, object]]:
    """Return what tanh gains over relu, published and found, a row a dataset and comparison."""
    rows = []
    for dataset in FIGURE_3.datasets:
        relu, tanh = (f"{dataset}, DP-SGD, {name}" for name in ("relu", "tempered sigmoid"))
        rows += gains_of(dataset, (NUMBERS[relu], NUMBERS[tanh]), _compared(dataset))
    return rows


def _compared(dataset: str) -> dict[str, list[Variant]]:
    shared = {SHARED: relu_and_tanh(read(FIGURE_3, dataset=dataset))}
    if dataset != "cifar-10":
        search = read(TABLE_3_SEARCH, dataset=dataset)
        return shared | {OWN: relu_and_tanh(search, label="{}, private, best")}
    rates = read(CIFAR_10_RATES)
    own = relu_and_tanh(rates, label="{}, best")
    if all(len(line.results) for line in own):
        return shared | {OWN: own}
    return shared | {HIGHER: relu_and_tanh(rates, label="{}, rate 4")}


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: what tanh gains over relu, by dataset."""
    rows = all_gains()
    if {row["comparison"] for row in rows} == {"published"}:
        return not_yet_run("What tanh gains", f"dpstudy run {FIGURE_3.name}")
    return gains(
        rows,
        _GAINS,
        name="tempered-sigmoids-in-short",
        caption=(
            "What tanh gains over relu under DP-SGD. Lines: 95 % intervals over seeds. On MNIST "
            "and Fashion-MNIST each activation's own best is that of a search of 24 settings."
        ),
        axis="points of test accuracy that tanh gains over relu, at the quoted ε",
    )


def settings(dataset: str | None = None) -> Table:
    """Return the settings of the private runs, of all datasets or of one."""
    data = pd.DataFrame({"setting": list(_SETTINGS)})
    for name in BASE if dataset is None else (dataset,):
        data[DATASETS[name]] = [setting(BASE[name], field) for field in _SETTINGS.values()]
    return Table(
        name="tempered-sigmoids-settings",
        data=data,
        formats=dict.fromkeys(data.columns[1:], "{:g}"),
        caption=(
            "The private runs: Table 5 of Losing less, but for the noise on CIFAR-10, lowered to "
            "what costs the quoted ε by the accounting of the paper's time. Pixels are in [0, 1], "
            "those of CIFAR-10 then normalised by ImageNet's colours, public constants."
        ),
    )


def classes(lines: Sequence[Variant], *, name: str, shown: str) -> Figure | Note:
    """Draw the accuracy of each class, median and range over seeds."""
    found = pd.concat(map(by_class, lines), ignore_index=True)
    if found.empty:
        return Note(name, "Every stored run diverged.")
    named = CLASSES[str(lines[0].reading.dataset_name)]
    groups = found.groupby(["label", "class"], sort=False).accuracy
    data = groups.agg(["median", "min", "max", "count"]).reset_index()
    with canvas(size=(7.2, 3.6)) as (figure, (axes,)):
        for at, line in enumerate(lines):
            rows, style = data[data.label == line.name], STYLES[line.style]
            axes.errorbar(
                rows["class"] + 0.24 * (at - (len(lines) - 1) / 2),
                rows["median"],
                yerr=[rows["median"] - rows["min"], rows["max"] - rows["median"]],
                color=style.color,
                marker=style.marker,
                linestyle="none",
                capsize=3,
                label=line.name,
            )
        axes.set(xlabel="class", xticks=range(10))
        axes.set_xticklabels(named, rotation=35 if len(named[0]) > 1 else 0, ha="right")
        set_axis(axes.yaxis, ACCURACY)
        legend_below(figure)
    worst = data.loc[data.groupby("label", sort=False)["median"].idxmin()]
    said = "; ".join(
        f"{row.label} is worst on {named[row['class']]}, {ACCURACY.show(row['median'])}"
        for _, row in worst.iterrows()
    )
    apart = spreads(found).groupby("label", sort=False).median()
    spread = ", ".join(f"{label} {value:.4f}" for label, value in apart.items())
    more = f"Standard deviation over the classes, median of the seeds: {spread}."
    return Figure(
        fig=figure,
        name=name,
        caption=caption(shown, finals_of(lines), more, fate="left out"),
        alt=f"Ten classes, a mark a line in each: {said}.",
        data=data,
    )


def by_class(line: Variant) -> pd.DataFrame:
    """Return one row a run and class, without runs that diverged: alike at chance is not fair."""
    rows = [
        {"label": line.name, "seed": result.run.seed, "class": number, "accuracy": accuracy}
        for result in line.results
        if result.diverged_at is None
        for number, accuracy in enumerate(result.class_accuracy)
    ]
    return pd.DataFrame(rows, columns=["label", "seed", "class", "accuracy"])


def spreads(found: pd.DataFrame) -> pd.Series:
    """Return the standard deviation over the classes, of each label and seed."""
    return found.groupby(["label", "seed"], sort=False).accuracy.std(ddof=0)


# --- the family -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """A vertical line in the panels of a sweep: where, by column."""

    name: str
    at: Mapping[str, float]
    dash: object = ":"


def sweep(
    points: pd.DataFrame,
    *over: Quantity,
    name: str,
    caption: str,
    levels: Sequence[Variant] = (),
    marks: Sequence[Mark] = (),
) -> Figure | Note:
    """Draw the test errors of settings, a panel a quantity, the best as diamonds.

    Args:
        points: one row a setting: `test_accuracy`, whether it is among the `best`, and the
            columns of all quantities; a setting without one of these is left out.
        over: the quantities.
        name: of the figure.
        caption: of the figure.
        levels: what the errors are compared with: a band of its seeds each, and their median.
        marks: vertical lines.
    """
    columns = [of.column for of in over]
    data = points.assign(error=1 - points.test_accuracy).dropna(subset=columns)
    if data.empty:
        return Note(name, "Every stored run diverged.")
    levels = [level for level in levels if len(level.results)]
    data = data.sort_values("test_accuracy", ascending=False, ignore_index=True)
    with canvas(1, len(over), size=(max(6.9, 2.8 * len(over)), 3.4), sharey=True) as (
        figure,
        panels,
    ):
        for axes, of in zip(panels, over, strict=True):
            others, best = data[~data.best], data[data.best]
            axes.plot(
                others[of.column], others.error, "o", mfc="none", mec="0.45", label="a setting"
            )
            mark = {"color": STYLES[0].color, "label": "the best tenth"}
            axes.plot(best[of.column], best.error, "D", **mark)
            set_axis(axes.xaxis, of)
            for level in levels:
                errors, style = 1 - level.accuracy, STYLES[level.style]
                axes.axhspan(errors.min(), errors.max(), facecolor=style.color, alpha=0.3)
                axes.axhline(errors.median(), color=style.color, ls=style.dash, label=level.name)
            for mark in marks:
                axes.axvline(mark.at[of.column], color="black", ls=mark.dash, label=mark.name)
        set_axis(panels[0].yaxis, ERROR)
        panels[0].invert_yaxis()
        legend_below(figure)
    reached = "; ".join(
        f"{of.label} from {of.show(best.min())} to {of.show(best.max())}"
        for of in over
        for best in [data[data.best][of.column]]
    )
    said = [f"{_errors(data.test_accuracy)}. The best {data.best.sum()} have {reached}"]
    said += [f"{level.name}, {_errors(level.accuracy)}" for level in levels]
    said += [f"lines at {mark.name}" for mark in marks]
    return Figure(
        fig=figure,
        name=name,
        caption=caption,
        alt=f"Panels of {len(data)} points each: {'; '.join(said)}.",
        data=data,
    )


def _errors(accuracy: pd.Series) -> str:
    low, high = 1 - accuracy.max(), 1 - accuracy.min()
    return f"test errors from {ERROR.show(low)} to {ERROR.show(high)}"


# Representative members: tanh, then each of s, T and o moved by itself.
FAMILY = ((2.0, 2.0, 1.0), (1.0, 2.0, 1.0), (2.0, 0.5, 1.0), (2.0, 8.0, 1.0), (2.0, 2.0, 0.0))
HOW = "papermill notebooks/02_tempered_sigmoids.ipynb out.ipynb -p profile smoke -p T {:g}"
_AXES = (
    Quantity("scale", "scale s", "{:.2f}"),
    Quantity("inverse_temperature", "inverse temperature T", "{:.2f}"),
    Quantity("offset", "offset o", "{:.2f}"),
)
_SHAPE = (
    Quantity("slope", "slope at 0", "{:.2f}", log=True),
    Quantity("value", "value at 0", "{:.2f}"),
)


def family(members: tuple[tuple[float, float, float], ...] = FAMILY) -> Figure:
    """Draw members (s, T, o) of the tempered sigmoid family, with relu (Figure 1, Eq. 3)."""
    drawn = {f"s={s:g}, T={t:g}, o={o:g}": Tempered(s, t, o) for s, t, o in members}
    drawn["relu"] = Relu()
    bounds = [bound for s, _, o in members for bound in (-o, s - o)]
    return functions(
        np.linspace(-4, 4, 161, dtype=np.float32),
        drawn,
        name="tempered-sigmoid-family",
        caption="Members of the tempered sigmoid family s/(1 + exp(-T x)) - o, and relu.",
        alt=(
            f"Curves of {len(members)} tempered sigmoids and relu from x = -4 to 4. (s, T, o) = "
            f"{', '.join(f'({s:g}, {t:g}, {o:g})' for s, t, o in members)}. Every tempered sigmoid "
            "stays between -o and s - o; relu grows without bound."
        ),
        xlabel="pre-activation x",
        ylabel="activation",
        ylim=(min(bounds) - 0.3, max(bounds) + 0.3),
    )


def own_member(inverse_temperature: float) -> Figure:
    """Draw the member (2, T, 1) of the family beside tanh, and relu."""
    figure = family(((2.0, 2.0, 1.0), (2.0, inverse_temperature, 1.0)))
    return replace(figure, name="tempered-sigmoid-own-member")


def own_temperature(reading: Reading | None, inverse_temperature: float) -> Figure | Note:
    """Draw accuracy by epoch of the member (2, T, 1) and of tanh, or say how to train both."""
    if reading is None or not reading.found:
        text = "This section trains in the smoke profile alone. To see T move the curves:"
        return Note("Your own T", text, HOW.format(inverse_temperature))
    return curves(
        lines_of(reading, {label: at for at, label in enumerate(reading.labels)}),
        ACCURACY,
        name="tempered-sigmoids-own-temperature",
        shown="test accuracy of a T of your own beside tanh",
    )


@for_each_dataset("The sweep over (s, T, o)", stored=swept)
def family_sweep(reading: Reading, relu: Reading) -> Figure | Note:
    """Draw the errors of all triplets over s, T and o, beside relu's in Figure 3 (Figure 2)."""
    found = Sweep.of(reading)
    mean = ", ".join(f"{value:.2f}" for value in found.mean)
    return sweep(
        found.triplets,
        *_AXES,
        name="tempered-sigmoids-figure-2",
        caption=_caption(reading, f"The best {found.count} average (s, T, o) = ({mean})."),
        levels=(Variant(reading, "tanh", style=3), Variant(relu, "relu", style=STYLE["relu"])),
        marks=(Mark("mean of the best tenth", found.mean, "-"), *_published(reading)),
    )


@for_each_dataset("What the best triplets have in common", stored=swept)
def around_zero(reading: Reading) -> Figure | Note:
    """Draw the errors of all triplets over their slope and their value at 0."""
    found = Sweep.of(reading)
    chance, (near, apart) = found.near_tanh_at_zero(), found.ranks_by_distance()
    said = ""
    if not math.isnan(near):
        said = (
            f"Blind choice is as near to tanh's 1 and 0 as the best {found.count} in "
            f"{_percent(chance)} of choices; errors rank with the distance from there by "
            f"Spearman's {near:.2f}, with that from tanh's (s, T, o) by {apart:.2f}. Distances "
            "have the logarithm of the slope, and axes in standard deviations."
        )
    return sweep(
        found.triplets,
        *_SHAPE,
        name="tempered-sigmoids-at-zero",
        caption=_caption(reading, said),
        marks=(_mark("tanh", astuple(TANH)), *_published(reading)),
    )


@for_each_dataset("The errors of a sweep by gradient norm", stored=swept)
def errors_by_norm(reading: Reading) -> Figure | Note:
    """Draw the errors of all triplets over what clipping does to their gradients."""
    found = Sweep.of(reading)
    norm, clipped = (found.rank_with_errors(of.column) for of in (GRADIENT_NORM, CLIPPED))
    said = (
        f"Errors rank with the norm by Spearman's {norm:.2f}, with the fraction by {clipped:.2f}."
    )
    return sweep(
        found.triplets,
        GRADIENT_NORM,
        CLIPPED,
        name="tempered-sigmoids-errors-by-norm",
        caption=_caption(reading, "" if math.isnan(norm) else said),
    )


def _caption(reading: Reading, *more: str) -> str:
    tried = reading.finals[~reading.finals.label.isin(REPEATED)]
    shown = f"test error of {tried.label.nunique()} tempered sigmoids under DP-SGD"
    return caption(shown, tried, *more)


def _mark(name: str, triplet: Sequence[float], dash: object = ":") -> Mark:
    at_zero = AtZero.of(triplet)._asdict()
    return Mark(name, dict(zip(TRIPLET, triplet, strict=True)) | at_zero, dash)


def _published(reading: Reading) -> list[Mark]:
    theirs = BEST_TRIPLETS.get(str(reading.dataset_name))
    return [] if theirs is None else [_mark("published mean", theirs, STYLES[1].dash)]


@for_each_dataset("The average of the best triplets", stored=swept)
def cluster(reading: Reading) -> Table:
    """Return what the best triplets average to, how far seeds move that, and whether by chance."""
    dataset, found = reading.dataset_name, Sweep.of(reading)
    accuracy = found.best.test_accuracy.median()
    rows = [("best tenth, ours", *found.mean, accuracy, found.by_chance())]
    if dataset in BEST_TRIPLETS:
        theirs = BEST_TRIPLETS[dataset]
        rows.insert(0, ("best tenth, published", *theirs, None, found.by_chance(theirs)))
    said = ""
    if not math.isnan(found.noise):
        low, high = np.percentile(found.under_noise(), (2.5, 97.5), axis=0)
        rows.append(("ours, other seeds, from", *low, None, None))
        rows.append(("ours, other seeds, to", *high, None, None))
        said = (
            f"A seed alone has a standard deviation of {100 * found.noise:.2f} points: "
            f"{found.rivals} of the others come within two of those of the best."
        )
    for label, runs in found.repeated.groupby("label", sort=False):
        triplet = runs[list(TRIPLET)].iloc[0]
        chance = found.by_chance(triplet) if label == "tanh" else None
        accuracy = runs.test_accuracy.median()
        rows.append((f"{label}, {seeds_of(runs)}", *triplet, accuracy, chance))
    return Table(
        name="tempered-sigmoids-cluster",
        caption=_caption(
            reading,
            said,
            f"By chance: how often as many triplets as the best {found.count}, chosen blindly, "
            "average as near to the triplet of the row, or in our row lie as near to each other.",
        ),
        data=pd.DataFrame(rows, columns=["triplets", *"sTo", "median accuracy", "by chance"]),
        formats=dict.fromkeys("sTo", "{:.2f}")
        | {"median accuracy": "{:.2%}", "by chance": _percent},
    )


def _percent(chance: float) -> str:
    return f"{chance:.1%}" if chance >= 0.001 else "less than 0.1%"
