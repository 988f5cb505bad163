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
import jax.numpy as jnp
import numpy as np
import pandas as pd

from dpstudy.lab.comparison import Estimate
from dpstudy.lab.quantity import within
from dpstudy.lab.verdict import Verdict
from dpstudy.parts.data.images import CLASSES
from under_the_clip.losing_less.loss import Composite
from under_the_clip.losing_less.published import ACCURACIES
from under_the_clip.sentences import (
    CIFAR,
    DATASETS,
    FASHION,
    MNIST,
    SMALL,
    accuracy,
    gain,
    judged,
    lead,
    percent,
    points,
    reading,
    standing,
    variant,
)

LOSSES = "composite", "cross-entropy"


def of(name, dataset, label):
    return variant(f"losing-less-{name}", dataset, label)


def pair(name, dataset, form="{}"):
    return [of(name, dataset, form.format(loss)) for loss in LOSSES]


early = {name: lead(f"losing-less-early-{name}") for name in DATASETS}
assert {standing(one) for one in early.values()} == {"ahead"}
end = {name: gain(*pair("figure-3", name)) for name in DATASETS}
assert all(one.low < 0 < one.high for one in end.values())
turned = {
    name: of("ablation", name, "squared error and cross-entropy")
    for name in SMALL
}
plain = {
    name: of("equal-effort", name, "cross-entropy, tanh") for name in SMALL
}
of_turn = {name: gain(turned[name], plain[name]) for name in SMALL}
assert {standing(one) for one in of_turn.values()} == {"ahead"}
# On the board both search their rate, at a true ε.
on_board = {
    (name, epsilon): gain(
        *(
            variant(
                f"leaderboard-{name}", name, f"{one}, epsilon {epsilon}"
            )
            for one in ("squared error, then cross-entropy", "tanh")
        )
    )
    for name in SMALL
    for epsilon in (1, 3)
}
assert {at: standing(one) for at, one in on_board.items()} == {
    (MNIST, 1): "ahead",
    (MNIST, 3): "level",
    (FASHION, 1): "ahead",
    (FASHION, 3): "too close to call",
}
head = {
    name: of("linear", name, "cross-entropy").accuracy.median()
    for name in DATASETS
}
networks = {
    name: [
        *pair("figure-3", name),
        *(
            [
                turned[name],
                plain[name],
                of("equal-effort", name, "composite, tanh"),
            ]
            if name in SMALL
            else []
        ),
    ]
    for name in DATASETS
}
for name, seeds_of_both in zip(DATASETS, (10, 10, 5), strict=True):
    assert head[name] > max(one.accuracy.median() for one in networks[name])
    assert {len(one.accuracy) for one in pair("figure-3", name)} == {
        seeds_of_both
    }
stated = {
    one.method: one.accuracy
    for one in ACCURACIES
    if (one.dataset, one.claimed_epsilon) == (CIFAR, 3.0)
}
claimed = stated["composite"] - stated["cross-entropy"]


def after(epoch, name, label, column="test_accuracy", of_runs="figure-3"):
    return of(of_runs, name, label).by_epoch(column).loc[epoch]


# %% [markdown]
# # Losing less: a better start, not a better end
#
# Clipping cuts long gradients down. So why not train with a loss whose gradients are short to begin
# with? {cite:t}`shamsabadi2023losing` build a *composite loss* from three parts: squared error at
# first, focal loss later, and a penalty that keeps pre-activations small. On CIFAR-10 they report
# {{ points(claimed) }} points more than with cross-entropy at the same privacy.
#
# **In short**
#
# - **A head start.** At ε = 1.5 the composite loss leads cross-entropy on all datasets.
# - **No better end at the paper's rate.** The last epoch has no certain lead. A rate of its
#   own puts it ahead on Fashion-MNIST alone.
# - **The turn does the work.** Squared error that turns into cross-entropy ends ahead; at searched
#   rates, where ε is small.
#
# **Use** that turn to train tanh networks on small grey images. [A linear
# head](08_leaderboard.ipynb) on fixed features beats networks on pixels everywhere.

# %% mystnb={"code_prompt_show": "Parameters, to run this chapter yourself"} tags=["parameters", "hide-input"]
profile = "stored"  # "stored", "smoke" (tiny runs in a minute) or "full"
dataset = None  # None for each, "mnist", "fashion-mnist" or "cifar-10"
seeds = None  # None for the experiment's own number, or 1 to 1000
gamma = 0.0  # the focusing γ of your own, trained in the smoke profile

# %% tags=["remove-input"]
from dpstudy.lab.train import prepare
from dpstudy.page.panels import leads
from under_the_clip.experiments import find
from under_the_clip.losing_less.figures import CE, COMPOSITE, both
from under_the_clip.losing_less.published import NUMBERS


def runs(name):
    return prepare(
        find(f"losing-less-{name}"), profile, dataset=dataset, seeds=seeds
    )


whole, inside, not_private = map(
    runs, ("figure-3", "inside", "not-private")
)
ablation, errors, sensitivity = map(
    runs, ("ablation", "other-errors", "sensitivity")
)
parts_on_cifar_10, effort_on_cifar_10 = map(
    runs, ("cifar-10-ablation", "cifar-10-rates")
)
printed, decayed, adam, effort = map(
    runs, ("equation-9", "weight-decay", "adam", "equal-effort")
)
on_features, linear, released = map(
    runs, ("figure-4", "linear", "statistics")
)
theirs, ours = (
    NUMBERS[f"cifar-10, {loss}"].value for loss in (CE, COMPOSITE)
)
leads(
    {name: both(whole.on(name)) for name in whole.datasets},
    name="losing-less-lead",
    caption=(
        "Lead of the composite loss over cross-entropy, as privacy is spent: "
        "mean and 95 % interval over seeds. Star: the paper's."
    ),
    published={
        "cifar-10": (NUMBERS["epsilon"].value, 100 * (ours - theirs))
    },
    remarks={"mnist": (0.75, 1.4, "head start")},
)

# %% tags=["facts"]
# The last epoch that spends less than 3 by RDP of 2019.
spending = reading("losing-less-figure-3", CIFAR).curves
spending = spending.groupby("epoch")["epsilon_rdp-2019"].max()
assert spending[spending < 3].index[-1] == 29 < spending.index[-1] == 30
near = [after(29, CIFAR, loss) for loss in LOSSES]
best = near[0].max() - near[1].max()
mean = Estimate.difference(*near)
assert standing(mean) == "ahead" and mean.low < 0.001
# What the code below draws with.
spreads = [
    100 * of("figure-3", CIFAR, loss).accuracy.std() for loss in LOSSES
]
assert min(spreads) < 0.6 < max(spreads), spreads
curves = reading("losing-less-figure-3", CIFAR).curves
spent = {
    by: curves[f"epsilon_{by}"].max() for by in ("pld", "rdp", "rdp-2019")
}
assert {
    f"{reading('losing-less-figure-3', name).curves.epsilon_pld.max():.1f}"
    for name in DATASETS
} == {"2.4"}
epochs, accuracy_within = {}, {}
for by in spent:
    sides = within(1.5, by)(*pair("figure-3", CIFAR), "test_accuracy")
    accuracy_within[by] = " and ".join(
        percent(one.median()) for one in sides
    )
    epochs[by] = curves.epoch[curves[f"epsilon_{by}"] <= 1.5].max()
for name in DATASETS:
    ours = judged(f"losing-less-throughout-{name}").ours
    assert (
        ours["epochs_below"]
        == 0
        < 0.5
        < ours["epochs_above"] / ours["epochs"]
    )
ends = sorted(of("figure-3", CIFAR, "composite").accuracy)
assert ends[3] - ends[2] > 0.01

# %% [markdown]
# ## Why did the paper see a lead at the end?
#
# It compares the best of five runs with the best of five. Do that with ours on CIFAR-10, in the
# last epoch that its ε allows, and the gap is {{ points(best) }} points, where the paper has
# {{ points(claimed) }}. Compare means and it is {{ points(mean) }}, with an interval that just
# clears zero; an epoch later it includes zero. Draw the best of five twice, from one method. How
# far apart are the two?

# %%
import numpy as np

draw = np.random.default_rng(0)
seeds_differ_by = 0.6  # points, as here within one method
best = draw.normal(0, seeds_differ_by, size=(100_000, 2, 5)).max(axis=2)
apart = np.abs(best[:, 0] - best[:, 1])
print(f"{apart.mean():.1f} points on average")
print(f"more than one point in {np.mean(apart > 1):.0%} of all studies")

# %% [markdown]
# That much of such a gap can be luck; the rest of the paper's we did not find. This book compares
# means over the same seeds.
#
# :::{dropdown} Fine print: accountants, epochs, tests
# The paper names no accountant. We take it to use RDP of 2019, by which its noise costs about 3 on
# each dataset; ours is {{ f"{spent['pld']:.1f}" }} in truth. On CIFAR-10 an ε of 1.5 is spent after
# {{ epochs["rdp-2019"] }} epochs by RDP of 2019, after {{ epochs["rdp"] }} by the tighter RDP, and
# after {{ epochs["pld"] }} in truth. The paper has 55.4 % there, and 45.9 % with cross-entropy. By
# RDP of 2019 ours have {{ accuracy_within["rdp-2019"] }} %, by the tighter one
# {{ accuracy_within["rdp"] }} %: our cross-entropy is above the paper's at both.
#
# At a true ε of 1.5 the composite loss leads by {{ points(early[MNIST]) }} points on MNIST, by
# {{ points(early[FASHION]) }} on Fashion-MNIST and by {{ points(early[CIFAR]) }} on CIFAR-10. It
# leads for most epochs, and at none does cross-entropy lead. On CIFAR-10 the two seeds that end
# highest lie more than a point above the other three, so that intervals, and the paper's t-test,
# take the accuracies for more normal than they are.
#
# We draw weights by Glorot's rule and batches as Poisson samples, where the paper says "sampled
# randomly", and normalise CIFAR-10's pixels by ImageNet's mean and variance, as the code does that
# the settings come from. All networks have tanh, as in the paper.
# :::

# %% mystnb={"code_prompt_show": "The paper's tests, and one that is paired by seed"} tags=["hide-output", "remove-input"]
from under_the_clip.losing_less import figures as chapter

chapter.significance(whole)

# %% tags=["facts"]
costs = [
    f"{cost:.1f}"
    for cost in (
        Composite(focusing=5.0, turning_epoch=7.0, divisor=11.0)(
            jnp.array([[4.0, 0.0, 0.0]]),
            (jnp.ones((1, 8)),),
            jnp.array([0]),
            1,
        )
    )
]
printed = of("equation-9", MNIST, "as printed")
assert (
    standing(gain(printed, of("figure-3", MNIST, "composite"))) == "level"
)

# %% [markdown]
# ## Three losses, blended epoch by epoch
#
# Squared error wants a logit of one for the right class, and of zero for the others. Focal loss
# looks at what is still wrong. A weight α moves from the one to the other.
#
# $$\begin{aligned}
# \mathcal L = \alpha & \underbrace{(1 - p)^\gamma (-\log p)}_{\text{focal}} \\
# {} + (1 - \alpha) & \Bigl(\underbrace{\tfrac12 \lVert z - y \rVert^2}_{\text{squared error}} \\
# & {} + \tfrac1\beta \underbrace{\sum_{m=1}^{M-1}
# \tfrac1{d_m} \lVert h^m \rVert^2}_{\text{penalty}}\Bigr)
# \end{aligned}$$
#
# An example has logits $z$, label $y$, the probability $p$ of its label, and $d_m$ pre-activations
# $h^m$ in layer $m$ (Eq. 7 to 10). A larger γ ignores right answers more, a larger β weakens the
# penalty. α is $1 / (1 + \exp(e_t + 1 - n))$ in epoch $n$, counted from 1: a half in the epoch
# after $e_t$, the turning epoch.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
import numpy as np
import pandas as pd

from dpstudy.page.figure import STYLES, Figure, canvas
from under_the_clip.losing_less.figures import CE, COMPOSITE, INSIDE, STYLE


def blend():
    logit, epochs = np.linspace(-4, 8, 200), np.arange(1, 31)
    # Of ten classes, nine have a logit of 0.
    log_p = logit - np.log(np.exp(logit) + 9)
    losses = {
        "cross-entropy": (-log_p, STYLES[STYLE[CE]]),
        "focal, γ = 5": (
            -((1 - np.exp(log_p)) ** 5) * log_p,
            STYLES[STYLE[COMPOSITE]],
        ),
        "squared error": (
            (logit - 1) ** 2 / 2,
            STYLES[INSIDE["squared error"]],
        ),
    }
    weights = {
        "MNIST, Fashion-MNIST": (0, STYLES[0]),
        "CIFAR-10": (7, STYLES[4]),
    }
    with canvas(1, 2, size=(7.4, 2.8)) as (figure, (left, right)):
        for (label, (loss, style)), at in zip(
            losses.items(),
            ((-0.6, 3.2), (-4.4, 1.2), (4.4, 4.2)),
            strict=True,
        ):
            left.plot(logit, loss, color=style.color, linestyle=style.dash)
            color = "black" if label == "cross-entropy" else style.color
            left.text(*at, label, fontsize="small", color=color)
        left.set(
            ylim=(-0.3, 9),
            xlabel="logit of the right class",
            ylabel="loss of an example",
        )
        for label, (turning, style) in weights.items():
            alpha = 1 / (1 + np.exp(turning - (epochs - 1)))
            right.plot(epochs, alpha, **style.line, markevery=4)
            right.text(
                *((1, 1.07) if turning == 0 else (9.8, 0.5)),
                label,
                fontsize="small",
            )
        right.set(
            ylim=(-0.05, 1.2),
            xlabel="epoch",
            ylabel="weight α of focal loss",
        )
    data = pd.DataFrame(
        {
            "logit": logit,
            **{name: loss for name, (loss, _) in losses.items()},
        }
    )
    return Figure(
        fig=figure,
        name="losing-less-blend",
        caption="First: what an example costs. Second: how fast focal loss takes over, with the "
        "paper's turning epochs.",
        alt="Squared error is least at a logit of 1 and grows to both sides; cross-entropy and "
        "focal loss fall to 0. The weight of focal loss rises to 1 within six epochs on MNIST and "
        "Fashion-MNIST, and between epochs 4 and 12 on CIFAR-10.",
        data=data,
    )


blend()

# %%
import jax
import jax.numpy as jnp


def composite(logits, hidden, label, epoch, gamma=5, turn=7, beta=11):
    log_p = jax.nn.log_softmax(logits)[label]
    focal = -((1 - jnp.exp(log_p)) ** gamma) * log_p
    wanted = jax.nn.one_hot(label, logits.size)
    squared = jnp.sum((logits - wanted) ** 2) / 2
    penalty = sum(jnp.mean(h**2) for h in hidden) / beta
    alpha = 1 / (1 + jnp.exp(turn - (epoch - 1)))  # epochs count from 1
    return alpha * focal + (1 - alpha) * (squared + penalty)


logits, hidden = jnp.array([4.0, 0.0, 0.0]), [jnp.ones(8)]
for epoch in (1, 8, 30):
    right, wrong = (composite(logits, hidden, at, epoch) for at in (0, 1))
    print(f"epoch {epoch:>2}: right answer {right:.2f}, wrong {wrong:.2f}")

# %% [markdown]
# A right answer costs {{ costs[0] }} in the first epoch: squared error wants its logit to be one,
# and here it is four. At the end it costs nothing.
#
# :::{exercise} When focal loss takes over
# :label: losing-less-turn
#
# Predict: in which epoch does focal loss have more than 90 % of the weight for the first time, with
# $e_t = 7$?
# :::
#
# :::{solution-start} losing-less-turn
# :class: dropdown
# :::
#
# In epoch 11, with 95 %. In epoch 10 it has 88 %.

# %% tags=["nbval-check-output"]
for epoch in (1, 8, 10, 11):
    print(f"epoch {epoch:>2}: α = {jax.nn.sigmoid(epoch - 1 - 7.0):.3f}")

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{dropdown} Fine print: symbols, and slips in print
# With γ = 0 focal loss is cross-entropy. The penalty leaves out the logits. Table 5 has $e_t = 0$
# on MNIST and Fashion-MNIST, so that focal loss has 99 % of the weight from the sixth epoch on; on
# CIFAR-10 $e_t$ is 7. In the code γ is `focusing`, $e_t$ `turning_epoch` and β `divisor`. The paper
# prints norms where it means squares, in Eq. 7 for certain and in Eq. 9 perhaps. Both readings of
# Eq. 9 are trained, on MNIST only: the one as printed ends at {{ accuracy(printed) }} %, which is
# level.
# :::

# %% tags=["facts"]
turn_label = "squared error and cross-entropy"


def ahead(label, name, epoch):
    theirs = after(epoch, name, "cross-entropy")[[*range(5)]]
    return Estimate.difference(
        after(epoch, name, label, of_runs="ablation"), theirs
    )


def last(label, name):
    return gain(
        of("ablation", name, label), of("figure-3", name, "cross-entropy")
    )


for name in SMALL:
    assert (
        last("focal", name).high < 0
        and last("squared error", name).high < 0
    )
    assert 0.008 < -last("squared error", name).value < 0.016
    assert last(turn_label, name).low > 0
    assert last("squared error and focal", name).low < 0
    assert (
        ahead("squared error and focal", name, 10).value
        > ahead(turn_label, name, 10).value
    )
    assert (
        last("squared error and focal", name).value
        < last(turn_label, name).value
    )
decays, penalty = (
    {},
    {
        name: Estimate.difference(
            after(5, name, "composite")[[*range(5)]],
            after(5, name, "squared error and focal", of_runs="ablation"),
        )
        for name in SMALL
    },
)
for name in SMALL:
    assert penalty[name].low > 0
    unpenalised = of("ablation", name, "squared error and focal")
    assert standing(
        gain(of("figure-3", name, "composite"), unpenalised)
    ) not in ("ahead", "behind")
    decay = of("weight-decay", name, "weight decay, best")
    assert (decay.run.optimizer.decay, len(decay.accuracy)) == (1e-5, 5)
    decays[name] = standing(gain(decay, of("figure-3", name, "composite")))
    assert (
        of("weight-decay", name, "weight decay 0.01").accuracy.median()
        < 0.12
    )
absolute = {
    name: of("other-errors", name, "absolute error") for name in SMALL
}
assert absolute[FASHION].accuracy.median() == 0.1
for name in SMALL:
    huber = gain(
        of("other-errors", name, "Huber, 1"),
        of("ablation", name, "squared error"),
    )
    assert huber.low < 0 < huber.high
adam = pair("adam", FASHION, "{}, Adam")
assert {len(one.accuracy) for one in adam} == {2}
assert len({accuracy(one) for one in pair("adam", MNIST, "{}, Adam")}) == 1

# %% [markdown]
# ## The turn does the work
#
# Squared error that turns into cross-entropy, with neither focusing nor penalty, ends ahead of
# cross-entropy, whose rate alone was searched: by {{ points(of_turn[MNIST]) }} points on MNIST and
# by {{ points(of_turn[FASHION]) }} on Fashion-MNIST. Put focal loss in cross-entropy's place and
# the gain is gone. Squared error alone ends about a point below cross-entropy.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
from dpstudy.lab.variant import Variant
from dpstudy.page.panels import gained
from dpstudy.page.results import gains_of

TURN = "squared error, then cross-entropy"
PARTS = {
    TURN: "squared error and cross-entropy",
    "squared error, then focal loss": "squared error and focal",
    "focal loss alone": "focal",
    "squared error alone": "squared error",
}


def of_parts(name):
    plain = Variant(effort.on(name), "cross-entropy, tanh")
    parts = {
        part: Variant(ablation.on(name), label)
        for part, label in PARTS.items()
    }
    parts["all of the composite loss"] = Variant(whole.on(name), COMPOSITE)
    rows = {part: (plain, line) for part, line in parts.items()}
    return gains_of(name, None, rows)


by_part = [row for name in ablation.datasets for row in of_parts(name)]
gained(
    by_part,
    name="losing-less-parts",
    caption=(
        "Where parts of the composite loss end, over cross-entropy at its "
        "best rate. Lines: 95 % intervals over five seeds."
    ),
    axis="points over cross-entropy",
)

# %% [markdown]
# We picked the turn to cross-entropy by test accuracy, at the paper's rate. Both losses search
# their rate, at a true ε, on the [leaderboard's runs](08_leaderboard.ipynb). The turn is ahead at 1
# there, by {{ points(on_board[MNIST, 1]) }} points on MNIST and {{ points(on_board[FASHION, 1]) }}
# on Fashion-MNIST. It is {{ standing(on_board[MNIST, 3]) }} on MNIST at 3, and
# {{ standing(on_board[FASHION, 3]) }} on Fashion-MNIST.
#
# :::{dropdown} Fine print: the other parts
# The turn gives a head start of {{ points(ahead(turn_label, MNIST, 1)) }} points on MNIST and
# {{ points(ahead(turn_label, FASHION, 1)) }} on Fashion-MNIST after one epoch, and of
# {{ points(ahead(turn_label, MNIST, 10)) }} and {{ points(ahead(turn_label, FASHION, 10)) }} after
# ten. With focal loss in cross-entropy's place it lasts longer, and ends lower. Focal loss alone
# ends {{ points(last("focal", MNIST)) }} and {{ points(last("focal", FASHION)) }} points below
# cross-entropy, where the paper has it gain; squared error alone {{ points(last("squared error",
# MNIST)) }} and {{ points(last("squared error", FASHION)) }} below. The paper finds that no part
# can be left out, each combination at settings of its own; here all have Table 5's.
#
# The penalty is not seen to matter at the end. After five epochs it is worth
# {{ points(penalty[MNIST]) }} points on MNIST and {{ points(penalty[FASHION]) }} on Fashion-MNIST.
# A weight decay in its place, of 0.00001, the best of four by test accuracy at one seed, is
# {{ decays[MNIST] }} with it on MNIST and {{ decays[FASHION] }} on Fashion-MNIST; with 0.01 nothing
# is learned. The paper's weight decay is another, inside
# the loss, each layer's by its size.
#
# Absolute error does not train: on MNIST it ends at {{ accuracy(absolute[MNIST]) }} %, on
# Fashion-MNIST at chance. Huber's error with a bound of 1 does as squared error does. With Adam at
# a rate that was not searched, two seeds each, the composite loss ends at {{ accuracy(adam[0]) }} %
# on Fashion-MNIST and cross-entropy at {{ accuracy(adam[1]) }} %; on MNIST both end at the same. On
# CIFAR-10 the parts are still to be run, and the rest is not planned.
# :::

# %% mystnb={"code_prompt_show": "In numbers: the parts, other errors (Figure 12) and decays (13), Eq. 9 as printed, Adam"} tags=["hide-output", "remove-input"]
from IPython.display import display

from dpstudy.page.datasets import for_each_dataset
from dpstudy.page.panels import panels
from dpstudy.page.results import lines_of, results

EACH = {
    "squared error": 2,
    "focal": 3,
    "squared error and cross-entropy": 4,
    "squared error and focal": 5,
}


@for_each_dataset("The parts of the loss")
def parts_of_the_loss(reading, whole):
    lines = [*both(whole), *lines_of(reading, EACH)]
    return results(
        lines,
        "Gains: over cross-entropy.",
        name="losing-less-ablation",
        shown="test accuracy of the loss and of its parts",
        over={line.name: CE for line in lines if line.name != CE},
    )


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


display(
    panels(
        {
            name: [
                *both(whole.on(name)),
                *lines_of(ablation.on(name), EACH),
            ]
            for name in ablation.datasets
        },
        name="losing-less-parts-by-epsilon",
        caption=(
            "The loss, cross-entropy, and what is left when parts are "
            "taken out. Median and range over seeds."
        ),
    ),
    parts_of_the_loss(ablation, whole),
    *(changed(of, whole) for of in (errors, decayed, printed, adam)),
)

# %% tags=["facts"]
focused, moved = {}, {"divisor": [], "turning_epoch": []}
for name in SMALL:
    tried, ours = (
        reading("losing-less-sensitivity", name),
        of("figure-3", name, "composite").accuracy,
    )
    tops = [
        of("sensitivity", name, f"focusing {by}").accuracy.median()
        for by in (0, 8)
    ]
    shown = [tops[0], ours.median(), tops[1]]
    assert shown == sorted(shown, reverse=True)
    assert tops[0] - ours.median() > abs(end[name].value)
    without, eight = (
        of("sensitivity", name, f"focusing {by}") for by in (0, 8)
    )
    assert (len(without.accuracy), len(eight.accuracy)) == (3, 1)
    for other in pair("figure-3", name):
        assert standing(gain(without, other)) == "ahead"
    for one in ("focusing", "divisor", "turning-epoch"):
        assert (
            judged(f"losing-less-insensitive-{one}-{name}").verdict
            == Verdict.REPRODUCED
        )
    focused[name] = "{}, {} and {}".format(*map(percent, shown))
    for what, found in moved.items():
        labels = [one for one in tried.labels if one.startswith(what)]
        by = [
            (of("sensitivity", name, one).accuracy - ours).mean()
            for one in labels
        ]
        assert max(0, *by) - min(0, *by) < shown[0] - shown[2]
        found.append(points(max(0, *by) - min(0, *by)))

# %% [markdown]
# ## At the paper's rate γ costs more than the loss gains
#
# Focal loss with γ = 0 is cross-entropy. Set it so, and you have the turn again, with the penalty
# kept: it ends ahead of cross-entropy on MNIST and Fashion-MNIST. That lead is gone at the
# paper's 5. γ is negligible by the tolerance of our [ledger](10_claims.ipynb), as the paper says,
# and so is what the loss gains. β and $e_t$ move the end less.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
import pandas as pd

from dpstudy.lab.variant import Variant
from dpstudy.page.figure import STYLES, Figure, canvas, not_yet_run
from dpstudy.page.quantity import ACCURACY, set_axis
from dpstudy.page.results import spread
from dpstudy.parts.data.images import DATASETS
from under_the_clip.losing_less.figures import CE, COMPOSITE, STYLE


def by_focus(sensitivity, whole):
    rows = []
    for dataset in sensitivity.datasets:
        plain, own = (
            Variant(whole.on(dataset), label) for label in (CE, COMPOSITE)
        )
        tried = sensitivity.on(dataset)
        ends = {
            float(label.removeprefix("focusing ")): Variant(tried, label)
            for label in tried.labels
            if label.startswith("focusing ")
        }
        ends[5.0] = own
        rows += [
            {
                "dataset": dataset,
                "focusing": focus,
                **spread(one.accuracy),
                "cross-entropy": plain.accuracy.median(),
            }
            for focus, one in sorted(ends.items())
        ]
    if not rows:
        return not_yet_run("Accuracy by γ", sensitivity.command)
    data = pd.DataFrame(rows)
    with canvas(1, len(sensitivity.datasets), size=(6.4, 2.5)) as (
        figure,
        panels,
    ):
        for axes, (dataset, of) in zip(
            panels, data.groupby("dataset", sort=False), strict=True
        ):
            axes.plot(
                of.focusing, of["median"], **STYLES[STYLE[COMPOSITE]].line
            )
            axes.axhline(
                of["cross-entropy"].iloc[0],
                color=STYLES[STYLE[CE]].color,
                linestyle="--",
            )
            beside = {
                "textcoords": "offset points",
                "ha": "right",
                "fontsize": "x-small",
            }
            plain, of_paper = (
                of["cross-entropy"].iloc[0],
                of[of.focusing == 5]["median"].iloc[0],
            )
            axes.annotate(
                "cross-entropy", (8, plain), xytext=(0, 3), **beside
            )
            axes.annotate(
                "the paper's γ", (5, of_paper), xytext=(-4, -14), **beside
            )
            axes.set_title(DATASETS[str(dataset)], fontsize="medium")
            axes.set_xlabel("γ")
            set_axis(axes.yaxis, ACCURACY)
    said = "; ".join(
        f"{DATASETS[row.dataset]}, γ {row.focusing:g}: {row.median:.2%}"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="losing-less-focus",
        caption="Where the loss ends, by its focusing parameter γ (Figure 14); medians, with one "
        "seed for most values.",
        alt=f"Test accuracy falls as γ grows. {said}.",
        data=data,
    )


by_focus(sensitivity, whole)

# %% [markdown]
# :::{dropdown} Fine print: the three parameters
# With γ of 0, 5 and 8 the loss ends at {{ focused[MNIST] }} % on MNIST and at
# {{ focused[FASHION] }} % on Fashion-MNIST: three seeds for 0, one for 8. Over values of β from 1
# to 51 the end moves by {{ moved["divisor"][0] }} and {{ moved["divisor"][1] }} points, over values
# of $e_t$ from 0 to 15 by {{ moved["turning_epoch"][0] }} and {{ moved["turning_epoch"][1] }},
# paired by seed, most values with one. By the ledger's rule, which allows a change of a point, or
# on MNIST of a fifth of the error, all three are negligible, as the paper says; what the loss gains
# by its end is negligible by it too.
# :::

# %% mystnb={"code_prompt_show": "Figure 14: other values of the three parameters"} tags=["hide-output", "remove-input"]
changed(sensitivity, whole)

# %% mystnb={"code_prompt_show": "Train your own γ"} tags=["hide-output", "remove-input"]
from dpstudy.page.own import own
from under_the_clip.losing_less.experiments import of_focusing

trained = (
    prepare(of_focusing(gamma), profile, seeds=seeds)
    if profile == "smoke"
    else None
)
own(
    trained,
    "gamma",
    gamma,
    notebook="03_losing_less",
    name="losing-less-own-focusing",
)


# %% tags=["facts"]
def tuned(name, loss, activation="tanh"):
    return of("equal-effort", name, f"{loss}, {activation}")


own, relu = (
    {
        name: gain(
            tuned(name, "composite", by), tuned(name, "cross-entropy", by)
        )
        for name in SMALL
    }
    for by in ("tanh", "relu")
)
assert [standing(own[name]) for name in SMALL] == ["level", "ahead"] and {
    *map(standing, relu.values())
} == {"ahead"}
at_rate = Estimate.difference(
    of("figure-3", FASHION, "composite").accuracy.loc[:4],
    plain[FASHION].accuracy,
)
held = (
    reading("losing-less-equal-effort", FASHION)
    .finals.set_index("label")
    .test_accuracy
)
halved, printed_rate = (
    held[f"composite, tanh, rate x {by}"] for by in ("0.5", "1")
)
assert round(10_000 * (halved - printed_rate)) == 1


def worth(name, part, activation="tanh"):
    return gain(
        tuned(name, "composite", activation), tuned(name, part, activation)
    )


sharper = {
    name: gain(tuned(name, "composite"), of("figure-3", name, "composite"))
    for name in SMALL
}
assert sharper[FASHION].low > 0 and sharper[MNIST].low < 0
# What relu loses to tanh, and what the loss makes up of it.
for name in SMALL:
    lost = plain[name].accuracy.median() - (
        tuned(name, "cross-entropy", "relu").accuracy.median()
    )
    left = plain[name].accuracy.median() - (
        tuned(name, "composite", "relu").accuracy.median()
    )
    assert left <= 0 if name == FASHION else 0 < left < lost / 2
for part in ("without focus", "without the penalty"):
    assert len(tuned(FASHION, part).accuracy) == 3
    assert standing(worth(FASHION, part)) == "ahead"
    assert standing(worth(MNIST, part)) not in ("ahead", "behind")
assert standing(worth(FASHION, "without the penalty", "relu")) == "ahead"

# %% [markdown]
# ## With a rate of its own it gains on Fashion-MNIST
#
# The paper's learning rate (Table 5) was found with cross-entropy, so that the comparison above is
# not fair. Give each loss the best of the same five rates, chosen on held-out images. With tanh the
# composite loss is then {{ standing(own[FASHION]) }} on Fashion-MNIST by {{ points(own[FASHION]) }}
# points, where γ helps, and {{ standing(own[MNIST]) }} on MNIST. With relu it is ahead on both.

# %% tags=["remove-input"]
gained(
    chapter.all_gains(),
    name="losing-less-in-short",
    caption=(
        "What the composite loss gains over cross-entropy at the same ε. "
        "Lines: 95 % intervals over seeds. Best rates are of five for each "
        "loss, chosen on held-out training examples."
    ),
    axis="points gained",
)

# %% [markdown]
# :::{dropdown} Fine print: how close the choice was
# On Fashion-MNIST the best rate of the composite loss is half of the paper's, by one of 10,000
# held-out images; at the paper's rate the five seeds are {{ standing(at_rate) }}. There focusing is
# worth {{ points(worth(FASHION, "without focus")) }} points and the penalty
# {{ points(worth(FASHION, "without the penalty")) }}, by the three seeds that both sides have. On
# MNIST neither is seen to matter. With relu the loss gains {{ points(relu[MNIST]) }} points on
# MNIST and {{ points(relu[FASHION]) }} on Fashion-MNIST, where the penalty is worth
# {{ points(worth(FASHION, "without the penalty", "relu")) }}. That makes up what relu loses to
# tanh, all of it on Fashion-MNIST, most of it on MNIST. Appendix A says that "further tuning the
# learning rate would only strengthen" the results: on Fashion-MNIST it does, on MNIST it does not.
# On CIFAR-10 this is still to be run.
# :::

# %% mystnb={"code_prompt_show": "Every rate that was tried"} tags=["hide-output", "remove-input"]
from dpstudy.page.quantity import LEARNING_RATE
from dpstudy.page.search import against, techniques


@for_each_dataset("Each loss at its own best rate")
def by_rate(reading):
    return against(
        techniques(reading, {}),
        LEARNING_RATE,
        name="losing-less-rates",
        shown="accuracy on held-out training examples against the learning rate",
    )


by_rate(effort)

# %% tags=["facts"]
features, with_head = (
    {name: gain(*pair(experiment, name)) for name in DATASETS}
    for experiment in ("figure-4", "linear")
)
assert standing(features[MNIST]) == standing(features[CIFAR]) == "ahead"
assert points(features[MNIST]) == points(features[CIFAR])
for name in SMALL:
    assert head[name] > max(
        one.accuracy.max() for one in pair("figure-4", name)
    )
assert (
    with_head[MNIST].low > 0 > with_head[FASHION].high
    and with_head[CIFAR].value < 0
)
for name, seeds_of_both in zip(DATASETS, (5, 5, 3), strict=True):
    assert {len(one.accuracy) for one in pair("figure-4", name)} == {
        seeds_of_both
    }
assert {len(one.accuracy) for one in pair("linear", CIFAR)} == {2}
network = pair("figure-4", CIFAR)
assert head[CIFAR] < min(one.accuracy.median() for one in network)
at_2 = [
    percent(one.median())
    for one in within(2, "rdp-2019")(*network, "test_accuracy")
]
assert (
    lead("losing-less-features-early").low
    < 0.023
    < lead("losing-less-features-early").high
)
released = {name: gain(*pair("statistics", name)) for name in SMALL}

# %% [markdown]
# ## On scattering features a linear head beats the paper's network, but not on CIFAR-10
#
# Scattering coefficients are a fixed function of each image, so that they cost no privacy. The
# paper trains a small network on them, and so do we: on MNIST and CIFAR-10 the composite loss is
# ahead by {{ points(features[MNIST]) }} points. A linear head with cross-entropy is simpler, and
# above that network on MNIST and Fashion-MNIST; two seeds do not tell on CIFAR-10.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
from under_the_clip.losing_less.figures import STYLE
from under_the_clip.losing_less.published import ACCURACIES_ON_FEATURES


def on_each_features(name):
    network = lines_of(
        on_features.on(name), STYLE, ACCURACIES_ON_FEATURES, method="{}"
    )
    return [*network, Variant(linear.on(name), CE, "linear head", 2)]


panels(
    {name: on_each_features(name) for name in on_features.datasets},
    name="losing-less-figure-4",
    caption=(
        "On scattering features (Figure 4): both losses with the "
        "paper's network, and cross-entropy with a linear head. Stars: "
        "the paper's."
    ),
)

# %% [markdown]
# :::{dropdown} Fine print: the paper's 66.8 %, and released statistics
# The paper has 66.8 % at ε < 2, we take it on CIFAR-10, and 64.5 % with cross-entropy. Ours end at
# {{ accuracy(network[0]) }} and {{ accuracy(network[1]) }} %, at a true ε of
# {{ f"{network[0].median('epsilon_pld'):.2f}" }}, with three seeds; at 2 by RDP of 2019 they have
# {{ at_2[0] }} and {{ at_2[1] }} %. Three seeds leave the paper's gain of 2.3 points open. On
# Fashion-MNIST the gain is {{ standing(features[FASHION]) }}. With the linear head the loss is
# worth {{ points(with_head[MNIST]) }} points on MNIST and loses {{ points(with_head[FASHION]) }} on
# Fashion-MNIST; on CIFAR-10, two seeds, it loses too.
#
# Each example is normalised by itself, in groups of channels. The code that the paper builds on
# does so on Fashion-MNIST alone, and elsewhere normalises by the mean and variance of each channel,
# released with noise {cite}`tramer2021differentially`. Those rows are of "released
# statistics"; their ε composes the two releases with the training. That code bounds what an example
# adds by a median over the private images, at no charge; here it is one over synthetic images. With
# them the loss is {{ standing(released[MNIST]) }} on MNIST and {{ standing(released[FASHION]) }} on
# Fashion-MNIST. On CIFAR-10 they were not run: whether they bring the paper's 66.8 % is open.
# Networks on features are as the paper's Tables 3 and 4 print them; those in the code that it names
# as their source are smaller.
# :::

# %% mystnb={"code_prompt_show": "Every variant on features, in numbers"} tags=["hide-output", "remove-input"]


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
                found,
                STYLE,
                published,
                title=title,
                label=label,
                method="{}" if published else "",
            )
        ],
        "Gains: of the composite loss over cross-entropy.",
        name="losing-less-on-features",
        shown="test accuracy on scattering features at the last epoch",
        over={title.format(COMPOSITE): title.format(CE) for title in of},
    )


features_table(on_features, linear, released)

# %% tags=["facts"]
cosine = [
    f"{after(10, CIFAR, loss, 'clipping-bias.cosine', 'inside').median():.2f}"
    for loss in LOSSES
]
# In the fine print.
holds, open_ = Verdict.REPRODUCED, Verdict.UNDECIDED


def verdicts(form, names=DATASETS):
    return [
        judged(f"losing-less-{form.format(one)}").verdict for one in names
    ]


for what in ("logits", "pre-activations", "gradients", "last-weights"):
    assert verdicts(f"{what}-{{}}", SMALL) == 2 * [holds]
for column in (
    "layer-norms.logits",
    "layer-norms.last_weights",
    "gradient_norm",
):
    smaller, larger = (
        after(30, CIFAR, one, column, "inside").median() for one in LOSSES
    )
    assert smaller < larger
hidden = [
    np.stack([*one.arrays("layer-norms.hidden").values()])
    for one in pair("inside", CIFAR)
]
assert (hidden[0].max(axis=0) < hidden[1].min(axis=0)).all()
assert verdicts("first-spread-{}") == 3 * [holds]
assert verdicts("curvature-{}") == [open_, open_, holds]
curved = [
    after(2, MNIST, one, "smoothness.largest", "inside").median()
    for one in LOSSES
]
assert curved[0] > curved[1]
assert verdicts("class-{}", ("automobile", "cat", "truck")) == [
    holds,
    holds,
    open_,
]


def right(name, loss):
    at = CLASSES[CIFAR].index(name)
    found = of("inside", CIFAR, loss).arrays("confusion.counts", 20)
    return pd.Series(
        {seed: n[at, at] / n[at].sum() for seed, n in found.items()}
    )


deer, dog = (
    Estimate.difference(*(right(one, loss) for loss in LOSSES))
    for one in ("deer", "dog")
)
assert deer.low > 0 > dog.low
for ours in (accuracy_within["rdp"], accuracy_within["rdp-2019"]):
    assert float(ours.split(" and ")[1]) > 45.9
later = [
    after(20, CIFAR, loss, "clipping-bias.cosine", "inside").median()
    for loss in LOSSES
]
assert later[0] < later[1]
for name in DATASETS:
    # First the composite loss has the larger cosine, later now one, now the other.
    larger = [
        of("inside", name, loss)
        .by_epoch("clipping-bias.cosine")
        .median(axis=1)
        for loss in LOSSES
    ]
    larger = larger[0] > larger[1]
    assert larger.loc[1:4].all()
    assert larger.loc[10:].any() and not larger.loc[10:].all()
for name in SMALL:
    shares = [
        after(5, name, loss, "clipped_fraction", "inside").median()
        for loss in LOSSES
    ]
    assert shares[0] > 0.98 and shares[1] < 0.5
focal_lead = ahead("focal", FASHION, 5)
focal_clipped = after(
    5, FASHION, "focal", "clipped_fraction", "ablation"
).mean()
assert standing(focal_lead) == "ahead" and focal_clipped < shares[1]


def from_not_private(name, epoch, loss):
    """Return how far a loss is from no privacy in the mean class."""
    private, wanted = (
        np.diag(counts) / counts.sum(axis=1)
        for counts in (
            sum(one.arrays("confusion.counts", epoch).values())
            for one in (
                of("inside", name, loss),
                of("not-private", name, "cross-entropy"),
            )
        )
    )
    return np.abs(private - wanted).mean()


for name in SMALL:
    for epoch in (2, 20):
        nearer, further = (
            from_not_private(name, epoch, loss) for loss in LOSSES
        )
        assert nearer < further
assert reading("losing-less-not-private", CIFAR).finals.empty

# %% [markdown]
# ## In the first epochs the clip turns its gradient less
#
# A clipped sum points elsewhere than the sum of the gradients. Early in training the composite loss
# keeps the two closer together: on CIFAR-10 the cosine between them is {{ cosine[0] }} after the
# tenth epoch, where cross-entropy has {{ cosine[1] }}. Later it is now the larger, now the smaller.
# Whether that makes the head start, these runs cannot tell.
#
# Short gradients do not make it. After five epochs on MNIST and Fashion-MNIST nearly all gradients
# of the composite loss are clipped, and less than half of cross-entropy's. So most of
# cross-entropy's gradients are shorter than the clip, and add less to the sum, over the same noise.

# %% mystnb={"code_prompt_show": "How it is made"} tags=["hide-input"]
from dpstudy.lab.quantity import Quantity
from dpstudy.page.quantity import EPOCH

COSINE = Quantity(
    "clipping-bias.cosine", "cosine, clipped to unclipped", "{:.3f}"
)

panels(
    {name: both(inside.on(name)) for name in inside.datasets},
    COSINE,
    along=EPOCH,
    name="losing-less-cosine",
    caption=(
        "How far clipping turns the mean gradient of 1,000 training "
        "examples: 1 is not at all (Figure 2)."
    ),
)

# %% [markdown]
# :::{dropdown} Fine print: norms, curvature, classes
# Most of what the paper sees inside is there. Logits, pre-activations, the last weights and, on
# average, gradients end smaller on all three datasets, and after the first epoch gradients are more
# alike in length. The Hessian's largest singular value is not smaller from the start; at the end it
# is, on CIFAR-10. Two seeds leave it open on MNIST and Fashion-MNIST.
#
# That cross-entropy's gradients are short explains only a part of the head start: focal loss alone
# leads on Fashion-MNIST by {{ points(focal_lead) }} points after five epochs, with
# {{ percent(focal_clipped, 0) }} % clipped.
#
# Of the classes of CIFAR-10 that the paper prints, the composite loss has more right of automobile,
# cat and deer, five seeds do not tell of truck, and of dog it has no more. On MNIST and
# Fashion-MNIST its accuracies by class are nearer to those of training without privacy, as the
# paper says; on CIFAR-10 that training was not run. The paper argues with Eq. 11, which adds norms
# that have to be multiplied; {prf:ref}`gradient-norm-sum` has the bound that holds.
# :::

# %% mystnb={"code_prompt_show": "Figures 1, 5 to 9 and 15: norms, layers, clipping, curvature, classes, and what measuring costs"} tags=["hide-output", "remove-input"]
from dpstudy.page.curves import curves
from dpstudy.page.quantity import CLIPPED
from under_the_clip.losing_less.figures import INSIDE

CURVATURE = Quantity(
    "smoothness.largest", "largest singular value", log=True
)


@for_each_dataset(
    "How many gradients are clipped, and how curved the loss is"
)
def clipped(reading):
    return curves(
        lines_of(reading, INSIDE),
        CLIPPED,
        CURVATURE,
        name="losing-less-clipped",
        shown="the fraction of an epoch's gradients that is clipped, and the loss' Hessian",
    )


display(
    chapter.gradient_norms(inside),
    chapter.by_layer(inside),
    clipped(inside),
    chapter.confusion(inside, not_private),
    chapter.cost(),
)

# %% [markdown]
# ## Gains, runs and claims

# %% mystnb={"code_prompt_show": "Every gain on this page"} tags=["hide-output", "remove-input"]
from dpstudy.page.results import gains_table

ON_FEATURES = {
    "composite, on features": (on_features, "{}"),
    "composite, linear head on features": (linear, "{}"),
    "composite, on features, released statistics": (released, "{}"),
}
WORTH = {
    f"composite, over {part}, own best rate, {by}": (part, by)
    for part in ("without focus", "without the penalty")
    for by in ("tanh", "relu")
}


def more(name):
    """Return pairs, the second over the first."""
    rows = {
        title: [
            Variant(of.on(name), form.format(one))
            for one in (CE, COMPOSITE)
        ]
        for title, (of, form) in ON_FEATURES.items()
    }
    of_effort, own = effort.on(name), Variant(whole.on(name), COMPOSITE)
    rows |= {
        title: [
            Variant(of_effort, f"{one}, {by}") for one in (part, COMPOSITE)
        ]
        for title, (part, by) in WORTH.items()
    }
    rows["weight decay, over the penalty"] = (
        own,
        Variant(decayed.on(name), "weight decay, best"),
    )
    rows["composite at its best rate, over Table 5's"] = (
        own,
        Variant(of_effort, f"{COMPOSITE}, tanh"),
    )
    without = Variant(sensitivity.on(name), "focusing 0")
    rows["composite with γ = 0, over γ = 5"] = own, without
    rows["composite with γ = 0, over cross-entropy"] = (
        Variant(whole.on(name), CE),
        without,
    )
    rows["linear head over network, cross-entropy on features"] = (
        Variant(on_features.on(name), CE),
        Variant(linear.on(name), CE),
    )
    return gains_of(name, None, rows)


gains_table(
    [
        *chapter.all_gains(),
        *(
            row | {"comparison": f"{row['comparison']}, over cross-entropy"}
            for row in by_part
        ),
        *(row for name in whole.datasets for row in more(name)),
    ],
    name="losing-less-gains",
)

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
    parts_on_cifar_10,
    effort_on_cifar_10,
)

# %% mystnb={"code_prompt_show": "Every claim of the paper, with its verdict"} tags=["hide-output", "remove-input"]
from under_the_clip.ledger import figures as claims

claims.chapter("losing-less")

# %% [markdown]
# ## Exercises
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

# %% tags=["nbval-check-output"]
wrong = jnp.array([0.0, 1.0, 0.0])
for epoch in (1, 30):
    lengths = [
        jnp.linalg.norm(
            jax.grad(composite)(size * wrong, [jnp.ones(8)], 0, epoch)
        )
        for size in (1.0, 10.0, 100.0)
    ]
    print(f"epoch {epoch}:", *(f"{length:.2f}" for length in lengths))

# %% [markdown]
# :::{solution-end}
# :::
