"""Which modules declare kinds of part, and of record: known by name, imported when first read."""

from importlib import import_module

_DECLARED_IN = [
    "dpstudy.parts.data.scattering",
    "dpstudy.recipe.features",
    "dpstudy.recipe.mixture",
]
# By kind of record, the type of what it holds.
RECORDS = {"theorems": "dpstudy.lab.forms.Checked"}


def declared_in(*modules: str) -> None:
    """Say which modules declare kinds of part; they are imported when a part is first read."""
    _DECLARED_IN.extend(module for module in modules if module not in _DECLARED_IN)


def declare_all() -> None:
    """Import every module that declares kinds of part."""
    for module in _DECLARED_IN:
        import_module(module)


def form_of(kind: str) -> type:
    """Return the type of what a kind of record holds."""
    module, _, name = RECORDS[kind].rpartition(".")
    return getattr(import_module(module), name)
