"""Exercises and solutions without the untitled section that sphinx-exercise puts in each.

Its id is the same in all of them, and sphinx-codeautolink takes every section to have a title.
"""

from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx_exercise.nodes import is_extension_node


class Unwrapped(SphinxTransform):
    """Put what the section holds in its place, once solutions have their cells."""

    default_priority = 20

    def apply(self, **_: object) -> None:
        for node in self.document.findall(is_extension_node):
            title, section = node
            node[:] = [title, *section]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.add_transform(Unwrapped)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
