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

# %% tags=["facts"]
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import DATASETS as NAMES
from under_the_clip.explorer import rows
from under_the_clip.leaderboard.published import PUBLISHED, RUN_AGAIN
from under_the_clip.recipe import cost_figure, rule_figure
from under_the_clip.recipe import figures as recipe_page
from under_the_clip.recipe.third_edition import edition_on
from under_the_clip.sentences import (
    CIFAR,
    DATASETS,
    FASHION,
    MNIST,
    SMALL,
    accuracy,
    gain,
    lead,
    percent,
    points,
    reading,
    standing,
    variant,
)

stored = rows.settings()
pixels = [one for one in stored if isinstance(one.run.dataset, Images)]
reached, on_pixels = {}, {}
for name in DATASETS:
    for epsilon in rows.WANTED:
        one = rows.best(stored, name, epsilon, seeds=1)
        assert one.experiment == edition_on(name).name
        assert len(one.accuracy) == 5
        reached[name, epsilon] = one.accuracy.mean()
        other = rows.best(pixels, name, epsilon, seeds=1)
        if other is not None:
            assert other.accuracy.mean() < reached[name, epsilon]
            on_pixels[name, epsilon] = other
for name, ahead in ((MNIST, 0.005), (FASHION, 0.02), (CIFAR, 0.02)):
    of = on_pixels[name, 3.0].accuracy.mean()
    assert of < reached[name, 3.0] - ahead


def line_of(epsilon):
    found = (percent(reached[name, epsilon]) for name in DATASETS)
    return (
        f"| {epsilon:g} | " + " | ".join(f"{one} %" for one in found) + " |"
    )


[timed] = cost_figure.cost().data.to_dict("records")
assert timed["dataset"] == NAMES[CIFAR] and round(timed["ε"], 2) == 3
transferred = (
    recipe_page.transferred(reading("recipe-search"))
    .data.set_index("trained on")
    .rename(columns=lambda column: column.removeprefix("by "))
)
# What CIFAR-10 chose at 3 is what the command sets: a test of its own.
lost = {
    name: transferred.loc[name, name] - transferred.loc[name, NAMES[CIFAR]]
    for name in transferred.index
}
assert max(lost.values()) < 0.001
ruled = rule_figure.rule_beside_search(reading("recipe-rule"))
ruled = ruled[ruled.dataset == CIFAR].sort_values("images")
fewest, most = ruled.iloc[0], ruled.iloc[-1]
deep, again = (
    max(
        one.accuracy
        for one in of
        if one.dataset == CIFAR and one.claimed_epsilon == 8
    )
    for of in (PUBLISHED, RUN_AGAIN)
)
assert again + 0.01 < reached[CIFAR, 8.0] < deep

# %% [markdown]
# # A practitioner's guide
#
# You have private pictures with labels, want a classifier that gives none of them away, and would
# rather not read ten chapters first.
#
# ```bash
# dpstudy recipe cifar-10 --epsilon 3
# ```
#
# **In short**
#
# - **Take the recipe:** a linear head on features that were learned from drawings. Nothing else
#   stored here is as accurate, on any of three datasets, at any of three ε.
# - **Search nothing.** Settings are fixed, or follow from ε and how many pictures you have.
# - **It is cheap.** On CIFAR-10 it takes {{ round(timed["minutes"]) }} minutes of two CPU cores.
#
# **Run** it, then `dpstudy recipe pictures/ --epsilon 3` on [your own](../book/engine.md), a folder
# for each class. Which part of this page is yours?

# %% tags=["parameters", "remove-input"]
profile = "stored"  # any profile shows what is stored

# %% tags=["remove-input"]
import pandas as pd

from dpstudy.page.figure import STYLES, Figure, canvas

WAYS = {
    "A classifier will do:": "the recipe, on this screen",
    "It has to be a network:": "five choices, in order",
    "The code is your own:": "five tests, six mistakes",
}


def ways():
    with canvas(size=(5.3, 1.5)) as (figure, [axes]):
        axes.set(xlim=(0, 10), ylim=(-0.5, 2.5), xticks=(), yticks=())
        axes.axis("off")
        start = {"va": "center", "fontsize": "medium"}
        axes.text(0, 1, "private\npictures,\nlabels", **start)
        for at, (need, answer), style in zip(
            (2, 1, 0), WAYS.items(), STYLES, strict=False
        ):
            arrow = {"arrowstyle": "-|>", "color": "0.4"}
            axes.annotate("", (2.3, at), xytext=(1.5, 1), arrowprops=arrow)
            axes.text(2.4, at, need, **start)
            box = {"boxstyle": "round", "facecolor": "white"}
            box |= {"edgecolor": style.color, "linewidth": 1.5}
            axes.text(6.0, at, answer, **start, bbox=box)
    said = "; ".join(f"{need} {answer}" for need, answer in WAYS.items())
    return Figure(
        fig=figure,
        name="ways",
        caption="The first way needs no other part of this page.",
        alt=f"Three arrows from private pictures with labels. {said}.",
        data=pd.DataFrame(WAYS.items(), columns=["you need", "take"]),
    )


ways()

# %% [markdown]
# | ε | MNIST | Fashion-MNIST | CIFAR-10 |
# |---|---|---|---|
# {{ line_of(1.0) }}
# {{ line_of(3.0) }}
# {{ line_of(8.0) }}
#
# These are mean test accuracies of five seeds, with settings that were searched on held-out images.
# The command's own settings cost less than a tenth of a point at ε = 3. Accuracy wants many
# pictures. With few features the recipe has {{ percent(fewest.rule, 0) }} % right on
# {{ fewest.images }} photographs. It has {{ percent(most.rule, 0) }} % on {{ f"{most.images:,}" }}.
#
# A deep network {cite}`de2022unlocking` is published
# with more at ε = 8 on CIFAR-10, {{ percent(deep) }} %; others who ran it again
# {cite}`bao2024reliable` reach less than the recipe. [Chapter 8](08_leaderboard.ipynb) says
# how the recipe works.
#
# Could a leak harm someone? Add `--secure`. Batches and noise then come from the operating system's
# generator, and attacks on floating point find nothing.

# %% mystnb={"code_prompt_show": "The settings behind these, row by row"} tags=["hide-output", "remove-input"]
import pandas as pd

from dpstudy.lab.comparison import Estimate
from dpstudy.page.figure import Note, Several, Table
from dpstudy.page.results import none_stored
from dpstudy.parts.data.dataset import Images
from dpstudy.parts.data.images import DATASETS
from under_the_clip import claims
from under_the_clip.chapters import papers
from under_the_clip.explorer import rows
from under_the_clip.explorer.rows import LEAST_SEEDS, NOTHING, WANTED, best
from under_the_clip.verdicts import gains


def datasets_in(found):
    return list(dict.fromkeys(one.run.dataset.name for one in found))


def row_of(one):
    if one is None:
        return {"method": NOTHING}
    mean = Estimate.mean(one.accuracy)
    ends = {"mean": mean.value, "low": mean.low, "high": mean.high}
    said = ("seeds", "method", "network", "settings", "experiment")
    return (
        {"true ε": one.proven}
        | ends
        | {name: one.row()[name] for name in said}
    )


def starting_points(found, name="starting-points", of="stored runs"):
    if not found:
        return none_stored(name)
    data = pd.DataFrame(
        {"dataset": DATASETS[dataset], "wanted ε": epsilon}
        | row_of(best(found, dataset, epsilon))
        for dataset in datasets_in(found)
        for epsilon in WANTED
    )
    return Table(
        name=name,
        caption=(
            f"The best of {of} that end at about each ε (three quarters of it to a tenth "
            f"above), by mean test accuracy at the last epoch, of those with {LEAST_SEEDS} seeds "
            "or more; in brackets its 95 % interval, by Student's t. The ε is proven. Settings "
            "that were chosen by test accuracy have not paid for the choice, and the best of many "
            "owes a part to chance."
        ),
        data=data,
        formats={
            "wanted ε": "about {:g}",
            "true ε": "{:.2f}",
            "seeds": "{:.0f}",
        }
        | dict.fromkeys(("mean", "low", "high"), "{:.2%}"),
        merged={
            "accuracy": "{mean} ({low} to {high})",
            "setting": "{method}, {network}, {settings}",
        },
    )


settings = rows.settings()
starting_points(settings)


# %% mystnb={"code_prompt_show": "Ahead so far, with fewer seeds"} tags=["hide-output", "remove-input"]
def ahead_with_fewer_seeds(found):
    said = []
    for dataset in datasets_in(found):
        for epsilon in WANTED:
            sure, other = (
                best(found, dataset, epsilon, seeds)
                for seeds in (LEAST_SEEDS, 1)
            )
            floor = sure.accuracy.mean() if sure else 0
            if other is not None and other.accuracy.mean() > floor + 0.01:
                row = other.row()
                said.append(
                    f"{row['dataset']}, about {epsilon:g}: {other.accuracy.mean():.1%} with "
                    f"{row['network']}, {row['method']} ({other.experiment}: {other.label})"
                )
    title = f"Fewer than {LEAST_SEEDS} seeds, and ahead by more than a point so far"
    return Note(title, "; ".join(said) + ".") if said else None


ahead_with_fewer_seeds(settings)

# %% [markdown]
# :::{dropdown} Fine print: what the command sets, and what the rows were set to
# On CIFAR-10 `dpstudy recipe` takes its third edition, whose settings and rate, 300 ε up to an ε of
# 8, are those of its rows: they were searched on CIFAR-10's held-out images, which ε does not
# count. On MNIST and Fashion-MNIST it takes the first, whitens with the exponent 0.4 and takes the
# rate 13.3 ε. Rows with another exponent or rate cost the privacy of a search, which is not
# counted; on MNIST at 8 the row has half the rate. What the command loses at ε = 3 was measured on
# held-out images, at one seed. The run that was timed reached {{ percent(timed["accuracy"]) }} %,
# and took {{ f"{timed['GB']:.1f}" }} GB.
#
# On pictures of your own the features are the same, and batch, steps and rate follow from
# [a rule](08_leaderboard.ipynb): the accuracies above are not of that rule.
#
# The deep network has {{ percent(deep) }} % as published, {{ percent(again) }} % as run again, and
# the recipe {{ percent(reached[CIFAR, 8.0]) }} %. A network that learned from synthetic images
# first {cite}`tang2023randp` is said to have more, which we could not read.
# :::
#
# ## A first private run, in two minutes
#
# This script trains a small network on digits that come with a dependency, at a true ε of 3. Paste
# it into a file or a notebook, once [the package is installed](../book/how_to_rerun.md). It does so
# twice, and only the activation differs. Predict: which ends higher, relu or tanh?
#
# ```{literalinclude} ../book/first_private_run.py
# :language: python
# ```
#
# :::{dropdown} Answer
# tanh does. Why is another matter: [chapter 2](02_tempered_sigmoids.ipynb) tests the paper's
# explanation, and finds what good activations have in common.
# :::
#
# It is research code, and its noise is JAX's. Sensitive data want clipping, sampling and noise from
# a library with a secure generator, or the recipe with `--secure`.
#
# From here, train [a network of your own](../book/engine.md), or put [a remedy of your
# own](../book/add_a_remedy.md) into the run.

# %% tags=["facts"]
from under_the_clip.designs import noise_multiplier
from under_the_clip.losing_less.published import END_TO_END
from under_the_clip.tempered_sigmoids.experiments import SEARCH_BUDGET

SEARCH, EFFORT, FIGURE_3 = (
    "tempered-sigmoids-table-3-search",
    "losing-less-equal-effort",
    "losing-less-figure-3",
)


def apart(experiment, dataset, first, second):
    return gain(
        variant(experiment, dataset, first),
        variant(experiment, dataset, second),
    )


searched = {
    name: apart(SEARCH, name, "tanh, private, best", "relu, private, best")
    for name in SMALL
}
of_five = apart(
    EFFORT, FASHION, "cross-entropy, tanh", "cross-entropy, relu"
)
at_one = apart("tempered-sigmoids-figure-3", FASHION, "tanh", "relu")
assert SEARCH_BUDGET["private"] == 24
assert {standing(one) for one in (*searched.values(), of_five)} == {"ahead"}
assert searched[FASHION].value < of_five.value < at_one.value
of_mnist = (
    apart(EFFORT, MNIST, "cross-entropy, tanh", "cross-entropy, relu"),
    apart("tempered-sigmoids-figure-3", MNIST, "tanh", "relu"),
)
assert searched[MNIST].value < of_mnist[0].value < of_mnist[1].value
by_rate = [
    variant("tempered-sigmoids-cifar-10-rates", CIFAR, f"{one}, best")
    for one in ("relu", "tanh")
]
photographs, at_epsilon = gain(*by_rate), by_rate[0].median("epsilon_pld")
assert standing(photographs) == "ahead"
assert lead("table-3-gain-cifar-10").high < 0
relu, tanh = (
    variant("tempered-sigmoids-cifar-10-rates", CIFAR, f"{name}, epsilon 3")
    for name in ("relu", "tanh")
)
assert {len(one.accuracy) for one in (relu, tanh)} == {2}
there = variant(FIGURE_3, CIFAR, "cross-entropy")
larger = there.accuracy.median() - relu.accuracy.median()
assert relu.accuracy.median() > tanh.accuracy.median() and larger > 0.05
turned = {
    name: gain(
        variant(
            "losing-less-ablation", name, "squared error and cross-entropy"
        ),
        variant(EFFORT, name, "cross-entropy, tanh"),
    )
    for name in SMALL
}
assert {standing(one) for one in turned.values()} == {"ahead"}
on_board = {
    (name, epsilon): apart(
        f"leaderboard-{name}",
        name,
        *(
            f"{one}, epsilon {epsilon}"
            for one in ("squared error, then cross-entropy", "tanh")
        ),
    )
    for name in SMALL
    for epsilon in (1, 3)
}
for (_, epsilon), found in on_board.items():
    assert (standing(found) == "ahead") == (epsilon == 1)
LOSSES = "composite", "cross-entropy"
for name in SMALL:
    assert standing(apart(FIGURE_3, name, *LOSSES)) == "level"
own = {
    name: apart(EFFORT, name, "composite, tanh", "cross-entropy, tanh")
    for name in SMALL
}
assert [standing(own[name]) for name in SMALL] == ["level", "ahead"]
linear = {
    name: apart("losing-less-linear", name, *LOSSES) for name in DATASETS
}
stands = [standing(one) for one in linear.values()]
assert stands == ["ahead", "behind", "behind"]
assert len(variant("losing-less-linear", CIFAR, LOSSES[0]).accuracy) == 2
less = [
    1
    - noise_multiplier(3.0, one.examples, one.batch, one.epochs)
    / one.noise_multiplier
    for one in END_TO_END
]
inside = {name: lead(f"backprop-better-{name}") for name in SMALL}
assert [standing(one) for one in inside.values()] == ["ahead", "behind"]
assert abs(inside[MNIST].value - 0.005) < 0.0025
assert round(100 * inside[FASHION].value) == -3 and min(less) > 0
at_1 = {
    name: apart(
        "backpropagation-clipping-against-flat",
        name,
        "backpropagation clipping, epsilon 1",
        "flat clipping, epsilon 1",
    )
    for name in SMALL
}
assert [standing(one) for one in at_1.values()] == ["level", "behind"]
by_sgd = [
    apart(
        "factorial",
        name,
        "relu / cross-entropy / inside",
        "relu / cross-entropy / flat",
    )
    for name in SMALL
]
assert [standing(one) for one in by_sgd] == ["ahead", "behind"]
flat = variant("tanh-filter-at-equal-epsilon", MNIST, "flat clipping, best")
bent, wide = (
    gain(
        variant(f"tanh-filter-{of}", MNIST, f"filter, then clipped, {k}"),
        flat,
    )
    for of, k in (("at-equal-epsilon", "best"), ("expanded", "k = 1"))
)
assert (standing(bent), standing(wide)) == ("behind", "level")
layers = apart(
    "tempered-sigmoids-layer-wise",
    MNIST,
    "layer-wise, best",
    "shared, best",
)
assert standing(layers) == "level"
for name in SMALL:
    of_family = apart("tempered-sigmoids-figure-2", name, "best", "tanh")
    assert of_family.value < 0 and standing(of_family) != "ahead"

# %% [markdown]
# (how-to-choose)=
# ## You train a network on pixels: five choices, in order
#
# The recipe trains a linear head. What if you need a network? Then most of the four remedies can
# stay where they are.
#
# 1. **Clip flat:** all of an example's gradient, to one length. Clips inside backpropagation have
#    two bounds to search. They end ahead on MNIST by half a point at ε = 3, and behind on
#    Fashion-MNIST by three. [A tanh
#    filter](05_tanh_filter.ipynb) needs a clip behind it, and is then no better than that clip.
# 2. **Choose the activation.** tanh is [ahead of relu](02_tempered_sigmoids.ipynb) on MNIST and
#    Fashion-MNIST. The more both are tuned, the smaller is its lead. On photographs relu leads it
#    by {{ points(photographs) }} points, in the paper's network for CIFAR-10 at an
#    ε of {{ f"{at_epsilon:.1f}" }}. Another network gains {{ points(larger, 0) }} points over that
#    one at ε = 3.
# 3. **Turn from squared error to cross-entropy** in the first epochs, with tanh. This part of [the
#    composite loss](03_losing_less.ipynb) ends ahead of cross-entropy on MNIST and Fashion-MNIST at
#    the paper's rate, and at searched rates for an ε of 1. The whole loss is level on MNIST. It
#    gains {{ points(own[FASHION]) }} points on Fashion-MNIST at a rate of its own, and is behind on
#    linear heads on scattering features of Fashion-MNIST and CIFAR-10.
# 4. **Let [PLD](01_accounting.ipynb) compute the noise,** a tighter accountant. It asks
#    for {{ percent(min(less), 0) }} to {{ percent(max(less), 0) }} % less than "Losing less" adds
#    for the same ε.
# 5. **Leave $s$, $T$ and $o$ alone,** which make tanh a tempered sigmoid. The best found of that
#    family is no better than tanh, and a triplet for each layer is level with one for all.
#
# Start from the dataset below that is most like yours, at the ε that you can afford. Keep its share
# of examples in a batch, its epochs and its clipping norm, and compute your own noise. Take the
# learning rate from public data as well.
#
# Can you not? Then fix a list of rates and pay for [the search](07b_search_cost.ipynb). How many
# runs you make has to be drawn at random and kept secret. For three in the mean:
#
# ```bash
# dpstudy noise --examples 60000 --batch 512 --epochs 40 --epsilon 3 --search 3
# ```


# %% tags=["remove-cell"]
def choices(judged):
    data = pd.DataFrame(
        {
            "choice": choice,
            "points of accuracy gained": gains(judged, claim),
        }
        for chapter in papers()
        for choice, claim in chapter.choices.items()
    )
    return Table(
        name="choices",
        caption=(
            "What a choice gains in points of test accuracy, with its 95 % interval over seeds, "
            "from the runs of its paper's chapter."
        ),
        data=data,
    )


# %% mystnb={"code_prompt_show": "Networks on pixels: settings to start from, and every gain on this page"} tags=["hide-output", "remove-input"]
from dpstudy.page.results import gains_of, gains_table
from under_the_clip.experiments import find
from under_the_clip.sentences import variant

A, B = (
    "backpropagation-clipping-against-flat",
    "tanh-filter-at-equal-epsilon",
)
C, D = "losing-less-equal-effort", "losing-less-ablation"
E = "tempered-sigmoids-table-3-search"
COMPARED = {
    "clips inside over flat": (
        (A, "backpropagation clipping, best"),
        (A, "flat clipping, best"),
    ),
    "clips inside over flat, ε = 1": (
        (A, "backpropagation clipping, epsilon 1"),
        (A, "flat clipping, epsilon 1"),
    ),
    "clips inside over flat, SGD for both": (
        ("factorial", "relu / cross-entropy / inside"),
        ("factorial", "relu / cross-entropy / flat"),
    ),
    "filter and clip over clip": (
        (B, "filter, then clipped, best"),
        (B, "flat clipping, best"),
    ),
    "filter and clip over clip, paper's width": (
        ("tanh-filter-expanded", "filter, then clipped, k = 1"),
        (B, "flat clipping, best"),
    ),
    "tanh over relu, 24 settings each": (
        (E, "tanh, private, best"),
        (E, "relu, private, best"),
    ),
    "tanh over relu, five rates each": (
        (C, "cross-entropy, tanh"),
        (C, "cross-entropy, relu"),
    ),
    "tanh over relu, five rates each, its paper's network, ε = 7.53": (
        ("tempered-sigmoids-cifar-10-rates", "tanh, best"),
        ("tempered-sigmoids-cifar-10-rates", "relu, best"),
    ),
    "tanh over relu, one setting": (
        ("tempered-sigmoids-figure-3", "tanh"),
        ("tempered-sigmoids-figure-3", "relu"),
    ),
    "turn over cross-entropy": (
        (D, "squared error and cross-entropy"),
        (C, "cross-entropy, tanh"),
    ),
    "composite loss over cross-entropy, paper's rate": (
        ("losing-less-figure-3", "composite"),
        ("losing-less-figure-3", "cross-entropy"),
    ),
    "composite loss over cross-entropy, own rates": (
        (C, "composite, tanh"),
        (C, "cross-entropy, tanh"),
    ),
    "composite loss over cross-entropy, linear heads": (
        ("losing-less-linear", "composite"),
        ("losing-less-linear", "cross-entropy"),
    ),
    "best of the family over tanh": (
        ("tempered-sigmoids-figure-2", "best"),
        ("tempered-sigmoids-figure-2", "tanh"),
    ),
    "a triplet a layer over one": (
        ("tempered-sigmoids-layer-wise", "layer-wise, best"),
        ("tempered-sigmoids-layer-wise", "shared, best"),
    ),
}


def every_gain():
    rows = []
    for name, compared in COMPARED.items():
        for dataset in DATASETS:
            if all(dataset in find(of).datasets for of, _ in compared):
                better, other = (
                    variant(of, dataset, label) for of, label in compared
                )
                rows += gains_of(dataset, None, {name: (other, better)})
    return gains_table(rows, name="guide-gains")


to_start_from = starting_points(
    [one for one in settings if isinstance(one.run.dataset, Images)],
    "starting-points-on-pixels",
    "networks on pixels",
)
Several((to_start_from, choices(claims.ledger()), every_gain()))

# %% [markdown]
# :::{dropdown} Fine print: at what settings these choices were compared
# *Clips inside backpropagation* ran on their paper's network with Adam, against SGD. With SGD for
# both they gain {{ points(by_sgd[0]) }} points on MNIST and lose {{ points(by_sgd[1]) }} on
# Fashion-MNIST, after half the epochs. At ε = 1 they are {{ standing(at_1[MNIST]) }} on MNIST, and
# {{ points(at_1[FASHION]) }} points behind on Fashion-MNIST. A *tanh filter* alone needs a clip, a
# scaling, or noise for $\sqrt n$. Followed by a clip it is {{ standing(wide) }} with the clip at
# its paper's width, and where tanh bends more it loses {{ points(bent) }} points.
#
# *tanh* leads relu on Fashion-MNIST by {{ points(searched[FASHION]) }} points after a search of 24
# settings each, by {{ points(of_five) }} after one of five rates each, and by {{ points(at_one) }}
# at one setting for both. On CIFAR-10 relu beats it on the network of tempered sigmoids, with
# {{ accuracy(relu) }} and {{ accuracy(tanh) }} % at ε = 3, two seeds each. The other network is
# that of "Losing less", where tanh reaches {{ accuracy(there) }} % at
# {{ f"{there.median('epsilon_pld'):.2f}" }}; relu was not tried there at a rate of its own. The
# best network on pixels reaches {{ percent(on_pixels[MNIST, 3.0].accuracy.mean()) }} % on MNIST at
# ε = {{ f"{on_pixels[MNIST, 3.0].proven:.2f}" }}, the recipe
# {{ percent(reached[MNIST, 3.0]) }} %.
#
# *Squared error that turns to cross-entropy* has $e_t = 0$ and neither focus nor penalty. At the
# paper's rate it ends {{ points(turned[MNIST], 2) }} and {{ points(turned[FASHION], 2) }} points
# above cross-entropy at the best of five rates; this part was picked by test accuracy. Where both
# search their rate, on the leaderboard, it gains {{ points(on_board[MNIST, 1], 2) }} points on
# MNIST and {{ points(on_board[FASHION, 1], 2) }} on Fashion-MNIST at an ε of 1. The whole loss is
# level with cross-entropy at the paper's rate, and {{ points(own[FASHION]) }} points ahead on
# Fashion-MNIST at a rate that one held-out image chose. On linear heads it gains
# {{ points(linear[MNIST]) }} points on MNIST, and loses {{ points(linear[FASHION]) }} on
# Fashion-MNIST and {{ points(linear[CIFAR]) }} on CIFAR-10, there with two seeds.
# :::
#
# [The explorer](explorer.ipynb) draws every stored setting.
#
# ## Five tests for your own implementation
#
# Does your own code do what its ε says? Test each part against something that shares no code with
# it:
#
# - the clipped sum, against each example's gradient clipped by hand;
# - the sensitivity, against the sum without one example, for each of them;
# - the noise, against its stated covariance;
# - the sampling, against its stated probability;
# - the ε, against numerical integration of two steps.
#
# Spoil each once and see its test fail. Noise five percent off has to be caught.
#
# **Then audit the whole**, through the step that trains. [A script](../book/add_a_remedy.md) audits
# a mechanism of yours, `dpstudy audit flat-clipping` that of this book. Put an example whose
# gradient is longer than $C$ into a batch, or leave it out, and guess which from the noisy sum.
# Noise that is too small by a factor of two shows in minutes. A bound below the proven ε proves
# nothing: [the audits](07_audits.ipynb) say what they cannot see.
#
# :::{dropdown} Fine print: these tests in this repository, and a sharper audit
# An audit can take the noise to be Gaussian too. Compute that bound as well: noise of seven tenths
# shows there alone.
#
# - the sum: `tests/test_mechanism.py`:
#   `test_the_sum_is_vmap_grad_clipped_by_hand`
# - the sensitivity: `tests/test_mechanism.py`:
#   `test_removing_any_one_example_changes_the_sum_by_at_most_the_clipping_norm`
# - the noise: `tests/test_mechanism.py`:
#   `test_the_noise_is_gaussian_with_the_stated_covariance_and_mean_zero`
# - the sampling: `tests/test_sampling.py`:
#   `test_each_example_is_drawn_with_the_stated_probability_independently_of_all_others`
# - the ε: `tests/test_accounting.py`:
#   `test_two_sampled_steps_by_integration_are_between_both_bounds`
# - noise five percent off: `tests/test_mechanism.py`:
#   `test_flaws_of_noise_are_caught`
# :::
#
# ## Six mistakes to keep out of your own results
#
# 1. **The sensitivity was divided by the batch size, and the clip was not.** The noise of
#    [backpropagation clipping](04_backpropagation_clipping.ipynb) was too small by that factor, if
#    its tables come from the public code, as we infer. Compute ε from the noise that was added.
# 2. **A bound that was proven was not used.** The [tanh filter](05_tanh_filter.ipynb) bounds the
#    norm by $\sqrt n$, as its paper proves; its ε was computed with 1.
# 3. **Shuffled batches were accounted as Poisson samples.** Some gradients give away more than [the
#    formula](01_accounting.ipynb) states. Sample by Poisson, or state what
#    `dpstudy epsilon --shuffled` proves.
# 4. **Each layer was accounted as if it had drawn a batch of its own.** All layers of a step see
#    the same examples: together they are one Gaussian mechanism, of $\sqrt L$ times the sensitivity
#    of one.
# 5. **The mean was taken over the drawn batch.** The shares of all others grow when an example is
#    left out, which almost doubles the [sensitivity](06_theorems.ipynb). Divide by the expected
#    batch size.
# 6. **Two methods were compared at the setting of one.** tanh leads relu on Fashion-MNIST by
#    {{ points(at_one) }} points at one setting for both, and by {{ points(searched[FASHION]) }}
#    after the same search for both.
#
# And report the last epoch, never the best.
#
# :::{dropdown} Fine print: the tests that keep them out here
# The fourth is the [second correction of the code](04_backpropagation_clipping.ipynb), which costs
# more than it aims at.
#
# 1. `tests/test_backpropagation_clipping.py`:
#    `test_the_published_runs_claim_what_the_paper_prints_and_truly_cost_far_more`
# 2. `tests/test_tanh_filter.py`:
#    `test_the_published_filter_claims_1_and_is_proven_for_root_n`
# 3. `tests/test_privacy.py`:
#    `test_a_shuffled_run_never_carries_a_plain_epsilon`
# 4. `tests/test_backpropagation_clipping.py`:
#    `test_all_layers_of_a_step_are_one_gaussian_of_the_stated_noise`
# 5. `tests/test_mechanism.py`:
#    `test_a_step_is_the_noisy_sum_over_the_expected_batch_size_times_the_learning_rate`
# 6. `tests/test_experiments.py`:
#    `test_the_search_is_the_same_for_both_activations_and_within_its_budget`
#
# The last epoch: `tests/test_readings.py`:
# `test_the_final_accuracy_is_that_of_the_last_epoch_not_of_the_best`
# :::
