"""The leaderboard in one figure, and how far every method is behind the recipe."""

import pandas as pd

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES, Figure, Note, canvas, not_yet_run
from dpstudy.page.panels import HEIGHT, WIDTH
from dpstudy.parts.data.images import DATASETS
from under_the_clip.leaderboard.board import SECOND, lines_at, lines_on_cifar_10
from under_the_clip.leaderboard.experiments import BOARDS, EPSILONS, RECIPE
from under_the_clip.leaderboard.published import DISPUTED, PUBLISHED
from under_the_clip.recipe.search import DATASETS as RECIPE_ON
from under_the_clip.recipe.search import EPSILONS as SEARCHED
from under_the_clip.recipe.third_edition import edition_on

_SHOWN = {"recipe": 0, "scattering, linear": 1, "tanh": 4, "relu": 5}

# Where the author of a published value stands beside it, in points, if not below: by dataset and ε.
_BESIDE = {
    ("mnist", 3.0): ((7, -3), "left"),
    ("cifar-10", 1.0): ((6, -3), "left"),
    ("cifar-10", 8.0): ((-7, -12), "right"),
    **{("cifar-10", epsilon): ((-7, -3), "right") for epsilon in (2.0, 3.0, 4.0)},
}


def in_short() -> Figure | Note:
    """Draw accuracy by ε of a handful of methods, beside what others published."""
    editions = {dataset: read(edition_on(dataset), dataset=dataset) for dataset in RECIPE_ON}
    lines = [
        (dataset, Variant(edition, f"epsilon {epsilon:g}", "recipe"))
        for dataset, edition in editions.items()
        for epsilon in sorted(SEARCHED)
    ]
    lines += [("cifar-10", line) for line in lines_on_cifar_10() if line.name != "recipe"]
    for one in BOARDS:
        [dataset] = one.datasets
        at_each = (lines_at(read(one), epsilon) for epsilon in EPSILONS[dataset])
        lines += [(dataset, line) for at in at_each for line in at]
    rows = [
        {
            "dataset": dataset,
            "method": line.name,
            "epsilon": line.median("epsilon_pld"),
            "accuracy": 100 * line.accuracy.median(),
            "minimum": 100 * line.accuracy.min(),
            "maximum": 100 * line.accuracy.max(),
            "seeds": len(line.accuracy),
        }
        for dataset, line in lines
        if line.name in _SHOWN and len(line.results)
    ]
    if not rows:
        return not_yet_run("The leaderboard", editions["cifar-10"].command)
    data = pd.DataFrame(rows).sort_values("epsilon")
    drawn = [name for name in RECIPE_ON if name in set(data.dataset)]
    stated = [one for one in PUBLISHED if one.dataset in drawn and one.method not in DISPUTED]
    small = {"textcoords": "offset points", "fontsize": "small"}
    with canvas(1, len(drawn), size=(WIDTH * len(drawn) + 0.5, HEIGHT + 0.6)) as (figure, panels):
        for axes, dataset in zip(panels, drawn, strict=True):
            for method, of in data[data.dataset == dataset].groupby("method"):
                apart = [of.accuracy - of.minimum, of.maximum - of.accuracy]
                style = STYLES[_SHOWN[method]]
                axes.errorbar(of.epsilon, of.accuracy, apart, **style.line)
                at, beside, side = 0, (8, -11 if len(of) > 1 else -3), "left"
                if method == "recipe":
                    at, beside, side = min(1, len(of) - 1), (-4, 6), "right"
                elif dataset == "mnist" and method.startswith("scattering"):
                    at, beside = -1, (8, -15)
                axes.annotate(
                    method.removesuffix(", linear"),
                    (of.epsilon.iloc[at], of.accuracy.iloc[at]),
                    xytext=beside,
                    **small,
                    ha=side,
                    color=style.color,
                )
            for one in stated:
                if one.dataset == dataset:
                    place = one.claimed_epsilon, 100 * one.accuracy
                    axes.plot(*place, "*", color="black", markersize=9)
                    beside, side = _BESIDE.get((dataset, place[0]), ((5, -11), "left"))
                    author = one.method.rpartition(", ")[2].partition(" ")[0]
                    axes.annotate(author, place, xytext=beside, ha=side, **small)
            axes.set_title(DATASETS[dataset], fontsize="medium")
            axes.set(xscale="log", xlabel="ε", xlim=(0.85, 10))
            axes.set_xticks((1, 2, 3, 8), ("1", "2", "3", "8"))
            axes.set_xticks([], minor=True)
            axes.margins(y=0.12)
        panels[0].set_ylabel("test accuracy, %")
    said = "; ".join(
        f"{DATASETS[row.dataset]}, ε = {row.epsilon:.3g}, {row.method}: {row.accuracy:.2f}%"
        for row in data.itertuples()
    )
    published = "; ".join(
        f"{DATASETS[one.dataset]}, ε = {one.claimed_epsilon:g}, {one.method}: {one.accuracy:.1%}"
        for one in stated
    )
    return Figure(
        fig=figure,
        name="leaderboard",
        caption="Median test accuracy and range over seeds. Recipe and scattering: linear heads on "
        "fixed features. Tanh and relu: networks on pixels. Stars: published, by first author.",
        alt=f"Accuracy against ε. {said}. Published: {published}.",
        data=data,
    )


def behind_the_recipe(reading: Reading, epsilon: float) -> list[dict[str, object]]:
    """Return rows for `dots`: how far each method at an ε is from the recipe, in points."""
    [dataset] = reading.experiment.datasets
    lines = {line.name: line.accuracy for line in lines_at(reading, epsilon)}
    leading = SECOND if SECOND in lines else RECIPE
    if leading not in lines:
        return []
    best = lines.pop(leading)
    apart = {
        name: Estimate.difference(100 * accuracy, 100 * best) for name, accuracy in lines.items()
    }
    return [
        {
            "dataset": dataset,
            "row": name,
            "points": of.value,
            "low": of.low,
            "high": of.high,
            "seeds": len(best),
        }
        for name, of in sorted(apart.items(), key=lambda pair: -pair[1].value)
    ]
