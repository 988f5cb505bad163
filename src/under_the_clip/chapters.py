"""What each chapter of the study has, and the one list of the chapters that have some of it.

A chapter says so in its folder's `__init__.py`, by the names of modules: none is imported before it
is asked for, so that the command line starts without them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpstudy.propositions.proposition import Proposition

# In the order in which experiments are listed and trained; a paper is one line here.
CHAPTERS = (
    "tempered_sigmoids",
    "backpropagation_clipping",
    "tanh_filter",
    "losing_less",
    "leaderboard",
    "recipe",
    "theorems",
    "search_cost",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chapter:
    """What a chapter has.

    Attributes:
        folder: the package of its code; experiments of a paper begin with its name.
        notebook: its page.
        paper: the short name of the paper that it is about; of one paper, its folder has modules
            `claims`, with `CLAIMS`, and `summary`, with the front page's `what_is_left`.
        cited: the paper in the bibliography, with what belongs to it.
        parts: modules that declare kinds of part.
        experiments: modules with `EXPERIMENTS`.
        propositions: modules that state them.
        sections: by heading of the notebook, the experiments that it shows, without the folder's
            name; what is under none leads to the page's top.
        choices: what a reader may choose, each with the claim that compares it with plain DP-SGD.
    """

    folder: str
    notebook: str
    paper: str = ""
    cited: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    propositions: tuple[str, ...] = ()
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name on the command line, such as "tempered-sigmoids"."""
        return self.folder.rpartition(".")[2].replace("_", "-")

    def module(self, name: str) -> ModuleType:
        """Import a module of its folder."""
        return import_module(f"{self.folder}.{name}")

    def statements(self) -> list["Proposition"]:
        """Return its propositions, as things that can fail."""
        from dpstudy.propositions.proposition import Proposition

        stated = (vars(self.module(name)).values() for name in self.propositions)
        return [one for found in stated for one in found if isinstance(one, Proposition)]

    def section(self, experiment: str) -> str:
        """Return the heading that shows an experiment; empty where there is none."""
        short = experiment.removeprefix(f"{self.key}-")
        return next((title for title, shown in self.sections.items() if short in shown), "")


def chapters() -> list[Chapter]:
    """Return all chapters of the list, in its order."""
    return [import_module(f"under_the_clip.{name}").CHAPTER for name in CHAPTERS]


def by_notebook(found: Iterable[Chapter]) -> list[Chapter]:
    """Return chapters in the order of the book."""
    return sorted(found, key=lambda chapter: chapter.notebook)


def papers() -> list[Chapter]:
    """Return the chapters that are about one paper, in the order of the book."""
    return by_notebook(chapter for chapter in chapters() if chapter.paper)
