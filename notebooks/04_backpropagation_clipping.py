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
# **In short.** TODO

# %% tags=["remove-input"]
from dpstudy.papers.backpropagation_clipping import figures as chapter

chapter.in_short()

# %% tags=["parameters"]
profile = "stored"  # "stored": read results; "smoke": tiny runs in a minute; "full": paper scale
dataset = None  # None: each in turn; or one of "mnist", "fashion-mnist"
seeds = None  # None: the experiment's own number

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

from dpstudy.gradients.clipped_layers import clip_layers

graph, params = nnx.split(nnx.Linear(5, 3, use_bias=False, rngs=nnx.Rngs(0)))


def loss(params, x):
    layer = nnx.merge(graph, params)
    clip_layers(layer, input_bound=1.0, upstream_bound=0.5)
    return jnp.sum((layer(x) - 3) ** 2)


for size in (0.01, 1.0, 100.0):
    gradient = jax.grad(loss)(params, size * jnp.ones((1, 5)))["kernel"].value
    print(f"input {size:g} x (1, ..., 1): gradient of norm {jnp.linalg.norm(gradient):.3f}")

# %% [markdown]
# Each of the $L$ layers gets Gaussian noise in proportion to $ab$. All layers see the same batch,
# so that a step is one Gaussian mechanism of sensitivity $\sqrt L\,ab$. The paper adds the layers'
# costs up by zCDP, which comes to the same, and takes an epoch of disjoint batches for one step:
# $\rho = LE / 2\sigma^2$ after $E$ epochs. Both are right; {doc}`06_theorems` proves and tests them.
# Wrong is what the code made of $ab$. It clips the gradients of a mean loss, which are smaller by
# the batch size already, and divides the sensitivity by the batch size again.

# %% tags=["remove-input"]
from dpstudy.lab.profiles import prepare
from dpstudy.papers import find


def runs(name):
    experiment = find(f"backpropagation-clipping-{name}")
    return prepare(experiment, profile, dataset=dataset, seeds=seeds)


as_published, of_figure_5, corrected = runs("table-1"), runs("figure-5"), runs("corrected")
left_out, against = runs("left-out"), runs("against-flat")

# %% [markdown]
# ## Table 1: as published
#
# TODO

# %% tags=["remove-input"]
chapter.table_1(as_published)

# %% [markdown]
# ### Figure 5
#
# TODO

# %% tags=["remove-input"]
chapter.figure_5(of_figure_5)

# %% [markdown]
# ### What the text leaves out
#
# TODO

# %% tags=["hide-output", "remove-input"]
chapter.left_out(left_out, as_published)

# %% [markdown]
# ## The corrected code
#
# TODO

# %% tags=["remove-input"]
chapter.corrected(corrected)

# %% [markdown]
# ## Against flat clipping, at a true ε
#
# TODO

# %% tags=["remove-input"]
chapter.against_flat(against)

# %% tags=["remove-input"]
chapter.shared_out(against)

# %% [markdown]
# ## What one backward pass is worth
#
# TODO

# %% tags=["remove-input"]
chapter.times()

# %% [markdown]
# ## The runs that are missing
#
# CIFAR-10: the paper's network has 29 million weights in ten layers, and 100 epochs of it take days
# on the cores that this study has.

# %% tags=["hide-output", "remove-input"]
from dpstudy.page.datasets import incomplete

incomplete(as_published, of_figure_5, corrected, left_out, against)

# %% [markdown]
# ## The claims, one by one
#
# Each claim of the paper with its verdict, computed by a rule that [](10_claims.ipynb) explains.

# %% tags=["remove-input"]
from dpstudy.chapters import ledger as claims

claims.chapter("backpropagation-clipping")
