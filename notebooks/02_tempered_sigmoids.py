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
# # Tempered sigmoids
#
# **In short.** The paper replaces relu by a bounded activation, a {term}`tempered sigmoid`, tanh
# above all, and reports 1.5, 4.2 and 4.6 points more accuracy at the same ε
# {cite}`papernot2021tempered`.
#
# - On MNIST it holds. Each at its own best setting, at the quoted ε of 2.93, tanh ends at 98.35 %
#   and relu at 97.10 %: tanh gains 1.27 points (95 % interval 1.09 to 1.46).
# - On Fashion-MNIST tanh is ahead; by how much depends on the search. One setting for both gives it
#   2.39 points, five rates for each 2.0 ([losing less](03_losing_less.ipynb)), and a search of 24
#   settings each 0.57 (0.15 to 0.99). That search missed the best setting known of tanh: 86.25 %,
#   1.1 points above the best of relu, 85.16 %. Without privacy tanh gains 1.17 points (1.06 to
#   1.28), each at its best.
# - On CIFAR-10, in the paper's network, the order turns round. At four times the shared rate, the
#   best of five for both, relu ends at 63.2 % and tanh at 59.2 % at ε = 7.53, where the paper's
#   Table 3 has 61.6 and 66.2 %: relu is 3.53 points ahead (1.55 to 5.52, 3 seeds; accuracies are
#   medians, gains means of differences). Of the settings only the rate was searched. At the shared
#   setting, at ε = 6.11, neither learns well, relu to 45.2 % and tanh to 48.4 %.
# - Good members of the family have a slope near 1 and a value near 0 at the origin. We saw that on
#   MNIST and predicted it for Fashion-MNIST, where it held. A member at random is no safe gain: at
#   one setting 26 of 64 members on MNIST and 37 on Fashion-MNIST end below the worst seed of relu.
#
# **To do.** On MNIST and Fashion-MNIST take tanh. On CIFAR-10 search the learning rate for each
# activation by itself before you choose; the network matters more there: that of [losing
# less](03_losing_less.ipynb) has 60.61 % with tanh at ε = 2.39, more than either activation has
# here at 3. Leave $s$, $T$ and $o$ alone.

# %% tags=["remove-input"]
from under_the_clip.tempered_sigmoids import figures as chapter

chapter.in_short()

# %% tags=["parameters"]
profile = "stored"  # or "smoke", tiny runs in a minute; or "full"
dataset = None  # each; or one of "mnist", "fashion-mnist", "cifar-10"
seeds = None  # the experiment's own number
T = 4.0  # your own inverse temperature: drawn at once, and trained in the smoke profile

# %% [markdown]
# Unless a table says otherwise, batches are drawn by Poisson sampling, the ε is true for that, and
# nothing but the activation differs. The paper prints no settings for its Figure 3, so that the
# runs take those that "Losing less" prints for the same datasets {cite}`shamsabadi2023losing`. In
# tables "ε proven" is by {term}`PLD`, "ε (RDP 2019)" by the papers' accounting of the time, both at
# δ = 1e-5. The ledger of the paper's claims stands at the end of this chapter.
#
# ## The remedy
#
# A tempered sigmoid (Eq. 3) has a scale $s$, an inverse temperature $T$ and an offset $o$:
#
# $$\phi_{s,T,o}(x) = \frac{s}{1 + e^{-Tx}} - o .$$
#
# It stays between $-o$ and $s - o$, and $(2, 2, 1)$ is tanh. relu has no such bound.

# %%
import jax.numpy as jnp

from dpstudy.parts.networks.activation import Relu, Tempered

x = jnp.array([-4.0, -1.0, 0.0, 1.0, 4.0])
print("tanh", Tempered(scale=2.0, inverse_temperature=2.0, offset=1.0)(x))
print("relu", Relu()(x))

# %% tags=["remove-input"]
chapter.family()

# %% [markdown]
# ### Your own temperature
#
# Change `T` in the parameters cell. The first figure, folded here, draws the member $(2, T, 1)$.
# In the smoke profile the second shows what it learns from 4,000 images, beside tanh.

# %% mystnb={"code_prompt_show": "Your own member"} tags=["hide-output", "remove-input"]
chapter.own_member(T)

# %% mystnb={"code_prompt_show": "What it learns, in the smoke profile"} tags=["hide-output", "remove-input"]
from dataclasses import replace

from dpstudy.lab.published import Accuracy
from dpstudy.lab.train import prepare
from dpstudy.lab.variant import Variant
from dpstudy.page import quantity
from dpstudy.page.curves import curves
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.results import lines_of, results, stated
from dpstudy.page.search import against, techniques, winners
from dpstudy.parts.measure import EXAMPLES
from dpstudy.parts.run import Run
from under_the_clip.experiments import find
from under_the_clip.tempered_sigmoids.experiments import (
    BATCHES,
    EPOCHS,
    SEARCH_RATES,
    WIDTHS,
    of_temperature,
)
from under_the_clip.tempered_sigmoids.figures import (
    STYLE,
    classes,
    relu_and_tanh,
)
from under_the_clip.tempered_sigmoids.published import (
    ACCURACIES,
    NUMBERS,
    TECHNIQUES,
)

own = (
    prepare(of_temperature(T), profile, seeds=seeds)
    if profile == "smoke"
    else None
)
chapter.own_temperature(own, T)

# %% tags=["remove-input"]
private = prepare(
    find("tempered-sigmoids-figure-3"),
    profile,
    dataset=dataset,
    seeds=seeds,
)
not_private = prepare(
    find("tempered-sigmoids-table-3-not-private"),
    profile,
    dataset=dataset,
    seeds=seeds,
)
calibrated = prepare(
    find("tempered-sigmoids-calibrated"),
    profile,
    dataset=dataset,
    seeds=seeds,
)

# %% [markdown]
# ## Table 3: accuracy with and without privacy
#
# At one setting for both, tanh gains 1.52 points on MNIST and 2.39 on Fashion-MNIST, where the
# paper's numbers are 1.4 and 3.6 apart. Without privacy the two are alike on MNIST, and tanh gains
# 0.89 points on Fashion-MNIST. By PLD the noise of these runs costs ε = 2.36 on MNIST; the paper
# quotes 2.93. Lowered until PLD gives exactly the quoted ε, it adds 0.06 points to tanh on MNIST
# and 0.23 on Fashion-MNIST.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Table 3")
def table_3(private, not_private, calibrated):
    over = {
        f"{method}, tanh": f"{method}, relu" for method in ("SGD", "DP-SGD")
    }
    over |= {
        f"DP-SGD, {name}, less noise": f"DP-SGD, {name}" for name in STYLE
    }
    return results(
        [
            *relu_and_tanh(not_private, title="SGD, {}", method="SGD, {}"),
            *relu_and_tanh(
                private, title="DP-SGD, {}", method="DP-SGD, {}"
            ),
            *relu_and_tanh(calibrated, title="DP-SGD, {}, less noise"),
        ],
        "Gains: of tanh over relu; of less noise, what PLD asks for at the quoted ε, over the "
        "noise of Figure 3.",
        name="tempered-sigmoids-table-3",
        shown="test accuracy at the last epoch, published and ours",
        over=over,
    )


table_3(private, not_private, calibrated)

# %% [markdown]
# The setting is that of "Losing less", from a search for networks with tanh
# {cite}`tramer2021differentially`: it may favour tanh. The rows without privacy use plain SGD at
# the learning rate of the paper's Table 4. Weights start from Glorot's distribution. The paper does
# not say how its weights start, nor which optimizer the rows without privacy have.

# %% mystnb={"code_prompt_show": "The settings, one by one"} tags=["hide-output", "remove-input"]
chapter.settings(dataset)

# %% [markdown]
# ### After a search of one size each
#
# Behind every row of the paper's Table 3 is a search over filters, learning rate, optimizer, batch
# and epochs. Here relu and tanh try 24 settings each with privacy and 12 without, at the noise that
# the quoted ε asks for; a row counts the different ones. Half of them fill the space evenly; the
# others were proposed by a Gaussian-process sampler {cite}`akiba2019optuna`. The best is trained
# again with other seeds.
#
# tanh ends at 98.35 % on MNIST and at 85.72 % on Fashion-MNIST; relu at 97.10 % and 85.16 %. On
# Fashion-MNIST tanh has more at the shared setting with the noise of the quoted ε, 86.25 %: the
# search of 24 did not find that setting. Every winner lies at an edge of what was searched in
# filters, batch and epochs, relu on Fashion-MNIST in its rate too, 10: either may have better
# settings. The ε is that of one run; 24 on the same examples cost more, which is not counted, here
# or in the paper.

# %% tags=["remove-input"]
search = prepare(
    find("tempered-sigmoids-table-3-search"),
    profile,
    dataset=dataset,
    seeds=seeds,
)

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
# Under what names the paper states what the techniques of the search come to.
_TABLE_3 = {
    "relu, private": "DP-SGD, relu",
    "tanh, private": "DP-SGD, tempered sigmoid",
    "relu, not private": "SGD, relu",
    "tanh, not private": "SGD, tanh",
}


def _ranges(run):
    """Return between what numbers was searched, where a run was found."""
    levels = {
        "width": WIDTHS,
        "batch": BATCHES,
        "epochs": EPOCHS.get(run.dataset.name, ()),
    }
    ends = {name: (of[0], of[-1]) for name, of in levels.items() if of}
    return ends | {
        "learning_rate": SEARCH_RATES[run.optimizer.kind, run.private]
    }


@for_each_dataset("The search of Table 3")
def table_3_search(reading):
    return winners(
        techniques(reading, stated(ACCURACIES, reading, _TABLE_3)),
        "The range says nothing of how lucky a search was, of which there is one a row.",
        settings=(
            quantity.WIDTH,
            quantity.OPTIMIZER,
            quantity.RATE,
            quantity.BATCH,
            quantity.EPOCHS,
        ),
        name="tempered-sigmoids-table-3-search",
        shown="the best settings by test accuracy at seed 0, trained again",
        ranges=_ranges,
    )


table_3_search(search)

# %% [markdown]
# ### CIFAR-10: a rate for this network
#
# relu leads on CIFAR-10 once the learning rate is searched. The shared setting comes from a search
# for another network, one that pools maxima and ends in dense layers, on normalised colours
# {cite}`tramer2021code`. In the network of this paper both activations learn slowly at it. At the
# same noise four times the rate takes relu from 45.2 % to 61.0 % and tanh from 48.4 % to 58.5 %
# (one seed).
#
# Each activation tried the rates 1, 2, 4, 8 and 16 with one seed: 4 is the best for both. There,
# with three more seeds at ε = 7.53, relu leads in each. Of the ten runs three have the noise of the
# shared setting and end at ε = 6.11, and three others were given up after 10 of 30 epochs, ten
# points behind. At ε = 3 the same rate is taken, and not searched again.

# %% tags=["remove-input"]
own_rates = prepare(
    find("tempered-sigmoids-cifar-10-rates"),
    profile,
    dataset=dataset,
    seeds=seeds,
)
changed = prepare(
    find("tempered-sigmoids-cifar-10-changes"),
    profile,
    dataset=dataset,
    seeds=seeds,
)
not_private_there = prepare(
    find("tempered-sigmoids-cifar-10-not-private"),
    profile,
    dataset=dataset,
    seeds=seeds,
)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("CIFAR-10 at several learning rates")
def cifar_10_rates(reading):
    theirs = stated(
        ACCURACIES, reading, {name: f"DP-SGD, {name}" for name in STYLE}
    )
    return against(
        techniques(reading, theirs, styles=STYLE),
        quantity.LEARNING_RATE,
        name="tempered-sigmoids-rates",
        shown="test accuracy at the last epoch against the learning rate",
    )


cifar_10_rates(own_rates)

# %% [markdown]
# At ε = 3 relu leads too: it ends at 54.39 % and tanh at 52.41 %, with two seeds each. The rate
# belongs to the network. In that of [losing less](03_losing_less.ipynb), which pools maxima and
# ends in dense layers, the rate of 4 takes relu to 44.56 % and tanh to 38.82 % at ε = 3; at rate 1,
# which was searched for it, tanh has 60.61 % at ε = 2.39, more than either here. Which activation
# is better in that network at its own rate was not tried.
#
# Without privacy the lead is as large: relu ends at 78.01 % and tanh at 73.84 %, each at 0.05, the
# best of three rates, with two seeds. The paper has 76.6 % with relu.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Each at its own rate")
def cifar_10_at_own_rate(private, free):
    at = {
        "{}, ε = 7.53": (private, "{}, best"),
        "{}, ε = 3": (private, "{}, epsilon 3"),
        "{}, ε = 3, network of losing less": (
            private,
            "{}, epsilon 3, network of Losing less",
        ),
        "{}, without privacy": (free, "{}, best"),
    }
    return results(
        [
            Variant(reading, label.format(name), title.format(name))
            for title, (reading, label) in at.items()
            for name in STYLE
        ],
        "Gains: of tanh over relu.",
        name="tempered-sigmoids-own-rate",
        shown="test accuracy, each activation at its own best rate at ε = 7.53, or without privacy",
        over={title.format("tanh"): title.format("relu") for title in at},
    )


cifar_10_at_own_rate(own_rates, not_private_there)


# %% mystnb={"code_prompt_show": "CIFAR-10 with other pixels, noise or learning rate"} tags=["hide-output", "remove-input"]
@for_each_dataset("CIFAR-10 with other pixels or another network")
def cifar_10_changes(changed, private):
    lines = relu_and_tanh(
        private, title="{}, as in Figure 3", method="DP-SGD, {}"
    )
    return results(
        [*lines, *(Variant(changed, label) for label in changed.labels)],
        name="tempered-sigmoids-changes",
        shown="test accuracy, as in Figure 3 but for what is named",
    )


cifar_10_changes(changed, private)

# %% [markdown]
# ### The baseline in its own settings
#
# The baseline is that of a network without activation. On MNIST it is 96.6 %, what the tutorial of
# TensorFlow Privacy first reported for this network {cite}`tensorflowprivacy2019`; the paper says
# that it reproduces it with relu exactly. The tutorial's script names no activation: its settings
# give 96.5 % without one, 95.8 % with relu and 97.7 % with tanh. A later script has relu, a larger
# rate, and reports the same accuracy: there relu reaches 96.5 %.

# %% tags=["remove-input"]
tutorial = prepare(
    find("tempered-sigmoids-tutorial"),
    profile,
    dataset=dataset,
    seeds=seeds,
)

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
# What is published for each variant of the tutorial's settings: its accuracy, epsilon, and where.
_TUTORIAL = {
    "relu": ("mnist, DP-SGD, relu", "mnist, epsilon", "Table 3"),
    "relu, He": ("mnist, DP-SGD, relu", "mnist, epsilon", "Table 3"),
    "as scripted": (
        "baseline, in the tutorial",
        "epsilon of the tutorial",
        "tutorial",
    ),
    "relu, later": (
        "relu, in the later tutorial",
        "epsilon of the later tutorial",
        "later one",
    ),
    "tanh": ("mnist, DP-SGD, tanh", "mnist, epsilon", "text on Figure 3"),
}


@for_each_dataset("The paper's baseline")
def baseline(reading):
    lines, on_mnist = [], reading.dataset_name == "mnist"
    for label, (*names, where) in _TUTORIAL.items():
        accuracy, spent = (NUMBERS[name] for name in names)
        source = replace(accuracy.source, where=where)
        theirs = Accuracy(
            "mnist", label, accuracy.value, spent.value, source
        )
        lines.append(
            Variant(reading, label, published=theirs if on_mnist else None)
        )
    return results(
        lines,
        "Gain: of tanh over relu. As scripted: without an activation, initial weights as He et al.",
        name="tempered-sigmoids-tutorial",
        shown="test accuracy in the settings of the paper's baseline",
        over={"tanh": "relu"},
        settings=(
            quantity.LEARNING_RATE,
            quantity.Quantity("noise_multiplier", "σ", "{:g}"),
        ),
    )


baseline(tutorial)

# %% [markdown]
# ## Figure 3: accuracy against ε
#
# Every epoch spends more ε; a curve further up and to the left is better. tanh is as high as relu
# at its end from epoch 11 of 40 on MNIST, at half the ε, and from epoch 15 on Fashion-MNIST. The
# stars are published, at the ε of the older conversion.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Figure 3")
def figure_3(reading):
    return curves(
        relu_and_tanh(reading, method="DP-SGD, {}"),
        quantity.ACCURACY,
        along=quantity.EPSILON,
        name="tempered-sigmoids-figure-3",
        shown="test accuracy against ε",
    )


figure_3(private)

# %% [markdown]
# ### Poisson sampling and shuffled batches
#
# The library that the paper cites shuffles, and accounts as if it had sampled. For learning that
# changes nothing: the accuracies agree within a seed's spread. For privacy it changes much. No
# accountant that knows of clipping, noise and shuffling alone can certify less than ε = 8.56 on
# MNIST at the settings trained here {cite}`chua2024private,chua2024scalable`: some gradients within
# the clip give that away, and {doc}`01_accounting` says which. Poisson batches have 2.36 at the
# same noise; the paper quotes 2.93, for settings that it does not print. [An
# audit](07_audits.ipynb) as in {cite:t}`annamalai2024shuffle` measures at least 3.57 on such
# gradients, and 0.58 on those of a trained network.

# %% tags=["remove-input"]
shuffled = prepare(
    find("tempered-sigmoids-shuffled"),
    profile,
    dataset=dataset,
    seeds=seeds,
)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Shuffled batches")
def poisson_and_shuffled(shuffled, poisson):
    return results(
        [
            *relu_and_tanh(
                poisson, title="Poisson, {}", method="DP-SGD, {}"
            ),
            *relu_and_tanh(
                shuffled, title="shuffled, {}", method="DP-SGD, {}"
            ),
        ],
        "The ε of shuffled batches are for one example blanked, and proven without amplification.",
        name="tempered-sigmoids-shuffled",
        shown="test accuracy with Poisson sampling and shuffled batches",
    )


poisson_and_shuffled(shuffled, private)

# %% [markdown]
# ## Figure 2: the family
#
# The paper colours triplets $(s, T, o)$ by accuracy, finds a cluster of good ones, and averages the
# best tenth. Here 64 triplets fill a box evenly, one seed each. The top is flat: on MNIST 12 others
# come within two standard deviations of a seed of the best, and the best, trained again, is not
# better than tanh. The average of our best tenth may be near the paper's by chance: as many
# triplets, drawn at random, average as near in 1.3 % of draws on MNIST and in 30.4 % on
# Fashion-MNIST. On MNIST two triplets tie for the last place of the tenth; with the other it is
# 6.4 %. Many triplets are above relu at the same setting, 32 on MNIST and 16 on
# Fashion-MNIST; above relu at its own best setting are 26 and 1.

# %% tags=["remove-input"]
sweep = prepare(
    find("tempered-sigmoids-figure-2"),
    profile,
    dataset=dataset,
    seeds=seeds,
)

# %% tags=["remove-input"]
chapter.family_sweep(sweep, private)

# %% tags=["remove-input"]
chapter.cluster(sweep)

# %% [markdown]
# ### What the best have in common
#
# Slope and value at 0 rank the members. A member has the slope $sT/4$ there and the value
# $s/2 - o$; tanh has 1 and 0. Spearman's correlation of error and distance from there is 0.90 on
# MNIST and 0.89 on Fashion-MNIST; with the distance from tanh's $(s, T, o)$ it is 0.44 and 0.45.
#
# The distance takes the logarithm of the slope, since what a slope does from layer to layer is to
# multiply: half of tanh's is as far from it as twice. Both axes are in standard deviations over the
# members. With the slope itself the correlation is less, 0.75 and 0.76, and without these units
# too, 0.69 and 0.68.
#
# Found on MNIST, in this measure, the first was predicted for Fashion-MNIST before its runs were
# read, and that blind choice would come as near to tanh's slope and value as the best in less than
# 5 % of choices; both held. A likely reason has nothing to do with privacy: with slope 1 and value
# 0 signals neither grow nor drift from layer to layer.

# %% tags=["remove-input"]
chapter.around_zero(sweep)

# %% [markdown]
# ## Why: gradients before clipping
#
# Larger gradients do not decide. The paper explains the gain by relu's activations, which grow
# during private training and make its gradients grow, so that clipping to $C$ throws more away. On
# MNIST and Fashion-MNIST relu's gradients are larger, and relu is worse. On CIFAR-10, each at its
# own rate, they are larger too, with a mean norm of 163 against 86 in the last epoch, and relu is
# better.
#
# On MNIST relu's mean norm, over the examples that an epoch draws, peaks at 34 in epoch 2 and ends
# at 18, that of tanh falls from 8.2 to 2.2. Both clip about as many examples at the end, 11 % and
# 9 %. No clipped gradient is longer than 0.1, so that of all their length in the last epoch at
# least 99.4 % is lost with relu and 95.4 % with tanh.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The gradient norms")
def gradient_norms(reading):
    return curves(
        relu_and_tanh(reading),
        quantity.GRADIENT_NORM,
        quantity.CLIPPED,
        name="tempered-sigmoids-gradient-norms",
        shown="per-example gradients before clipping, mean norm and fraction clipped",
    )


gradient_norms(private)

# %% [markdown]
# Over the family errors go with the fraction clipped, by Spearman's correlation of 0.96 on MNIST
# and 0.97 on Fashion-MNIST, and less with the mean norm, 0.70 and 0.20. Which is the cause is not
# shown: who fits more examples has fewer large gradients.

# %% mystnb={"code_prompt_show": "Errors by the norm of gradients"} tags=["hide-output", "remove-input"]
chapter.errors_by_norm(sweep)

# %% [markdown]
# ### Four scenarios
#
# The paper's Figures 4 and 5: relu and tanh, with privacy and without (Figure 5 lacks tanh
# without), on the same training images before the first step and after each epoch, here as means
# over 1,000 images. relu's gradients with privacy are far larger than those of the other three.
# They grow from 4.2 before training to 36.7 after one epoch and end at 25.4, 18.9 times those of
# relu without privacy (14.5 to 24.6), where the paper has more than 5. Those of tanh with privacy
# are 2.5 times those of relu without. Part of that factor is relu without privacy, whose gradients
# fall from 4.2 to 1.4. The norm of the first layer's activations grows by 44 with relu and by 19
# with tanh. On CIFAR-10, each at its own rate, it is the other way, by 6 with relu and 26 with
# tanh.

# %% tags=["remove-input"]
scenarios = prepare(
    find("tempered-sigmoids-figures-4-5"),
    profile,
    dataset=dataset,
    seeds=seeds,
)

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
SCENARIOS = {
    "relu, private": 1,
    "tanh, private": 0,
    "relu, not private": 4,
    "tanh, not private": 3,
}


@for_each_dataset("The norms in four scenarios")
def norms(reading):
    return curves(
        lines_of(reading, SCENARIOS),
        quantity.NORM_OF_GRADIENTS,
        quantity.NORM_OF_ACTIVATIONS,
        name="tempered-sigmoids-figures-4-5",
        shown=(
            "mean norm of a gradient before clipping, and of what the first layer's activation "
            f"puts out, over the same {EXAMPLES:,} training examples"
        ),
    )


norms(scenarios)

# %% [markdown]
# The paper's Eq. 4 and 5 bound gradients by the inverse temperature $T$, for logistic regression;
# {prf:ref}`gradient-norm-binary` and {prf:ref}`gradient-norm-multiclass` test both.
#
# ## Table 4: learning rates and optimizers
#
# On Fashion-MNIST, each optimizer at its best learning rate: private SGD and private Adam reach the
# same height, 86.05 % and 86.03 %, where 86.1 and 86.0 % are published. The best private rate of
# SGD is 42.5 here and 0.332 there; it belongs to a clipping norm, and the paper prints none.

# %% tags=["remove-input"]
rates = prepare(
    find("tempered-sigmoids-table-4"), profile, dataset=dataset, seeds=seeds
)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The learning rates of Table 4")
def learning_rates(reading):
    methods = {
        ours: f"{name}, searched" for name, ours in TECHNIQUES.items()
    }
    theirs = stated(ACCURACIES, reading, methods)
    at = {
        ours: NUMBERS[f"learning rate, {name}"].value
        for name, ours in TECHNIQUES.items()
        if theirs[ours]
    }
    return against(
        techniques(reading, theirs, at),
        quantity.LEARNING_RATE,
        "The published private rates belong to a clipping norm that the paper does not print.",
        name="tempered-sigmoids-table-4-rates",
        shown="test accuracy of tanh against the learning rate",
    )


learning_rates(rates)

# %% [markdown]
# ## A triplet for each layer
#
# The paper found no gain from giving each layer its own $(s, T, o)$, and prints no number. Nor is
# there one here: trained again with other seeds, the best of 25 choices for each layer ends at
# 97.99 %, the best of 25 shared by all at 98.12 %. Neither is above plain tanh, 98.15 %.

# %% tags=["remove-input"]
layers = prepare(
    find("tempered-sigmoids-layer-wise"),
    profile,
    dataset=dataset,
    seeds=seeds,
)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The search over layers' triplets")
def layer_wise(reading):
    return winners(
        techniques(reading, {}),
        "Nine numbers are searched as hard as three: more may be found for each layer.",
        settings=(),
        name="tempered-sigmoids-layer-wise",
        shown="the best triplets (s, T, o), by seed 0, trained again",
    )


layer_wise(layers)

# %% [markdown]
# ## Are all classes served alike?
#
# The classes' accuracies spread less with tanh, 0.0077 against 0.0135 on MNIST, because tanh errs
# less: divided by the error the spread is 0.43 with tanh and 0.40 with relu. The paper reports 0.16
# against 0.27, and names neither dataset nor unit.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The accuracy by class")
def class_accuracy(reading):
    return classes(
        relu_and_tanh(reading),
        name="tempered-sigmoids-class-accuracy",
        shown="test accuracy of each class at the last epoch",
    )


class_accuracy(private)

# %% [markdown]
# ## The runs behind this page

# %% mystnb={"code_prompt_show": "Every experiment: its name, what is stored of it, what a run takes"} tags=["hide-output", "remove-input"]
from dpstudy.page.datasets import behind

behind(
    private,
    not_private,
    not_private_there,
    calibrated,
    search,
    own_rates,
    changed,
    tutorial,
    shuffled,
    sweep,
    scenarios,
    rates,
    layers,
)

# %% [markdown]
# ## The claims, one by one
#
# Each claim of the paper with its verdict, computed by a rule that [](10_claims.ipynb) explains.
# Headlines are open, details and what was measured folded.

# %% tags=["remove-input"]
from under_the_clip.ledger import figures as claims

claims.chapter("tempered-sigmoids")

# %% [markdown]
# ## Exercises
#
# :::{exercise} Another member with slope 1
# :label: tempered-slope
#
# Take $s = 4$ and $o = 2$. Which $T$ gives the member the slope and the value that tanh has at
# 0?
# :::
#
# :::{solution-start} tempered-slope
# :class: dropdown
# :::
#
# $T = 1$. The slope is $sT/4 = 1$ and the value $s/2 - o = 0$. This member saturates at ±2
# instead of ±1.

# %% tags=["check-output"]
import jax

for temperature in (0.5, 1.0, 2.0):
    member = Tempered(
        scale=4.0, inverse_temperature=temperature, offset=2.0
    )
    print(
        f"T = {temperature}: value {member(0.0):.2f}, slope {jax.grad(member)(0.0):.2f}"
    )

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} What an activation costs
# :label: tempered-epsilon
#
# Does ε depend on the activation? Compute it for the book's MNIST run with relu, with tanh, and
# with a steep member, $T = 8$.
# :::
#
# :::{solution-start} tempered-epsilon
# :class: dropdown
# :::
#
# No: it is 2.36 for each. An example's gradient is clipped to $C$ whatever the network is; ε
# follows from σ, the sampling, the steps and δ. The activation decides what is lost by clipping.

# %% tags=["check-output"]
from dpstudy.parts.run import vary
from dpstudy.privacy import run_epsilon

for activation in (Relu(), Tempered(), Tempered(inverse_temperature=8.0)):
    run = vary(Run(), activation=activation)
    [spent] = run_epsilon.epsilon_curve(
        run, [run.epochs * run.steps_per_epoch]
    )["pld"]
    print(f"{spent:.2f} {activation}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} What a bounded activation bounds
# :label: tempered-last-layer
#
# The last layer of the MNIST network has 32 inputs, 10 outputs and biases. Its inputs are
# activations, and the gradient by its outputs is never longer than $\sqrt 2$. How long can one
# example's gradient of this layer be with tanh, and how long with relu?
# :::
#
# :::{solution-start} tempered-last-layer
# :class: dropdown
# :::
#
# 8.12 with tanh: $\sqrt 2$ times the norm of 32 ones and the 1 of the bias. With relu there is no
# bound. So a $C$ of 8.12 clips nothing in the last layer of a tanh network. The book's $C$ is 0.1.

# %% tags=["check-output"]
from dpstudy.gradients.layer_rules import DenseGradients

wrong = (
    jnp.zeros((1, 10)).at[0, :2].set(jnp.array([1.0, -1.0]))
)  # surely one class, truly another
for largest in (1.0, 100.0):
    layer = DenseGradients(
        inputs=jnp.full((1, 32), largest), outputs=wrong, use_bias=True
    )
    print(f"inputs of {largest:g}: {layer.squared_norms()[0] ** 0.5:.2f}")

# %% [markdown]
# :::{solution-end}
# :::
