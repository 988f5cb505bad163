"""Under the Clip: four remedies for differentially private SGD, re-run, audited and compared.

A folder a chapter, named as its notebook. Importing this package makes its kinds of part and record
known, so that what the study has stored can be read.
"""

from dpstudy.kinds import RECORDS, declared_in
from under_the_clip.chapters import chapters

declared_in(
    "under_the_clip.networks", *(f"{one.folder}.{name}" for one in chapters() for name in one.parts)
)
RECORDS |= {
    "attacks": "under_the_clip.forms.AttackRecord",
    "audits": "under_the_clip.forms.AuditRecord",
    "benchmarks": "under_the_clip.forms.Measurement",
    "mechanisms": "under_the_clip.forms.TimedMechanisms",
    "methods": "under_the_clip.forms.MethodCosts",
    "recipes": "under_the_clip.forms.RecipeCost",
}
