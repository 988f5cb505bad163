"""Exercises and solutions without the untitled section that sphinx-exercise puts in each.

Its id is the same in all of them, and sphinx-codeautolink takes every section to have a title.
Those of a page without a number are counted from 1.
"""

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx_exercise.nodes import is_extension_node


class Unwrapped(SphinxTransform):
    """Put what the section holds in its place, once solutions have their cells."""

    default_priority = 20

    def apply(self, **_: object) -> None:
        for node in self.document.findall(is_extension_node):
            title, section = node
            node[:] = [title, *section]


def count_by_page(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Count from 1 on a page that has no number itself, where Sphinx goes on from the last such."""
    for kinds in env.toc_fignumbers.values():
        exercises = kinds.get("exercise", {})
        bare = [label for label, number in exercises.items() if len(number) == 1]
        exercises.update({label: (place,) for place, label in enumerate(bare, 1)})
    return []  # no page has to be read again


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.add_transform(Unwrapped)
    app.connect("env-get-updated", count_by_page, priority=900)  # once figures have numbers
    return {"parallel_read_safe": True, "parallel_write_safe": True}
