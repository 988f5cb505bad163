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
# # Losing less
#
# **In short.** The composite loss leads cross-entropy for most of training. With tanh and each loss
# at its own rate it gains by the end nothing on MNIST and 0.60 points on Fashion-MNIST. A part of
# it, squared error that turns to cross-entropy, gains 0.18 and 0.49. The paper replaces
# cross-entropy by a sum of three losses under a {term}`curriculum`, and reports 63.2 % on CIFAR-10
# where cross-entropy has 59.8 % at ε < 3 {cite}`shamsabadi2023losing`. Here accuracies are medians
# over seeds and gains means of differences, so that a gain may differ from the difference of two
# medians.
#
# - As the paper says, it gains most early. At a true ε of 1.5 the composite loss leads by 0.42
#   points on MNIST (95 % interval 0.35 to 0.50), 1.60 on Fashion-MNIST (1.36 to 1.84) and 1.95 on
#   CIFAR-10 (0.92 to 2.98). For ε < 1.5 the paper prints 55.4 against 45.9 %, on CIFAR-10 as we
#   read it, and names no accountant. By RDP of 2019, which we take it to use, ours have 50.84 and
#   50.71 %; by the tighter RDP they have 56.17 and 54.41 %, a mean lead of 1.72 points (0.83 to
#   2.61).
# - At the end, at a true ε of 2.4, less than the paper's 3, no gain is certain at the paper's
#   settings: -0.03 points on MNIST (-0.10 to 0.03), 0.02 on Fashion-MNIST (-0.16 to 0.21) and 0.70
#   on CIFAR-10 (-0.47 to 1.86). The paper has 63.2 % there, and 59.8 % with cross-entropy, the most
#   of five runs with ε < 3: 3.4 points, 4 in its abstract. By RDP of 2019 that is one epoch before
#   the end. There our best of five have 63.18 and 61.29 %, 1.89 points apart; the mean gain is 0.89
#   points (0.03 to 1.75).
# - With each loss at its own best of five rates, and tanh, it gains -0.07 points on MNIST (-0.23 to
#   0.08) and 0.60 on Fashion-MNIST (0.23 to 0.97). There the best rate of the composite loss is
#   half of the paper's, by one of 10,000 held-out images. At the paper's rate it gains 0.01 points
#   on Fashion-MNIST with these five seeds (-0.41 to 0.44); the 0.02 above are of ten.
# - On MNIST a part of it does better, on Fashion-MNIST about as well. Squared error that turns to
#   cross-entropy, without focusing and penalty, ends above cross-entropy at its best of five rates,
#   by 0.18 points on MNIST (0.09 to 0.27) and 0.49 on Fashion-MNIST (0.14 to 0.85). Its rate was
#   not searched; the part was picked here, by test accuracy.
# - With relu the whole loss gains more: 0.92 points on MNIST (0.57 to 1.28) and 2.20 on
#   Fashion-MNIST (1.32 to 3.07). It makes up what relu loses to tanh, most of it on MNIST, with
#   97.69 against 98.11 %, and all of it on Fashion-MNIST, with 86.26 against 86.15 %.
# - On scattering features the loss gains 0.26 points on MNIST (0.14 to 0.37) and perhaps 0.33 on
#   Fashion-MNIST (-0.17 to 0.83), with five seeds, and 0.27 on CIFAR-10 (0.20 to 0.35), with three.
#   The paper has 66.8 % at ε < 2, we take it on CIFAR-10, and 64.5 % with cross-entropy. Ours end
#   at 64.46 and 64.17 %, at a true ε of 2.26. Below 2 they have 63.69 and 63.11 %; by the tighter
#   RDP 63.10 and 62.31 %, by RDP of 2019 61.17 and 60.22 %. Three seeds leave its gain of 2.3
#   points open: ours is 0.81 there (-1.63 to 3.25).
# - A linear head is better than that network on MNIST and Fashion-MNIST: with cross-entropy it has
#   98.52 and 89.49 %. With that head the loss is worth 0.18 points on MNIST (0.11 to 0.26) and
#   -0.67 on Fashion-MNIST (-0.81 to -0.52). On CIFAR-10, with two seeds, the head has 63.53 % with
#   cross-entropy and 1.12 points less with the composite loss; networks on pixels end below both.
#
# **To do.** Where you can, take a linear head on features ([the recipe](08_leaderboard.ipynb)). On
# pixels keep tanh on MNIST and Fashion-MNIST, and turn from squared error to cross-entropy in the
# first epochs, with $e_t = 0$ and γ = 0, at Table 5's rate: others were not tried. Where a run has
# to stop early, try the composite loss. Runs that are planned for a small ε from the start were not
# tried.

# %% tags=["remove-input"]
from under_the_clip.losing_less import figures as chapter

chapter.in_short()

# %% tags=["parameters"]
profile = "stored"  # or "smoke", tiny runs in a minute; or "full"
dataset = None  # each; or one of "mnist", "fashion-mnist", "cifar-10"
seeds = None  # the experiment's own number

# %% [markdown]
# ## The remedy
#
# The loss of an example with logits $z$, label $y$ (as a one-hot vector), probability $p$ of its
# label and pre-activations $h^m$ of $d_m$ numbers in layer $m$ (Eq. 7 to 10):
#
# $$\mathcal L = \alpha \underbrace{(1 - p)^\gamma (-\log p)}_{\text{focal}} + (1 - \alpha)
# \Bigl(\underbrace{\tfrac12 \lVert z - y \rVert^2}_{\text{squared error}} + \tfrac1\beta
# \underbrace{\sum_{m=1}^{M-1} \tfrac1{d_m} \lVert h^m \rVert^2}_{\text{penalty}}\Bigr) ,$$
#
# $$\alpha = \frac1{1 + e^{e_t - e_c}} .$$
#
# $e_c$ is the epoch, counted from 0, and $e_t$ that in which both halves weigh the same. γ says how
# much right answers are ignored, and a larger β weakens the penalty, which leaves out the logits,
# $h^M = z$. Squared error, which is easy to learn from, gives way to focal loss, which looks at
# what is still wrong. Table 5 has $e_t = 0$ on MNIST and Fashion-MNIST: both halves weigh the same
# in the first epoch, and focal loss 0.95 of the whole from the fourth on and 0.99 from the sixth.
# On CIFAR-10 $e_t$ is 7, and squared error leads at first. In the code `focusing` is γ,
# `turning_epoch` $e_t$ and `divisor` β, and epochs count from 1. With $\gamma = 0$ focal loss is
# cross-entropy. The paper prints norms where it means squares, in Eq. 7 for certain and in Eq. 9
# perhaps. Both readings of Eq. 9 are trained, on MNIST only; all else has the square.

# %%
import jax.numpy as jnp

from dpstudy.parts.loss import CrossEntropy
from under_the_clip.losing_less.loss import Composite

logits, labels = (
    jnp.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]]),
    jnp.array([0, 0]),
)
hidden = (jnp.ones((2, 8)),)
loss = Composite(focusing=5.0, turning_epoch=7.0, divisor=11.0)
print(
    "cross-entropy, right and wrong:",
    CrossEntropy()(logits, hidden, labels, 1),
)
for epoch in (1, 8, 30):
    print(
        f"composite, epoch {epoch:>2}:          ",
        loss(logits, hidden, labels, epoch),
    )

# %% [markdown]
# In the first epoch the right answer costs 4.6, since squared error wants its logit of 4 to be 1,
# and the wrong one 8.6. In the last the right one costs nothing and the wrong one 3.7, nearly what
# it costs with cross-entropy.

# %% tags=["remove-input"]
from functools import partial

from dpstudy.lab.train import prepare
from dpstudy.lab.variant import Variant
from dpstudy.page.curves import curves
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.quantity import (
    ACCURACY,
    CLIPPED,
    EPSILON,
    GRADIENT_NORM,
    LEARNING_RATE,
    Quantity,
)
from dpstudy.page.results import lines_of, results
from dpstudy.page.search import against, techniques
from under_the_clip.experiments import find
from under_the_clip.losing_less.figures import (
    CE,
    COMPOSITE,
    INSIDE,
    STYLE,
    both,
)
from under_the_clip.losing_less.published import (
    ACCURACIES,
    ACCURACIES_ON_FEATURES,
)


def runs(name):
    return prepare(
        find(f"losing-less-{name}"), profile, dataset=dataset, seeds=seeds
    )


whole, not_private, inside = (
    runs("figure-3"),
    runs("not-private"),
    runs("inside"),
)
ablation, errors, sensitivity = (
    runs("ablation"),
    runs("other-errors"),
    runs("sensitivity"),
)
printed, adam, effort = (
    runs("equation-9"),
    runs("adam"),
    runs("equal-effort"),
)
decayed = runs("weight-decay")
on_features, linear, released = (
    runs("figure-4"),
    runs("linear"),
    runs("statistics"),
)

# %% [markdown]
# ## Figure 3: accuracy against ε
#
# By our intervals, over ten seeds and on CIFAR-10 five, the composite loss leads for 30 of 40
# epochs on MNIST, 37 of 40 on Fashion-MNIST and 24 of 30 on CIFAR-10, and at no epoch does
# cross-entropy lead.
#
# The paper names no accountant. Its noise, which comes from the search of others, costs 2.99 on
# MNIST, 3.00 on Fashion-MNIST and 3.03 on CIFAR-10 by RDP of 2019, so that we take it to use that.
# Its code is based on Opacus, which has had a tighter RDP since v0.14.0, by which the three cost
# 2.58, 2.59 and 2.61. On CIFAR-10 an ε of 1.5 is spent after 6 epochs by RDP of 2019, after 10 by
# the tighter one, and after 12 in truth. There the paper has 55.4 % with the composite loss and
# 45.9 % with cross-entropy; that this is CIFAR-10 is read from the sentences around it. After 6
# epochs our composite loss is below that, at 50.84 %; after 10 it agrees, with a mean of 56.07 %
# (54.81 to 57.32). Our cross-entropy is above the paper's at both, at 50.71 and 54.41 %. The
# composite loss leads in epochs 1 to 5, then from 10 to 26, and in 28 and 29. By RDP of 2019 the
# last epoch spends 3.03, and the one before is the last below 3. All networks have tanh, as in the
# paper.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Figure 3")
def figure_3(reading):
    return curves(
        both(reading, method="{}"),
        ACCURACY,
        along=EPSILON,
        name="losing-less-figure-3",
        shown="test accuracy against ε",
    )


figure_3(whole)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Section 4.1")
def section_4_1(reading, not_private):
    return results(
        [
            *lines_of(
                not_private,
                {"not private": 0},
                ACCURACIES,
                method="{}",
                label=CE,
            ),
            *both(reading, method="{}"),
        ],
        "Gain: of the composite loss over cross-entropy.",
        name="losing-less-section-4-1",
        shown="test accuracy at the last epoch",
        over={COMPOSITE: CE},
    )


section_4_1(whole, not_private)

# %% [markdown]
# The paper tests its gain with three tests on five seeds, and prints p-values of 0.24, 0.86 and
# 10⁻⁶; it does not say on which dataset, and its text speaks of CIFAR-10 before. Here the t-test on
# CIFAR-10 gives 0.15. What the paper leaves out is the gain itself, paired by seed, with an
# interval, and a correction for three datasets; with it the interval on CIFAR-10 is -0.96 to 2.36
# points. The composite loss' accuracies there are hardly normal (p = 0.042), as the t-test and our
# intervals take them to be: two seeds end above 62.2 %, three below 60.8 %.

# %% mystnb={"code_prompt_show": "The paper's tests, and one that is paired by seed"} tags=["hide-output", "remove-input"]
chapter.significance(whole)

# %% [markdown]
# ## Figure 4: on scattering features
#
# Features are scattering coefficients, a fixed function of each image by itself, so that they cost
# no privacy. The networks are those of the paper's Tables 3 and 4. On MNIST the composite loss
# leads at all 25 epochs, on Fashion-MNIST at 18 of 40, and on CIFAR-10, with three seeds, at 8 of
# 60; cross-entropy leads at 1 on Fashion-MNIST and at none elsewhere. The paper has it ahead
# "across the entire ε regime". With cross-entropy a network on features ends 3.40 points above one
# on pixels on CIFAR-10 (2.58 to 4.21). On CIFAR-10 an ε of 2 is spent after 29 epochs by RDP of
# 2019, after 41 by the tighter one, and after 48 in truth.
#
# Each example is normalised by itself, in groups of channels. The code that the paper builds on
# does so on Fashion-MNIST alone, and normalises MNIST and CIFAR-10 by the mean and variance of each
# channel over all examples, both released with noise of multiplier 8
# {cite}`tramer2021differentially`. Those rows are of "released statistics"; their ε composes the
# two releases with the training. Mean and variance are sums over examples, and what one example
# adds to either is scaled down to a bound: here the median of its length over synthetic images.
# That code takes the median over the private images, at no charge. With them the composite loss
# gains on MNIST too, 0.34 points (0.17 to 0.51), and 0.10 on Fashion-MNIST (-0.20 to 0.41). On
# CIFAR-10 they were not run: whether they bring the paper's 66.8 % is open.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
both_on_features = partial(
    lines_of, styles=STYLE, accuracies=ACCURACIES_ON_FEATURES
)


@for_each_dataset("Figure 4")
def figure_4(reading):
    return curves(
        both_on_features(reading, method="{}"),
        ACCURACY,
        along=EPSILON,
        name="losing-less-figure-4",
        shown="test accuracy against ε on scattering features",
    )


figure_4(on_features)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("On scattering features")
def features_table(reading, linear, released):
    of = {
        "{}": (reading, "{}", ACCURACIES_ON_FEATURES),
        "{}, linear": (linear, "{}", ()),
        "{}, released statistics": (released, "{}", ()),
        "{}, linear, released statistics": (released, "{}, linear", ()),
    }
    return results(
        [
            line
            for title, (found, label, published) in of.items()
            for line in lines_of(
                found, STYLE, published, title=title, label=label
            )
        ],
        "Gains: of the composite loss over cross-entropy.",
        name="losing-less-on-features",
        shown="test accuracy on scattering features at the last epoch",
        over={title.format(COMPOSITE): title.format(CE) for title in of},
    )


features_table(on_features, linear, released)

# %% [markdown]
# ## What the paper does not print, and what we took
#
# We draw weights by Glorot's rule, and batches as Poisson samples, where the paper says "sampled
# randomly". Pixels of CIFAR-10 are normalised by ImageNet's mean and variance, as in the code that
# the settings come from. Networks on features are as the paper's Tables 3 and 4 print them; those
# in the code of Tramèr and Boneh, which it names as their source, are smaller. Each of these may be
# why by RDP of 2019 cross-entropy at ε < 1.5 has 50.7 % here and 45.9 % in the paper, and the
# composite loss on features 61.2 and 66.8 %.

# %% [markdown]
# ## At equal effort
#
# Table 5's rate and batch come from a search with cross-entropy; $e_t$, β and γ were searched for
# the composite loss. Here each loss tries the same five learning rates on 50,000 training examples,
# with tanh and with relu. The best on the 10,000 held out is trained on all examples with five
# seeds; the test set is touched once. The rows without the penalty or without focusing have the
# rate that is best for the whole loss.
#
# Appendix A: "Further tuning the learning rate would only strengthen and improve our results." On
# Fashion-MNIST it strengthens the gain, on MNIST it does not: over itself at Table 5's rate the
# loss gains 0.59 points (0.28 to 0.89) and -0.05 (-0.18 to 0.08).
#
# With tanh the best rate of cross-entropy is Table 5's on both datasets, and that of the composite
# loss is half of it. At that rate both parts matter on Fashion-MNIST: focusing is worth 0.61 points
# (0.21 to 1.01) and the penalty 0.37 (0.09 to 0.66), by the three seeds that both sides have. On
# MNIST neither is seen to matter; the penalty is worth 0.11 points (-0.12 to 0.33). With relu the
# penalty is worth 1.35 points on Fashion-MNIST (0.47 to 2.22), about half of what the whole loss
# gains with the same seeds, 2.38. Focusing is not seen to matter there, nor either part on MNIST.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Each loss at its own best rate")
def by_rate(reading):
    return against(
        techniques(reading, {}),
        LEARNING_RATE,
        name="losing-less-rates",
        shown="accuracy on held-out training examples against the learning rate",
    )


by_rate(effort)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Each loss at its own best rate, trained on all examples")
def at_own_rate(reading):
    labels = [label for label in reading.labels if "rate x" not in label]
    over = {
        label: label.replace(COMPOSITE, CE)
        for label in labels
        if COMPOSITE in label
    }
    over |= {
        label: f"{COMPOSITE}, {label.rpartition(', ')[-1]}"
        for label in labels
        if "with" in label
    }
    return results(
        [Variant(reading, label) for label in labels],
        "Gains: of the composite loss over cross-entropy, and of a part left out over all.",
        name="losing-less-equal-effort",
        shown="test accuracy, each at the rate that is best on held-out examples",
        over=over,
    )


at_own_rate(effort)

# %% [markdown]
# ## Which part does it? Figures 10 to 14
#
# The paper has these figures for all three datasets. On CIFAR-10 none of them was run, nor equal
# effort, nor Adam; on features, Figure 10's second row was not.
#
# At the paper's rate and with tanh, the turn from squared error to cross-entropy gains. With focal
# loss in place of cross-entropy the gain is gone. The turn alone gives a head start of 6.37 and
# 7.27 points after one epoch and 0.21 and 0.91 after ten; with focal loss it is 0.60 and 2.14 after
# ten. So focal loss keeps the head start longer, and ends lower. Alone it leads cross-entropy in
# epochs 1 to 5 on MNIST and 1 to 20 on Fashion-MNIST, and ends 0.34 and 0.37 points below it, where
# the paper has it gain later. Squared error alone ends 0.93 and 1.43 points below. The paper finds
# that no part can be left out, each combination at settings of its own; here all have Table 5's.
# The whole is above squared error alone, and at its end below squared error that turns to
# cross-entropy.
#
# At the end the penalty is not seen to matter at this rate: it is worth 0.04 points on MNIST (-0.10
# to 0.17) and 0.03 on Fashion-MNIST (-0.40 to 0.45). After 5 epochs it is worth 0.24 points on
# MNIST (0.05 to 0.44) and 0.91 on Fashion-MNIST (0.48 to 1.34). The reading of Eq. 9 is not seen to
# matter either, where it hardly could: with the norm as printed the loss ends at 98.04 % on MNIST,
# where little of the penalty is left from the fourth epoch on. The paper has the penalty above
# weight decay in its place (Eq. 15), a part of the loss, each layer's by its size. Another weight
# decay was run here, outside the clip, one for all layers and epochs. It ends at 98.17 and 86.50 %
# with 0.00001, the least of four that were tried and the best by test accuracy at one seed: 0.12
# points above the penalty on MNIST (-0.03 to 0.27) and 0.25 on Fashion-MNIST (-0.32 to 0.81). With
# 0.01 it learns nothing.
#
# At this rate $\gamma$ matters most of the three parameters, and the paper's 5 is too large. With
# 0, 5 and 8 (three seeds for 0, one for 8) the loss ends at 98.28, 98.03 and 97.78 % on MNIST and
# at 86.67, 86.23 and 85.28 % on Fashion-MNIST. Paired by seed, most values with one, the accuracy
# moves by 0.11 and 0.24 points over values of $\beta$ from 1 to 51, and by 0.10 and 0.43 over
# values of $e_t$ from 0 to 15. The paper finds
# all three negligible. By the ledger's rule, which allows a change of a point, or on MNIST of a
# fifth of the error, they are; what the loss gains by its end with tanh is negligible by it too.
#
# Absolute error does not train. On MNIST it ends at 31.31 % with a training loss of 1.03, and a
# network that answers 0 to every image has a loss of 1. On Fashion-MNIST it ends at 10.00 %.
# Huber's error with a bound of 1 ends at 97.33 and 84.87 %, squared error at 97.11 and 85.09 %,
# which five seeds do not tell apart. The paper has Huber's error gain with its bound. On
# Fashion-MNIST it does up to 0.4, one seed for most: with 0.1, five seeds, and 0.2 the median stays
# at chance. On MNIST 0.1 ends at 97.15 %.
#
# With Adam at a rate of 0.001, which was not searched, two seeds each, the composite loss ends at
# 84.89 % on Fashion-MNIST and cross-entropy at 81.82 %. On MNIST both end at 98.0 %.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
ABLATED = {
    "squared error": 2,
    "focal": 3,
    "squared error and cross-entropy": 4,
    "squared error and focal": 5,
}


@for_each_dataset("The parts of the loss, by ε")
def parts_by_epsilon(reading, whole):
    return curves(
        [*both(whole), *lines_of(reading, ABLATED)],
        ACCURACY,
        along=EPSILON,
        name="losing-less-ablation-curves",
        shown="test accuracy of the loss and of its parts against ε",
    )


parts_by_epsilon(ablation, whole)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The parts of the loss")
def parts_of_the_loss(reading, whole):
    lines = [*both(whole), *lines_of(reading, ABLATED)]
    return results(
        lines,
        "Gains: over cross-entropy.",
        name="losing-less-ablation",
        shown="test accuracy of the loss and of its parts",
        over={line.name: CE for line in lines if line.name != CE},
    )


parts_of_the_loss(ablation, whole)


# %% mystnb={"code_prompt_show": "Figure 12: absolute and Huber's errors in place of squared error"} tags=["hide-output", "remove-input"]
@for_each_dataset("What is changed")
def changed(reading, whole):
    return results(
        [
            *both(whole),
            *(Variant(reading, label) for label in reading.labels),
        ],
        name=reading.experiment.name,
        shown="test accuracy, with what is named in place of the composite loss of Table 5",
    )


changed(errors, whole)

# %% mystnb={"code_prompt_show": "Beside Figure 13: another weight decay in place of the penalty"} tags=["hide-output", "remove-input"]
changed(decayed, whole)

# %% mystnb={"code_prompt_show": "Figure 14: other values of the three parameters"} tags=["hide-output", "remove-input"]
changed(sensitivity, whole)

# %% mystnb={"code_prompt_show": "Eq. 9 with its norm as printed"} tags=["hide-output", "remove-input"]
changed(printed, whole)

# %% mystnb={"code_prompt_show": "Appendix A: Adam in place of SGD"} tags=["hide-output", "remove-input"]
changed(adam, whole)

# %% [markdown]
# ## Why: Figures 1, 2, 5 to 9 and 15
#
# Most of what the paper sees is there. With the composite loss logits, pre-activations, the last
# weights and, on average, gradients end smaller on all three datasets: the logits' mean norm is
# 7.66 on MNIST, 8.83 on Fashion-MNIST and 7.47 on CIFAR-10, with cross-entropy 17.4, 17.9 and 13.0.
#
# Clipping turns the mean gradient less early in training. On CIFAR-10 the cosine is 0.89 after the
# tenth epoch, with cross-entropy 0.66; after the twentieth it is 0.69 against 0.76. On MNIST it is
# 0.86 after the first, with cross-entropy 0.63, and 0.38 against 0.54 after the tenth. On
# Fashion-MNIST it is above 0.94 after the first with both seeds, with cross-entropy below 0.32; two
# seeds leave open whether that is chance. These are of 1,000 training examples after an epoch; the
# paper has every minibatch of the first. After the first epoch the median norm of their gradients
# is 11 on CIFAR-10, with cross-entropy 22, and on MNIST the same with both. As the paper says, the
# norms are more condensed with the composite loss: their standard deviation is 3.1 on MNIST, with
# cross-entropy 7.8, on Fashion-MNIST 2.7 against 9.0, and on CIFAR-10 2.7 against 7.4.
#
# The Hessian's largest singular value is not smaller from the start: after two epochs it is 91.9 on
# MNIST, with cross-entropy 23.3 and with squared error 114. The paper compares its maximum. Over
# training that is 91.9 on MNIST, with cross-entropy 44.8; on Fashion-MNIST it is 55.9 against 126
# and on CIFAR-10 1,170 against 1,387, and on none do the seeds decide. At the end it is smaller on
# Fashion-MNIST, 36.2 against 63.2, and on CIFAR-10, 896 against 1,200.
#
# On MNIST and Fashion-MNIST the head start may also come from the clip. After 5 epochs more is
# clipped with the composite loss, 99 and 100 % of the gradients, than with cross-entropy, 27 and
# 45 %, and shorter ones add less to the sum, over the same noise. It explains only a part. Focal
# loss alone leads on Fashion-MNIST by 2.06 points after 5 epochs (1.55 to 2.56) with 37 % clipped,
# less than with cross-entropy. Of squared error more than 99 % are clipped in every epoch, and
# after 17 epochs it is behind cross-entropy. On CIFAR-10 99.7 % are clipped after 5 epochs with
# cross-entropy too.
#
# The paper argues with Eq. 11, which adds norms that have to be multiplied;
# {prf:ref}`gradient-norm-sum` has the bound that holds.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
from under_the_clip.losing_less import figures as looked_into

LOGITS = Quantity("layer-norms.logits", "mean norm of the logits", log=True)
LAST_WEIGHTS = Quantity(
    "layer-norms.last_weights", "norm of the last weights", log=True
)


@for_each_dataset("Norms of logits and weights")
def norms(reading):
    return curves(
        lines_of(reading, INSIDE),
        LOGITS,
        LAST_WEIGHTS,
        name="losing-less-norms",
        shown="norms of what the loss sees, and of the last layer",
    )


norms(inside)

# %% mystnb={"code_prompt_show": "Layer by layer: Figures 5 and 6"} tags=["hide-output", "remove-input"]
looked_into.by_layer(inside)


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Gradients, and how many of them are clipped")
def clipped(reading):
    return curves(
        lines_of(reading, INSIDE),
        GRADIENT_NORM,
        CLIPPED,
        name="losing-less-clipped",
        shown="the mean norm of an epoch's gradients, and the fraction of them that is clipped",
    )


clipped(inside)

# %% tags=["remove-input"]
looked_into.gradient_norms(inside)

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
COSINE = Quantity(
    "clipping-bias.cosine", "cosine, clipped to unclipped", "{:.3f}"
)
CURVATURE = Quantity(
    "smoothness.largest", "largest singular value", log=True
)


@for_each_dataset("What clipping turns, and how curved the loss is")
def bias_and_curvature(reading):
    return curves(
        lines_of(reading, INSIDE),
        COSINE,
        CURVATURE,
        name="losing-less-bias-and-curvature",
        shown="the mean gradient after clipping against before, and the loss' Hessian",
    )


bias_and_curvature(inside)

# %% [markdown]
# Of CIFAR-10 the paper prints numbers of three classes. The composite loss has more right of two:
# of automobile after 2 epochs, 64 against 46 %, and of cat after 20, 40 against 23 %. Of truck
# after 2 epochs five seeds do not tell, at 43 against 47 %. Of the other two that the paper calls
# hard it has 49 against 40 % of deer after 20 epochs, and of dog 48 % with both. The paper has the
# composite loss nearer to training without privacy, class by class. On MNIST and Fashion-MNIST that
# is there: after 2 epochs a class' accuracy differs in the mean from that without privacy by 8.8
# points on MNIST, with cross-entropy by 11.2, and by 9.2 and 11.5 on Fashion-MNIST; after 20 by 3.6
# and 4.3, and by 5.7 and 6.8. On CIFAR-10, where the paper has 76.6 % without privacy, that
# training was not run.

# %% tags=["remove-input"]
looked_into.confusion(inside, not_private)

# %% mystnb={"code_prompt_show": "What these measures cost"} tags=["hide-output", "remove-input"]
looked_into.cost()

# %% [markdown]
# ## The runs behind this page

# %% mystnb={"code_prompt_show": "Every experiment: its name, what is stored of it, what a run takes"} tags=["hide-output", "remove-input"]
from dpstudy.page.datasets import behind

behind(
    whole,
    not_private,
    on_features,
    linear,
    released,
    inside,
    ablation,
    errors,
    decayed,
    sensitivity,
    printed,
    adam,
    effort,
)

# %% [markdown]
# ## The claims, one by one
#
# Each claim of the paper with its verdict, computed by a rule that [](10_claims.ipynb) explains.

# %% tags=["remove-input"]
from under_the_clip.ledger import figures as claims

claims.chapter("losing-less")

# %% [markdown]
# ## Exercises
#
# :::{exercise} When focal loss takes over
# :label: losing-less-turn
#
# Let $e_t = 7$. Epochs count from 1 here and $e_c$ from 0, so that $e_c$ is one less than the
# epoch. In which epoch does focal loss have more than 90 % of the weight for the first time?
# :::
#
# :::{solution-start} losing-less-turn
# :class: dropdown
# :::
#
# In epoch 11, with 95 %. In epoch 10 it has 88 %, and in the first 0.1 %.

# %% tags=["check-output"]
import jax

for epoch in (1, 8, 10, 11):
    print(f"epoch {epoch:>2}: α = {jax.nn.sigmoid(epoch - 1 - 7.0):.3f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Examples that are far off
# :label: losing-less-outliers
#
# Take a wrong example, and make its logits 10 and 100 times as large. How does the loss' gradient
# by the logits grow, in epoch 1 and in epoch 30? Does the noise have to grow with it?
# :::
#
# :::{solution-start} losing-less-outliers
# :class: dropdown
# :::
#
# In epoch 1 it grows with the logits, to 99.9: that is squared error. In epoch 30 it stays at
# $\sqrt 2$: that is focal loss. The noise does not grow: it belongs to $C$, to which every
# gradient is clipped.

# %% tags=["check-output"]
label = jnp.array([0])


def length(size, epoch):
    def of(logits):
        return loss(logits, (jnp.ones((1, 8)),), label, epoch)[0]

    return jnp.linalg.norm(
        jax.grad(of)(size * jnp.array([[0.0, 1.0, 0.0]]))
    )


for epoch in (1, 30):
    print(
        f"epoch {epoch}:",
        *(f"{length(size, epoch):.2f}" for size in (1.0, 10.0, 100.0)),
    )

# %% [markdown]
# :::{solution-end}
# :::
