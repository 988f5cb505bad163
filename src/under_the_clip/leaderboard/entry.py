"""The recipe's entry for the public leaderboard of private machine learning.

private-machinelearning.github.io keeps a table a dataset, without public data, in a YAML file such
as `_data/_CIFAR-10/CIFAR10_no.yml`: an item a report, with a list of claims. Whoever owns the
repository sends it, by the site's "Submit Report" or as a change to that file.
"""

import textwrap
from typing import Any

import yaml

from dpstudy.errors import UserError
from dpstudy.lab import readings
from dpstudy.lab.variant import Variant
from dpstudy.lab.wording import rounded_up
from under_the_clip.designs import HELD_OUT
from under_the_clip.recipe.search import EPSILONS
from under_the_clip.recipe.third_edition import edition_on

NAME = "Under the Clip: four remedies for differentially private SGD, re-run, audited and compared"
_SAID = """\
Private accuracies are means over the seeds {seeds}, of the test set after the last epoch; each ε
is what was run spends by PLD, at most, rounded up. Batches are Poisson samples; neighbours differ
by one example added or removed. ε counts the release of the images' mean. It does not count the
search of exponent and rate, on {held_out} training images held out. The recipe's first edition
was changed twice after its test accuracy had been seen. The second and the third are tested on
CIFAR-10 alone, once each; the third was designed on held-out images after the second's test. No
public data: filters and whitening come from images that a program draws.
"""


def entry(
    dataset: str,
    *,
    code: str,
    authors: str = "Under the Clip contributors",
    paper: str = "",
    venue: str = "",
) -> dict[str, Any]:
    """Return what the leaderboard's report asks for, its claims computed from stored results.

    Arguments are the options of `dpstudy results entry`. UserError where a dataset is unknown, or
    not all seeds of an ε are stored.
    """
    lines = _stored(dataset)
    finished = max(one.provenance["finished"] for line in lines for one in line.results)
    return {
        "name": NAME,
        "url": paper or code,
        "authors": authors,
        "code": code,
        "venue": venue or "not published",
        "venue_date": finished.partition("T")[0],
        "claims": [_claim(line) for line in lines],
    }


def written(dataset: str, **about: str) -> str:
    """Return the entry as an item of the site's YAML file, under what it does not ask."""
    seeds = sorted({one.run.seed for line in _stored(dataset) for one in line.results})
    said = _SAID.format(held_out=f"{HELD_OUT:,}", seeds=f"{seeds[0]} to {seeds[-1]}")
    item = [entry(dataset, **about)]
    return textwrap.indent(said, "# ") + yaml.safe_dump(
        item, sort_keys=False, allow_unicode=True, width=1000
    )


def _stored(dataset: str) -> list[Variant]:
    """Return the recipe's runs on all training examples, a line an ε, from the least."""
    edition = edition_on(dataset)
    reading = readings.read(edition, dataset=dataset)
    lines = [Variant(reading, f"epsilon {epsilon:g}") for epsilon in sorted(EPSILONS)]
    for line in lines:
        if not line.results or len(line.results) < line.needed:
            raise UserError(
                f"{len(line.results)} runs of {line.label} are stored on {dataset}, of "
                f"{edition.then[line.label].seeds}: {reading.command}"
            )
    return lines


def _claim(line: Variant) -> dict[str, Any]:
    run = line.run
    return {
        "public_data": "none",
        "model": f"linear head on {run.dataset.image_shape[0]:,} features of drawn images",
        "epsilon": float(rounded_up(line.epsilon("pld"))),
        "delta": run.delta,
        "private_accuracy": f"{line.accuracy.mean():.2%}",
        "dp_accountant": "PLD (dp-accounting)",
    }
