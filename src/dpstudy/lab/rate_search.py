"""How a learning rate is chosen wherever methods are compared: three tried, and more beyond them.

With 10,000 training examples held out, and the noise of the ε in question; until the best rate is
not the outermost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstudy.lab.noise import at_epsilon
from dpstudy.lab.search import Search
from dpstudy.parts.run import Run, vary

EPSILON, HELD_OUT = 3.0, 10_000
# Multiples of a learning rate that are tried, and the factor of further ones: see `Search.beyond`.
MULTIPLES, BEYOND = (0.5, 1.0, 2.0), 2.0


def with_rate(run: Run, multiple: float, epsilon: float = EPSILON) -> Run:
    """Return the run at the ε of a search, on fewer examples, at a multiple of its rate.

    The noise is that of all examples: on fewer, the same noise costs a little more.
    """
    rate = multiple * run.optimizer.learning_rate
    return vary(at_epsilon(epsilon, run), learning_rate=rate, held_out=HELD_OUT)


def on_all(epsilon: float, best: Run) -> Run:
    """Return the best run on all examples, at an ε."""
    return at_epsilon(epsilon, vary(best, held_out=0))


def rate_search(starts: Mapping[str, tuple[Run, ...]], **others: Any) -> Search:
    """Return the search of the best rate of each start.

    Args:
        starts: by label a run for each dataset, from `with_rate`, about whose rate others are
            tried.
        others: of a `Search`.
    """
    tried = {
        label: {
            f"{label}, rate x {by:g}": tuple(
                vary(run, learning_rate=by * run.optimizer.learning_rate) for run in runs
            )
            for by in MULTIPLES
        }
        for label, runs in starts.items()
    }
    first = next(iter(starts.values()))
    return Search(
        variants={label: runs for rates in tried.values() for label, runs in rates.items()},
        seeds={run.dataset.name: 1 for run in first},
        groups={f"{label}, best": tuple(rates) for label, rates in tried.items()},
        beyond=BEYOND,
        **others,
    )
