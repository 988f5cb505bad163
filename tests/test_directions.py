"""What may import what: layer by layer, paper by paper, and what trains apart from what reads.

Every import counts, those in functions and for type checkers alone too; only what a process loads
(`LOADED`) is asked of the imports that run when a module is loaded.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parents[1] / "src"
PATHS = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SRC / "dpstudy").rglob("*.py"))
}
PAPERS = ("tempered_sigmoids", "losing_less", "backpropagation_clipping", "tanh_filter")
# Each layer, with those that it sees beside itself. A module at the top is a part, and errors are
# everybody's.
SEES = {
    "gradients": (),
    "parts": ("gradients",),
    "training": ("parts", "gradients"),
    "privacy": ("training", "parts"),
    "lab": ("training", "parts", "privacy", "gradients"),
    "propositions": ("lab", "parts", "privacy", "gradients"),
    "page": ("ledger", "lab", "parts", "privacy", "gradients"),
    "ledger": ("lab", "parts", "privacy", "gradients"),
    **{
        f"papers.{paper}": (
            *("propositions", "page", "ledger", "lab"),
            *("training", "parts", "privacy", "gradients"),
        )
        for paper in PAPERS
    },
}
SEES["papers"] = (*SEES["papers.tanh_filter"], *(f"papers.{paper}" for paper in PAPERS))
SEES["chapters"] = (*SEES["papers"], "papers")
SEES["commands"] = (*SEES["chapters"], "chapters")
SEES["cli"] = (*SEES["commands"], "commands")
READS = (
    *("chapters", "page", "ledger", "lab.readings", "papers.claims"),
    *(f"papers.{paper}.{part}" for paper in PAPERS for part in ("figures", "published")),
)
TRAINS = ("training", "parts", "gradients", "lab.campaign", "lab.experiment")
MOST_LINES = 450
# Longer still; each leaves this list when it is taken apart.
LONG = ("dpstudy.gradients.dependence", "dpstudy.privacy.accounting")


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
    """Return the layer of a module: its folder; a paper's own; "parts" at the top."""
    _, *names = module.split(".")
    if names[:1] == ["papers"] and names[1:2] and names[1] in PAPERS:
        return ".".join(names[:2])
    return names[0] if names and names[0] in SEES else "parts"


def within(module, parts):
    """Say whether a module is one of some layers, or of their folders."""
    return layer(module) in parts or any(
        f"{module}.".startswith(f"dpstudy.{part}.") for part in parts
    )


def unseen(modules):
    """Return what modules import of layers that theirs does not see."""
    return [
        f"{name} imports {one.of}"
        for name in modules
        for one in imports()[name]
        if one.of not in ("dpstudy", "dpstudy.errors")
        and layer(one.of) not in (layer(name), *SEES[layer(name)])
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


def circles():
    """Return the groups of modules that import each other, around however many corners."""

    @cache
    def reached(name):
        waiting, found = [one.of for one in imports()[name]], set()
        while waiting:
            other = waiting.pop()
            if other not in found:
                found.add(other)
                waiting += [one.of for one in imports()[other]]
        return found

    return {
        frozenset(other for other in reached(name) if name in reached(other))
        for name in imports()
        if name in reached(name)
    }


@pytest.mark.parametrize("name", SEES)
def test_a_layer_imports_only_what_is_below_it(name):
    modules = [module for module in PATHS if layer(module) == name]
    assert modules, f"there is no layer {name}"
    assert unseen(modules) == []


def test_no_modules_import_each_other():
    assert circles() == set()


def test_what_reads_loads_nothing_that_trains():
    reading = loaded(name for name in PATHS if within(name, READS))
    assert [name for name in reading if within(name, ["training", "lab.campaign"])] == []


def test_what_trains_loads_nothing_that_reads():
    training = loaded(name for name in PATHS if within(name, TRAINS))
    assert [name for name in training if within(name, ["privacy", "page", "ledger"])] == []


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
