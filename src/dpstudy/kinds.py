"""Which modules declare kinds of part: known by name, and imported when a part is read.

So the command line starts without them, and stored runs read back whatever they are made of.
"""

from __future__ import annotations

from importlib import import_module

_DECLARED_IN = ["dpstudy.parts.data.scattering", "dpstudy.recipe.features"]


def declared_in(*modules: str) -> None:
    """Say which modules declare kinds of part; they are imported when a part is first read."""
    _DECLARED_IN.extend(module for module in modules if module not in _DECLARED_IN)


def declare_all() -> None:
    """Import every module that declares kinds of part."""
    for module in _DECLARED_IN:
        import_module(module)
