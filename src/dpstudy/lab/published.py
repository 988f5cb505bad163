"""What a paper publishes: numbers and accuracies, fractions of the test set, with their source."""

from collections.abc import Callable
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
    """One printed number under a name, for the ledger of claims."""

    name: str  # unique within the paper
    value: float  # as printed
    source: Source
    accuracy: bool = False  # whether it is a test accuracy
    exact: bool = False  # whether it was set, as an aim is, and not measured and rounded

    @property
    def decimals(self) -> int:
        """Digits after the point that count: as printed, or many of an exact number."""
        return 9 if self.exact else max(0, -int(Decimal(str(self.value)).as_tuple().exponent))

    def __str__(self) -> str:
        if self.accuracy:
            return f"{self.value:.{max(1, self.decimals - 2)}%}"
        return f"{self.value:g}"


class Numbers(dict[str, Number]):
    """A paper's numbers by their names."""

    def on(self, name: str) -> Callable[[str], Number]:
        """Return the function from a dataset to its number of that name."""
        return lambda dataset: self[f"{dataset}, {name}"]


def by_name(*numbers: Number) -> Numbers:
    """Return a paper's numbers by their names."""
    named = Numbers({number.name: number for number in numbers})
    assert len(named) == len(numbers), "two published numbers have one name"
    return named
