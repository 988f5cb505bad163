"""How findings are worded: medians, spreads, seeds and epsilons, all computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NewType

import pandas as pd

from dpstudy.ledger.estimate import Estimate
from dpstudy.ledger.evidence import Trained

Quantity = NewType("Quantity", str)
ACCURACY = Quantity("test_accuracy")
# What a rule may look at, and what it is called in a sentence.
QUANTITIES = {
    ACCURACY: "test accuracy",
    "gradient_norm": "gradient norm",
    "norms.gradient": "gradient norm",
    "norms.activation": "activation norm",
    "clipped_fraction": "fraction of gradients clipped",
    "class_spread": "spread of the class accuracies",
}
_SHARES = (ACCURACY, "clipped_fraction")


def show(value: float, quantity: Quantity) -> str:
    """Show a value at the digits that its quantity is worth."""
    return f"{value:.2%}" if quantity in _SHARES else f"{value:.3g}"


def seeds(values: pd.Series) -> str:
    """Count the seeds behind some values."""
    return "1 seed" if len(values) == 1 else f"{len(values)} seeds"


def points(difference: float, digits: int = 2) -> str:
    """Show a difference of accuracies in percentage points."""
    return f"{100 * difference:+.{digits}f} points".replace("-", "−")


def of_accuracies(estimate: Estimate) -> str:
    """Show a difference of accuracies with its interval."""
    return (
        f"{points(estimate.value)} (95 % interval {100 * estimate.low:+.2f} to "
        f"{100 * estimate.high:+.2f}, {estimate.seeds})".replace("-", "−")
    )


def of_times(estimate: Estimate) -> str:
    """Show a ratio with its interval."""
    return (
        f"{estimate.value:.3g} times (95 % interval {estimate.low:.3g} to {estimate.high:.3g}, "
        f"{estimate.seeds})"
    )


def measured(values: pd.Series, quantity: Quantity) -> str:
    """Say the median of a quantity, over how many seeds, and from where to where."""
    low, high = (show(value, quantity) for value in (values.min(), values.max()))
    return (
        f"Median {QUANTITIES[quantity]} {show(values.median(), quantity)} over "
        f"{seeds(values)} ({low} to {high})"
    )


def between(first: Trained, second: Trained, quantity: Quantity) -> str:
    """Say the medians of two variants, and their spread over seeds."""

    def of(variant: Trained) -> str:
        values = variant.values(quantity)
        low, high = (show(value, quantity) for value in (values.min(), values.max()))
        median = show(values.median(), quantity)
        return f"{variant.label} {median} ({low} to {high}, {seeds(values)})"

    return f"Median {QUANTITIES[quantity]} of {of(first)} and of {of(second)}"


def against(first: pd.Series, second: pd.Series, quantity: Quantity) -> str:
    """Show two medians, for a column of a table."""
    return f"{show(first.median(), quantity)} and {show(second.median(), quantity)}"


def chosen(variants: Sequence[Trained], chosen: Trained) -> str:
    """Name the variant that was chosen, if it was one of several."""
    return f", {chosen.label}, the best of {len(variants)}" if len(variants) > 1 else ""


def rounded_down(value: float, decimals: int = 2) -> str:
    """Show a lower bound so that what is shown is one too."""
    return f"{math.floor(value * 10**decimals) / 10**decimals:.{decimals}f}"
