"""The exceptions that the command line turns into one line instead of a stack trace."""

from collections.abc import Collection
from difflib import get_close_matches


class UserError(Exception):
    """A mistake the user can mend. The command line prints it as one line and exits with 2."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of it: one line too."""
        return [f"{type(self).__name__}: {self}"]


class DataError(UserError):
    """A dataset is missing, incomplete or altered, or cannot be stored. One line, with a remedy."""


def check_known(
    what: str, name: object, known: Collection[str], error: type[UserError] = UserError
) -> None:
    """Raise `error`, with what `name` may mean, unless it is one of the names known of `what`."""
    if name not in known:
        raise error(f"unknown {what} {name!r}; {meant(name, known)}")


def meant(name: object, known: Collection[str]) -> str:
    """Say which known name is the nearest to a wrong one, or where none is near, list them all.

    >>> meant("MNIST", ["cifar-10", "mnist"]), meant("mars", ["cifar-10", "mnist"])
    ("the nearest is 'mnist'", 'one of: cifar-10, mnist')
    """
    if isinstance(name, str):
        plain = {one.casefold(): one for one in known}
        if near := get_close_matches(name.casefold(), plain, 1):
            return f"the nearest is {plain[near[0]]!r}"
    return f"one of: {', '.join(known)}"
