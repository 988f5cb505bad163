"""Chapter 2: the tempered sigmoid family (Figures 1 and 2), and what it does for DP-SGD.

First relu and tanh: accuracy, and by class; then members of the family, and the sweep over it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant, finals_of
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.page.panels import gained
from dpstudy.page.quantity import ACCURACY, CLIPPED, ERROR, GRADIENT_NORM, Quantity, set_axis
from dpstudy.page.results import caption, gains_of, lines_of, seeds_of
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
from under_the_clip.tempered_sigmoids.triplets import REPEATED, Sweep, swept

STYLE = {"relu": 1, "tanh": 0}
SHARED, OWN = "one setting for both", "each at its own best"

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
        search, label = TABLE_3_SEARCH, "{}, private, best"
        if dataset == "cifar-10":
            search, label = CIFAR_10_RATES, "{}, best"
        compared = {
            SHARED: relu_and_tanh(read(FIGURE_3, dataset=dataset)),
            OWN: relu_and_tanh(read(search, dataset=dataset), label=label),
        }
        rows += gains_of(dataset, (NUMBERS[relu], NUMBERS[tanh]), compared)
    return rows


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: what tanh gains over relu, by dataset."""
    rows = all_gains()
    if {row["comparison"] for row in rows} == {"published"}:
        return not_yet_run("What tanh gains", f"dpstudy run {FIGURE_3.name}")
    return gained(
        rows,
        name="tempered-sigmoids-in-short",
        caption=(
            "What tanh gains over relu under DP-SGD, at the quoted ε. Lines: 95 % intervals over "
            "seeds. Best: of 24 settings on MNIST and Fashion-MNIST, of five rates on CIFAR-10."
        ),
        axis="points gained",
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
    with canvas(size=(6.0, 3.6)) as (figure, (axes,)):
        for at, line in enumerate(lines):
            rows, style = data[data.label == line.name], STYLES[line.style]
            axes.errorbar(
                rows["class"] + 0.24 * (at - (len(lines) - 1) / 2),
                rows["median"],
                yerr=[rows["median"] - rows["min"], rows["max"] - rows["median"]],
                **style.line | {"linestyle": "none"},
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

    The `points` have one row a setting: `test_accuracy`, whether it is among the `best`, and the
    columns of all quantities; one without some of these is left out. The errors are compared with
    `levels`, of each a band of its seeds and their median; `marks` are vertical lines.
    """
    columns = [of.column for of in over]
    data = points.assign(error=1 - points.test_accuracy).dropna(subset=columns)
    if data.empty:
        return Note(name, "Every stored run diverged.")
    levels = [level for level in levels if len(level.results)]
    data = data.sort_values("test_accuracy", ascending=False, ignore_index=True)
    size = max(6.9, 2.8 * len(over)), 3.4
    with canvas(1, len(over), size=size, sharey=True) as (figure, panels):
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


_AXES = (
    Quantity("scale", "scale s", "{:.2f}"),
    Quantity("inverse_temperature", "inverse temperature T", "{:.2f}"),
    Quantity("offset", "offset o", "{:.2f}"),
)
# Inputs of the last layer of MNIST's network, and the norm that its gradients are clipped to.
_LAST, _CLIP = 32, 0.1


def family(inverse_temperature: float = 4.0) -> Figure:
    """Draw members beside tanh and relu (Figure 1), one with a T of one's own, and gradients."""
    x, styles = np.linspace(-4, 4, 161, dtype=np.float32), (STYLES[3], STYLES[4])
    moved = {
        "scale s": ((1.0, 2.0, 1.0), (3.0, 2.0, 1.0)),
        "inverse temperature T": ((2.0, 0.5, 1.0), (2.0, inverse_temperature, 1.0)),
        "offset o": ((2.0, 2.0, 0.0), (2.0, 2.0, 1.5)),
    }
    data = pd.DataFrame({"x": x, "relu": Relu()(x), "tanh": TANH(x)})
    with canvas(2, 2, size=(5.4, 4.6)) as (figure, axes):
        for at, (panel, (title, members)) in enumerate(zip(axes, moved.items(), strict=False)):
            panel.plot(x, data.relu, color=STYLES[STYLE["relu"]].color, linestyle=(0, (5, 2)))
            panel.plot(x, data.tanh, color=STYLES[STYLE["tanh"]].color, linewidth=2.5)
            for style, member in zip(styles, members, strict=True):
                name = "s={:g}, T={:g}, o={:g}".format(*member)
                data[name] = Tempered(*member)(x)
                panel.plot(x, data[name], color=style.color, linestyle=style.dash)
                said = f"{title[-1]} = {member[at]:g}"
                end = float(data[name].iloc[-1])
                beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
                where = (4, end) if at != 1 else (4, 1 - 0.6 * (style is styles[0]))
                panel.annotate(said, where, color=style.color, fontsize="small", **beside)
            panel.set(title=title, xlim=(-4, 7), ylim=(-2.2, 3.2), xticks=(-4, -2, 0, 2, 4))
            panel.text(2.1, 2.75, "relu", fontsize="small", ha="right")
            panel.text(-3.9, -0.9 if at != 1 else -1.5, "tanh", fontsize="small", va="bottom")
        reach = np.linspace(0, 10, 101)
        for name, of in (("relu", reach), ("tanh", np.tanh(reach))):
            style = STYLES[STYLE[name]]
            norms = np.sqrt(2 * (_LAST * of**2 + 1))
            axes[3].plot(reach, norms, color=style.color, linestyle=style.dash, linewidth=2)
            axes[3].text(9.9, norms[-1] * 1.2, name, fontsize="small", ha="right")
        axes[3].axhline(_CLIP, color="0.3", linewidth=1)
        axes[3].text(9.9, _CLIP * 1.2, "the clip", fontsize="small", ha="right")
        axes[3].set(title="longest gradient", xlabel="pre-activation", yscale="log")
        axes[3].set_ylim(_CLIP / 2, 250)
    return Figure(
        fig=figure,
        name="tempered-sigmoid-family",
        caption="Members of the family, one parameter moved from tanh in each panel. Last panel: "
        "the longest gradient of one example in a last layer of 32 inputs, above the clip.",
        alt="Three panels of curves from x = -4 to 4. Every tempered sigmoid stays between -o and "
        "s - o; relu grows without bound. A fourth: gradients stay below 8.2 with tanh, grow in "
        "proportion with relu, and lie above the clip with both.",
        data=data,
    )


@for_each_dataset("The sweep over (s, T, o)", stored=swept)
def family_sweep(reading: Reading, relu: Reading) -> Figure | Note:
    """Draw the errors of all triplets over s, T and o, beside relu's in Figure 3 (Figure 2)."""
    found = Sweep.of(reading)
    mean = ", ".join(f"{value:.2f}" for value in found.mean)
    marks = [Mark("mean of the best tenth", found.mean, "-")]
    if theirs := BEST_TRIPLETS.get(str(reading.dataset_name)):
        at = dict(zip(TRIPLET, theirs, strict=True))
        marks.append(Mark("published mean", at, STYLES[1].dash))
    return sweep(
        found.triplets,
        *_AXES,
        name="tempered-sigmoids-figure-2",
        caption=_caption(reading, f"The best {found.count} average (s, T, o) = ({mean})."),
        levels=(Variant(reading, "tanh", style=3), Variant(relu, "relu", style=STYLE["relu"])),
        marks=marks,
    )


def around_zero(reading: Reading, relu: Reading) -> Figure | Note:
    """Draw how high members end by their distance from tanh: in (s, T, o), and around 0."""
    found = {name: of for name in reading.datasets if swept(of := reading.on(name))}
    if not found:
        return not_yet_run("What the best members have in common", reading.command)
    rows = []
    columns = ("distance in (s, T, o)", "distance in slope, value")
    size = (5.4, 2.2 * len(found) + 0.4)
    with canvas(len(found), 2, size=size, sharex="col", sharey="row") as (figure, axes):
        for at, (dataset, one) in enumerate(found.items()):
            sweep, ours = Sweep.of(one), axes[2 * at : 2 * at + 2]
            of, by = sweep.triplets, sweep.distances()[::-1]
            apart = dict(zip(columns, map(np.sqrt, by), strict=True))
            rows.append(of.assign(dataset=dataset, **apart))
            level = Variant(relu.on(dataset), "relu").accuracy.median()
            ranks = sweep.ranks_by_distance()[::-1]
            for panel, column, rank in zip(ours, columns, ranks, strict=True):
                for part, mark, how in (
                    (~of.best, "o", {"mfc": "none", "mec": "0.45"}),
                    (of.best, "D", {"color": STYLES[0].color}),
                ):
                    panel.plot(apart[column][part], of.test_accuracy[part], mark, **how)
                panel.axhline(level, color=STYLES[STYLE["relu"]].color, linestyle="--")
                panel.set_title(f"{DATASETS[dataset]}: ρ = {rank:.2f}", fontsize="medium")
                panel.set_xlabel(column if one is [*found.values()][-1] else "")
            set_axis(ours[0].yaxis, ACCURACY)
            # Members at chance would hide the others.
            low, top = max(of.test_accuracy.quantile(0.1), level - 0.1), of.test_accuracy.max()
            ours[0].set_ylim(low, top + 0.08 * (top - low))
            ours[1].annotate("relu", (1, level), (-3, 3), xycoords=("axes fraction", "data"),
                             textcoords="offset points", ha="right", fontsize="small")  # fmt: skip
    data = pd.concat(rows)
    return Figure(
        fig=figure,
        name="tempered-sigmoids-at-zero",
        caption="Members of the family, one seed each, by their distance from tanh (Figure 2); "
        "the best tenth filled. The lowest are cut off. ρ: Spearman's correlation of error and "
        "distance, over all.",
        alt="Accuracy by distance from tanh, two panels a dataset. Distances in (s, T, o) hardly "
        "order the members; distances in slope and value at 0 do, and the best are nearest.",
        data=data,
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
        | {
            "median accuracy": "{:.2%}",
            "by chance": lambda chance: f"{chance:.1%}" if chance >= 0.001 else "less than 0.1%",
        },
    )
