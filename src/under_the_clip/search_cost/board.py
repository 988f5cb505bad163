"""The board at an ε of 3 in all, from stored runs: what each method's paid search releases."""

import math
from collections import Counter

import pandas as pd

from dpstudy.lab import records
from dpstudy.lab.readings import Reading, read
from dpstudy.lab.variant import Variant
from dpstudy.privacy.private_selection import Trials
from under_the_clip.designs import EPSILON, MULTIPLES
from under_the_clip.leaderboard.board import cost
from under_the_clip.leaderboard.experiments import BOARDS, RECIPE
from under_the_clip.recipe.search import RECIPE_SEARCH
from under_the_clip.search_cost.experiments import BORROWING, LAW, MEAN, METHODS, label_of
from under_the_clip.search_cost.released import expected

# How a method's settings came about, and what that costs.
PAYS, BORROWS, UNCOUNTED = "search paid for", "settings borrowed", "search not counted"
_EXPONENT = ", exponent 0.4"
[BORROWED] = BORROWING.variants


def paid(reading: Reading, dataset: str) -> dict[str, pd.Series]:
    """Return what the search of each method releases in the mean: held-out accuracy, by seed.

    Of methods all of whose rates are stored that the reading asks for.
    """
    on, trials = reading.on(dataset), Trials(MEAN, LAW)
    found = {}
    for method in METHODS:
        labels = [label_of(method, by) for by in MULTIPLES]
        asked = [label for label in labels if (dataset, label) in on.wanted]
        by_rate = pd.DataFrame({label: Variant(on, label).accuracy for label in asked}).dropna()
        if len(by_rate):
            found[method] = by_rate.apply(lambda of: expected(of, of, trials), axis=1)
    return found


def rows(paid_for: Reading, borrowed: Reading) -> pd.DataFrame:
    """Return the board: dataset, method, how it came by its settings, and its accuracy.

    Columns: dataset, method, settings, accuracy (mean), minimum, maximum, seeds. Where a search is
    not counted, of methods that the dataset has otherwise.
    """
    found = []
    for dataset in dict.fromkeys(name for of in (paid_for, borrowed) for name, _ in of.wanted):
        of_recipe = Variant(borrowed.on(dataset), BORROWED).accuracy
        here = [(method, PAYS, of) for method, of in paid(paid_for, dataset).items()]
        here += [(RECIPE, BORROWS, of_recipe)] if len(of_recipe) else []
        known = {method for method, *_ in here}
        here += [(name, UNCOUNTED, of) for name, of in _uncounted(dataset) if name in known]
        found += [_row(dataset, *of) for of in here]
    return pd.DataFrame(found)


def _uncounted(dataset: str) -> list[tuple[str, pd.Series]]:
    """Return what each method's best rate reaches, held out, whose search costs nothing, by seed.

    On the images of a paid search, with the leaderboard's noise: that of an ε of 3 on all examples,
    which is about 3.3 on those not held out, see `designs.with_rate`.
    """
    searched = [one for one in (*BOARDS, RECIPE_SEARCH) if dataset in one.datasets]
    if not searched:  # the digits of a smoke run
        return []
    stored, boards = read(searched[0], dataset=dataset), searched[0] in BOARDS
    at = dict.fromkeys(METHODS, f", epsilon {EPSILON:g}") if boards else {RECIPE: ""}
    found = []
    for method, added in at.items():
        name = f"{method}{added}" if boards else method.removeprefix("recipe, ")
        labels = [label_of(name, by) for by in MULTIPLES]
        by_rate = pd.DataFrame({one: Variant(stored, one).accuracy for one in labels}).dropna()
        found += [(method, by_rate.max(axis=1))] if len(by_rate) else []
    return found


def _row(dataset: str, method: str, settings: str, of: pd.Series) -> dict[str, object]:
    about = {"dataset": dataset, "method": method.removesuffix(_EXPONENT), "settings": settings}
    about |= {"accuracy": of.mean()}
    return about | {"minimum": of.min(), "maximum": of.max(), "seeds": len(of)}


def hours(*readings: Reading) -> float:
    """Return the hours of one core that missing runs take; NaN if one was not timed."""
    timed, _ = records.read_all(records.folder("methods"), "methods")
    minutes = 0.0
    for reading in readings:
        stored = Counter((of.run.dataset.name, label) for label, of in reading.found)
        for (dataset, label), count in (Counter(reading.wanted) - stored).items():
            method = RECIPE if label == BORROWED else label.partition(", rate")[0]
            one = cost(timed.get(dataset), method)["minutes"]
            minutes += count * (_alone(dataset) if math.isnan(one) else one)
    return minutes / 60


def _alone(dataset: str) -> float:
    """Return the minutes of one core of the recipe's run that was timed by itself, on two."""
    timed, _ = records.read_all(records.folder("recipes"), "recipes")
    return 2 * timed[dataset]["seconds"] / 60 if dataset in timed else math.nan
