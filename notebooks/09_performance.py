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
from dpstudy.lab.store import read_all, results_folder, runs_folder
from under_the_clip.backpropagation_clipping.figures import times
from under_the_clip.performance import timings
from under_the_clip.performance.timings import OURS

MNIST, CIFAR = BOTH = "mnist", "cifar-10"
OPACUS = "Opacus, hooks", "Opacus, ghost clipping"
measured = timings.stored()
table = timings.contestants(measured).set_index(["network", "name"])


def ratio(name, end=""):
    return [table.loc[(network, name), f"ratio{end}"] for network in BOTH]


def even(name):
    return [
        low < 1 < high
        for low, high in zip(
            ratio(name, "_low"), ratio(name, "_high"), strict=True
        )
    ]


def seconds(network, name):
    [contest] = [c for c in measured.comparisons if c.network == network]
    of_each = [
        timings.seconds_of(one)
        for one in contest.contestants
        if one.name == name
    ]
    return min(of_each, key=lambda one: one.median())


def price(private, plain):
    """Return what privacy costs within a library, from the least to the most."""
    return sorted(
        (seconds(n, private) / seconds(n, plain)).median() for n in BOTH
    )


def span(ratios, form="{:.0f} to {:.0f}"):
    return form.format(*sorted(ratios))


assert even("ours, not private") == [True, True]
plain_way, nearest = ratio("vmap(grad)"), ratio("torch.func")
assert [*map(round, sorted(plain_way))] == [6, 11]
others = table[table.private].drop(
    index=[OURS, "ours, with sampling"], level=1
)
assert [*others.groupby("network").ratio.min()[[*BOTH]]] == nearest
assert round(nearest[1], 1) == 2.5 and round(nearest[0], 1) == 5.5

in_jax = price("vmap(grad)", "JAX, not private")
in_torch = price("torch.func", "PyTorch, not private")
prices = [
    one
    for names, plain in (
        (("vmap(grad)", "jax-privacy"), "JAX, not private"),
        (("torch.func", *OPACUS), "PyTorch, not private"),
    )
    for name in names
    for one in price(name, plain)
]
assert (round(min(prices)), round(max(prices))) == (2, 5)

# %% [markdown]
# # Privacy costs no time here
#
# {term}`DP-SGD` clips the gradient of every example, and is said to be slow: a batch of 512 has 512
# gradients where plain training has one. We timed a step of two networks with and without privacy,
# in our engine and in other libraries, on two cores of a CPU.
#
# **In short**
#
# - **Nearly free.** Only drawing batches takes time on these networks, up to a fifth.
# - **Costly elsewhere.** The plain way, `vmap(grad)`, takes {{ span(plain_way) }} times our private
#   step. The fastest of the others, torch.func, takes {{ span(nearest, "{:.1f} to {:.1f}") }}
#   times.
# - **The trick.** A dense layer's norms are known before its gradients are.
# - **Wrong without an error.** Opacus 1.6 gives wrong gradients where images are stored channels
#   last.
#
# **Do** keep images channels first in Opacus, and time some sizes of {term}`microbatch`.

# %% tags=["remove-input"]
import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from dpstudy.lab import store
from dpstudy.page.figure import (
    STYLES,
    Figure,
    Note,
    Several,
    Table,
    canvas,
    legend_below,
    not_yet_run,
)
from dpstudy.parts.data.images import DATASETS
from under_the_clip.performance import timings
from under_the_clip.performance.timings import (
    COMMAND,
    NETWORKS,
    ON_GPU,
    OURS,
    SERIES,
    STYLE,
    WITHOUT,
)


def name_ticks(axis):
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_price(axes, rows):
    """Draw what privacy costs: a bar a library, from without to with it."""
    private, plain = STYLES[0], STYLES[4]
    for at, (name, without) in enumerate(WITHOUT.items()):
        ends = [
            rows.loc[one] for one in (name, without) if one in rows.index
        ]
        axes.plot(
            [end.ratio for end in ends],
            [-at] * len(ends),
            color="0.8",
            linewidth=6,
            zorder=1,
        )
        for end in ends:
            style = private if end.private else plain
            label = "with privacy" if end.private else "without"
            axes.hlines(
                -at, end.ratio_low, end.ratio_high, color=style.color
            )
            axes.plot(
                end.ratio,
                -at,
                color=style.color,
                marker=style.marker,
                linestyle="none",
                label=label if at == 0 else None,
            )
    axes.axvline(1, color="0.4", linewidth=1, zorder=0)
    axes.set(xscale="log", xlabel="times ours")
    axes.set_yticks([-at for at in range(len(WITHOUT))], [*WITHOUT])
    axes.grid(axis="y", visible=False)
    name_ticks(axes.xaxis)


def in_short(measured):
    if measured is None:
        return not_yet_run("The comparison of steps", COMMAND)
    data = timings.contestants(measured)
    data = data[data.ratio.notna()]
    if data.empty:
        return Note(
            "No ratios", "The stored measurement lacks our own step."
        )
    of_each = dict([*data.groupby("network", sort=False)])
    with canvas(1, len(of_each), size=(5.2, 2.7), sharey=True) as (
        figure,
        panels,
    ):
        for axes, (network, rows) in zip(
            panels, of_each.items(), strict=True
        ):
            draw_price(axes, rows.set_index("name"))
            axes.set_title(NETWORKS[network], fontsize="medium")
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=2,
            fontsize="small",
        )
    data = data[data.name != OURS]
    said = "; ".join(
        f"{row.name}, {NETWORKS[row.network]}: {row.ratio:.2f}"
        for row in data.itertuples()
    )
    return Figure(
        fig=figure,
        name="performance-in-short",
        caption=(
            "A step's time over our private step's. A grey bar is what privacy costs within a "
            "library: median and quartiles of ratios within "
            f"{measured.settings.rounds} rounds. {measured.machine}."
        ),
        alt=f"Times as long as our private step. {said}.",
        data=data,
    )


measured = timings.stored()
in_short(measured)

# %% mystnb={"code_prompt_show": "Parameters"} tags=["parameters", "hide-input"]
profile = "stored"  # any shows what is stored; `make bench` times anew

# %% tags=["remove-input"]
timings.warnings_of(measured)

# %% tags=["facts"]
there = times().data.set_index("gradients")["times as fast"]["no privacy"]
assert [one > 1 for one in there] == [True, True]
assert even("ours, with sampling") == [False, True]
sampled = ratio("ours, with sampling")[0]
assert 1.18 < sampled < 1.22
plain_torch = ratio("PyTorch, not private")
assert ratio("PyTorch, not private", "_high")[1] < 1
modes = [min(pair) for pair in zip(*map(ratio, OPACUS), strict=True)]
for name in OPACUS:
    assert all(one > 3 for one in ratio(name))
assert {table.variant[network, "torch.func"] for network in BOTH} == {
    "whole batch"
}
for name in ("vmap(grad)", *OPACUS):
    assert {table.variant[network, name] for network in BOTH} == {""}


def beyond_libraries(name):
    rows = [table.loc[(network, name)] for network in BOTH]
    return [one.peak - one.baseline for one in rows]


leaner = map(min, zip(*map(beyond_libraries, OPACUS), strict=True))
memory = [
    o / other
    for o, other in zip(beyond_libraries(OURS), leaner, strict=True)
]
assert memory[1] < 1 < memory[0]
assert 1.3 < plain_torch[0] < 1.37
assert {
    table.variant[network, "PyTorch, not private"] for network in BOTH
} == {"channels last"}
jax_over_ours = [
    (
        seconds(n, "JAX, not private") / seconds(n, "ours, not private")
    ).median()
    for n in BOTH
]
assert min(jax_over_ours) > 2
assert timings.stored(accelerated=True) is None

# %% [markdown]
# ## In other libraries privacy costs a factor of two to five
#
# Each grey bar goes from a library's step without privacy to its step with it. Ours has next to no
# length, and theirs is a factor of two to five. Opacus computes per-example gradients layer by
# layer (*hooks*), or clips without ever having them (*ghost clipping*).


# %% mystnb={"code_prompt_show": "Every contestant: time, memory, first step"} tags=["hide-output", "remove-input"]
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
    name = f"performance-{network}"
    if measured.machine.accelerator:
        name += f"-on-gpu-{table.batch.iloc[0]}"
    return Table(
        name=name,
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
    found = timings.contestants(measured).groupby(
        ["network", "batch"], sort=False
    )
    tables = {
        f"{NETWORKS[network]}, batch {batch:,}": times_of(
            measured, network, table
        )
        for (network, batch), table in found
    }
    return Several(tuple(tables.values()), tuple(tables))


times(measured)


# %% mystnb={"code_prompt_show": "The same on a GPU"} tags=["hide-output", "remove-input"]
def on_gpu(measured):
    """Show steps on an accelerator, and what they make of its rate of products."""
    if measured is None:
        text = "No GPU was timed. On a machine that has one it takes eight minutes:"
        return Note("Not yet run", text, ON_GPU)
    rates = Table(
        name="performance-rates-on-gpu",
        caption=(
            "Operations a second in products of large matrices, in our step with one thing "
            "changed, and in our step of several runs or at other batches. Steps in a precision "
            "below float32 are timed alone: no ε is stated for them. "
            f"{measured.machine}."
        ),
        data=timings.rates(measured),
        formats={"ms a step": "{:.2f}", "TFLOP/s": "{:.1f}"},
    )
    steps = times(measured)
    return Several(
        (*steps.parts, rates), (*steps.titles, "Operations a second")
    )


on_gpu(timings.stored(accelerated=True))

# %% [markdown]
# :::{margin}
# Time contestants in turn. The same step a minute later, on the same machine, can take twice as
# long.
# :::
#
# Not all of our lead is about privacy: without it JAX's own step takes more than twice as long as
# ours, whose convolutions are faster on a CPU. `vmap(grad)`, once compiled the usual remedy
# {cite}`subramani2021enabling`, takes {{ span(in_jax, "{:.1f} to {:.1f}") }} times JAX's own step.
# PyTorch without privacy is a third slower than our step on the MNIST network, and faster on the
# CIFAR-10 network. Its private steps, torch.func and Opacus {cite}`yousefpour2021opacus`, are far
# behind on both.
#
# Free is not a law. The network of [backpropagation
# clipping](04_backpropagation_clipping.ipynb) pays {{ f"{100 * (min(there) - 1):.0f}" }} to
# {{ f"{100 * (max(there) - 1):.0f}" }} % for clipping and noise in our engine. Drawing batches by
# Poisson sampling adds a fifth on the small network, and nothing that shows on the large one. No
# GPU was timed, and no language model.
#
# :::{dropdown} Fine print: how it was timed
# All start from the same weights and take the same batches, clipping, noise and optimiser. A test
# takes them through the same steps before anything is timed, and compares our per-example gradients
# with those of Opacus.
#
# Each contestant has a process of its own, which idles while others are timed. Every round trains
# each for a short burst, in an order drawn anew; ratios are taken within a round, so that what
# slows the machine down slows everyone. Where quartiles are far apart, the machine was busy.
# Batches of fixed size come from memory, {{ table.batch[MNIST].iloc[0] }} examples for the MNIST
# network and {{ table.batch[CIFAR].iloc[0] }} for the CIFAR-10 network; "ours, with sampling" draws
# each from 60,000 examples. Each contestant counts in the best setting that was tried: torch.func
# is fastest on the whole batch, and `vmap(grad)` and Opacus were tried on that alone.
#
# Without clipping and noise our step takes
# {{ "{:.2f} and {:.2f}".format(*ratio("ours, not private")) }} times as long, on MNIST and on
# CIFAR-10, and rounds differ by more. PyTorch without privacy takes
# {{ "{:.2f} and {:.2f}".format(*plain_torch) }} times as long as our private step, torch.func
# {{ "{:.2f} and {:.2f}".format(*nearest) }}, the faster mode of Opacus
# {{ "{:.2f} and {:.2f}".format(*modes) }}, `vmap(grad)`
# {{ "{:.2f} and {:.2f}".format(*plain_way) }}, jax-privacy
# {{ "{:.2f} and {:.2f}".format(*ratio("jax-privacy")) }}.
#
# On the CIFAR-10 network our private step reaches
# {{ f"{100 * table.rate[CIFAR, OURS]:.0f}" }} % of the machine's rate for large matrix products,
# PyTorch without privacy {{ f"{100 * table.rate[CIFAR, 'PyTorch, not private']:.0f}" }} %. The work
# that counts towards that rate is the same for all: what a method adds for privacy does not. Our
# peak memory, libraries left out, is {{ "{:.2f} and {:.2f}".format(*memory) }} times that of the
# leaner mode of Opacus. `make bench` measures the machine that it is run on.
# :::

# %% [markdown]
# ## A norm is known before its gradient
#
# A dense layer multiplies its input $x$ with the weights. Backpropagation brings an error $g$ back
# to the layer's output. The gradient of one example is nothing but the table of their products, and
# the table's length is the product of their lengths.


# %% tags=["remove-input"]
def outer_product():
    """Draw an example's gradient as what it is: a column times a row."""
    draw = np.random.default_rng(4)
    x, g = draw.normal(size=14), draw.normal(size=9)
    blocks = {
        "input x": (0, 1, x[:, None], "14 numbers"),
        "error g": (2.6, 9, g[None, :], "9 numbers"),
        "gradient x gᵀ": (13.4, 9, np.outer(x, g), "126 numbers"),
    }
    with canvas(size=(5.8, 3.2)) as (figure, [axes]):
        for name, (left, width, values, size) in blocks.items():
            bottom = (14 - len(values)) / 2
            axes.imshow(
                values,
                cmap="RdBu_r",
                vmin=-2,
                vmax=2,
                extent=(left, left + width, bottom, bottom + len(values)),
            )
            middle = left + width / 2
            about = {"ha": "center", "fontsize": "small"}
            axes.text(middle, bottom + len(values) + 0.6, name, **about)
            axes.text(middle, bottom - 1.5, size, **about)
        axes.text(1.8, 7, "×", ha="center", va="center")
        axes.text(12.5, 7, "=", ha="center", va="center")
        axes.text(23.4, 8.6, "its length?", fontsize="medium")
        axes.text(23.4, 6.4, "‖x‖ · ‖g‖", fontsize="large")
        axes.text(
            23.4,
            4.6,
            "the table is\nnever made",
            va="top",
            fontsize="small",
        )
        axes.set(xlim=(-2, 29.5), ylim=(-2, 16), aspect="equal")
        axes.axis("off")
    return Figure(
        fig=figure,
        name="performance-outer-product",
        caption="One example in one dense layer. Its gradient has a number for each pair of an "
        "input and an error, and its norm is the product of theirs.",
        alt="A column of 14 coloured cells times a row of 9 cells is a table of 126 cells, the "
        "gradient. Its length is the length of the column times that of the row.",
        data=pd.DataFrame(np.outer(x, g)),
    )


outer_product()

# %% [markdown]
# So one pass for the whole batch will do. Here it is for a network of dense layers, with nothing
# but JAX. The errors are gradients with respect to a `nudge` of zero that is added to each layer.

# %%
import jax
import jax.numpy as jnp


def total_loss(nudges, weights, images, labels):
    inputs, outputs = [], images
    for W, nudge in zip(weights, nudges, strict=True):
        inputs.append(outputs)
        before = outputs @ W + nudge
        outputs = jnp.tanh(before)
    log_p = jax.nn.log_softmax(before)
    return -log_p[jnp.arange(len(labels)), labels].sum(), inputs


@jax.jit
def in_one_pass(weights, images, labels, C=1.0):
    nudges = [jnp.zeros((len(images), W.shape[1])) for W in weights]
    backward = jax.grad(total_loss, has_aux=True)
    errors, inputs = backward(nudges, weights, images, labels)
    layers = list(zip(inputs, errors, strict=True))
    squares = sum((x**2).sum(1) * (g**2).sum(1) for x, g in layers)
    shares = jnp.minimum(1, C / jnp.sqrt(squares))
    return squares, [x.T @ (shares[:, None] * g) for x, g in layers]


# %% [markdown]
# The last line is the clipped sum over the batch: scale each example's error, and take one product.
# Now the plain way, which makes every gradient.


# %%
@jax.jit
def one_by_one(weights, images, labels, C=1.0):
    def loss(weights, image, label):
        nudges = [0.0 for _ in weights]
        return total_loss(nudges, weights, image[None], label[None])[0]

    gradient_of_each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))
    gradients = gradient_of_each(weights, images, labels)
    squares = sum((G**2).sum((1, 2)) for G in gradients)
    shares = jnp.minimum(1, C / jnp.sqrt(squares))
    return squares, [jnp.einsum("n,nij", shares, G) for G in gradients]


# %% [markdown]
# Do they agree? And what do they cost, for 512 images of 784 pixels?

# %%
keys = jax.random.split(jax.random.key(0), 4)
images = jax.random.normal(keys[0], (512, 784))
labels = jax.random.randint(keys[1], 512, 0, 10)
weights = [
    jax.random.normal(key, shape) / shape[0] ** 0.5
    for key, shape in zip(keys[2:], ((784, 128), (128, 10)), strict=True)
]

ways = in_one_pass, one_by_one
(squares, total), (expected, their_total) = (
    way(weights, images, labels) for way in ways
)
print(f"same norms: {jnp.allclose(squares, expected, rtol=1e-4)}")
print(f"same sums: {jnp.allclose(total[0], their_total[0], atol=1e-4)}")
for way in ways:
    compiled = way.lower(weights, images, labels).compile()
    used = compiled.memory_analysis().temp_size_in_bytes
    print(f"{way.__name__}: {used / 1e6:.1f} MB of scratch memory")

# %% [markdown]
# How much faster is one pass? Put `%timeit` before each call.
#
# :::{exercise} The norm with a bias
# :label: performance-bias
#
# Predict: how does the squared norm $\lVert x \rVert^2 \lVert g \rVert^2$ of a dense layer's
# gradient change if the layer has a bias?
# :::
#
# :::{solution-start} performance-bias
# :class: dropdown
# :::
#
# It becomes $(\lVert x \rVert^2 + 1) \lVert g \rVert^2$: the bias is a weight whose input is 1. The
# engine's own rule agrees, and so do gradients that are written out.

# %% tags=["nbval-check-output"]
from dpstudy.gradients.layer_rules import DenseGradients

x, g = jax.random.normal(jax.random.key(0), (2, 64, 32))
formula = ((x**2).sum(1) + 1) * (g**2).sum(1)
layer = DenseGradients(inputs=x, outputs=g, use_bias=True)
each = layer.written_out()
expected = (each["kernel"] ** 2).sum((1, 2)) + (each["bias"] ** 2).sum(1)
print(
    jnp.allclose(formula, expected),
    jnp.allclose(formula, layer.squared_norms()),
)

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{dropdown} Fine print: convolutions, and very large layers
# A convolution is a product of patches with its kernel, and its per-example gradient one of the
# same patches with the output gradient. It is written out, for a few examples at a time.
#
# One of more than a quarter of a million numbers is not written out at all: its norm comes from two
# Gram matrices, and the weighted sum is one more product. Only one layer of the study is that
# large. Methods that never write gradients out (ghost clipping) differentiate twice, which pays for
# large language models.
# :::
#
# ## Opacus 1.6 is wrong, without an error, where channels come last
#
# Opacus computes a convolution's gradients from patches of the image, cut by *strides*: how many
# numbers to step over for the next row, and for the next column. Its strides are those of an image
# stored channels first. Stored channels last, images train faster without privacy, here too. But
# the next number is then the same pixel of another channel. What becomes of a photo with two
# channels?

# %%
import numpy as np
from numpy.lib.stride_tricks import as_strided


def patch(photo, size=3):
    # A row is the photo's width away, a column one number.
    one, width = photo.itemsize, photo.shape[2]
    strides = photo.strides[0], width * one, one
    return as_strided(photo, (len(photo), size, size), strides)


first = np.arange(32).reshape(2, 4, 4)  # channels, rows, columns
last = np.ascontiguousarray(np.moveaxis(first, 0, 2))  # as it is stored
same_photo = np.moveaxis(last, 2, 0)  # channels, rows, columns again
print((first == same_photo).all())
print(patch(first)[0])
print(patch(same_photo)[0])

# %% [markdown]
# The photos are equal, the patches are not: of the second, the first number alone is right.
# Training goes on with such gradients, and only accuracy tells. A test of our benchmark holds
# Opacus' gradients to PyTorch's: they agree channels first, and not channels last.

# %% tags=["facts"]
undone_by = timings.undone(measured).set_index(["network", "name"]).ratio
WHOLE, CONVOLUTION, POOLING = (
    "the whole batch in one pass",
    "the library's convolution",
    "the library's pooling",
)
PRODUCTS = "products for all convolutions"
assert {*undone_by[MNIST][undone_by[MNIST] >= 3].index} == {
    WHOLE,
    CONVOLUTION,
    POOLING,
}
assert undone_by[CIFAR].idxmax() == CONVOLUTION
assert (undone_by[CIFAR].drop(CONVOLUTION) < 1.5).all()


def factors(what):
    return " and ".join(f"{undone_by[n, what]:.1f}" for n in BOTH)


# %% [markdown]
# ## What makes the step fast: portions, convolutions, pooling
#
# The norms are not all of it. What are the other parts worth? Undo one at a time. Each of three is
# worth a factor of three or more on the MNIST network; on the CIFAR-10 network the convolution is,
# by far, the most. In brackets: how many times as long a step takes without it, on either network.
#
# - **Small portions** ({{ factors(WHOLE) }}), the simplest gain. A batch is worked through a few
#   dozen examples at a time, so that patches, activations and per-example gradients stay in cache.
# - **Convolutions as products** ({{ factors(CONVOLUTION) }}) in place of the library's. Columns
#   that a kernel sees together are laid side by side, and one matrix product serves all of its
#   rows.
# - **Pooling by comparison** ({{ factors(POOLING) }}) in place of the library's. The maximum of
#   four shifted images has an elementwise gradient, where the library's pooling has a scatter.


# %% mystnb={"code_prompt_show": "One thing undone at a time"} tags=["hide-output", "remove-input"]
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
# :::{exercise} In portions
# :label: performance-portions
#
# Predict: work through the 512 examples 128 at a time. Does the clipped sum change? Would it if
# each portion were clipped as a whole?
# :::
#
# :::{solution-start} performance-portions
# :class: dropdown
# :::
#
# No, and yes. Each example is clipped by its own norm, so that sums over portions add up. Clipped
# as a whole, a portion counts for no more than one example: the sum is then another, and smaller.

# %% tags=["nbval-check-output"]
portions = [slice(start, start + 128) for start in range(0, 512, 128)]
added = sum(
    in_one_pass(weights, images[p], labels[p])[1][0] for p in portions
)
print(jnp.allclose(added, total[0], atol=1e-4))

whole = [
    in_one_pass(weights, images[p], labels[p], jnp.inf)[1][0]
    for p in portions
]
by_portion = sum(G / jnp.maximum(1, jnp.linalg.norm(G)) for G in whole)
lengths = jnp.linalg.norm(total[0]), jnp.linalg.norm(by_portion)
print("norms: {:.0f} and {:.0f}".format(*lengths))

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{dropdown} Fine print: where the library's convolution stays
# The table is of a process pinned to one core, as the study trains. With stride 1 and eight
# channels or more we use the library's convolution, for both gradients too: products would take
# {{ f"{undone_by[CIFAR, PRODUCTS]:.1f}" }} times as long on the CIFAR-10 network. Since tanh is
# increasing, pooling comes before it. Poisson sampling wants portions anyway: as many as the draw
# needs, the last one masked.
# :::

# %% tags=["facts"]
speeds = (
    timings.series(measured, "by_batch")
    .set_index(["network", "batch"])
    .examples_per_second
)
assert 2.2 < speeds[MNIST, 2048] / speeds[MNIST, 64] < 2.6
assert speeds[CIFAR].max() / speeds[CIFAR].min() < 1.15
side = timings.series(measured, "side_by_side").set_index(
    ["network", "processes"]
)
together = side.examples_per_second
widths = timings.series(measured, "by_width").set_index(
    ["network", "width"]
)
alone = sorted((widths.examples_per_second[CIFAR, 1.0], speeds[CIFAR, 256]))
assert 1.4 < together[MNIST, 2] / speeds[MNIST, 512] < 1.5
wide = widths.examples_per_second
wider = {n: wide[n, 1.0] / wide[n, 2.0] for n in BOTH}
assert together[CIFAR, 2] < alone[0]
assert side.batch[CIFAR, 2] == widths.batch[CIFAR, 1.0] == 256

# %% [markdown]
# ## How should you use your cores?
#
# Give each run of a small network a core of its own. Two such runs get nearly half as much again
# done on the MNIST network as one run with both cores. On the CIFAR-10 network no gain shows. Small
# batches waste what a step pays once: the MNIST network trains more than twice as many examples a
# second at batch 2,048 as at 64.
#
# With twice the channels an example takes {{ f"{wider[MNIST]:.1f}" }} times as long on the MNIST
# network, and {{ f"{wider[CIFAR]:.1f}" }} times on the CIFAR-10 network.


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
    drawn = {
        kind: rows
        for kind, rows in series.items()
        if kind != "side_by_side"
    }
    with canvas(1, max(1, len(drawn)), size=(5.2, 2.8), sharey=True) as (
        figure,
        panels,
    ):
        for axes, (kind, rows) in zip(panels, drawn.items(), strict=False):
            draw_growth(axes, kind, rows)
            axes.label_outer()
        legend_below(figure)
    data = pd.concat(
        [r.assign(series=k) for k, r in series.items()], ignore_index=True
    )
    return Figure(
        fig=figure,
        name="performance-growth",
        caption=(
            "Examples a second in our private step, all cores in one process, median and "
            "quartiles. The CSV has runs side by side, each pinned to a core, too. "
            f"{measured.machine}."
        ),
        alt=" ".join(
            describe_growth(kind, rows) for kind, rows in series.items()
        ),
        data=data,
    )


growth(measured)

# %% [markdown]
# :::{dropdown} Fine print: cores and batches in numbers
# The MNIST network trains {{ f"{speeds[MNIST, 64]:,.0f}" }} examples a second at batch 64 and
# {{ f"{speeds[MNIST, 2048]:,.0f}" }} at 2,048; on the CIFAR-10 network the batch hardly matters.
# Two runs with a core each have {{ f"{together[MNIST, 2]:,.0f}" }} on MNIST, where one run with
# both has {{ f"{speeds[MNIST, 512]:,.0f}" }} at the same batch, and one with a single core
# {{ f"{together[MNIST, 1]:,.0f}" }}. On CIFAR-10 two have {{ f"{together[CIFAR, 2]:,.0f}" }}, one
# with both cores had {{ "{:,.0f} and {:,.0f}".format(*alone) }} at two times, and one with a single
# core {{ f"{together[CIFAR, 1]:,.0f}" }}.
# :::

# %% tags=["facts"]
again, _ = read_all(results_folder() / "repeats")
first, _ = read_all(runs_folder(), again)


def most_apart(name):
    curves = (of[name].curve["test_accuracy"] for of in (first, again))
    return max(abs(a - b) for a, b in zip(*curves, strict=True))


both = [name for name in again if name in first]
apart = [most_apart(name) for name in both]
where = [
    {of[name].provenance["device"] for of in (first, again)}
    for name in both
]
assert sum("AMD" in str(of) and "Intel" in str(of) for of in where) > 1
for name in both:
    old, new = first[name].provenance, again[name].provenance
    assert old["commit"] != new["commit"]
    assert old["finished"] < new["finished"]
assert max(apart) < 0.0005

# %% [markdown]
# ## The same run, trained again, ends at the same place
#
# We trained {{ len(apart) }} runs again, from the same seed but a later commit, and some of them on
# another processor. Their accuracies differ by at most {{ f"{100 * max(apart):.2f}" }} points after
# any epoch, because sums round in another order.


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
# ## Exercises
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

# %% tags=["nbval-check-output"]
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
