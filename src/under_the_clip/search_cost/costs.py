"""What the best of several trials costs in all, and what a total leaves to each trial: stored.

`python -m under_the_clip.search_cost.costs` makes the tables anew, which takes minutes. All ε are
by PLD at the study's δ, rounded up; a trial's that a total leaves, rounded down.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dpstudy.privacy import accounting
from dpstudy.privacy.private_selection import LAWS, Trials
from dpstudy.progress import tqdm
from dpstudy.recipe.run import recipe
from under_the_clip.designs import EPSILON, at_epsilon
from under_the_clip.published import DELTA
from under_the_clip.search_cost.published import SEARCHES, PublishedSearch

STORED = Path(__file__).with_suffix(".json")
# Mean numbers of trials, or numbers where all are composed.
TRIALS = (1, 2, 3, 5, 8, 10, 16, 24, 36, 72, 120, 360, 1000)
# Beyond so many trials, composing all of them costs ten times a run and more: off every chart.
MOST_COMPOSED = 36
# Laws under which as many trials as settings are likely to meet the best.
CHOSEN = ("logarithmic", "geometric")
# What a total leaves is asked for so many: three rates, two searches of the study, ten, published.
ASKED = (3, 10, 16, 24, 72)


class Mechanism(NamedTuple):
    """One trial; as the arguments of `accounting.epsilon`."""

    sampling_probability: float
    steps: int
    release_noise: float | None
    noise_multiplier: float
    delta: float = DELTA

    def cost(self, **more: Any) -> float:
        """Return its ε, rounded up to three decimals; with a `search`, that of the best trial."""
        return math.ceil(1000 * accounting.epsilon(**self._asdict() | more)) / 1000


def of_recipe() -> Mechanism:
    """Return the recipe's run on CIFAR-10 at an ε of 3."""
    run = at_epsilon(EPSILON, recipe("cifar-10"))
    steps, noise = run.epochs * run.steps_per_epoch, run.mechanism.noise_multiplier
    return Mechanism(run.sampling_probability, steps, run.dataset.release_noise, noise)


def of_published(search: PublishedSearch) -> Mechanism:
    """Return the run that a published search chose."""
    one = search.chosen
    return Mechanism(one.sampling_probability, one.steps, search.release, one.noise_multiplier)


def in_all(one: Mechanism, trials: float) -> dict[str, float | None]:
    """Return the ε of releasing the best of some trials, by law of their number, and of all."""
    found = {law: one.cost(search=Trials(trials, law)) for law in LAWS}
    if trials > MOST_COMPOSED:
        return found | {"composed": None}
    repeated = {"steps": round(trials) * one.steps}
    if one.release_noise:  # as often as there are trials
        repeated["release_noise"] = one.release_noise / math.sqrt(trials)
    return found | {"composed": one.cost(**repeated)}


def left_of(total: float, one: Mechanism, search: Trials) -> tuple[float, float]:
    """Return the noise with which the best of some trials costs a total, and the ε of one."""
    but_its_noise = one._asdict()
    del but_its_noise["noise_multiplier"]
    noise = accounting.noise_multiplier_for(total, **but_its_noise, search=search)
    spent = accounting.epsilon(**but_its_noise, noise_multiplier=noise)
    return noise, math.floor(1000 * spent) / 1000


# --- what is stored ------------------------------------------------------------------------------


@cache
def _stored() -> dict[str, list[dict[str, Any]]]:
    return json.loads(STORED.read_text())


def totals() -> pd.DataFrame:
    """Return total ε against the number of trials, of the recipe, of which one run costs 3.

    Columns: trials, a mean for the laws of their number; a column a law; "composed", all of them
    released.
    """
    return pd.DataFrame(_stored()["totals"])


def left() -> pd.DataFrame:
    """Return what an ε of 3 in all leaves to one trial of the recipe.

    Columns: trials in the mean, law, noise, epsilon of one trial, and how likely the best of as
    many settings is tried.
    """
    found = pd.DataFrame(_stored()["left"])
    found["best tried"] = [
        Trials(trials, law).chance_of_trying(1 / trials)
        for trials, law in zip(found["trials"], found["law"], strict=True)
    ]
    return found


def published() -> pd.DataFrame:
    """Return each search whose number of trials is published, and what it costs where that can be.

    Columns: paper, dataset, network, trials, grid, and source; "one", the ε of a run; in all, by
    law. Costs are missing where the mechanism itself has no proven ε near the one that is claimed.
    """
    costs = {tuple(row["search"]): row["costs"] for row in _stored()["published"]}
    rows = []
    for search in SEARCHES:
        about = asdict(search) | {"trials": int(search.trials.value)}
        about["source"] = f"{search.trials.source.key}, {search.trials.source.where}"
        del about["chosen"], about["release"]
        rows.append(about | costs.get((search.paper, search.dataset, search.network), {}))
    return pd.DataFrame(rows)


def published_cost(search: PublishedSearch) -> dict[str, float]:
    """Return what one run costs ("one") and, by law, the best of as many as were tried."""
    table = published().set_index(["paper", "dataset", "network"])
    row = table.loc[(search.paper, search.dataset, search.network)]
    return {name: float(row[name]) for name in ("one", *CHOSEN)}


def left_by(trials: float, law: str) -> float:
    """Return the ε of one trial of the recipe that an ε of 3 in all leaves."""
    table = left().set_index(["trials", "law"])
    return float(table.loc[(trials, law), "epsilon"])


def rows_of_totals() -> Iterator[dict[str, Any]]:
    """Make the rows of `totals`."""
    one = of_recipe()
    for trials in tqdm(TRIALS, desc="totals"):
        yield {"trials": trials, **in_all(one, trials)}


def rows_of_left(asked: tuple[int, ...] = ASKED) -> Iterator[dict[str, Any]]:
    """Make the rows of `left`."""
    one = of_recipe()
    for trials in tqdm(asked, desc="left"):
        for law in CHOSEN:
            noise, epsilon = left_of(EPSILON, one, Trials(trials, law))
            yield {"trials": trials, "law": law, "noise": noise, "epsilon": epsilon}


def rows_of_published() -> Iterator[dict[str, Any]]:
    """Make the costs of `published`."""
    for search in SEARCHES:
        if search.chosen is not None:
            one, trials = of_published(search), search.trials.value
            costs = {law: one.cost(search=Trials(trials, law)) for law in CHOSEN}
            costs = {"one": one.cost(), **costs}
            yield {"search": [search.paper, search.dataset, search.network], "costs": costs}


if __name__ == "__main__":
    made = {
        "totals": list(rows_of_totals()),
        "left": list(rows_of_left()),
        "published": list(rows_of_published()),
    }
    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        for name, rows in made.items()
    )
    STORED.write_text("{\n" + ",\n".join(parts) + "\n}\n")
