"""Which runs figures and tables need: a folder a paper, one across them, and the list of all."""

from __future__ import annotations

from dpstudy.errors import check_known
from dpstudy.lab.experiment import Experiment
from dpstudy.papers.across import factorial, leaderboard, recipe_parts, recipe_search
from dpstudy.papers.backpropagation_clipping import experiments as backpropagation_clipping
from dpstudy.papers.losing_less import experiments as losing_less
from dpstudy.papers.tanh_filter import experiments as tanh_filter
from dpstudy.papers.tempered_sigmoids import cifar_10, searches
from dpstudy.papers.tempered_sigmoids import experiments as tempered_sigmoids

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *tempered_sigmoids.EXPERIMENTS,
        *cifar_10.EXPERIMENTS,
        *searches.SEARCHES,
        *backpropagation_clipping.EXPERIMENTS,
        *tanh_filter.EXPERIMENTS,
        *losing_less.EXPERIMENTS,
        *leaderboard.EXPERIMENTS,
        *factorial.EXPERIMENTS,
        *recipe_search.EXPERIMENTS,
        *recipe_parts.EXPERIMENTS,
    )
}


def find(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises:
        UserError: there is none; the message lists the names.
    """
    check_known("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
