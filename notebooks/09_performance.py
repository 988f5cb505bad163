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
# # What a private step costs
#
# **In short.** {term}`DP-SGD` clips every example's gradient and is said to be slow. We timed one
# training step of two networks, ours and that of other libraries, on two cores of a CPU.
#
# - Privacy adds no cost that we can measure to a step of our engine on these two networks. Without
#   clipping and noise a step takes 1.05 and 0.91 times as long, and rounds differ by more. No GPU
#   was timed. On the network of [backpropagation clipping](04_backpropagation_clipping.ipynb)
#   clipping and noise add 11 and 20 % at batches of 256 and 4,096. Drawing batches by Poisson
#   sampling adds a fifth on MNIST, and nothing that shows on CIFAR-10.
# - Of the private steps of others torch.func's is the fastest: it takes 5.52 times as long as ours
#   on MNIST and 2.54 times on CIFAR-10. The faster mode of Opacus takes 6.67 and 3.02 times as
#   long as our private step, `vmap(grad)` 11.22 and 6.17 times, jax-privacy 12.90 and 9.92 times.
# - PyTorch without privacy takes 1.34 and 0.79 times as long: on CIFAR-10 it is ahead of us.
# - In our engine portions of the batch that fit the cache are the simplest gain: the whole batch at
#   once takes 3.32 and 1.34 times as long. torch.func is fastest on the whole batch.
#
# **To do.** Time two or three sizes of microbatch, examples worked on at once, in the engine that
# you have. With Opacus 1.6 keep images channels first: channels last gives wrong gradients of
# convolutions, without an error, as a test of the benchmark shows. With several runs of a small
# network to do on a CPU, give each a core of its own. Time contestants in turn: the same step a
# minute later, on the same machine, can take twice as long.

# %% tags=["remove-input"]
import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.lab import store
from dpstudy.page.figure import (
    Figure,
    Note,
    Several,
    Table,
    canvas,
    not_yet_run,
)
from dpstudy.parts.data.images import DATASETS
from under_the_clip.performance import timings
from under_the_clip.performance.timings import (
    COMMAND,
    NETWORKS,
    OURS,
    SERIES,
    STYLE,
)


def name_ticks(axis):
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def in_short(measured):
    if measured is None:
        return not_yet_run("The comparison of steps", COMMAND)
    data = timings.contestants(measured)
    data = data[(data.name != OURS) & data.ratio.notna()]
    if data.empty:
        return Note(
            "No ratios", "The stored measurement lacks our own step."
        )
    names = list(data.groupby("name").ratio.median().sort_values().index)
    with canvas(size=(7.2, 3.0)) as (figure, [axes]):
        of_each = data.groupby("network", sort=False)
        for shift, (network, rows) in zip(
            (0.12, -0.12), of_each, strict=False
        ):
            style = STYLE[network]
            at = [shift - names.index(name) for name in rows.name]
            mark = {
                "color": style.color,
                "marker": style.marker,
                "linestyle": "none",
            }
            axes.plot(rows.ratio, at, label=NETWORKS[network], **mark)
            axes.hlines(
                at, rows.ratio_low, rows.ratio_high, color=style.color
            )
        axes.axvline(1, color="0.4", linewidth=1)
        axes.set(
            xscale="log",
            xlabel="time of a step over that of our private step",
        )
        name_ticks(axes.xaxis)
        axes.set_yticks([-at for at in range(len(names))], names)
        axes.legend(fontsize="small", loc="upper right")
    said = "; ".join(
        f"{row.name}, {NETWORKS[row.network]}: {row.ratio:.2f}"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="performance-in-short",
        caption=(
            "Times our private step: median and quartiles of ratios within "
            f"{measured.settings.rounds} rounds. {measured.machine}."
        ),
        alt=f"Times as long as our private step. {said}.",
        data=data,
    )


measured = timings.stored()
in_short(measured)

# %% tags=["parameters"]
profile = "stored"  # nothing is timed here: `make bench` does that

# %% tags=["remove-input"]
timings.warnings_of(measured)

# %% [markdown]
# ## Every contestant
#
# Just-in-time compilation of `vmap(grad)` is the remedy that is usually named
# {cite}`subramani2021enabling`; Opacus {cite}`yousefpour2021opacus` computes per-example gradients
# layer by layer, or clips without ever having them. All start from the same weights and take the
# same batches, clipping, noise and optimiser. A test takes them through the same steps before
# anything is timed, and compares our per-example gradients with those of Opacus.


# %% tags=["remove-input"]
def times_of(measured, network, table):
    data = pd.DataFrame(
        {
            "": [
                f"{r.name} ({r.variant})" if r.variant else r.name
                for r in table.itertuples()
            ],
            "private": table.private.map({True: "yes", False: "no"}),
            "ms a step": table.seconds * 1e3,
            "low": table.seconds_low * 1e3,
            "high": table.seconds_high * 1e3,
            "times ours": table.ratio,
            "of the machine's rate": table.rate,
            "peak MB": table.peak / 1e6,
            "of it libraries": table.baseline / 1e6,
            "first step, s": table.first_step,
        }
    )
    megabytes = dict.fromkeys(("peak MB", "of it libraries"), "{:,.0f}")
    seconds = dict.fromkeys(
        ("ms a step", "low", "high", "first step, s"), "{:.1f}"
    )
    return Table(
        name=f"performance-{network}",
        caption=(
            f"{NETWORKS[network]}, batch {table.batch.iloc[0]}: median and quartiles over "
            f"{measured.settings.rounds} rounds, each contestant in its best setting (in brackets: "
            "a microbatch's examples, or the like). Times ours: the median of ratios within a "
            f"round, and not the ratio of two medians. The first step compiles. {measured.machine}."
        ),
        data=data,
        formats=megabytes
        | seconds
        | {"times ours": "{:.2f}", "of the machine's rate": "{:.0%}"},
        merged={"quartiles": "{low}–{high}"},
    )


def times(measured):
    if measured is None:
        return not_yet_run("The contest", COMMAND)
    found = dict(
        list(timings.contestants(measured).groupby("network", sort=False))
    )
    tables = tuple(
        times_of(measured, network, table)
        for network, table in found.items()
    )
    return Several(tables, tuple(NETWORKS[network] for network in found))


times(measured)

# %% [markdown]
# On the CIFAR-10 network our private step reaches 43 % of the machine's rate for large matrix
# products, PyTorch without privacy 56 %. Our peak memory, libraries left out, is 1.22 and 0.50
# times that of the leaner mode of Opacus.
#
# Each contestant has a process of its own, which idles while others are timed. Every round trains
# each for a short burst, in an order drawn anew; ratios are taken within a round, so that what
# slows the machine down slows everyone. Batches of fixed size come from memory. "Ours, with
# sampling" draws each by Poisson sampling from 60,000 examples. Each contestant counts in the best
# setting that was tried: `vmap(grad)` and Opacus on the whole batch alone. Where quartiles are far
# apart, the machine was busy. The work that counts towards the machine's rate is the same for all:
# what a method adds for privacy does not.
#
# ## How the step is made cheap
#
# **No pass per example.** The network is differentiated once, with respect to the outputs of its
# layers. A dense layer's gradient for example $i$ is $g_i x_i^\top$, of norm
# $\lVert g_i \rVert \lVert x_i \rVert$; the clipped sum is one product:

# %% tags=["check-output"]
import jax
import jax.numpy as jnp

from dpstudy.gradients.layer_rules import DenseGradients

x, g = jax.random.normal(jax.random.key(0), (2, 64, 32))
layer = DenseGradients(inputs=x, outputs=g, use_bias=False)
clip = jnp.minimum(1, 1 / jnp.sqrt(layer.squared_norms()))
clipped_sum = layer.weighted_sum(clip)["kernel"]

written_out = layer.written_out()["kernel"]  # 64 gradients
expected = jnp.einsum("b,bmn->mn", clip, written_out)
print(jnp.allclose(clipped_sum, expected, atol=1e-4))

# %% [markdown]
# **Small portions.** A batch is worked through a few dozen examples at a time, so that patches,
# activations and per-example gradients stay in cache. Poisson sampling wants the same: as many
# portions as the draw needs, the last one masked.
#
# **Convolutions as products.** A convolution is a product of patches with its kernel, and its
# per-example gradient one of the same patches with the output gradient. It is enough to put
# neighbouring columns beside each other, take the product with all rows of the kernel at once and
# add up. With stride 1 and eight channels or more we use the library's convolution, for both
# gradients too: products would take 1.37 times as long on the CIFAR-10 network.
#
# **Pooling by comparison.** The maximum of four shifted images has an elementwise gradient; that of
# the library's pooling is a scatter. Since tanh is increasing, pooling comes before it.
#
# The table undoes one thing at a time, in a process pinned to one core, as the study trains.


# %% tags=["remove-input"]
def undone(measured):
    if measured is None or not measured.undone:
        return not_yet_run("The table of what each part is worth", COMMAND)
    rows = {}
    for row in timings.undone(measured).itertuples():
        told = f"{row.ratio:.2f} ({row.ratio_low:.2f}–{row.ratio_high:.2f})"
        rows.setdefault(row.name, {})[f"{NETWORKS[row.network]}, times"] = (
            told
        )
        rows[row.name][f"{NETWORKS[row.network]}, ms"] = (
            f"{row.seconds * 1e3:.1f}"
        )
    data = (
        pd.DataFrame.from_dict(rows, orient="index")
        .rename_axis("undone")
        .reset_index()
    )
    return Table(
        name="performance-undone",
        caption=(
            "Our private step on one core, with one thing undone at a time: times as long as with "
            f"nothing undone in the same round, median and quartiles. {measured.machine}."
        ),
        data=data,
    )


undone(measured)

# %% [markdown]
# On MNIST three things are worth a factor of three or more: our convolution 5.64, our pooling 3.58,
# small portions 3.32. On CIFAR-10 it is the convolution and its gradients, 4.75.
#
# **Large layers.** A gradient of more than a quarter of a million numbers is not written out for
# each example: its norm comes from two Gram matrices, and the weighted sum is one more product.
# Only one layer of the study is that large. Methods that never write gradients out (ghost clipping)
# differentiate twice, which pays for large language models.
#
# ## How cost grows


# %% tags=["remove-input"]
def draw_growth(axes, kind, rows):
    column, label = SERIES[kind]
    for network, points in rows.groupby("network", sort=False):
        points, style = points.sort_values(column), STYLE[network]
        speed = points.examples_per_second
        axes.errorbar(
            points[column],
            speed,
            yerr=[
                speed - points.examples_per_second_low,
                points.examples_per_second_high - speed,
            ],
            **style.line,
            capsize=2,
            label=NETWORKS[network],
        )
    axes.set(xlabel=label, ylabel="examples/s", yscale="log")
    name_ticks(axes.yaxis)
    if kind == "side_by_side":
        axes.set_xticks(sorted(rows[column].unique()))
        axes.margins(x=0.2)
    else:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:g}")
        )


def describe_growth(kind, rows):
    column, label = SERIES[kind]
    parts = []
    for network, points in rows.groupby("network", sort=False):
        first, last = (
            points.sort_values(column).iloc[at] for at in (0, -1)
        )
        parts.append(
            f"{NETWORKS[network]} from {first.examples_per_second:.0f} examples a second "
            f"at {first[column]:g} to {last.examples_per_second:.0f} at {last[column]:g}"
        )
    return f"By {label}: {'; '.join(parts)}."


def growth(measured):
    series = (
        {kind: timings.series(measured, kind) for kind in SERIES}
        if measured
        else {}
    )
    series = {kind: rows for kind, rows in series.items() if not rows.empty}
    if measured is None or not series:
        return not_yet_run("The figure of growth", COMMAND)
    with canvas(1, len(series), size=(3.6 * len(series), 3.4)) as (
        figure,
        panels,
    ):
        for axes, (kind, rows) in zip(panels, series.items(), strict=True):
            draw_growth(axes, kind, rows)
        panels[0].legend(fontsize="small")
    data = pd.concat(
        [r.assign(series=k) for k, r in series.items()], ignore_index=True
    )
    return Figure(
        fig=figure,
        name="performance-growth",
        caption=(
            "Examples a second in our private step, median and quartiles: by batch size and by "
            "width with all cores in one process; and of all runs together, each in a "
            f"single-threaded process pinned to a core of its own. {measured.machine}."
        ),
        alt=" ".join(
            describe_growth(kind, rows) for kind, rows in series.items()
        ),
        data=data,
    )


growth(measured)

# %% [markdown]
# Small batches waste what is paid once a step: the MNIST network trains 11,070 examples a second at
# batch 64 and 27,221 at 2,048. On the CIFAR-10 network the batch hardly matters. Two runs with a
# core each get more done together on MNIST than one run with both: 34,147 examples a second on
# MNIST, where one run has 23,585 at the same batch. On CIFAR-10 it is open: two have 397, and one
# had 408 and 491 at two times.
#
# ## The same run again
#
# Accuracies of a run that is trained again, at a later commit and mostly on another machine, differ
# by at most 0.04 points after any epoch, over 11 runs: sums round in another order.


# %% mystnb={"code_prompt_show": "Every repeat"} tags=["remove-input", "hide-output"]
def repeat(first, again):
    curves = (
        np.array(one.curve["test_accuracy"]) for one in (first, again)
    )
    run = first.run
    return {
        "dataset": DATASETS[run.dataset.name],
        "private": "yes" if run.private else "no",
        "seed": run.seed,
        "first": first.curve["test_accuracy"][-1],
        "again": again.curve["test_accuracy"][-1],
        "most apart": float(np.max(np.abs(np.subtract(*curves)))),
        "machines": " and ".join(
            dict.fromkeys(
                one.provenance["device"] for one in (first, again)
            )
        ),
    }


def repeats():
    again, _ = store.read_all(store.results_folder() / "repeats")
    first, _ = store.read_all(store.runs_folder(), again)
    rows = [
        repeat(first[name], again[name])
        for name in sorted(again)
        if name in first
    ]
    if not rows:
        return Note("Repeats", "No run is stored twice.")
    data = pd.DataFrame(rows).sort_values(
        ["dataset", "private", "seed"], ignore_index=True
    )
    most = 100 * data["most apart"].max()
    return Table(
        name="repeats",
        caption=(
            f"{len(data)} runs trained twice, from the same seed: test accuracy at the last epoch, "
            f"and the most that the two differ after any epoch. At most {most:.2f} points."
        ),
        data=data,
        formats={
            "first": "{:.2%}",
            "again": "{:.2%}",
            "most apart": lambda apart: f"{100 * apart:.2f} points",
        },
    )


repeats()

# %% [markdown]
# Not measured here: language models, other networks than the two of the study, and GPUs, where a
# cohort of runs is one program. `make bench` measures the machine that it is run on.

# %% [markdown]
# ## Exercises
#
# :::{exercise} The norm with a bias
# :label: performance-bias
#
# How does the squared norm $\lVert g \rVert^2 \lVert x \rVert^2$ of a dense layer's gradient change
# if the layer has a bias? Check it against gradients that are written out.
# :::
#
# :::{solution-start} performance-bias
# :class: dropdown
# :::
#
# It becomes $\lVert g \rVert^2 (\lVert x \rVert^2 + 1)$: the bias is a weight whose input is 1.

# %% tags=["check-output"]
biased = DenseGradients(inputs=x, outputs=g, use_bias=True)
formula = jnp.sum(g**2, axis=1) * (jnp.sum(x**2, axis=1) + 1)
each = biased.written_out()
expected = jnp.sum(each["kernel"] ** 2, axis=(1, 2)) + jnp.sum(
    each["bias"] ** 2, axis=1
)
print(
    jnp.allclose(formula, expected),
    jnp.allclose(formula, biased.squared_norms()),
)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} In portions
# :label: performance-portions
#
# Work through the 64 examples of the cell above 16 at a time. Does the clipped sum change? Would it
# if each portion were clipped as a whole?
# :::
#
# :::{solution-start} performance-portions
# :class: dropdown
# :::
#
# No, and yes. Each example is clipped by its own norm, so that sums over portions add up. Clipped
# as a whole, a portion counts for no more than one example: the sum is then another, and smaller.

# %% tags=["check-output"]
portions = [slice(start, start + 16) for start in range(0, 64, 16)]
each = [
    DenseGradients(inputs=x[p], outputs=g[p], use_bias=False).weighted_sum(
        clip[p]
    )["kernel"]
    for p in portions
]
print(jnp.allclose(sum(each), clipped_sum, atol=1e-4))

whole = [jnp.einsum("bm,bn->mn", x[p], g[p]) for p in portions]
by_portion = sum(
    total / jnp.maximum(1, jnp.linalg.norm(total)) for total in whole
)
print(
    f"norms: {jnp.linalg.norm(clipped_sum):.2f} and {jnp.linalg.norm(by_portion):.2f}"
)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Memory of a step
# :label: performance-memory
#
# How much memory do the per-example gradients of a batch take, in 32-bit floats: 512 examples of
# the MNIST network, 256 of the CIFAR-10 network? How much do 64 and 16 of them take?
# :::
#
# :::{solution-start} performance-memory
# :class: dropdown
# :::
#
# 51 and 538 MiB at once, 6.4 and 33.6 MiB in portions. The second pair is about what a cache holds.

# %% tags=["check-output"]
import math

from under_the_clip.networks import LosingLessCifar, LosingLessMnist

for network, *counts in (
    (LosingLessMnist(), 512, 64),
    (LosingLessCifar(), 256, 16),
):
    numbers = sum(
        math.prod(leaf.shape) for leaf in jax.tree.leaves(network.shapes())
    )
    sizes = ", ".join(
        f"{count}: {4 * numbers * count / 2**20:.1f} MiB"
        for count in counts
    )
    print(f"{numbers:,} parameters; {sizes}")

# %% [markdown]
# :::{solution-end}
# :::
