"""Under the Clip: four remedies for differentially private SGD, re-run, audited and compared.

A folder a chapter, named as its notebook. Importing this package makes the papers' kinds of part
known, so that the study's stored runs can be read.
"""

from __future__ import annotations

from dpstudy.kinds import declared_in
from under_the_clip.chapters import chapters

declared_in(*(f"{one.folder}.{name}" for one in chapters() for name in one.parts))
