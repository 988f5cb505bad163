"""The papers' propositions as things that can fail: each a `Statement` with a search behind it.

`dpstudy theorems` runs the searches; `notebooks/06_theorems` shows what they find.
"""

from __future__ import annotations

from dpstudy.errors import UserError
from dpstudy.theorems import (
    clipped_fields,
    clipping_bias,
    concentrated,
    convergence,
    family,
    group_privacy,
    layer_sensitivity,
    losing_less,
    multiclass_bias,
    sampled_gaussian,
    shuffled_batches,
    tanh_filter,
    temperature_and_bias,
    tempered_sigmoids,
)
from dpstudy.theorems.statement import Statement

# In the order of the papers.
_FILES = (
    family,
    tempered_sigmoids,
    clipping_bias,
    temperature_and_bias,
    clipped_fields,
    multiclass_bias,
    group_privacy,
    sampled_gaussian,
    shuffled_batches,
    losing_less,
    convergence,
    concentrated,
    layer_sensitivity,
    tanh_filter,
)
STATEMENTS: dict[str, Statement] = {
    statement.name: statement for file in _FILES for statement in file.STATEMENTS
}


def find(name: str) -> Statement:
    """Return the statement of that name.

    Raises:
        UserError: there is none; the message lists the names.
    """
    if name not in STATEMENTS:
        raise UserError(f"unknown statement {name!r}; one of: {', '.join(STATEMENTS)}")
    return STATEMENTS[name]
