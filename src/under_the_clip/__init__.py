"""Under the Clip: four remedies for differentially private SGD, re-run, audited and compared.

A folder a chapter, named as its notebook. Importing this package makes its kinds of part and record
known, so that what the study has stored can be read.
"""

from __future__ import annotations

from dpstudy.kinds import RECORDS, declared_in

declared_in(
    "under_the_clip.backpropagation_clipping.mechanism",
    "under_the_clip.losing_less.clipping_bias",
    "under_the_clip.losing_less.confusion",
    "under_the_clip.losing_less.layer_norms",
    "under_the_clip.losing_less.loss",
    "under_the_clip.losing_less.smoothness",
    "under_the_clip.tanh_filter.mechanism",
)
RECORDS |= {
    "attacks": "under_the_clip.forms.AttackRecord",
    "audits": "under_the_clip.forms.AuditRecord",
    "benchmarks": "under_the_clip.forms.Measurement",
    "mechanisms": "under_the_clip.forms.TimedMechanisms",
    "methods": "under_the_clip.forms.MethodCosts",
    "recipes": "under_the_clip.forms.RecipeCost",
}
