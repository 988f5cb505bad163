"""What "Losing Less" (Shamsabadi and Papernot, PoPETs 2023) claims.

Its figures print no numbers; what its text says of them is an ordering, decided at Table 5's
settings, where it has them, and beside that at equal effort. Not listed: what it cites, and what
Section 4 says of its own search.
"""

from dpstudy.claims.claim import propositions
from under_the_clip.losing_less import CHAPTER
from under_the_clip.losing_less.claims.accuracy import ON_FEATURES, TRAINING
from under_the_clip.losing_less.claims.why import OF_CLASSES, PARTS, WHY

CLAIMS = (
    TRAINING
    + ON_FEATURES
    + PARTS
    + WHY
    + OF_CLASSES
    + propositions(
        CHAPTER.statements(),
        headlines=("gradient-norm-sum", "smoothness", "sse-exponential"),
    )
)
