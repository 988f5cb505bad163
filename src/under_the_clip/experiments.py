"""Which runs figures and tables need: the list of all, which stand in their chapters."""

from dpstudy.errors import check_known
from dpstudy.lab.experiment import Experiment
from under_the_clip.chapters import Chapter, chapters

_ALL: list[tuple[Experiment, Chapter]] = [
    (experiment, chapter)
    for chapter in chapters()
    for name in chapter.experiments
    for experiment in chapter.module(name).EXPERIMENTS
]
EXPERIMENTS = {experiment.name: experiment for experiment, _ in _ALL}
# By the experiment's name.
CHAPTER_OF = {experiment.name: chapter for experiment, chapter in _ALL}


def find(name: str) -> Experiment:
    """Return the experiment of that name, or raise UserError that lists the names."""
    check_known("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
