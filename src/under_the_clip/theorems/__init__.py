"""The papers' propositions as things that can fail: each a `Proposition` with a search behind it.

`dpstudy theorems` runs the searches; `notebooks/06_theorems` shows what they find.
"""

from __future__ import annotations

from dpstudy.errors import check_known
from dpstudy.propositions.proposition import Proposition
from under_the_clip.backpropagation_clipping.propositions import concentrated, sensitivity
from under_the_clip.losing_less.propositions import convergence, equations
from under_the_clip.tanh_filter import propositions as tanh_filter
from under_the_clip.tempered_sigmoids.propositions import (
    clipped_fields,
    clipping_bias,
    family,
    gradient_norms,
    group_privacy,
    never_clipped,
    printed_loss,
    temperature_and_bias,
)
from under_the_clip.theorems import accountants

# In the order of the papers.
_FILES = (
    family,
    gradient_norms,
    never_clipped,
    printed_loss,
    clipping_bias,
    temperature_and_bias,
    clipped_fields,
    group_privacy,
    accountants,
    equations,
    convergence,
    concentrated,
    sensitivity,
    tanh_filter,
)
STATEMENTS: dict[str, Proposition] = {
    statement.name: statement for file in _FILES for statement in file.STATEMENTS
}


def find(name: str) -> Proposition:
    """Return the statement of that name.

    Raises:
        UserError: there is none; the message lists the names.
    """
    check_known("statement", name, STATEMENTS)
    return STATEMENTS[name]
