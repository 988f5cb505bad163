"""What the reference lists is there, and says what it takes, in which units, and what it raises."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import FunctionType

import dpstudy
import under_the_clip

BOOK = Path(__file__).parents[1] / "book"
LISTED = re.compile(r"automodule:: (\S+)\n +:members: (.+)")
# A statement that raises, or calls what is there to.
RAISES = re.compile(r"^ +(raise (?!NotImpl)|(\w+\.)?_?check\w*\()", re.MULTILINE)
# Types that say nothing of range, unit or shape: a docstring has to.
BARE = {"int", "float", "str", "bool", "Array", "float | None", "int | None"}


def listed() -> dict[str, object]:
    """Each name of the reference, and the methods that its page shows beside it."""
    pages = sorted(BOOK.glob("reference_*.md"))
    entries = [entry for page in pages for entry in LISTED.findall(page.read_text())]
    things = {}
    for module, names in entries:
        for name in names.split(", "):
            thing = getattr(importlib.import_module(module), name)
            assert thing.__module__ == module, f"{name} is from {thing.__module__}, not {module}"
            things[f"{module}.{name}"] = thing
            if inspect.isclass(thing):
                things |= {
                    f"{module}.{name}.{method}": of
                    for method, of in vars(thing).items()
                    if isinstance(of, FunctionType | classmethod) and not method.startswith("_")
                    if of.__doc__  # else it overrides one that says what it does
                }
    return things


def bare(kind: object) -> bool:
    """Whether an annotation, deferred to a string or not, says nothing of range, unit or shape."""
    return re.sub(r"[\w.]+\.|'", "", inspect.formatannotation(kind)) in BARE


def lacking(thing: object) -> list[str]:
    """What the docstring of a public class, function or method leaves out."""
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    said = inspect.cleandoc(thing.__doc__ or "")
    if not said:
        return ["a docstring"]
    if said.startswith("See `"):
        return []
    elsewhere = re.search(r"[Aa]rguments.* as (for )?`", said)
    left_out = [
        f"what {name} is, {inspect.formatannotation(kind)}"
        for name, kind in inspect.get_annotations(thing).items()
        if name != "return" and bare(kind) and not re.search(rf"\b{name}\b", said)
    ]
    raises = inspect.isfunction(thing) and RAISES.search(inspect.getsource(thing))
    told = re.search(r"Raises:|Raise \w+Error|errors as `", said)
    return left_out * (not elsewhere) + ["Raises:"] * bool(raises and not told)


def test_docstrings_say_what_is_taken_and_what_is_raised():
    assert not {name: left_out for name, thing in listed().items() if (left_out := lacking(thing))}


def test_a_docstring_that_leaves_something_out_is_found():
    def clip(norm: float) -> float:
        """Clip."""
        if norm <= 0:
            raise ValueError
        return norm

    assert lacking(clip) == ["what norm is, float", "Raises:"]


def undocumented(cls: type) -> list[str]:
    """The public methods of a class that say nothing, and override none that does."""
    bases = cls.__mro__[1:-1]
    return [
        name
        for name, of in vars(cls).items()
        if isinstance(of, FunctionType | classmethod) and of.__qualname__.endswith(f".{name}")
        if not name.startswith("_")
        and not of.__doc__
        and not any(getattr(vars(b).get(name), "__doc__", "") for b in bases)
    ]


def test_a_public_method_says_what_it_does_or_overrides_one_that_does():
    lacking = {}
    for package in (dpstudy, under_the_clip):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for cls in vars(module).values():
                if inspect.isclass(cls) and cls.__module__ == module.__name__:
                    lacking[f"{found.name}.{cls.__name__}"] = undocumented(cls)
    assert not {name: methods for name, methods in lacking.items() if methods and "._" not in name}


def test_a_method_that_says_nothing_is_found():
    class One:
        def told(self):
            """Tell."""

        def untold(self):
            pass

    class Two(One):
        def told(self):
            pass

    assert (undocumented(One), undocumented(Two)) == (["untold"], [])
