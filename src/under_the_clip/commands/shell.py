"""The terminal that a command talks to: what goes wrong is one line there, and an exit code."""

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from dpstudy.errors import UserError, meant
from dpstudy.progress import tqdm
from under_the_clip.commands import stopping

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
EXIT_MISTAKE, EXIT_INTERRUPTED, EXIT_DAMAGED = 2, stopping.EXIT_INTERRUPTED, 1


def options(*added: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that gives a command several options, as if they stood above it."""
    return lambda command: functools.reduce(lambda one, add: add(one), reversed(added), command)


class Group(click.Group):
    """A group of commands whose errors, click's included, are one line and an exit code."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Be the program that this process was started for: see `main`."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:  # It was closed, and a progress bar would stumble over that.
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
            elif isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # not every terminal knows Greek
        stopping.begin()
        try:
            return self.main(*args, **options)
        finally:
            stopping.handle(stopping.at_once)
            _let_go_of_output()
            if stopping.asked():
                # Tidying up under threads that still compute can crash, after the last line.
                os._exit(EXIT_INTERRUPTED)

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the command line; see the module's documentation."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **options)
        try:
            code = super().main(*args, standalone_mode=False, **options)
        except (UserError, click.ClickException) as error:
            complain(one_line(error))
            sys.exit(EXIT_MISTAKE)
        except click.Abort:
            complain("stopped")
            sys.exit(EXIT_INTERRUPTED)
        except OSError as error:
            complain(f"cannot use {error.filename or 'the output'}: {error.strerror or error}")
            sys.exit(EXIT_MISTAKE)
        except Exception as error:
            if stopping.asked():
                complain("stopped")
                sys.exit(EXIT_INTERRUPTED)
            if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
                complain("there is not the memory for this")
                sys.exit(EXIT_MISTAKE)
            raise
        sys.exit(code)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse the options; show the help if there is nothing at all."""
        if not args and not context.resilient_parsing:
            click.echo(context.get_help(), err=True)
            context.exit(EXIT_MISTAKE)
        return super().parse_args(context, args)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Find the command that `args` begin with, or name those there are."""
        known = args[0].startswith("-") or self.get_command(context, args[0]) is not None
        if not known and not context.resilient_parsing:  # as for a shell that completes
            near = meant(args[0], self.list_commands(context))
            raise UserError(f"unknown command {args[0]!r}; {near}")
        return super().resolve_command(context, args)


def one_line(error: Exception) -> str:
    """Return an error as one line, and where to read on if click found it."""
    if not isinstance(error, click.ClickException):
        return " ".join(str(error).split("\n"))
    message = error.format_message().replace("\n", " ").removesuffix(".")
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} (see `{context.command_path} --help`)"


def complain(line: str) -> None:
    """Print one line on standard error, if it takes any."""
    with contextlib.suppress(OSError):
        click.echo(f"dpstudy: {line}", err=True)


def say(line: str) -> None:
    """Print one line while a progress bar is under way."""
    with tqdm.external_write_mode():
        click.echo(line)


def _let_go_of_output() -> None:
    """Leave nothing to be written at exit: where that fails, Python has a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
