"""The recipe: what it reaches, what whitening is worth, and what carries it."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.cbook import get_sample_data

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import Reading
from dpstudy.lab.variant import Variant
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import STYLES, Figure, Note, Table, canvas, not_yet_run
from dpstudy.parts.data.images import DATASETS
from dpstudy.recipe.patch_features import choose_filters, features, normalised
from dpstudy.recipe.views import WITH_MIRROR
from under_the_clip.designs import HELD_OUT
from under_the_clip.leaderboard.published import DISPUTED, NOT_READ, PUBLISHED, RUN_AGAIN
from under_the_clip.recipe.search import EPSILONS, PLAIN, RECIPE_SEARCH, SETTINGS


def reached(**editions: Reading) -> Table | Note:
    """Return the test accuracy of each edition of the recipe at each ε, beside what others have."""
    rows = []
    for (edition, reading), dataset in product(editions.items(), RECIPE_SEARCH.datasets):
        for epsilon in sorted(EPSILONS):
            line = Variant(reading.on(dataset), f"epsilon {epsilon:g}")
            if not line.results:
                continue
            chosen = line.run
            rows.append(
                {
                    "edition": edition,
                    "dataset": DATASETS[dataset],
                    "true ε": line.median("epsilon_pld"),
                    "exponent": chosen.dataset.weighted_blocks[0][0].exponent,
                    "rate": chosen.optimizer.learning_rate,
                    **_interval(line.accuracy),
                    "median": line.accuracy.median(),
                    "seeds": len(line.accuracy),
                    **_of_others(dataset, epsilon),
                }
            )
    if not rows:
        return not_yet_run("What the recipe reaches", next(iter(editions.values())).command)
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
    highest = partial(max, key=lambda one: one.accuracy, default=None)
    sound = highest(one for one in found if one.method not in DISPUTED)
    disputed = highest(one for one in found if one.method in DISPUTED)
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


def _searched(reading: Reading) -> pd.DataFrame:
    """Return the held-out accuracy of each setting that is stored."""
    columns = ("dataset", "label", "exponent", "true ε", "accuracy")
    return pd.DataFrame(
        [
            (row.dataset, row.label, SETTINGS[row.label][0], row.epsilon_pld, row.test_accuracy)
            for row in reading.finals.itertuples()
            if row.label in SETTINGS
        ],
        columns=columns,
    )


def whitening(reading: Reading) -> Figure | Note:
    """Draw what dividing by a power of its variance gains, at the best of the rates tried."""
    data = _searched(reading)
    if data.empty:
        return not_yet_run("What whitening is worth", reading.command)
    best = data.groupby(["dataset", "exponent"], sort=False).accuracy.max().reset_index()
    drawn = list(dict.fromkeys(best.dataset))
    with canvas(1, len(drawn), size=(2.4 * len(drawn), 2.5)) as (figure, panels):
        for axes, dataset in zip(panels, drawn, strict=True):
            rows = best[best.dataset == dataset].sort_values("exponent")
            axes.plot(rows.exponent, 100 * rows.accuracy, **STYLES[0].line)
            axes.set_title(DATASETS[dataset], fontsize="medium")
            axes.set(xlabel="exponent", xticks=(0, 0.5, 1))
        panels[0].set_ylabel("held-out accuracy, %")
    accuracies = "; ".join(
        f"{DATASETS[row.dataset]}, {row.exponent:g}: {row.accuracy:.1%}"
        for row in best.itertuples()
    )
    return Figure(
        fig=figure,
        name="recipe-whitening",
        caption=(
            "The first edition, each component divided by its variance to this power: 0 leaves "
            f"variances as they are, 1/2 makes them equal. {HELD_OUT:,} held-out examples, one "
            "seed, the best rate."
        ),
        alt=f"Held-out accuracy by exponent. {accuracies}.",
        data=best,
    )


def heard(pulls: Mapping[str, np.ndarray], noise: float) -> Figure:
    """Draw how far the private images pull each component in a training, beside the noise.

    Args:
        pulls: by what was done to the components, a pull for each, the first component first.
        noise: of all steps, as long in each component.
    """
    with canvas(size=(6.4, 2.9)) as (figure, [axes]):
        for style, (label, pull), (at, below) in zip(
            STYLES[1::-1], pulls.items(), ((0.85, -30), (0.5, 24)), strict=True
        ):
            rank = np.arange(1, 1 + len(pull))
            axes.plot(rank, pull, ".", color=style.color, markersize=3)
            smooth = np.exp(
                np.convolve(np.log(np.pad(pull, 10, "edge")), np.ones(21) / 21, "valid")
            )
            axes.plot(rank, smooth, color=style.color, linewidth=2)
            place = int(at * len(pull))
            beside = {"xytext": (0, below), "textcoords": "offset points", "ha": "center"}
            axes.annotate(label, (rank[place], smooth[place]), **beside, color=style.color)
        axes.axhspan(axes.get_ylim()[0] / 1e3, noise, color="0.85", zorder=0)
        axes.text(2, noise / 1.2, "noise", va="top")
        axes.set(yscale="log", xlabel="component, by variance", ylabel="pull")
        axes.set_ylim(min(map(np.min, pulls.values())) / 2, 2 * max(map(np.max, pulls.values())))
    above = "; ".join(f"{label} {np.sum(pull > noise)}" for label, pull in pulls.items())
    return Figure(
        fig=figure,
        name="recipe-heard",
        caption="How far the digits above pull each component, if all steps pull as the first: "
        "what lies in the grey is lost in the noise of all steps.",
        alt=f"Pull by component, falling steeply where variances are as they are, and flat where "
        f"whitened. Above the noise: {above}, of {len(next(iter(pulls.values())))}.",
        data=pd.DataFrame(pulls).assign(noise=noise),
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
    spent = reading.finals.epsilon_pld.dropna()
    ends = dict.fromkeys(f"{end:.2f}" for end in (spent.min(), spent.max()))
    return Table(
        name=reading.experiment.name,
        caption=(
            f"{DATASETS[reading.dataset_name]}: accuracy on {HELD_OUT:,} held-out examples at the "
            f"best of its rates, {seeds} and points over the recipe's {base.mean():.2%}"
            f"{how_sure}. The noise is that of ε = 3 on all examples; on those trained on, ε is "
            f"{' to '.join(ends)}."
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


def gains_in(reading: Reading, names: Mapping[str, str]) -> list[dict[str, object]]:
    """Return rows for `dots`: what named changes gain, by dataset, in points."""
    rows = []
    for dataset in reading.datasets:
        found = best_of_rates(reading.on(dataset))
        if PLAIN in found:
            base = found[PLAIN]
            rows += [
                {"dataset": dataset, "row": shown, "seeds": len(base), **_gained(found[name], base)}
                for name, shown in names.items()
                if name in found
            ]
    return rows


def steps(drawn: np.ndarray) -> Figure:
    """Draw the recipe from drawings to a linear head, and which of its steps cost privacy.

    The photo is of Grace Hopper, of the US Navy, in the public domain.
    """
    bank = np.asarray(choose_filters(drawn, 5, 64, np.random.default_rng(0)))
    with get_sample_data("grace_hopper.jpg") as file:
        photo = plt.imread(file, format="jpg")[:512, :512].reshape(32, 16, 32, 16, 3).mean((1, 3))
    smooth = sorted(np.moveaxis(bank, -1, 0), key=lambda one: np.abs(np.diff(one, axis=0)).sum())
    windows = np.lib.stride_tricks.sliding_window_view(photo / 255, (5, 5), axis=(0, 1))
    patches = np.moveaxis(windows, 2, -1).reshape(28, 28, -1)
    found = np.asarray(normalised(patches) @ bank.reshape(len(patches[0, 0]), -1))
    strong = np.maximum(np.abs(found) - 0.6, 0)
    pictured = np.argsort(-strong.std((0, 1)))[[0, 4, 8]]
    responses = np.asarray(features(drawn[:150], (bank,), 0.6, views=WITH_MIRROR))
    standard = (responses - responses.mean(0)) / (responses.std(0) + 1e-6)
    sizes = np.linalg.svd(standard, compute_uv=False)[:60] / len(responses) ** 0.5
    whitened = sizes ** (1 - 2 * 0.4)
    titles = "drawn images", "filters", "a photo's responses", "components", "linear head"
    with canvas(1, 5, size=(9.2, 2.4)) as (figure, panels):
        _tiles(panels[0], drawn[:9] / 255, 3)
        _tiles(panels[1], [_stretched(one) for one in smooth[:25]], 5)
        maps = [plt.cm.gray_r(_stretched(strong[..., one]))[..., :3] for one in pictured]
        padded = [np.pad(one, ((2, 2), (2, 2), (0, 0)), constant_values=1) for one in maps]
        _tiles(panels[2], [photo / 255, *padded], 2)
        for bottom, size, name in ((1.3, sizes, "as they are"), (0, whitened, "whitened")):
            bars = size / size.max()
            panels[3].bar(range(60), bars, bottom=bottom, width=1, color=STYLES[bottom == 0].color)
            panels[3].text(59, bottom + 1.02, name, ha="right", fontsize="small")
        panels[3].set(ylim=(-0.1, 2.6))
        inputs, classes = np.linspace(-1, 1, 16), np.linspace(-0.8, 0.8, 10)
        ends = [end for pair in product(inputs, classes) for end in (*pair, np.nan)]
        panels[4].plot([0, 1, np.nan] * (len(ends) // 3), ends, color="0.75", linewidth=0.4)
        panels[4].plot(0 * inputs, inputs, "s", color=STYLES[1].color, markersize=4)
        panels[4].plot(0 * classes + 1, classes, "o", color=STYLES[0].color, markersize=6)
        for axes, title in zip(panels, titles, strict=True):
            private = axes is panels[-1]
            axes.set_title(title, fontsize="medium")
            axes.set(xticks=(), yticks=())
            axes.set_xlabel("DP-SGD: costs ε" if private else "costs no privacy")
            axes.spines[:].set(color=STYLES[4 if private else 0].color, linewidth=2)
            axes.grid(visible=False)
            axes.set_box_aspect(1)
    return Figure(
        fig=figure,
        name="recipe-steps",
        caption="Patches of drawn images become filters; a photo's responses to them become "
        "components, whitened; a linear head is all that DP-SGD trains.",
        alt="Nine drawn images of coloured discs; the 25 smoothest of 64 filters; a portrait and "
        "three maps of where filters respond; sizes of components, the first by far the largest, "
        "and whitened, all of like size; lines from components to ten classes. The first four "
        "cost no privacy, it says below them, and the last one costs epsilon.",
        data=pd.DataFrame({"size of a component": sizes, "whitened": whitened}),
    )


def _stretched(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / (values.max() - values.min())


def _tiles(axes: Axes, pictures: Sequence[np.ndarray], columns: int) -> None:
    """Show pictures of one size, so many a row, white between them."""
    edged = [np.pad(one, ((1, 1), (1, 1), (0, 0)), constant_values=1) for one in pictures]
    rows = [np.hstack(edged[at : at + columns]) for at in range(0, len(edged), columns)]
    axes.imshow(np.vstack(rows), interpolation="nearest")
