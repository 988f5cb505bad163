"""The propositions of all chapters, as things that can fail: the list of all.

`dpstudy theorems` searches them for counterexamples; `notebooks/06_theorems` shows what it finds.
"""

from dpstudy.errors import check_known
from dpstudy.propositions.proposition import Proposition
from under_the_clip.chapters import by_notebook, chapters

STATEMENTS: dict[str, Proposition] = {
    statement.name: statement
    for chapter in by_notebook(chapters())
    for statement in chapter.statements()
}


def find(name: str) -> Proposition:
    """Return the statement of that name, or raise UserError that lists the names."""
    check_known("statement", name, STATEMENTS)
    return STATEMENTS[name]
