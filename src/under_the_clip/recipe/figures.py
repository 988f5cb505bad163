"""The recipe: what it reaches, what whitening is worth, and what carries it."""

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, legend_below, not_yet_run
from dpstudy.parts.data.images import DATASETS
from dpstudy.recipe.run import recipe
from under_the_clip.designs import HELD_OUT
from under_the_clip.leaderboard.published import DISPUTED, NOT_READ, PUBLISHED, RUN_AGAIN
from under_the_clip.recipe.search import EPSILONS, PLAIN, SETTINGS


def reached(reading: Reading) -> Table | Note:
    """Return the recipe's test accuracy at each ε, beside what others have."""
    rows = []
    for dataset in reading.experiment.datasets:
        for epsilon in sorted(EPSILONS):
            line = Variant(reading.on(dataset), f"epsilon {epsilon:g}")
            if not line.results:
                continue
            chosen = line.run
            rows.append(
                {
                    "dataset": DATASETS[dataset],
                    "true ε": line.median("epsilon_pld"),
                    "exponent": chosen.dataset.exponent,
                    "rate": chosen.optimizer.learning_rate,
                    **_interval(line.accuracy),
                    "median": line.accuracy.median(),
                    "seeds": len(line.accuracy),
                    **_of_others(dataset, epsilon),
                }
            )
    if not rows:
        return not_yet_run("What the recipe reaches", reading.command)
    percent = ("accuracy", "low", "high", "median", "published", "run again", "disputed")
    return Table(
        name="recipe-reached",
        caption=(
            "Test accuracy of the recipe, exponent and learning rate chosen on held-out training "
            "examples with the noise of that ε: mean over seeds with its 95 % interval, low to "
            "high, and median. A seed draws synthetic images, filters, batches and noise. Beside "
            "it, without real public data and at this ε or less: the highest published that we "
            "read; what others reach who ran it again; what Tang et al. 2023 are said to state, "
            "which we could not read; and the highest of selective updates, Fu et al. 2024, whose "
            "accounting is disputed."
        ),
        data=pd.DataFrame(rows),
        formats={
            "true ε": "{:.2f}",
            "exponent": "{:g}",
            "rate": "{:.3g}",
            "not read": "about {:.0%}",
            **dict.fromkeys(percent, "{:.2%}"),
        },
        merged={"published": "{published}, {by}"},
    )


def _of_others(dataset: str, epsilon: float) -> dict[str, object]:
    """Return what others have at that ε or less: the highest published, and what bears on it."""
    found = [one for one in PUBLISHED if one.dataset == dataset and one.claimed_epsilon <= epsilon]
    sound, disputed = (
        max(
            (one for one in found if (one.method in DISPUTED) == is_disputed),
            key=lambda one: one.accuracy,
            default=None,
        )
        for is_disputed in (False, True)
    )
    again = [
        one.accuracy
        for one in RUN_AGAIN
        if sound
        and (one.dataset, one.method, one.claimed_epsilon)
        == (dataset, sound.method, sound.claimed_epsilon)
    ]
    not_read = [
        accuracy
        for (where, _), stated in NOT_READ.items()
        for at, accuracy in stated.items()
        if where == dataset and at <= epsilon
    ]
    return {
        "published": sound.accuracy if sound else None,
        "by": f"{sound.method}, ε = {sound.claimed_epsilon:g}" if sound else None,
        "run again": max(again, default=None),
        "not read": max(not_read, default=None),
        "disputed": disputed.accuracy if disputed else None,
    }


def _interval(accuracy: pd.Series) -> dict[str, float | None]:
    if len(accuracy) < 2:
        return {"accuracy": accuracy.mean(), "low": None, "high": None}
    mean = Estimate.mean(accuracy)
    return {"accuracy": mean.value, "low": mean.low, "high": mean.high}


def cost() -> Table | Note:
    """Return what the recipe costs from an empty cache to a trained head."""
    found, _ = records.read_all(records.folder("recipes"), "recipes")
    if not found:
        return not_yet_run("What the recipe costs", "python benchmarks/recipe.py cifar-10")
    rows = [
        {
            "dataset": DATASETS[one["dataset"]],
            "ε": one["epsilon"],
            "accuracy": one["test_accuracy"],
            "minutes": one["seconds"] / 60,
            "GB": one["peak_megabytes"] / 1000,
            "on": one["provenance"]["device"],
        }
        for one in found.values()
    ]
    return Table(
        name="recipe-cost",
        caption=(
            "The recipe from nothing to a trained head: synthetic images, features, training. The "
            "accuracy is that of the run that was timed, which is none of the five above."
        ),
        data=pd.DataFrame(rows),
        formats={"ε": "{:.2f}", "accuracy": "{:.2%}", "minutes": "{:.1f}", "GB": "{:.1f}"},
    )


def _searched(reading: Reading) -> pd.DataFrame:
    """Return the held-out accuracy of each setting that is stored."""
    finals = reading.finals
    rows = finals[finals.label.isin(SETTINGS)] if len(finals) else finals
    columns = ("dataset", "label", "exponent", "true ε", "accuracy")
    return pd.DataFrame(
        [
            (row.dataset, row.label, SETTINGS[row.label][0], row.epsilon_pld, row.test_accuracy)
            for row in rows.itertuples()
        ],
        columns=columns,
    )


def spent_on_fewer(*spent: float) -> str:
    """Return the sentence that says what the noise of a search costs the examples left to it."""
    ends = dict.fromkeys(f"{of(spent):.2f}" for of in (min, max))
    return (
        "The noise is that of ε = 3 on all examples; on those trained on, ε is "
        f"{' to '.join(ends)}."
    )


def whitening(reading: Reading) -> Figure | Note:
    """Draw the held-out accuracy at the best of the rates tried against the exponent."""
    data = _searched(reading)
    if data.empty:
        return not_yet_run("What whitening is worth", reading.command)
    best = data.groupby(["dataset", "exponent"], sort=False).accuracy.max().reset_index()
    with canvas(size=(6.5, 3.6)) as (figure, [axes]):
        for style, dataset in zip(STYLES, reading.experiment.datasets, strict=False):
            rows = best[best.dataset == dataset].sort_values("exponent")
            if rows.empty:
                continue
            axes.plot(rows.exponent, 100 * rows.accuracy, label=DATASETS[dataset], **style.line)
        axes.set(xlabel="exponent of a component's variance", ylabel="held-out accuracy, %")
        legend_below(figure)
    accuracies = "; ".join(
        f"{DATASETS[row.dataset]}, {row.exponent:g}: {row.accuracy:.1%}"
        for row in best.itertuples()
    )
    return Figure(
        fig=figure,
        name="recipe-whitening",
        caption=(
            f"Accuracy on {HELD_OUT:,} held-out training examples at the best rate, one seed, "
            "against the power of its variance that a component is divided by: 0 leaves variances "
            f"as they are, 1/2 makes them equal. {spent_on_fewer(*data['true ε'].dropna())}"
        ),
        alt=f"Held-out accuracy by exponent. {accuracies}.",
        data=best,
    )


def transferred(reading: Reading) -> Table | Note:
    """Return what the settings that one dataset chooses are worth on the others."""
    data = _searched(reading)
    counts = data.groupby("dataset").size() if len(data) else pd.Series(dtype=int)
    whole = [name for name in reading.experiment.datasets if counts.get(name) == len(SETTINGS)]
    if len(whole) < 2:
        return not_yet_run("Settings of another dataset", reading.command)
    by_label = {name: data[data.dataset == name].set_index("label").accuracy for name in whole}
    rows = [
        {"trained on": DATASETS[name]}
        | {
            f"by {DATASETS[chooser]}": by_label[name][by_label[chooser].idxmax()]
            for chooser in whole
        }
        for name in whole
    ]
    return Table(
        name="recipe-transferred",
        caption=(
            "Held-out accuracy at the exponent and the rate that are best on each dataset: what "
            "choosing on another's examples costs, where choosing on one's own is not counted in ε."
        ),
        data=pd.DataFrame(rows),
        formats={f"by {DATASETS[name]}": "{:.2%}" for name in whole},
    )


@for_each_dataset("The recipe, changed")
def changed(reading: Reading) -> Table | Note:
    """Return what each change of the recipe does to its held-out accuracy."""
    found = best_of_rates(reading)
    base = found.pop(PLAIN, None)
    if base is None:
        return Note(
            "Not yet run",
            "Not all runs of the unchanged recipe are stored that the changes are compared with.",
            reading.command,
        )
    rows = [{"change": name} | _gained(accuracy, base) for name, accuracy in found.items()]
    if not rows:
        return not_yet_run("The recipe, changed", reading.command)
    points, merged = {"points": "{:+.2f}"}, {}
    if several := reading.experiment.best_seeds:
        seeds = f"seeds 1 to {several}, which did not choose the rate,"
        how_sure = ", with their 95 % interval"
        points |= dict.fromkeys(("low", "high"), "{:+.2f}")
        merged = {"points": "{points} ({low} to {high})"}
    else:
        chance = 200 * (2 * base.mean() * (1 - base.mean()) / HELD_OUT) ** 0.5
        seeds, how_sure = "one seed,", f"; less than {chance:.1f} points could be chance"
    return Table(
        name=reading.experiment.name,
        caption=(
            f"{DATASETS[reading.dataset_name]}: accuracy on {HELD_OUT:,} held-out examples at the "
            f"best of its rates, {seeds} and points over the recipe's {base.mean():.2%} at an "
            f"exponent of {recipe(reading.dataset_name).dataset.exponent:g}"
            f"{how_sure}. {spent_on_fewer(*reading.finals.epsilon_pld.dropna())}"
        ),
        data=pd.DataFrame(rows),
        formats=points | {"accuracy": "{:.2%}"},
        merged=merged,
    )


def _gained(accuracy: pd.Series, base: pd.Series) -> dict[str, float]:
    """Return a mean accuracy, and the points over another, with an interval if it has seeds."""
    found = {"accuracy": accuracy.mean(), "points": (100 * accuracy - 100 * base).mean()}
    if len(accuracy) == 1:
        return found
    gain = Estimate.difference(100 * accuracy, 100 * base)
    return found | {"low": gain.low, "high": gain.high}


def best_of_rates(reading: Reading) -> dict[str, pd.Series]:
    """Return the held-out accuracy by seed at the best rate of each change, once it is chosen.

    Of the seeds that had no part in the choice, where there are such; else of the one that chose.
    """
    search, dataset, found = reading.experiment, reading.dataset_name, {}
    chosen = {
        best: choice.run for (name, best), choice in search.chosen().items() if name == dataset
    }
    for best in search.groups:
        trained = Variant(reading, best).accuracy
        if not search.best_seeds and best in chosen:
            own = [one for _, one in reading.found if one.run == chosen[best]][:1]
            trained = pd.Series([one.curve["test_accuracy"][-1] for one in own], dtype=float)
        if len(trained) == (search.best_seeds or 1):
            found[best.removesuffix(", best")] = trained
    return found
