"""`dpstudy data`."""

from __future__ import annotations

import click

from dpstudy.parts.data import images
from under_the_clip.commands.shell import Group


@click.group(cls=Group)
def data() -> None:
    """Fetch and verify datasets."""


@data.command()
@click.argument("name", metavar="|".join(images.NAMES))
@click.option("--force", is_flag=True, help="Download again even if it is there.")
def fetch(name: str, force: bool) -> None:
    """Download a dataset and check its content."""
    click.echo(images.fetch(name, force=force))


@data.command()
@click.argument("name", metavar="|".join(images.NAMES))
def verify(name: str) -> None:
    """Check a dataset's content against its known hashes."""
    click.echo(images.verify(name))
