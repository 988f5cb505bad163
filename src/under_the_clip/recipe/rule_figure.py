"""The recipe's rule beside a search of its rate: accuracy by number of images."""

import pandas as pd

from dpstudy.lab.readings import Reading
from dpstudy.page.figure import STYLES, Figure, Note, canvas, not_yet_run
from dpstudy.parts.data.images import DATASETS
from under_the_clip.designs import HELD_OUT
from under_the_clip.recipe.rule import IMAGES, TRIED, label_of


def rule_beside_search(reading: Reading) -> pd.DataFrame:
    """Return held-out accuracy by the rule's rate and at the best of all, by number of images."""
    rows = []
    for dataset in reading.datasets:
        stored = {row.label: row.test_accuracy for row in reading.on(dataset).finals.itertuples()}
        for number in IMAGES:
            tried = {by: stored.get(label_of(number, by)) for by in TRIED}
            if None in tried.values():
                continue
            [images] = {
                one.run.dataset.examples
                for label, one in reading.on(dataset).found
                if label == label_of(number, 1.0)
            }
            best = max(tried, key=tried.get)
            rows.append((dataset, images, tried[1.0], tried[best], best))
    return pd.DataFrame(rows, columns=("dataset", "images", "rule", "search", "best rate"))


def rule(reading: Reading) -> Figure | Note:
    """Draw accuracy by number of images: by the rule, and by a search of its rate."""
    data = rule_beside_search(reading)
    if data.empty:
        return not_yet_run("The rule beside a search", reading.command)
    drawn = list(dict.fromkeys(data.dataset))
    with canvas(1, len(drawn), size=(2.4 * len(drawn), 2.6)) as (figure, panels):
        for axes, dataset in zip(panels, drawn, strict=True):
            rows = data[data.dataset == dataset]
            for name, style in zip(("search", "rule"), STYLES[1::-1], strict=True):
                axes.plot(rows.images, 100 * rows[name], **style.line)
            axes.set(xscale="log", xlabel="images", xticks=(1e3, 1e4))
            axes.set_title(DATASETS[dataset], fontsize="medium")
        panels[0].set_ylabel("held-out accuracy, %")
        for name, style, place in (("search", STYLES[1], 0.18), ("rule", STYLES[0], 0.06)):
            where = {"transform": panels[0].transAxes, "ha": "right"}
            panels[0].text(0.97, place, f"by the {name}", color=style.color, **where)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, {row.images:,}: {row.rule:.1%} and {row.search:.1%}"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="recipe-rule",
        caption="The first edition, with fewer features, on the first so many images at ε = 3: by "
        f"the rule, and at the best of five rates around it. {HELD_OUT:,} held-out examples, one "
        "seed.",
        alt=f"Held-out accuracy by number of images, by the rule and by a search. {said}.",
        data=data,
    )
