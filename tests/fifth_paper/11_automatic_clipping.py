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
# # Automatic clipping
#
# {cite}`bu2023automatic` scale every gradient to nearly one norm, and clip none.

# %% tags=["parameters"]
profile = "stored"  # or "smoke", tiny runs in a minute; or "full"

# %% [markdown]
# ## Flat and automatic clipping

# %% tags=["remove-input"]
from dpstudy.lab.train import prepare
from under_the_clip.automatic_clipping import figures as chapter
from under_the_clip.experiments import find

figure = chapter.accuracy(prepare(find("automatic-clipping-norms"), profile))
figure

# %% [markdown]
# ## The claims, one by one

# %% tags=["remove-input"]
from under_the_clip.ledger import figures as claims

claims.chapter("automatic-clipping")
