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
# # Backpropagation clipping
#
# **In short.** The paper clips inside backpropagation instead of after it
# ({term}`backpropagation clipping`), and reports 98.7 % on MNIST at ε = 0.07 and 88.6 % on
# Fashion-MNIST at ε = 0.87 {cite}`stevens2022backpropagation`.
#
# - The accuracies come back, 98.62 and 88.41 %. The ε do not, as the authors themselves announced:
#   the code divided the sensitivity, but not the clip, by the batch size, so that the noise was
#   4,096 times too small. That the tables come from this code is inferred, since only its script
#   for MNIST is public. Proven is an ε of 2,030 on MNIST and 269,000 on Fashion-MNIST, at δ = 1e-5.
#   No proof from clipping, noise and shuffling alone can give less than 602 and 960. On this
#   network an attack shows at least 8.61 on both, at trained weights as at searched ones, about all
#   that 81,920 trials could. CIFAR-10 (74.0 % at 3.64) is not trained; the same fault makes its ε
#   4,200,000.
# - The authors corrected the code twice. The first correction's ε holds for a blanked example; it
#   states no accuracy and was not run. The second aims at ε = 3 and 1. If its mean loss divides by
#   a constant, it costs 23.56 and 3.19; with the divisor that it has, only 194 is proven where it
#   aims at 3. There it has 96.06 %; with the noise for a true 3 it has 94.20 %, after the 5 epochs
#   of its settings.
# - At one true ε of 3, on one network, each at its best of 16 settings, it gains 0.54 points over
#   flat clipping on MNIST (95 % interval 0.01 to 1.08): 97.05 and 96.35 %. On Fashion-MNIST it
#   loses 3.23 points (2.75 to 3.71): 79.83 and 83.13 %. Accuracies are medians over seeds, gains
#   means of differences. At ε = 1, with the settings that are best at 3, it shows no gain on MNIST
#   and loses 1.65 points on Fashion-MNIST.
# - There it has Adam, as in the paper, and flat clipping SGD. With SGD for both, after 20 epochs,
#   the clips lose 3.61 points on Fashion-MNIST (2.02 to 5.21, 3 seeds) and gain 0.42 on MNIST (0.28
#   to 0.56): neither needs Adam ([chapter 8](08_leaderboard.ipynb)).
# - That network is the paper's, with relu and without biases. With tanh and biases flat clipping
#   has 98.11 % on MNIST at the same ε ([tanh filter](05_tanh_filter.ipynb)). Tempered sigmoids,
#   with which the paper compares itself, are ahead by 1.39 points on MNIST (1.05 to 1.74) and 5.97
#   on Fashion-MNIST (5.01 to 6.93), each at its best of a search, and at no more ε.
#
# **To do.** Use the ε of neither the first code nor the last. Clip flat, with tanh, in the network
# of [chapter 2](02_tempered_sigmoids.ipynb): that is ahead by more than a point on MNIST and by six
# on Fashion-MNIST. If you clip layer by layer, take the gradient of a sum, divide it by a constant
# after the noise, and account for $\sqrt L$ times the sensitivity of one layer, since all layers of
# a step are one Gaussian mechanism.

# %% tags=["remove-input"]
from under_the_clip.backpropagation_clipping import figures as chapter

chapter.in_short()

# %% tags=["parameters"]
profile = "stored"  # or "smoke", tiny runs in a minute; or "full"
dataset = None  # each in turn; or one of "mnist", "fashion-mnist"
seeds = None  # the experiment's own number

# %% [markdown]
# ## The remedy
#
# DP-SGD clips each example's gradient once it is known. Backpropagation clipping (Algorithm 2)
# clips on the way: each layer's input $x$ to an ℓ2 norm of $a$, and the gradient $g$ that comes
# back to its output to a norm of $b$. A dense layer's gradient is $g x^\top$, so that
#
# $$\lVert g x^\top \rVert_2 = \lVert g \rVert_2 \lVert x \rVert_2 \le ab ,$$
#
# whatever the example. For a convolution the same holds where $g$ is bounded in ℓ1 over positions
# and ℓ2 over channels. One backward pass over the batch gives the bounded sum.

# %%
import jax
import jax.numpy as jnp
from flax import nnx

from under_the_clip.backpropagation_clipping.clipped_layers import (
    clip_layers,
)

graph, params = nnx.split(
    nnx.Linear(5, 3, use_bias=False, rngs=nnx.Rngs(0))
)


def loss(params, x):
    layer = nnx.merge(graph, params)
    clip_layers(layer, 1.0, 0.5, examples=len(x))
    return jnp.sum((layer(x) - 3) ** 2)


for size in (0.01, 1.0, 100.0):
    gradient = jax.grad(loss)(params, size * jnp.ones((1, 5)))["kernel"][
        ...
    ]
    print(
        f"input of size {size:g}: gradient of norm {jnp.linalg.norm(gradient):.3f}"
    )

# %% [markdown]
# Each of the $L$ layers gets Gaussian noise in proportion to $ab$. All layers see the same batch,
# so that a step is one Gaussian mechanism of sensitivity $\sqrt L\,ab$. The paper adds the layers'
# costs up by zCDP, which comes to the same, and takes an epoch of disjoint batches for one step:
# $\rho = LE / 2\sigma^2$ after $E$ epochs. Both are right for batches that are assigned
# beforehand, where an example is blanked, that is, keeps its place in its batch and adds nothing:
# {prf:ref}`zcdp-composition` and {prf:ref}`parallel-composition`.
#
# The bound $ab$ holds; the code has noise for less. Its mean loss divides every gradient by the
# batch size $B$ before the clip at $b$, and nothing divides after the clip. One example can still
# move the sum by $ab$, but the noise is that of $ab/B$: it is $B$ = 4,096 times too small, and the
# $\rho$ spent is $B^2$, 17 million times, what is claimed. Tramèr et al. audited the code and found
# the same fault {cite}`tramer2022debugging`.
#
# That the published tables come from such code is inferred; only its script for MNIST is public.
# The authors announced a bug that "invalidates the original experimental results"
# {cite}`stevens2022code`, a public fork has the line ({doc}`01_accounting`), and with its noise the
# published accuracies come back.

# %% tags=["remove-input"]
from dataclasses import replace

from dpstudy.lab.published import Accuracy
from dpstudy.lab.quantity import Quantity
from dpstudy.lab.train import prepare
from dpstudy.lab.variant import Variant
from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.quantity import BATCH, EPOCHS
from dpstudy.page.results import CLAIMED_AND_PROVEN, lines_of, results
from dpstudy.page.search import techniques, winners
from under_the_clip.backpropagation_clipping.experiments import (
    ENDS,
    EPSILONS,
    MECHANISMS,
    SHARES,
    TARGETS,
)
from under_the_clip.backpropagation_clipping.figures import BACKPROP, FLAT
from under_the_clip.backpropagation_clipping.published import (
    ACCURACIES,
    CORRECTED_CLIPPING,
)
from under_the_clip.experiments import find


def runs(name):
    experiment = find(f"backpropagation-clipping-{name}")
    return prepare(experiment, profile, dataset=dataset, seeds=seeds)


as_published, of_figure_5, corrected = (
    runs("table-1"),
    runs("figure-5"),
    runs("corrected"),
)
left_out, against = runs("left-out"), runs("against-flat")

# %% [markdown]
# ## Table 1: as published
#
# Five of the six accuracies of Table 1 come back within 0.2 points. The sixth does not: without
# privacy our network ends at 88.22 % on Fashion-MNIST, where 89.4 is published. At this learning
# rate the clips alone help: without noise they add 0.15 points on MNIST and 0.40 on Fashion-MNIST,
# where the paper loses 0.1 and 0.7. The published noise takes 0.38 points on MNIST, and none that
# shows on Fashion-MNIST. Some gradients within the clips give away at least ε = 602 on MNIST and
# 960 on Fashion-MNIST. That is the limit of the computation, about 24 an epoch; {doc}`07_audits`
# shows what a real network's do.
#
# Batch, epochs, clips and network are the paper's; Adam's rate, 0.01, is its code's.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Table 1")
def table_1(reading):
    labels = "no privacy", "clips without noise", "as published"
    return results(
        lines_of(
            reading, dict.fromkeys(labels, 0), ACCURACIES, method="{}"
        ),
        "Gains: over the row above. At least: some gradients within the clips give away as much; "
        "with so little noise that is the most that the computation can show.",
        name="backpropagation-clipping-table-1",
        shown="test accuracy at the last epoch, published and ours",
        over=dict(zip(labels[1:], labels, strict=False)),
        spent=CLAIMED_AND_PROVEN,
    )


table_1(as_published)

# %% [markdown]
# ### Figure 5
#
# From a claimed ε of 3 to one of 0.3 accuracy falls by no more than 0.10 points on MNIST and 1.28
# on Fashion-MNIST, because hardly any noise is added. What is proven of the runs that claim 0.01 is
# an ε of 72. They end at 96.07 % on MNIST, which flat clipping reaches at a true 3, and at 75.84 %
# on Fashion-MNIST, which it passes at a true 1.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Figure 5")
def figure_5(reading):
    return results(
        [
            Variant(
                reading, f"claims {epsilon:g}", f"claims ε = {epsilon:g}"
            )
            for epsilon in EPSILONS
        ],
        name="backpropagation-clipping-figure-5",
        shown="test accuracy of the runs of Figure 5, whose values are not printed",
        spent=CLAIMED_AND_PROVEN,
    )


figure_5(of_figure_5)

# %% [markdown]
# ### What the text leaves out
#
# Adam's rate decides. A third of it costs 0.89 points on MNIST, a tenth 5.60; He's initial weights
# cost 0.10, within the spread of seeds (2 a row). The paper's text, as we have it, has lost the
# rate and δ, which are the code's here, both ε of Section 7.2, and Figure 5's axis.
#
# The first code differs in three things, with which nothing was run. It does not shuffle: its
# batches are the same in every epoch, where gradients within the clips can cost the whole 2,030. It
# pads the first convolution by 3, the paper and we do not; that may bear on the missed 89.4 %. Its
# weights are PyTorch's default draw, neither Glorot's, as ours, nor He's.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("What the text leaves out")
def what_is_left_out(reading, table_1):
    return results(
        [
            Variant(table_1, "as published"),
            *(Variant(reading, label) for label in reading.labels),
        ],
        "Gains: over the first row.",
        name="backpropagation-clipping-left-out",
        shown="test accuracy as published, with one thing changed that the text leaves out",
        over=dict.fromkeys(reading.labels, "as published"),
        spent=CLAIMED_AND_PROVEN,
    )


what_is_left_out(left_out, as_published)

# %% [markdown]
# ## The corrected code
#
# The first correction (commit 270964a {cite}`stevens2022code`) divides the clip by the batch size
# too. One example then moves a layer's sum by what the noise is for, so that its ε holds for a
# blanked one ({prf:ref}`privacy-of-the-run`).
#
# The second (9c99855), this book's "corrected code", has accuracies in its comments: about 96, 95,
# 87 and 79 % at ε = 3, 1, 0.2 and 0.1 on MNIST. Ours end at 96.06, 94.20, 88.19 and 78.11 %: the
# first comes back, the second is lower, and the other two vary too much between seeds to tell. Its
# sensitivity of $ab$ is right for a sum divided by a constant, which is what runs here; the code
# divides by the size of the drawn batch, whose sensitivity is up to twice that
# ({prf:ref}`layer-sensitivity-mean-loss`). Its ε is right in neither case: it takes a central limit
# for a bound, and counts each layer as a step that draws a batch of its own, while all four see the
# same batch. With a constant divisor the aims of 0.2 and 0.1 cost little more, 0.212 and 0.102,
# since with much noise it hardly matters whether layers are counted as four steps or as one; with
# the code's own divisor they may cost up to 0.552 and 0.230. An aim of 3 costs 23.56 instead.
#
# With noise for a proven 3 accuracy is 94.20 %; the code's noise for an aim of 1, which costs 3.19,
# gives the same. With noise for a proven 1 it is 93.16 %.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("The corrected code")
def corrected_code(reading):
    theirs = {
        f"aims at {one.target_epsilon:g}": Accuracy(
            one.dataset,
            "",
            one.accuracy,
            one.target_epsilon,
            replace(one.source, where="its code"),
        )
        for one in CORRECTED_CLIPPING
    }
    lines, over = [], {}
    for target in TARGETS:
        aims, spends = f"aims at {target:g}", f"spends {target:g}"
        lines += [
            Variant(reading, aims, published=theirs[aims]),
            Variant(reading, spends),
        ]
        over[spends] = aims
    return results(
        lines,
        "Aims at: the noise of the corrected code. Spends: the noise that PLD asks for at that ε. "
        "Gains: of spends over aims.",
        name="backpropagation-clipping-corrected",
        shown="test accuracy of the corrected code",
        over=over,
        spent=CLAIMED_AND_PROVEN,
    )


corrected_code(corrected)

# %% [markdown]
# ## Against flat clipping, at a true ε
#
# The paper's own ε do not hold, so its comparison says nothing. Here both have the same network,
# with relu and without padding and biases, the same true ε of 3, and a search of 16 settings each;
# the best is trained again with five other seeds. On MNIST clips inside backpropagation gain 0.54
# points (0.01 to 1.08). At ε = 1 nothing is left of it: 95.36 % against 95.42 %. On Fashion-MNIST
# flat clipping is ahead at both: by 3.23 points at ε = 3, and by 1.65 at 1. All four winners take
# 40 epochs, the most that were tried: more might help either.
#
# These runs cannot tell the mechanism from the optimizer: clips inside backpropagation have Adam,
# as in the paper, and flat clipping SGD. Between those two flat clipping with relu differs as much
# in [chapter 2's search](02_tempered_sigmoids.ipynb): 97.16 % with Adam and 96.50 % with SGD on
# MNIST, 81.31 and 85.21 % on Fashion-MNIST (one seed). The factorial of [chapter
# 8](08_leaderboard.ipynb) can tell them apart: it has both by SGD on this network, each at its own
# best rate, for 20 epochs at ε = 3. There the clips lose 3.61 points on Fashion-MNIST (2.02 to
# 5.21) and gain 0.42 on MNIST (0.28 to 0.56), with three seeds each. Flat clipping with Adam was
# not run on this network.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
SEARCHED = (
    BATCH,
    EPOCHS,
    Quantity("learning_rate", "learning rate", "rate {:.2g}"),
    Quantity("clip_norm", "clipping norm", "C = {:.2g}"),
    Quantity("input_bound", "input bound", "a = {:.2g}"),
    Quantity("upstream_bound", "upstream bound", "b = {:.2g}"),
)


@for_each_dataset("Against flat clipping")
def against_flat(reading):
    return winners(
        techniques(reading, dict.fromkeys(MECHANISMS)),
        settings=SEARCHED,
        name="backpropagation-clipping-against-flat",
        shown="the best of 16 settings each at ε = 3, by seed 0, trained again",
        ranges=lambda _: ENDS,
    )


against_flat(against)

# %% [markdown]
# The noise can be shared out among layers otherwise, at the same ε. No gain shows: more noise in
# the last layers changes the accuracy by +0.08 points on MNIST and by +0.27 on Fashion-MNIST, where
# up to 1.1 cannot be excluded, and more in the first layers by -0.29 and -0.40.


# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
@for_each_dataset("Less ε, and noise shared out otherwise")
def shared_out(reading):
    best = {
        name: Variant(reading, f"{name}, best", f"{name}, ε = 3")
        for name in (FLAT, BACKPROP)
    }
    at_1 = {
        name: Variant(reading, f"{name}, epsilon 1", f"{name}, ε = 1")
        for name in (FLAT, BACKPROP)
    }
    over = {of[BACKPROP].name: of[FLAT].name for of in (best, at_1)}
    over |= dict.fromkeys(SHARES, best[BACKPROP].name)
    return results(
        [
            *best.values(),
            *at_1.values(),
            *(Variant(reading, name) for name in SHARES),
        ],
        "Gains: of backpropagation clipping over flat clipping, and of other shares over equal "
        "ones. Shares: ε = 3, at the best settings with equal shares.",
        name="backpropagation-clipping-shared-out",
        shown="test accuracy at a true ε",
        over=over,
    )


shared_out(against)

# %% [markdown]
# ## What one backward pass is worth
#
# No per-example gradient is formed: one backward pass over the batch is all. The paper claims no
# speed-up, and this book's engine has none on two CPU cores: clips inside backpropagation are 0.83
# and 0.86 times as fast as our flat clipping at batches of 256 and 4,096, and training without
# privacy is 1.11 and 1.20 times as fast.

# %% tags=["remove-input"]
chapter.times()

# %% [markdown]
# ## The runs behind this page
#
# The paper's grid search (Figures 1 and 2) is not run again: the settings are those that it prints.
# CIFAR-10: the paper's network has 29 million weights in ten layers, and 100 epochs of it take days
# on the cores that this study has. Not judged: that gradients grow less with the clips, that models
# are "usably accurate", that no DP-SGD was ahead of transfer learning before, and that a
# sensitivity of 0.01 is "roughly 100 times smaller" than usual; it is that of a mean, 40.96 of a
# sum.

# %% mystnb={"code_prompt_show": "Every experiment: its name, what is stored of it, what a run takes"} tags=["hide-output", "remove-input"]
from dpstudy.page.datasets import behind

behind(as_published, of_figure_5, corrected, left_out, against)

# %% [markdown]
# ## The claims, one by one
#
# Each claim of the paper with its verdict, computed by a rule that [](10_claims.ipynb) explains.

# %% tags=["remove-input"]
from under_the_clip.ledger import figures as claims

claims.chapter("backpropagation-clipping")

# %% [markdown]
# ## Exercises
#
# :::{exercise} Deeper networks
# :label: clips-depth
#
# Choose σ so that one layer costs ε = 3, with batches of 256 for 5 epochs on MNIST. Each layer of a
# network gets this noise, and all layers see the same batch. What do 4 layers cost, and 10?
# :::
#
# :::{solution-start} clips-depth
# :class: dropdown
# :::
#
# 32.28 and 132.61. $L$ layers are one Gaussian mechanism with a noise multiplier of $\sigma / \sqrt
# L$. To stay at 3, give each layer $\sqrt L$ times the noise.

# %% tags=["check-output"]
from dpstudy.privacy.accounting import epsilon, noise_multiplier_for

setting = {
    "sampling_probability": 256 / 60_000,
    "steps": 5 * 235,
    "delta": 1e-5,
}
sigma = noise_multiplier_for(3.0, **setting)
for layers in (1, 4, 10):
    spent = epsilon(noise_multiplier=sigma / layers**0.5, **setting)
    print(f"{layers:>2} layers: ε = {spent:.2f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} A layer with biases
# :label: clips-bias
#
# `clip_layers` refuses a layer with a bias. Write one with the package's clips, $a = 1$ and $b =
# 0.5$. How long is one example's gradient over weights and biases together, and what bound holds?
# :::
#
# :::{solution-start} clips-bias
# :class: dropdown
# :::
#
# 0.707, where $ab$ is 0.5. The bias is a weight whose input is 1, and no clip on $x$ reaches that
# input. The bound is $b \sqrt{a^2 + 1}$.

# %% tags=["check-output"]
from under_the_clip.backpropagation_clipping.clipped_layers import (
    clip_upstream,
    l2,
    scaled_to,
)


def with_bias(weights, bias, x):
    output = clip_upstream(scaled_to(x, 1.0, l2) @ weights + bias, 0.5, l2)
    return jnp.sum((output - 3) ** 2)


parts = jnp.zeros((5, 3)), jnp.zeros(3)
both = jax.grad(with_bias, argnums=(0, 1))(*parts, 100 * jnp.ones((1, 5)))
print(f"{jnp.sqrt(sum(jnp.sum(part**2) for part in both)):.3f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} A small factor
# :label: clips-factor
#
# The published code made the noise too small by the batch size. Suppose that it had been too small
# by 2 only, or by 4. What does the σ of the first exercise cost then?
# :::
#
# :::{solution-start} clips-factor
# :class: dropdown
# :::
#
# 32.3 and 248.6. Half the noise costs what four layers cost in the first exercise: either way σ
# counts for half.

# %% tags=["check-output"]
for factor in (1, 2, 4):
    print(
        f"noise / {factor}: ε = {epsilon(noise_multiplier=sigma / factor, **setting):.1f}"
    )

# %% [markdown]
# :::{solution-end}
# :::
