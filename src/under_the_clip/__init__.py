"""Under the Clip: four remedies for differentially private SGD, re-run, audited and compared.

A folder a chapter, named as its notebook. Importing this package makes the papers' kinds of part
known, so that the study's stored runs can be read.
"""

from __future__ import annotations

from dpstudy.kinds import declared_in

declared_in(
    "under_the_clip.backpropagation_clipping.mechanism",
    "under_the_clip.losing_less.loss",
    "under_the_clip.losing_less.measures",
    "under_the_clip.networks",
    "under_the_clip.tanh_filter.mechanism",
)
