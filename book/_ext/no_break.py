"""Keeps a number beside its per cent sign, and a letter beside its value, at a line's end."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

SPACE = re.compile(r"(?<=\d) (?=%)|(?<=\b[εδσCq]) (?== \d)|(?<=\b[εδσCq] =) (?=\d)")
AS_WRITTEN = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


class Unbroken(SphinxPostTransform):
    """Put a space that does not break for each that would part them; code stays as it is."""

    default_priority = 900

    def run(self, **_: object) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, AS_WRITTEN) and SPACE.search(text):
                text.parent.replace(text, nodes.Text(SPACE.sub("\N{NO-BREAK SPACE}", text)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.add_post_transform(Unbroken)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
