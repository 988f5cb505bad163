"""Chapter 4: backpropagation clipping, as published, corrected, and at a true epsilon."""

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import LEADER, STYLES, Figure, Note, Style, Table, canvas, not_yet_run
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import quartiles
from dpstudy.parts.data.images import DATASETS
from under_the_clip.backpropagation_clipping.experiments import AGAINST_FLAT, EPSILONS, FIGURE_5

BACKPROP, FLAT = "backpropagation clipping", "flat clipping"
_CLAIMED, _PROVEN = "epsilon_claimed-zcdp", "epsilon_shuffled-pld"


class Series(NamedTuple):
    """Points of one kind in the chapter's first figure: lines with their column of epsilon."""

    name: str
    style: Style
    lines: tuple[tuple[Variant, str], ...]

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield a row for each line that is stored, at its median over seeds."""
        for line, column in self.lines:
            if (epsilon := line.median(column)) is not None:
                yield {
                    "what": self.name,
                    "run": line.label,
                    "epsilon": epsilon,
                    "accuracy": line.accuracy.median(),
                    "lowest": line.accuracy.min(),
                    "highest": line.accuracy.max(),
                    "seeds": len(line.accuracy),
                }


def series(dataset: str) -> tuple[Series, ...]:
    """Return what the chapter compares on a dataset: claims, what they cost, and flat clipping."""
    of_figure_5, against = (read(one, dataset=dataset) for one in (FIGURE_5, AGAINST_FLAT))
    published = [Variant(of_figure_5, f"claims {epsilon:g}") for epsilon in EPSILONS]

    def at_true_epsilon(name: str) -> tuple[tuple[Variant, str], ...]:
        labels = f"{name}, epsilon 1", f"{name}, best"
        return tuple((Variant(against, label), "epsilon_pld") for label in labels)

    return (
        Series("as published, claimed ε", STYLES[4], tuple((one, _CLAIMED) for one in published)),
        Series("the same runs, proven ε", STYLES[2], tuple((one, _PROVEN) for one in published)),
        Series(f"{BACKPROP}, true ε", STYLES[1], at_true_epsilon(BACKPROP)),
        Series(f"{FLAT}, true ε", STYLES[0], at_true_epsilon(FLAT)),
    )


def in_short() -> Figure | Note:
    """Draw the chapter in one figure: accuracy against epsilon, claimed and true."""
    found = {
        dataset: [(one, list(one.rows())) for one in series(dataset)]
        for dataset in FIGURE_5.datasets
    }
    rows = [row | {"dataset": d} for d, of in found.items() for _, points in of for row in points]
    if not rows:
        return not_yet_run("Accuracy against ε", f"dpstudy run {FIGURE_5.name}")
    with canvas(1, len(found), size=(7.6, 3.0)) as (figure, panels):
        for axes, (dataset, of) in zip(panels, found.items(), strict=True):
            best = [max((row["accuracy"] for row in points), default=0) for _, points in of[2:]]
            heights = (0.5, 0.2) if best[0] > best[1] else (0.2, 0.5)
            for number, (one, points) in enumerate(of):
                at = pd.DataFrame(points, columns=["epsilon", "accuracy", "lowest", "highest"])
                axes.plot(at.epsilon, at.accuracy, **one.style.line, linewidth=1)
                axes.vlines(at.epsilon, at.lowest, at.highest, color=one.style.color)
                if len(at) and number < 2:
                    beside = {"xytext": (2, -14), "textcoords": "offset points"}
                    first = at.epsilon.iloc[0], at.accuracy.iloc[0]
                    axes.annotate(("claimed", "proven")[number], first, **beside, fontsize="small")
                elif len(at):
                    axes.annotate(
                        (BACKPROP, FLAT)[number - 2].replace(" ", "\n"),
                        (at.epsilon.iloc[-1], at.accuracy.iloc[-1]),
                        xytext=(0.97, heights[number - 2]),
                        textcoords="axes fraction",
                        ha="right",
                        va="center",
                        fontsize="small",
                        arrowprops=LEADER,
                    )
            axes.set_xscale("log")
            axes.set_title(DATASETS[dataset], fontsize="medium")
            axes.set_xlabel("ε")
            set_axis(axes.yaxis, ACCURACY)
    said = "; ".join(
        f"{DATASETS[row['dataset']]}, {row['what']} {row['epsilon']:.3g}: "
        f"{ACCURACY.show(row['accuracy'])}"
        for row in rows
    )
    return Figure(
        fig=figure,
        name="backpropagation-clipping-in-short",
        caption=(
            "One set of runs, drawn twice: at the ε that the paper's accounting claims, and at "
            "the ε that is proven. Between: both clips at a true ε. Median and range over seeds."
        ),
        alt=f"Points in two panels, ε on a logarithmic axis. {said}.",
        data=pd.DataFrame(rows),
    )


def divided() -> Figure:
    """Draw where backpropagation clipping divides by the batch size, as published and soundly."""
    chains = {
        "as published": (
            ("loss", "÷ B", "clip at b", "sum", "+ noise for ab / B"),
            (1, 4),
            "one example moves the sum by ab: noise B times too small",
        ),
        "sound": (
            ("loss", "clip at b", "sum", "+ noise for ab", "÷ B"),
            (4,),
            "one example moves the sum by ab: noise for ab",
        ),
    }
    with canvas(2, 1, size=(6.1, 2.4)) as (figure, panels):
        for axes, (title, (steps, marked, says)) in zip(panels, chains.items(), strict=True):
            at = 0.0
            for number, step in enumerate(steps):
                edge = {"edgecolor": "0.5"}
                if number in marked:
                    color = STYLES[4 if title != "sound" else 0].color
                    edge = {"edgecolor": color, "linewidth": 2.5}
                box = {"boxstyle": "round,pad=0.4", "facecolor": "white"} | edge
                axes.text(at, 0, step, va="center", bbox=box)
                at += 0.3 + 0.06 * len(step)
                if number < len(steps) - 1:
                    arrow = {"arrowstyle": "->", "color": "0.4"}
                    axes.annotate("", (at + 0.25, 0), (at - 0.05, 0), arrowprops=arrow)
                at += 0.4
            axes.set(xlim=(-0.15, 5.1), ylim=(-0.8, 0.8))
            axes.set_title(f"{title}: {says}", loc="left", fontsize="medium")
            axes.axis("off")
    return Figure(
        fig=figure,
        name="backpropagation-clipping-divided",
        caption="The way back through a layer whose input is cut to a. Where B divides decides "
        "how much noise is needed.",
        alt="; ".join(
            f"{name}: {', then '.join(of)}; {says}" for name, (of, _, says) in chains.items()
        ),
        data=pd.DataFrame({name: of for name, (of, _, _) in chains.items()}),
    )


def times() -> Table | Note:
    """Return how long an epoch takes without privacy, with flat clipping, and with clips inside."""
    found, _ = records.read_all(records.folder("mechanisms"), "mechanisms")
    if "mnist" not in found:
        return not_yet_run("The times", "python benchmarks/mechanisms.py")
    timed = found["mnist"]
    rows = []
    for name, seconds in timed["epoch_seconds"].items():
        mechanism, _, batch = name.partition(", batch ")
        flat = pd.Series(timed["epoch_seconds"][f"{FLAT}, batch {batch}"])
        rows.append(
            {
                "batch": int(batch),
                "gradients": mechanism,
                "seconds an epoch": pd.Series(seconds).median(),
                **quartiles(flat / pd.Series(seconds), "faster"),
            }
        )
    return Table(
        name="backpropagation-clipping-times",
        caption=(
            f"Seconds an epoch of 60,000 examples, median of {len(seconds)} rounds, and how many "
            f"times as fast as flat clipping within a round, median and quartiles. "
            f"{timed['provenance']['device']}."
        ),
        data=pd.DataFrame(rows).rename(columns={"faster": "times as fast"}),
        formats={"seconds an epoch": "{:.2f}"}
        | dict.fromkeys(("times as fast", "faster_low", "faster_high"), "{:.2f}"),
        merged={"times as fast": "{times as fast} ({faster_low} to {faster_high})"},
    )
