"""What a paper publishes: numbers and accuracies, each with its source.

The values stand with each paper, in its `published.py`: the only places where they are typed in,
but for the settings of runs, which stand with the experiments too; a test compares the two. `None`
means that the paper does not state the value; nothing is filled in for it. Accuracies are fractions
of the test set.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Source:
    """Where a value is printed: a key of book/references.bib and a place in the paper."""

    key: str
    where: str


@dataclass(frozen=True)
class Accuracy:
    """A published test accuracy, as a fraction, at the claimed epsilon (None: not private)."""

    dataset: str
    method: str
    accuracy: float
    claimed_epsilon: float | None
    source: Source


@dataclass(frozen=True)
class Number:
    """One printed number under a name, for the ledger of claims.

    Attributes:
        name: unique within the paper.
        value: as printed; accuracies as fractions.
        source: where it is printed.
        accuracy: whether it is a test accuracy, a fraction of the test set.
        exact: whether it was set, as an aim is, and not measured and rounded.
    """

    name: str
    value: float
    source: Source
    accuracy: bool = False
    exact: bool = False

    @property
    def decimals(self) -> int:
        """Digits after the point that count: as printed, or many of an exact number."""
        return 9 if self.exact else max(0, -int(Decimal(str(self.value)).as_tuple().exponent))

    def __str__(self) -> str:
        if self.accuracy:
            return f"{self.value:.{max(1, self.decimals - 2)}%}"
        return f"{self.value:g}"


def by_name(*numbers: Number) -> dict[str, Number]:
    """Return a paper's numbers by their names."""
    named = {number.name: number for number in numbers}
    assert len(named) == len(numbers), "two published numbers have one name"
    return named
