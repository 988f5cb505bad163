"""What the best of several trials costs in all, and what a total leaves to each trial: stored.

`python -m under_the_clip.search_cost.costs` makes the tables anew, which takes minutes. All ε are
by PLD at the study's δ, rounded up; a trial's that a total leaves, rounded down.
"""

from __future__ import annotations

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
    """One trial, but for its noise; as the arguments of `accounting.epsilon`."""

    sampling_probability: float
    steps: int
    release_noise: float | None
    delta: float = DELTA


def of_recipe() -> tuple[Mechanism, float]:
    """Return the recipe's run on CIFAR-10, and its noise at an ε of 3."""
    run = at_epsilon(EPSILON, recipe("cifar-10"))
    length = run.epochs * run.steps_per_epoch
    one = Mechanism(run.sampling_probability, length, run.dataset.release_noise)
    return one, run.mechanism.noise_multiplier


def of_published(search: PublishedSearch) -> tuple[Mechanism, float]:
    """Return the run that a published search chose, and its noise."""
    chosen = search.chosen
    one = Mechanism(chosen.sampling_probability, chosen.steps, search.release)
    return one, chosen.noise_multiplier


def in_all(one: Mechanism, noise: float, trials: float) -> dict[str, float | None]:
    """Return the ε of releasing the best of some trials, by law of their number, and of all."""

    def cost(**more: Any) -> float:
        return _up(accounting.epsilon(**one._asdict() | more, noise_multiplier=noise))

    found = {law: cost(search=Trials(trials, law)) for law in LAWS}
    if trials > MOST_COMPOSED:
        return found | {"composed": None}
    repeated = {"steps": round(trials) * one.steps}
    if one.release_noise:  # as often as there are trials
        repeated["release_noise"] = one.release_noise / math.sqrt(trials)
    return found | {"composed": cost(**repeated)}


def left_of(total: float, one: Mechanism, search: Trials) -> tuple[float, float]:
    """Return the noise with which the best of some trials costs a total, and the ε of one."""
    noise = accounting.noise_multiplier_for(total, **one._asdict(), search=search)
    spent = accounting.epsilon(**one._asdict(), noise_multiplier=noise)
    return noise, math.floor(1000 * spent) / 1000


def _up(value: float) -> float:
    return math.ceil(1000 * value) / 1000


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
    one, noise = of_recipe()
    for trials in tqdm(TRIALS, desc="totals"):
        yield {"trials": trials, **in_all(one, noise, trials)}


def rows_of_left(asked: tuple[int, ...] = ASKED) -> Iterator[dict[str, Any]]:
    """Make the rows of `left`."""
    one, _ = of_recipe()
    for trials in tqdm(asked, desc="left"):
        for law in CHOSEN:
            noise, epsilon = left_of(EPSILON, one, Trials(trials, law))
            yield {"trials": trials, "law": law, "noise": noise, "epsilon": epsilon}


def rows_of_published() -> Iterator[dict[str, Any]]:
    """Make the costs of `published`."""
    for search in SEARCHES:
        if search.chosen is not None:
            one, noise = of_published(search)
            spent = accounting.epsilon(**one._asdict(), noise_multiplier=noise)
            costs = {"one": _up(spent)} | {
                law: _up(
                    accounting.epsilon(
                        **one._asdict(),
                        noise_multiplier=noise,
                        search=Trials(search.trials.value, law),
                    )
                )
                for law in CHOSEN
            }
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
