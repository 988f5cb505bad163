"""The reference of the package: names link to it wherever they stand, and nothing is said twice."""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode


class LinkedNames(SphinxPostTransform):
    """Link code in a sentence to the reference, if one thing there has that name."""

    default_priority = 200

    def run(self, **_: object) -> None:
        for code in list(self.document.findall(nodes.literal)):
            if not isinstance(code.parent, nodes.reference | pending_xref):
                name, page = code.astext().removesuffix("()"), self.env.docname
                if link := linked(self.app, self.env, page, name, code.deepcopy()):
                    code.replace_self(link)


def linked(
    app: Sphinx, env: BuildEnvironment, page: str, name: str, shown: nodes.Node
) -> nodes.reference | None:
    """Return a link to what has that name, or a longer one that ends so; None if several do."""
    found = [
        entry
        for full, entry in env.domains["py"].objects.items()
        if f".{full}".endswith(f".{name}") and entry.objtype != "module"
    ]
    if len(found) != 1:
        return None
    return make_refnode(app.builder, page, found[0].docname, found[0].node_id, shown)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Node
) -> nodes.reference | None:
    """Find the errors of "Raises", which docstrings name without their module."""
    if node["refdomain"] != "py":
        return None
    return linked(app, env, node["refdoc"], node["reftarget"], shown)


def skip(app: Sphinx, what: str, name: str, of: object, skipped: bool, options: object) -> bool:
    """Leave out a method that does what its base class says, and so refers to it."""
    return skipped or (getattr(of, "__doc__", None) or "").startswith("See `")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect them."""
    app.add_post_transform(LinkedNames)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
