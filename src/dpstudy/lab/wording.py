"""How findings are worded: medians, spreads, intervals and seeds, all computed."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # A command that rounds an epsilon has no use for what trains.
    import pandas as pd

    from dpstudy.lab.comparison import Estimate
    from dpstudy.lab.quantity import Quantity


def seeds(values: pd.Series) -> str:
    """Count the seeds behind some values."""
    return "1 seed" if len(values) == 1 else f"{len(values)} seeds"


def points(difference: float, digits: int = 2) -> str:
    """Show a difference of accuracies in percentage points."""
    return f"{100 * difference:+.{digits}f} points".replace("-", "−")


def of_accuracies(estimate: Estimate) -> str:
    """Show a difference of accuracies with its interval."""
    interval = f"95 % interval {100 * estimate.low:+.2f} to {100 * estimate.high:+.2f}"
    return f"{points(estimate.value)} ({interval}, {estimate.seeds})".replace("-", "−")


def apart(estimate: Estimate, quantity: Quantity) -> str:
    """Show a difference of a quantity with its interval."""
    if quantity.form.endswith("%}"):  # a share, shown in percent
        return of_accuracies(estimate)
    shown = (quantity.show(end) for end in (estimate.value, estimate.low, estimate.high))
    value, low, high = (text.replace("-", "−") for text in shown)
    return f"apart by {value} (95 % interval {low} to {high}, {estimate.seeds})"


def spread(values: pd.Series, quantity: Quantity) -> str:
    """Say the median of a quantity, from where to where it goes, and over how many seeds."""
    median, low, high = map(quantity.show, (values.median(), values.min(), values.max()))
    return f"{median} ({low} to {high}, {seeds(values)})"


def rounded_down(value: float, decimals: int | None = None) -> str:
    """Show a lower bound of an epsilon so that what is shown is one; its digits as `epsilon`'s."""
    decimals = (2 if value < 100 else 0) if decimals is None else decimals
    return _rounded(value, decimals, ROUND_FLOOR)


def rounded_up(value: float, decimals: int | None = None) -> str:
    """Show an upper bound of an epsilon so that what is shown is one; its digits as `epsilon`'s."""
    if decimals is None:
        decimals = 2 if value <= 99.99 else 2 - math.floor(math.log10(value))
    return _rounded(value, decimals, ROUND_CEILING)


def _rounded(value: float, decimals: int, rounding: str) -> str:
    # By the digits that are stored: 1.1 is a little more than that, and not to be shown as 1.11.
    shown = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding)
    return f"{shown:,.{max(decimals, 0)}f}"


def epsilon(value: float) -> str:
    """Show an epsilon with two decimals, from a hundred on with three significant digits."""
    return f"{value:.2f}" if value < 99.995 else f"{float(f'{value:.3g}'):,.0f}"
