"""The exceptions that the command line turns into one line instead of a stack trace."""

from collections.abc import Collection


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
    """Raise `error`, listing the names that are known of `what`, unless `name` is one of them."""
    if name not in known:
        raise error(f"unknown {what} {name!r}; one of: {', '.join(known)}")
