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
# # The explorer
#
# Pick a dataset, an ε, a paper, a method or a network: the chart shows what accuracy was reached at
# what ε, from every stored run of the study. Above it stands the best of what you picked. A mark
# leads to the section that it comes from.

# %% tags=["parameters", "remove-input"]
profile = "stored"  # of what is stored, whatever the profile

# %% tags=["remove-input"]
from under_the_clip.explorer import page

page.explorer()

# %% [markdown]
# - **True** is the ε that is proven for what was run. **Claimed** is what the paper's own
#   accounting gives for the same run, and with flat clipping, the recipe's too, that of the papers'
#   time. Automatic clipping, filters made sound and sound clips inside backpropagation have none.
#   An **audited** ε is what an attack on its mechanism shows at least, at weights that
#   stand still. The chapters on [accounting](01_accounting.ipynb) and [audits](07_audits.ipynb)
#   explain all three.
# - Pick *claimed*, then *true* with *ε at most: any*: the published runs of backpropagation
#   clipping move from the left end of the chart to its right end.
# - *Seeds: any* adds sweeps and searches, which have one seed a setting. The best of many owes part
#   of its lead to that seed; its runs with other seeds are shown as settings of their own.
# - A setting that two experiments share is shown for both. Runs that were given up on their way are
#   left out.
