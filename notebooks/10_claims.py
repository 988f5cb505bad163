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
# # The ledger
#
# Every number, ordering and bound that the papers state, with what this study measured and the
# verdict. No verdict is typed: a rule computes each from the stored results, and a result that
# changes, changes its verdict. The same table stands in a terminal with `dpstudy claims`.

# %% tags=["parameters"]
profile = "stored"  # the ledger reads what is stored at paper scale, whatever the profile

# %% tags=["remove-input"]
from dpstudy.chapters import ledger as page
from dpstudy.papers import claims

ledger = claims.ledger()
page.damage(ledger)

# %% [markdown]
# ## Verdicts by paper
#
# Look first at the last column: what waits for runs. A claim waits until every seed that its
# experiment asks for is stored, since a verdict on some of the seeds would be a choice of seeds.

# %%
page.counts(ledger)

# %% [markdown]
# ## How a verdict is reached
#
# Each claim names the experiment whose runs test it and one of the rules below. A rule is written
# before the runs that decide it. Where some of them, or all, were there first, or where the rule
# was mended since, the claim says so: the first runs of Figure 3, for one, are older than the
# ledger. On 24 November 2026 all rules about seeds were restated by intervals, with the tolerances
# below fixed before a verdict was computed by them; they are younger than all runs stored by then.
#
# - **Seeds decide by intervals.** A mean, a difference or a ratio comes with its 95 % interval, by
#   Student's t; two variants are paired by seed where they share their seeds. The claim stands if
#   the whole interval lies where the claim says. It is left open if the interval reaches over the
#   edge.
# - **An accuracy** is the published one within a point, or within a fifth of the test error where
#   that is less. A gain is the published one within a third of it.
# - **Any other quantity** is at the published level if it is within the factor that the table
#   states, either way. No paper prints a spread to judge it by.
# - **An ordering** stands if the interval of the difference lies above 0.
# - **A number at an ε** is upheld only by runs whose proven ε is no larger, and falls only to runs
#   that spent as much by the accounting of the paper's time. Runs that spent less and fall short
#   decide nothing.

# %%
page.rule_kinds()

# %% [markdown]
# ## Tempered sigmoids
#
# Look for claims that stand on one dataset and not on another, and for those about the
# explanation rather than the accuracy. Claims without runs are folded below the table, with what
# each still lacks. {cite}`papernot2021tempered`

# %%
page.table("tempered sigmoids", ledger)

# %% [markdown]
# ## Losing less
#
# So far the propositions alone. Where a claim falls, the chapter on propositions shows the
# counterexample and what holds instead. {cite}`shamsabadi2023losing`

# %%
page.table("losing less", ledger)

# %% [markdown]
# ## Backpropagation clipping
#
# The propositions alone. The last line is about the authors' corrected code: what it promises and
# what its noise gives. {cite}`stevens2022backpropagation,stevens2022code`

# %%
page.table("backpropagation clipping", ledger)

# %% [markdown]
# ## Tanh filter
#
# The propositions alone. The last two lines are the paper's privacy claim: what it proves, and what
# it uses. {cite}`amian2022tanh`

# %%
page.table("tanh filter", ledger)
