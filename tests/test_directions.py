"""What may import what: layer by layer, paper by paper, and what trains apart from what reads.

Every import counts, those in functions and for type checkers alone too; only what a process loads
(`LOADED`) is asked of the imports that run when a module is loaded.
"""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from under_the_clip.chapters import papers

SRC = Path(__file__).parents[1] / "src"
PATHS = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SRC.rglob("*.py"))
}
PAPERS = tuple(chapter.folder.removeprefix("under_the_clip.") for chapter in papers())
# What the papers and their authors are called: in the study alone.
NAMES = re.compile(
    "|".join(PAPERS).replace("_", r"[-_\s]+").replace("sigmoids", "sigmoids?")
    + "|papernot|shamsabadi|stevens|amian",
    re.IGNORECASE,
)
# Each layer of the package, with those that it sees beside itself.
PACKAGE = {
    "gradients": (),
    "parts": ("gradients",),
    "training": ("parts", "gradients"),
    # An audit runs the step that trains.
    "privacy": ("training", "parts"),
    "recipe": ("training", "privacy", "parts", "gradients"),
    "lab": ("training", "privacy", "parts", "gradients"),
    "propositions": ("lab", "privacy", "parts", "gradients"),
    "claims": ("propositions", "lab", "privacy", "parts", "gradients"),
    "page": ("claims", "lab", "privacy", "parts", "gradients"),
}
# Each folder of the study, with those that it sees beside itself and the package.
STUDY = {
    "designs": (),
    "forms": (),
    "networks": (),
    **dict.fromkeys(PAPERS, ("designs", "networks", "verdicts")),
    # A paper that is compared with another one sees it.
    "backpropagation_clipping": ("designs", "networks", "verdicts", "tempered_sigmoids"),
    "tanh_filter": ("designs", "networks", "verdicts", "losing_less"),
    # Its claims end with what it says of the cost of a search.
    "losing_less": ("designs", "networks", "verdicts", "search_cost"),
    "accounting": PAPERS,
    "audits": (*PAPERS, "designs", "networks"),
    "recipe": (*PAPERS, "designs", "leaderboard"),
    "leaderboard": (*PAPERS, "designs", "networks", "recipe"),
    "performance": ("forms",),
    # What follows finds the chapters by their list.
    **dict.fromkeys(("experiments", "claims", "statements", "verdicts"), ()),
    "sentences": ("claims", "experiments"),
    "search_cost": (*PAPERS, "designs", "leaderboard", "recipe"),
    "theorems": (*PAPERS, "claims", "statements"),
    "ledger": ("claims",),
    "explorer": ("experiments", "audits"),
    "introduction": (),
    "commands": ("audits", "statements", "leaderboard"),
    "cli": ("commands", "claims", "experiments"),
}
SEES = {f"dpstudy.{name}": [f"dpstudy.{one}" for one in sees] for name, sees in PACKAGE.items()} | {
    f"under_the_clip.{name}": [
        *(f"dpstudy.{one}" for one in PACKAGE),
        *(f"under_the_clip.{one}" for one in sees),
    ]
    for name, sees in STUDY.items()
}
# What everybody may import.
OF_ALL = (
    *(
        "dpstudy",
        "dpstudy.__main__",
        "dpstudy.errors",
        "dpstudy.files",
        "dpstudy.kinds",
        "dpstudy.progress",
    ),
    *("under_the_clip", "under_the_clip.chapters", "under_the_clip.published"),
)
READS = (
    *("dpstudy.page", "dpstudy.claims", "dpstudy.lab.readings"),
    *(f"under_the_clip.{name}" for name in ("claims", "explorer", "verdicts")),
    *(f"under_the_clip.{name}" for name in ("ledger", "leaderboard", "performance", "theorems")),
    *(
        f"under_the_clip.{paper}.{part}"
        for paper in PAPERS
        for part in ("claims", "figures", "propositions", "published", "summary")
    ),
)
TRAINS = (
    *(f"dpstudy.{name}" for name in ("training", "parts", "gradients")),
    *(f"dpstudy.lab.{name}" for name in ("campaign", "experiment", "train", "transfer", "workers")),
)
# What a page need not load, and what a machine that trains need not have.
UNTRAINED = ["dpstudy.training", "dpstudy.lab.campaign"]
UNREAD = [f"dpstudy.{name}" for name in ("privacy", "page", "claims")]
MOST_LINES = 450
# Longer still; each leaves this list when it is taken apart.
LONG = ("dpstudy.gradients.dependence",)


class Import(NamedTuple):
    """A module's import of another: whether loading the one loads the other."""

    of: str
    loads: bool


def imports_in(source, known):
    """Return what a module imports of those that are `known`."""
    found = []

    def visit(node, loads):
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, loads) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "an import that is not absolute"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.append(Import(name if name in known else node.module, loads))
        for child in ast.iter_child_nodes(node):
            visit(child, loads and _runs(node, child))

    visit(ast.parse(source), True)
    return [one for one in found if one.of in known]


def _runs(node, child):
    """Say whether a node's child runs when the module is loaded."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return child in node.orelse
    return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


@cache
def imports():
    return {name: imports_in(path.read_text(), PATHS) for name, path in PATHS.items()}


def layer(module):
    """Return the layer of a module: the folder, or the file, right below its package."""
    return ".".join(module.split(".")[:2])


def within(module, layers):
    """Say whether a module is one of some modules, or in their folders."""
    return any(f"{module}.".startswith(f"{one}.") for one in layers)


def unseen(modules):
    """Return what modules import of layers that theirs does not see."""
    return [
        f"{name} imports {one.of}"
        for name in modules
        for one in imports()[name]
        if one.of not in OF_ALL and layer(one.of) not in (layer(name), *SEES[layer(name)])
    ]


def loaded(modules):
    """Return all that is loaded with some modules; with each, the packages that it is in."""
    waiting, found = list(modules), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [one.of for one in imports()[name] if one.loads]
            waiting += [name.rpartition(".")[0]] if "." in name else []
    return found


@pytest.mark.parametrize("name", SEES)
def test_a_layer_imports_only_what_is_below_it(name):
    modules = [module for module in PATHS if layer(module) == name]
    assert modules, f"there is no layer {name}"
    assert unseen(modules) == []


def test_every_module_is_in_a_layer():
    assert {layer(name) for name in PATHS} == {*SEES, *OF_ALL}


def test_the_package_does_not_know_the_study():
    theirs = [path for name, path in PATHS.items() if within(name, ["dpstudy"])]
    assert [path for path in theirs if "under_the_clip" in path.read_text()] == []


@pytest.mark.parametrize(
    "text", ["Losing less, Eq. 2", "tempered-sigmoids", "Shamsabadi & Papernot", "a tanh_filter"]
)
def test_a_paper_that_is_named_is_found(text):
    assert NAMES.search(text)


def test_the_package_names_no_paper():
    theirs = [path for name, path in PATHS.items() if within(name, ["dpstudy"])]
    assert [(path, found) for path in theirs if (found := NAMES.findall(path.read_text()))] == []


def test_no_modules_import_each_other_around_however_many_corners():
    TopologicalSorter({name: {one.of for one in of} for name, of in imports().items()}).prepare()


def test_what_reads_loads_nothing_that_trains():
    reading = loaded(name for name in PATHS if within(name, READS))
    assert [name for name in reading if within(name, UNTRAINED)] == []


def test_what_trains_loads_nothing_that_reads():
    training = loaded(name for name in PATHS if within(name, TRAINS))
    assert [name for name in training if within(name, UNREAD)] == []


def test_no_module_is_too_long():
    lines = {name: path.read_text().count("\n") for name, path in PATHS.items()}
    assert {name for name in lines if lines[name] > MOST_LINES} == set(LONG)


def test_imports_are_found_wherever_they_stand():
    source = (
        "import dpstudy.a\nfrom dpstudy import b\nfrom dpstudy.c import name\n"
        "if TYPE_CHECKING:\n    from dpstudy import d\nelse:\n    import dpstudy.e\n"
        "class One:\n    import dpstudy.f\n    def two(self):\n        import dpstudy.g\n"
        "import numpy\n"
    )
    found = imports_in(source, {"dpstudy", *(f"dpstudy.{name}" for name in "abcdefg")})
    assert {one.of[-1] for one in found if one.loads} == set("abcef")
    assert {one.of[-1] for one in found if not one.loads} == set("dg")
