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
# **Claimed.** DP-SGD clips the gradient of every example, so it is said to be slow: a library that
# writes per-example gradients out pays for it in time and memory, and just-in-time compilation of
# `vmap(grad)` is the remedy that is usually named {cite}`subramani2021enabling`. Opacus
# {cite}`yousefpour2021opacus` computes them layer by layer, or clips without ever having them.
#
# **Run here.** One training step of two networks of this study, by this package and by what else
# there is, in one session on one machine: same weights, same batches, same clipping, noise and
# optimiser. Before anything is timed, a test takes the contestants through the same steps and
# compares our per-example gradients with Opacus'.
#
# **Seen.** The first table below: how many times our time the others take, and what clipping costs
# us.

# %% tags=["parameters"]
profile = "stored"  # nothing is timed in this chapter whatever the profile: `make bench` does that

# %% tags=["remove-input"]
from dpstudy.chapters import performance as chapter

measured = chapter.stored()
chapter.warnings_of(measured)

# %% [markdown]
# ## The result
#
# A number above 1 in the first rows says that the other takes longer. Look at the row that compares
# our private step with our own step without privacy: it says what clipping itself costs once the
# rest is done well. Then look at the quartiles. Where they are far apart, the machine was busy.

# %%
chapter.ratios(measured)

# %% [markdown]
# ## How it is measured
#
# Each contestant has a process of its own, which stays alive and idle while others are timed. In
# each round every one trains for a short burst, in an order drawn anew, and ratios are taken within
# a round: what slows the machine down for a while slows down everyone. Batches are of fixed size
# and come from memory; images are random bytes, since time does not depend on what they show. Each
# contestant that has a setting to choose, such as the examples in one pass, takes part in several,
# and the best counts; one that is far behind after some rounds is timed no further. The row "ours,
# with sampling" draws each batch by Poisson sampling from 60,000 examples, as the study does; the
# others are handed their batch.
#
# Memory is the process' peak from its start on, libraries and compilation included: what the
# machine has to have. Part of it is there as soon as the libraries are imported.
#
# ## Every contestant
#
# Look at the fastest without privacy of each library. It is what the private rows of the same
# library are to be measured against.

# %%
chapter.times(measured, "mnist")

# %%
chapter.times(measured, "cifar-10")

# %% [markdown]
# The same as a picture. Are the private bars of a library longer than its
# own bar without privacy, and by how much?

# %%
chapter.step_times(measured)

# %% [markdown]
# ## Memory
#
# Per-example gradients of a whole batch are as many copies of the network as the batch has
# examples. Look at how far each bar reaches beyond its line, which is where the libraries alone
# are. That part grows with batch and network, and the part before it does not.

# %%
chapter.memory(measured)

# %% [markdown]
# ## How far from the machine
#
# A step is mostly matrix products: each layer's output, its weights' gradient and its input's. That
# number of operations is the same for every contestant. Divided by the time of a step, and by the
# rate that large matrix products reach on the same machine, it says what is left to gain. Work
# that a method adds for the sake of privacy does not count as done.

# %%
chapter.rates(measured)

# %% [markdown]
# ## How cost grows
#
# On the left, small batches waste what is paid once a step. In the middle, wide networks do more
# work for an example. On the right are independent runs, each on one core: look at whether two runs
# on two cores get more done together than one run with both, which is the same batch's point on the
# left.

# %%
chapter.growth(measured)

# %% [markdown]
# ## How the step is made cheap
#
# **No pass per example.** The network is differentiated once, for many examples together, with
# respect to the outputs of its layers. A layer's per-example gradient follows from its input and
# that output gradient: an outer product for a dense layer, a sum of outer products over positions
# for a convolution. The gradient of the weights, which a plain step would compute, is never taken
# for itself. It is the sum over examples of what is there anyway.
#
# **Small portions.** A batch is worked through a few dozen examples at a time; each portion ends
# in a sum. Its patches, activations and per-example gradients are written and read again while they
# are still in cache. The whole batch at once goes through main memory at every step of the way.
# Portions are also what Poisson sampling wants: as many as the draw needs, the last one masked.
#
# **Convolutions as products, in two halves.** A convolution is a product of the patches under its
# window with its kernel, and its per-example gradient is a product of the same patches with the
# output gradient. Full patches of an $m \times n$ kernel over $c$ channels are $mnc$ numbers a
# position. It is enough to put $n$ neighbouring columns beside each other, $nc$ numbers, take the
# product with all $m$ rows of the kernel at once, and add up what each position gives to $m$ rows
# of outputs. The gradients run the same way back: $m$ rows of the output gradient beside each other
# serve the input's gradient and the kernel's. Only first layers, which see few channels, keep full
# patches. A stride is folded into the channels beforehand.
#
# **Convolutions left to the library, where it is fast.** With stride 1 and eight channels or more,
# the library's own convolution keeps one thread at nearly the rate of a matrix product, with no
# columns to gather. Both gradients are convolutions too: the input's, of the output gradient with
# the kernel reversed; the kernel's, example by example, of the image's channels with the output
# gradient. The last falls far below that rate when the channels do not fill vectors, so narrow
# layers keep the product. Threads that share a device gain nothing by it: that is done only where
# each device is one core.
#
# **Pooling by comparison.** The maximum of four shifted images has an elementwise gradient. The
# gradient of the library's own pooling scatters instead, which a CPU does badly. Since tanh is
# increasing, pooling comes before it, and tanh is computed for fewer numbers.
#
# **Norm and sum from the same numbers.** The norm of each example's gradient gives its clipping
# factor, and the clipped sum is the factors times the gradients, a matrix-vector product. Methods
# that never write per-example gradients out (ghost clipping) differentiate twice. That pays where
# one example's gradient is larger than the cache, as in large language models.
#
# **Look at what the compiler did.** It fuses what it should not and computes the same patches
# several times; the source does not show it, a profile with the names of the compiled operations
# does.
#
# ## What made it fast
#
# The table undoes one thing at a time, in a process pinned to one core, as the study trains. Look
# at both columns: what matters on one network may not on the other. A ratio near 1 says that the
# compiler would have found it, that the machine's cache is large, or that something else made it
# needless: where the library convolves, there are no columns to gather.

# %%
chapter.undone(measured)

# %% [markdown]
# Three things are not in the table.
#
# - A run that has several cores to itself takes each as a device, and the devices share a step's
#   examples; where the tables above say "a device a core", that was a contestant's best setting.
#   Threads that share one device's operations gain little by it, since most operations on a
#   portion keep to one thread. Each device sums its share alone, and the sums are exchanged between
#   the steps. XLA's own sum over devices is no substitute on a CPU: its devices wait for each
#   other on the threads that they compute with, and in our trials small steps sent off one by one
#   ended in waiting for ever.
# - A gradient of more than a quarter of a million numbers is not written out for each example: its
#   norm comes from two Gram matrices over positions, and the weighted sum is one more product. Only
#   one layer of the study is that large, in the CIFAR-10 network of "Tempered sigmoids".
# - What else runs on the core matters as much as the step. The library that shares runs out among
#   processes looks at each one's stack a hundred times a second, and took a good part of each
#   worker's time until that was turned off.
#
# ## The same run on another machine
#
# On one machine a run repeats itself to the last bit. On another, sums round in another order, and
# the difference grows with the steps. It stays far below what a seed changes.

# %%
from dpstudy.chapters.repeats import repeats

repeats()

# %% [markdown]
# ## What to take from it
#
# - Where the first table's row "ours, private / not private" stands near 1, clipping is no reason
#   to train without privacy, nor to compare methods on one seed. A private step of several times a
#   plain one is then the implementation's doing.
# - Take microbatches small enough for the cache before anything else. The sum is the same, and
#   memory no longer depends on the batch, which in DP-SGD wants to be large.
# - In PyTorch, try both of Opacus' modes, and keep images channels first. For images laid out
#   channels last, Opacus 1.6 computes wrong per-sample gradients of convolutions, without an error:
#   a test of the benchmark shows it.
# - With several runs to do on a CPU, give each a core of its own.
# - Time contestants in turn, in one session. The same step a minute later, on the same machine, can
#   take twice as long.
#
# What is not measured here: language models and other networks beyond the two of the study, and
# GPUs, where a cohort of runs is one program. `make bench` measures the machine that it is run on.
