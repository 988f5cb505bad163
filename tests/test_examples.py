"""The examples in docstrings run, and show what they show."""

import doctest
import importlib
import pkgutil

import pytest

import dpstudy

MODULES = [found.name for found in pkgutil.walk_packages(dpstudy.__path__, "dpstudy.")]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def examples(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    return [found for found in doctest.DocTestFinder().find(module) if found.examples]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_show_what_they_show(name):
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for example in examples(name):
        said = []
        runner.run(example, out=said.append)
        assert not runner.failures, "".join(said)


def test_an_example_that_shows_something_else_is_found():
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, out=lambda _: None)
    assert runner.failures == 1
