"""The papers' propositions as things that can fail: each a `Statement` with a search behind it.

`dpstudy theorems` runs the searches; `notebooks/06_theorems` shows what they find.
"""

from __future__ import annotations

from dpstudy.errors import check_known
from dpstudy.propositions.statement import Statement
from under_the_clip.backpropagation_clipping.propositions import (
    concentrated,
    convolution_sensitivity,
    layer_sensitivity,
)
from under_the_clip.losing_less.propositions import convergence, mean_value
from under_the_clip.losing_less.propositions import equations as losing_less
from under_the_clip.tanh_filter.propositions import sensitivity as tanh_filter
from under_the_clip.tempered_sigmoids.propositions import (
    clipped_fields,
    clipping_bias,
    family,
    group_privacy,
    multiclass_bias,
    never_clipped,
    printed_loss,
    temperature_and_bias,
)
from under_the_clip.tempered_sigmoids.propositions import gradient_norms as tempered_sigmoids
from under_the_clip.theorems import sampled_gaussian, shuffled_batches

# In the order of the papers.
_FILES = (
    family,
    tempered_sigmoids,
    never_clipped,
    printed_loss,
    clipping_bias,
    temperature_and_bias,
    clipped_fields,
    multiclass_bias,
    group_privacy,
    sampled_gaussian,
    shuffled_batches,
    losing_less,
    mean_value,
    convergence,
    concentrated,
    layer_sensitivity,
    convolution_sensitivity,
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
    check_known("statement", name, STATEMENTS)
    return STATEMENTS[name]
