# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which one, at the same ε?
#
# **In short.** Without public data take the recipe, a linear head on whitened features that are
# built from synthetic images. At a true ε of 3 it has 77.22 % of the test images right on CIFAR-10,
# 91.91 % on Fashion-MNIST and 98.96 % on MNIST, medians of five seeds. On CIFAR-10 a run that was
# timed took 10.7 minutes of two cores and 3.8 GB, from nothing to the trained head, and has
# 76.84 %: it is none of the five. There, at 8, a deep network may be better: the recipe has
# 78.94 %, {cite:t}`de2022unlocking` have 81.4 %, and 78.7 % where others ran it again
# {cite}`bao2024reliable`.
#
# - On CIFAR-10 it has 73.21 % at 1 and 75.83 % at 2. At 1 the highest published that we could read
#   is 72.3 %, from synthetic images too {cite}`tang2023randp`, and 72.5 % where others ran it
#   again. What its authors have at 2 and 8 we could not read: it is said to be about 77 and 85 %,
#   more than the recipe has.
# - On Fashion-MNIST it has 90.44, 91.50 and 92.49 % at 1, 2 and 8. At 3 {cite:t}`tramer2021code`
#   have 89.7 %, and {cite:t}`fu2024dpsur` as many. That the ε of the latter holds is disputed:
#   their accounting takes the sampling probability for constant {cite}`huang2026revisiting`.
# - On MNIST it has 98.68, 98.80 and 99.14 % at 1, 2 and 8. At 3 {cite:t}`tramer2021code` have
#   98.7 %, and {cite:t}`fu2024dpsur`, with the same accounting, 98.9 %. Digits are made upright
#   first {cite}`lecun1998gradient`, each by its own slant, which costs no privacy: as they lean,
#   98.67 % are right at 3.
# - Whitening adds 5.1 points on CIFAR-10: 76.54 % are right with each principal component divided
#   by its variance to the power 0.4, and 71.43 % without. On Fashion-MNIST it adds less: 91.91 %
#   with the power 0.3, and 90.65 % without. These are of 10,000 training images held out, each at
#   its best rate, with one seed. Trained on fewer, their ε is 3.48 and 3.38.
# - None of the papers' remedies is seen to help on such features of photographs and clothes: the
#   best, squared error that turns to cross-entropy, gains 0.08 points (-0.04 to 0.21) on CIFAR-10,
#   held out, with four seeds, and 0.07 (-0.16 to 0.30) on Fashion-MNIST.
# - On pixels, on Fashion-MNIST at 3, tanh and the [composite loss](03_losing_less.ipynb) are in
#   part the same remedy twice: alone they gain 1.75 and 1.54 points over relu with cross-entropy,
#   together 2.12.
# - Of eleven methods on Fashion-MNIST the recipe leads at 1, 3 and 8, and a linear head on
#   scattering features follows it, with 89.91 % at 3. No network of ours on pixels has more than
#   86.89 there. Relu without a remedy has 84.47, and clips inside backpropagation, made sound, are
#   last.
# - On MNIST the recipe leads at 1 and 3, and relu and clips inside share the last rank. Not run
#   yet: most of MNIST's factorial, and on both rankings squared error that turns to
#   cross-entropy.

# %% tags=["remove-input"]
import numpy as np
import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.comparison import Estimate
from dpstudy.lab.readings import read
from dpstudy.lab.variant import Variant
from dpstudy.page.figure import (
    STYLES,
    Figure,
    Several,
    Table,
    canvas,
    legend_below,
    not_yet_run,
)
from dpstudy.page.results import results
from dpstudy.parts.data.images import DATASETS
from under_the_clip.leaderboard.board import (
    cost,
    lines_at,
    lines_on_cifar_10,
    others,
    ranks,
)
from under_the_clip.leaderboard.experiments import (
    BOARDS,
    EPSILONS,
    RECIPE,
)
from under_the_clip.recipe.search import EPSILONS as SEARCHED
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.tempered_sigmoids.experiments import CIFAR_10_RATES


def draw_ours(axes, data, dataset):
    for number, name in enumerate(dict.fromkeys(data.method)):
        rows = data[
            (data.dataset == dataset) & (data.method == name)
        ].sort_values("epsilon")
        style = STYLES[number % len(STYLES)]
        fill = style.color if number < len(STYLES) else "white"
        apart = 100 * np.stack(
            [rows.accuracy - rows.minimum, rows.maximum - rows.accuracy]
        )
        mark = style.line | {
            "markerfacecolor": fill,
            "label": name,
            "yerr": apart,
        }
        axes.errorbar(rows.epsilon, 100 * rows.accuracy, **mark)


def draw_theirs(axes, theirs, dataset):
    for number, method in enumerate(
        dict.fromkeys(one.method for one in theirs)
    ):
        found = [
            one
            for one in theirs
            if (one.dataset, one.method) == (dataset, method)
        ]
        axes.plot(
            [one.claimed_epsilon for one in found],
            [100 * one.accuracy for one in found],
            "*PXdph"[number % 6],
            color="black",
            markerfacecolor="none",  # two of them may lie on each other
            markersize=13 - number,
            label=method,
        )


def drawn(data):
    datasets = list(dict.fromkeys(data.dataset))
    theirs = [one for one in others() if one.dataset in datasets]
    with canvas(1, len(datasets), size=(6.9, 5.2)) as (figure, panels):
        for axes, dataset in zip(panels, datasets, strict=True):
            draw_ours(axes, data, dataset)
            draw_theirs(axes, theirs, dataset)
            axes.set(xscale="log", xlabel="true ε", title=DATASETS[dataset])
            axes.set_xticks(
                (1, 2, 3, 8),
                [f"{one:g}" for one in (1, 2, 3, 8)],
                minor=False,
            )
            axes.set_xticks([], minor=True)
        panels[0].set(ylabel="test accuracy, %")
        legend_below(figure)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, ε = {row.epsilon:.3g}, {row.method}: {row.accuracy:.2%}"
        for row in data.itertuples()
    )
    published = "; ".join(
        f"{DATASETS[one.dataset]}, ε = {one.claimed_epsilon:g}, {one.method}: {one.accuracy:.1%}"
        for one in theirs
    )
    return Figure(
        fig=figure,
        name="leaderboard",
        caption=(
            "Median test accuracy against the true ε, and the range over "
            f"{data.seeds.min()} to {data.seeds.max()} seeds. Black outlines: published, at the ε "
            "that is stated. *: whether that ε holds is disputed."
        ),
        alt=f"Accuracy against ε. {said}. Published: {published}.",
        data=data,
    )


def in_short():
    readings = {one.datasets[0]: read(one) for one in BOARDS}
    lines = [
        (dataset, line)
        for dataset, reading in readings.items()
        for epsilon in EPSILONS[dataset]
        for line in lines_at(reading, epsilon)
        if line.name != RECIPE  # Its own search has it at each of its ε.
    ]
    search = read(RECIPE_SEARCH)
    for dataset in RECIPE_SEARCH.datasets:
        at_each = (f"epsilon {epsilon:g}" for epsilon in sorted(SEARCHED))
        lines += [
            (dataset, Variant(search.on(dataset), label, "recipe"))
            for label in at_each
        ]
    rates = read(CIFAR_10_RATES)
    lines += [
        ("cifar-10", Variant(rates, f"{name}, best", name))
        for name in ("relu", "tanh")
    ]
    lines += [
        ("cifar-10", line)
        for line in lines_on_cifar_10()
        if line.name != "recipe"
    ]
    rows = [
        {
            "dataset": dataset,
            "method": line.name,
            "epsilon": line.median("epsilon_pld"),
            "accuracy": line.accuracy.median(),
            "minimum": line.accuracy.min(),
            "maximum": line.accuracy.max(),
            "seeds": len(line.accuracy),
        }
        for dataset, line in lines
        if len(line.results)
    ]
    if not rows:
        commands = "\n".join(
            reading.command for reading in readings.values()
        )
        return not_yet_run("The leaderboard", commands)
    return drawn(pd.DataFrame(rows))


in_short()

# %% tags=["parameters"]
profile = "stored"  # or "smoke", tiny runs in a minute; or "full"
dataset = None  # each in turn; or one of "mnist", "fashion-mnist"
seeds = None  # the experiment's own number

# %% [markdown]
# ## A recipe for two cores
#
# `dpstudy recipe cifar-10 --epsilon 3` trains it and prints accuracy, ε and time. With `--save` it
# keeps a model, which [ten lines](../book/how_to_rerun.md) read. It has four steps:
#
# 1. A program draws 12,000 images: discs that hide one another, and for digits and clothes thick
#    strokes too {cite}`baradad2021learning`. Digits, drawn or private, are sheared until they stand
#    upright.
# 2. 800 patches of 5 x 5 pixels and 200 of 8 x 8 become filters. An image's features are the
#    responses of its patches to them, thresholded on both sides and averaged over regions of the
#    image {cite}`coates2011importance`, except for digits over the image and its mirror image.
# 3. The drawn images' features give 8,000 principal components. Each is divided by its variance to
#    the power 0.4. Noise is as large in every direction, and those of small variance drown in it:
#    whitening makes them larger.
# 4. A linear head is trained on the private images' components by DP-SGD: batches of 8,192, 60
#    epochs, C = 0.25, a rate of 13.3 ε up to an ε of 8.
#
# Of the private images only the mean enters the features, released with a noise multiplier of 20,
# which ε counts; their number is taken to be public. The command takes the exponent and the rate of
# these steps. For the rows below both were searched on images held out, on each dataset and at each
# ε, which ε does not count. An attack on the recipe, mean included, shows at least 1.55 of the
# proven 3 ([audits](07_audits.ipynb)). For images of your own there is
# [a script](../book/engine.md).
#
# The recipe was changed twice after its test accuracy had been seen. Its first version, with one
# rate for every ε and one grid of regions, was tested on CIFAR-10 with one seed, 67.79, 74.10,
# 75.95 and 77.89 % at 1, 2, 3 and 8, before rates in proportion to ε and the three grids came;
# those runs are in the repository's history. Digits as they lean were tested at the same four ε and
# missed our floor of 98.8 % at 3, by 0.13 points, before they were made upright and tested again.
# Each choice itself was made by images held out. From now on a changed recipe is chosen by these
# alone, and tested once.

# %% tags=["remove-input"]
from dpstudy.lab.train import prepare
from under_the_clip.experiments import find
from under_the_clip.recipe import figures as recipe

search, slanted, parts, remedies = (
    prepare(find(f"recipe-{name}"), profile, dataset=dataset, seeds=seeds)
    for name in ("search", "slanted", "parts", "remedies")
)
recipe.reached(search)

# %% tags=["remove-input"]
recipe.cost()

# %% [markdown]
# ### What whitening is worth
#
# Each component of the features is divided by a power of its variance over synthetic images.

# %% tags=["remove-input"]
recipe.whitening(search)

# %% [markdown]
# A search spends privacy that no one counts. Choosing exponent and rate on another dataset spends
# that dataset's instead. On none of the three it costs more than 0.09 points, whichever of the
# others chooses, held out, with one seed.

# %% tags=["remove-input"]
recipe.transferred(search)

# %% [markdown]
# ### What carries it
#
# The drawn images, mirror images and many components carry it on CIFAR-10, besides whitening. With
# white noise in place of the drawn images it loses 5.54 points, without mirror images 2.26, with
# 2,000 components for 8,000 it loses 1.53, and with a quarter of the filters 1.17, where less than
# 1.2 could be chance. On Fashion-MNIST none of these changes costs more than 0.36. The private
# images in place of synthetic ones, a diagnostic without ε, are worth 1.46 points less on CIFAR-10
# and 0.10 more on Fashion-MNIST: synthetic images cost nothing visible. Scattering features in
# place of these have 65.31 % on CIFAR-10, and whitening does not rescue them: 65.30 %. Each change
# is made by itself, at the best of its rates, with one seed.

# %% tags=["remove-input"]
recipe.changed(parts)

# %% [markdown]
# ### Do the remedies still help?
#
# None is seen to help. On CIFAR-10, over the recipe's 76.77 %, held out, squared error that turns
# to cross-entropy gains 0.08 points (-0.04 to 0.21), automatic clipping -0.16 (-0.37 to 0.06), and
# a hidden layer with tanh -0.28 (-0.82 to 0.25). The others lose: the composite loss 0.56 (0.47 to
# 0.66), the filter 1.25 (1.19 to 1.31), a hidden layer with relu 1.13 (1.06 to 1.20), and with a
# tempered sigmoid 1.06 (0.47 to 1.65). These are means of four seeds, each remedy at its best of
# several rates, which another seed chose.
#
# On Fashion-MNIST none can be told apart from the recipe, which has 91.96 %: squared error that
# turns to cross-entropy gains most, 0.07 points (-0.16 to 0.30), and a hidden layer with a tempered
# sigmoid loses most, 0.26 (-0.07 to 0.58).
#
# The filter's active range $k$ is 0.001: a wider one would leave these small gradients as they are.
# Clips inside backpropagation would be flat clipping here: there is one layer, and its inputs have
# norm 1. A second layer of features was not built.

# %% tags=["remove-input"]
recipe.changed(remedies)

# %% [markdown]
# ## Eleven methods at one ε
#
# A method has a row once it is stored with three seeds. On CIFAR-10 the recipe stands beside runs
# of the chapters. Methods on pixels share a network, but for backpropagation clipping, which has
# its paper's. Each has its own learning rate at each ε, chosen by 10,000 training examples that are
# held out. What a remedy adds, such as clips inside backpropagation, is set as its chapter found
# best, by test accuracy: that favours the remedies. The filter's active range $k$ is 0.1: from 1 on
# it is flat clipping.

# %% tags=["remove-input"]
mnist, fashion, factorial = (
    prepare(find(name), profile, dataset=dataset, seeds=seeds)
    for name in (
        "leaderboard-mnist",
        "leaderboard-fashion-mnist",
        "factorial",
    )
)

# %% [markdown]
# ### CIFAR-10
#
# At an ε of at most 3 no network of ours on pixels comes within 15 points of the recipe, and none
# of ours on scattering features within 12. Others come nearer: {cite:t}`tramer2021code` have 69.3 %
# at 3, on scattering features, and {cite:t}`de2022unlocking` 65.9 % at 2 and 73.5 % at 4, on
# pixels, where a re-run has 62.9 and 69.5 % {cite}`bao2024reliable`. Ours are the chapters' runs,
# not searched with the same effort: relu and tanh keep the rate that was best at an ε of 7.53, by
# test accuracy, and the others have their papers' settings. The best tempered sigmoid, automatic
# clipping, the filter and clips inside backpropagation were not run at this ε.


# %% tags=["remove-input"]
def on_cifar_10():
    return results(
        lines_on_cifar_10(),
        "The recipe's rate was searched at this ε, those of relu and tanh at 7.53; the others have "
        "their papers' settings.",
        name="leaderboard-cifar-10",
        shown="test accuracy at an ε of at most 3",
    )


on_cifar_10()

# %% [markdown]
# ### Fashion-MNIST
#
# The recipe leads at each ε, with 90.32, 91.73 and 92.39 % at 1, 3 and 8, means of five seeds. A
# linear head on scattering features follows it with 88.56, 89.91 and 90.29 %, and then convolutions
# on these. On pixels the composite loss leads at 1, with 84.46 %; at 3 it and tanh cannot be told
# apart, nor at 8 these two and automatic clipping. Tanh is ahead of relu by 3.4, 2.1 and 1.3
# points: it is worth the more, the smaller ε is. Where width, batch and epochs are searched too it
# leads by 0.6 ([chapter 2](02_tempered_sigmoids.ipynb)). The best tempered sigmoid and automatic
# clipping are nowhere ahead of tanh, and the filter is behind it. Clips inside backpropagation,
# made sound, are last at each ε, 2.3 to 4.0 points behind relu, whether by Adam or by SGD.


# %% tags=["remove-input"]
def table_at(reading, epsilon):
    lines = lines_at(reading, epsilon)
    if not lines:
        return None
    [dataset] = reading.experiment.datasets
    costs = records.read_all(records.folder("methods"), "methods")[0].get(
        dataset
    )
    rows = [
        {
            "rank": rank,
            "method": line.name,
            **Estimate.mean(line.accuracy).summary("accuracy"),
            "seeds": len(line.accuracy),
            "true ε": line.median("epsilon_pld"),
            "published": line.published and line.published.accuracy,
            "published ε": line.published
            and line.published.claimed_epsilon,
            **cost(costs, line.name),
        }
        for line, rank in zip(
            lines, ranks([line.accuracy for line in lines]), strict=True
        )
    ]
    diverged = sum(int(line.finals.diverged.sum()) for line in lines)
    return Table(
        name=f"leaderboard-epsilon-{epsilon:g}",
        caption=(
            f"{DATASETS[dataset]} at a true ε of {epsilon:g}: mean test accuracy over seeds with "
            "its 95 % interval. A method's rank is one more than the number of those whose lead "
            "over it has an interval above 0, wide enough for all pairs together, and no smaller "
            "than that of a method with a larger mean. Published: at the ε that the paper states, "
            "where of this page's this is the nearest. Minutes of one core and memory are of a run "
            "that was timed, without the features, which are computed once. "
            f"Runs that diverged: {diverged}."
        ),
        data=pd.DataFrame(rows).sort_values(
            ["rank", "accuracy"], ascending=[True, False]
        ),
        formats={
            **dict.fromkeys(
                ("accuracy", "accuracy_low", "accuracy_high"), "{:.2%}"
            ),
            "true ε": "{:.2f}",
            "published": "{:.1%}",
            "published ε": "{:g}",
            "minutes": "{:.1f}",
            "GB": "{:.1f}",
        },
        merged={
            "accuracy": "{accuracy} ({accuracy_low} to {accuracy_high})",
            "published": "{published}, ε = {published ε}",
        },
    )


def board(reading):
    [dataset] = reading.experiment.datasets
    tables = {
        epsilon: table_at(reading, epsilon) for epsilon in EPSILONS[dataset]
    }
    shown = {
        epsilon: table
        for epsilon, table in tables.items()
        if table is not None
    }
    if not shown:
        return not_yet_run(
            f"The leaderboard on {DATASETS[dataset]}", reading.command
        )
    return Several(
        tuple(shown.values()),
        tuple(f"ε = {epsilon:g}" for epsilon in shown),
    )


board(fashion)

# %% [markdown]
# ### MNIST
#
# The recipe leads at 1 and 3 as well, with 98.51 and 98.89 %, means of five seeds, and a linear
# head on scattering features follows it with 98.27 and 98.64 %. On pixels the composite loss has
# the most, 97.45 and 98.30 %; tanh, the best tempered sigmoid, automatic clipping and the filter
# cannot be told apart from it, nor can convolutions on scattering features. Tanh is ahead of relu
# by 2.1 and 1.4 points, and clips inside backpropagation, made sound, are not seen to differ from
# relu, whether by Adam or by SGD.

# %% tags=["remove-input"]
board(mnist)

# %% [markdown]
# ### Which remedies add up?
#
# On Fashion-MNIST tanh and the composite loss are in part the same remedy twice. Under flat
# clipping relu with cross-entropy has 83.87 %. Tanh alone gains 1.75 points, the composite loss
# alone 1.54, and both together 2.12: 1.16 (0.33 to 1.99) less than the sum. Automatic clipping is
# within 0.6 points of flat clipping in every cell. The other two mechanisms lose. The filter loses
# 15.8 points with relu and 1.9 with tanh. Clips inside backpropagation lose 3.6 with relu, for
# which their bounds were found, and with the tempered sigmoid they have 56.31 %. All cells are by
# SGD, so that Adam has no part in it.
#
# Of MNIST's factorial relu's cells are whole. There, with cross-entropy, clips inside gain
# 0.42 points over flat clipping (0.28 to 0.56).
#
# Three activations, two losses and four mechanisms are crossed: 24 cells on one network at a true ε
# of 3, all with SGD, each at its own best rate. It is another network than the ranking's, trained
# for half as long. Gains in the second table are averages over the other factor's levels, by a
# linear mixed model for each mechanism with the seed as its random effect: seeds of a cell are at
# most 0.4 points apart in standard deviation under flat clipping, and up to 12 with clips inside.

# %% tags=["remove-input"]
from itertools import product

from dpstudy.lab.verdict import UndecidedError
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.figure import Note
from under_the_clip.designs import EPSILON
from under_the_clip.leaderboard.effects import cells, effects, under, whole
from under_the_clip.leaderboard.experiments import (
    ACTIVATIONS,
    LOSSES,
    MECHANISMS,
)


@for_each_dataset("The factorial: accuracy", whole)
def accuracy(reading):
    data = cells(reading)
    rows = ["loss", "activation"]
    means = (
        data.groupby([*rows, "mechanism"])
        .points.mean()
        .unstack()[list(MECHANISMS)]
    )
    return Table(
        name="factorial-accuracy",
        caption=(
            f"{DATASETS[reading.dataset_name]}: test accuracy in percent at a true ε of "
            f"{EPSILON:g}, means of {data.seed.nunique()} seeds, by activation, loss and "
            "mechanism. Inside: clips inside backpropagation."
        ),
        data=means.loc[list(product(LOSSES, ACTIVATIONS))]
        .rename_axis(columns=None)
        .reset_index(),
        formats=dict.fromkeys(MECHANISMS, "{:.2f}"),
    )


accuracy(factorial)


# %% tags=["remove-input"]
@for_each_dataset("The factorial: under each mechanism", whole)
def under_each_mechanism(reading):
    data = cells(reading)
    try:
        found = [under(data, mechanism) for mechanism in MECHANISMS]
    except UndecidedError as error:
        return Note("The factorial", f"No effects: {error}.")
    columns = (
        f"{mechanism}{end}"
        for mechanism in MECHANISMS
        for end in ("", "_low", "_high")
    )
    return Table(
        name="factorial-under-each-mechanism",
        caption=(
            f"{DATASETS[reading.dataset_name]}: points gained under each mechanism over relu with "
            "cross-entropy, each a mean over the other factor's levels; of two together, beyond "
            "the sum of both. The intervals of a mechanism hold together with 95 % confidence."
        ),
        data=pd.concat(found, axis=1).reset_index(),
        formats=dict.fromkeys(columns, "{:+.2f}"),
        merged={
            name: f"{{{name}}} ({{{name}_low}} to {{{name}_high}})"
            for name in MECHANISMS
        },
    )


under_each_mechanism(factorial)


# %% mystnb={"code_prompt_show": "One model of all mechanisms at once"} tags=["hide-output", "remove-input"]
@for_each_dataset("The factorial: at once", whole)
def at_once(reading):
    try:
        found = effects(cells(reading))
    except UndecidedError as error:
        return Note("The factorial", f"No effects: {error}.")
    return Table(
        name="factorial-at-once",
        caption=(
            f"{DATASETS[reading.dataset_name]}: points gained over relu, cross-entropy and flat "
            "clipping, each a mean over the other factors; of two together, beyond the sum of "
            "both. The intervals of all effects hold together with 95 % confidence."
        ),
        data=found[found.remedy.str.count("×") < 2],
        formats=dict.fromkeys(("points", "low", "high"), "{:+.2f}"),
        merged={"points": "{points} ({low} to {high})"},
    )


at_once(factorial)

# %% [markdown]
# ## The runs behind this page

# %% mystnb={"code_prompt_show": "Every experiment: its name, what is stored of it, what a run takes"} tags=["hide-output", "remove-input"]
from dpstudy.page.datasets import behind

behind(mnist, fashion, factorial, search, slanted, parts, remedies)

# %% [markdown]
# ## Exercises
#
# :::{exercise} When two methods share a rank
# :label: leaderboard-rank
#
# One method is ahead of another by 0.1 points on average, and the seeds of each have a standard
# deviation of 0.1. Do they share a rank with five seeds each? And with twenty?
# :::
#
# :::{solution-start} leaderboard-rank
# :class: dropdown
# :::
#
# With five seeds they do: the interval of the difference reaches below 0. With twenty they do not.

# %% tags=["check-output"]
from scipy import stats

for count in (5, 20):
    spread = np.linspace(-1, 1, count)
    spread = 0.1 * spread / spread.std(ddof=1)
    compared = stats.tukey_hsd(
        97.1 + spread, 97.0 + spread, equal_var=False
    )
    interval = compared.confidence_interval(0.95)
    print(
        f"{count} seeds: {interval.low[0, 1]:.3f} to {interval.high[0, 1]:.3f} points"
    )

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} What the search costs
# :label: leaderboard-search
#
# Three rates are tried at ε = 3 each, on the same private examples, with noise of their own. What
# is the ε of all three models together? And what does it leave out, if the best on private examples
# is published? The page does not count it, and neither do the papers.
# :::
#
# :::{solution-start} leaderboard-search
# :class: dropdown
# :::
#
# At most 5.55 for the models: three trainings are one that is three times as long. Less than three
# times 3, since ε grows more slowly than the number of steps. It leaves out the choice. Which model
# is best was seen on private examples without noise, one of which can change it: no ε holds. And
# where runs share a seed, as here, they share their noise: models from two of them, both published,
# would show gradients without it. So this study publishes none.

# %% tags=["check-output"]
from dpstudy.privacy.accounting import epsilon

steps = 40 * 59
for trainings in (1, 3):
    spent = epsilon(
        sampling_probability=1024 / 60_000,
        noise_multiplier=1.3684,
        steps=trainings * steps,
        delta=1e-5,
    )
    print(f"{trainings}: ε = {spent:.2f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Why features are whitened
# :label: leaderboard-whitening
#
# Two features tell two classes apart equally well: a standard deviation between the classes equals
# one within them. The first is a hundred times as large as the second. Examples are scaled to norm
# 1, and noise of the same size is added to both weights. How much of the second is left, beside the
# noise, before and after each feature is divided by its standard deviation?
# :::
#
# :::{solution-start} leaderboard-whitening
# :class: dropdown
# :::
#
# Before, the second feature is 0.01 of an example's length, after it is 0.71: noise hides it
# seventy times less.

# %% tags=["check-output"]
features = np.array([100.0, 1.0])
for name, by in (("as they are", 1.0), ("whitened", features)):
    scaled = features / by
    print(f"{name:>11}: {(scaled / np.linalg.norm(scaled)).round(2)}")

# %% [markdown]
# :::{solution-end}
# :::
