"""Which runs figures and tables need: the list of all, which stand in their chapters."""

from __future__ import annotations

from dpstudy.errors import check_known
from dpstudy.lab.experiment import Experiment
from under_the_clip.backpropagation_clipping.experiments import EXPERIMENTS as CLIPPING
from under_the_clip.leaderboard import experiments as leaderboard
from under_the_clip.leaderboard import factorial
from under_the_clip.losing_less.experiments import EXPERIMENTS as LOSS
from under_the_clip.recipe import ablation as recipe_parts
from under_the_clip.recipe import search as recipe_search
from under_the_clip.tanh_filter.experiments import EXPERIMENTS as FILTER
from under_the_clip.tempered_sigmoids import cifar_10, searches
from under_the_clip.tempered_sigmoids.experiments import EXPERIMENTS as SIGMOIDS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *SIGMOIDS,
        *cifar_10.EXPERIMENTS,
        *searches.SEARCHES,
        *CLIPPING,
        *FILTER,
        *LOSS,
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
