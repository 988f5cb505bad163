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
from dpstudy.lab.wording import epsilon, rounded_up
from under_the_clip.sentences import reading

spent = reading("backpropagation-clipping-table-1", "mnist").finals
spent = spent[spent.label == "as published"]
claimed = spent["epsilon_claimed-zcdp"].max()
proven = spent["epsilon_shuffled-pld"].max()
assert len(spent) >= 3 and proven > 10_000 * claimed

# %% [markdown]
# # The explorer: what accuracy, at what ε?
#
# Pick a dataset, an ε, a paper, a method or a network. The chart draws what every stored run of the
# study reached, and says the best of what you picked. A mark leads to the section that it comes
# from.
#
# **Try** *ε at most: any* with *Paper: backpropagation clipping*. Pick *claimed*, then *true*: on
# MNIST, what claims ε {{ epsilon(claimed) }} moves to {{ rounded_up(proven) }}. An ε that is
# claimed is not the one that is proven.

# %% tags=["parameters", "remove-input"]
profile = "stored"  # any profile shows what is stored

# %% tags=["remove-input"]
from under_the_clip.explorer import page

page.explorer()

# %% [markdown]
# ## What moves when you pick another ε?
#
# A mark names three ε when the pointer is on it, and so do the tables below the chart.
#
# - **True** is the ε that is proven for what was run.
# - **Claimed** is what the paper's own accounting gives for the same run. For flat clipping and the
#   recipe it is the accounting of the papers' time. Automatic clipping, filters made sound and
#   sound clips inside backpropagation have none.
# - An **audited** ε is what an attack on its mechanism shows at least, at weights that stand still.
#
# [Chapter 1](01_accounting.ipynb) explains the first two, and [chapter 7](07_audits.ipynb) the
# third.
#
# ## What is drawn, and what is not?
#
# - *The recipe* is its first edition, and on CIFAR-10 `dpstudy recipe` trains the third, with
#   whatever rate and exponent; where images or features are other ones it is *changed*. Pick *ε at
#   most: 3.1* and *the recipe, third edition* on CIFAR-10. Then pick all methods and the network *6
#   convolutions, 2 dense layers*. How far apart are the best of both?
# - *Seeds: any* adds sweeps and searches, which have one seed a setting. The best of many owes part
#   of its lead to that seed; its runs with other seeds are shown as settings of their own.
# - A setting that two experiments share is shown for both. Runs that were given up on their way are
#   left out.
