"""The one exception that the command line turns into one line instead of a stack trace."""


class UserError(Exception):
    """A mistake the user can mend. The command line prints it as one line and exits with 2."""
