"""`dpstudy data` and `dpstudy results`: what is kept on this machine."""

from collections.abc import Collection
from pathlib import Path

import click

from dpstudy import files
from dpstudy.parts.data import images
from under_the_clip.commands.shell import EXIT_DAMAGED, Group, complain

_NAME = click.argument("name", metavar="|".join(images.NAMES))
_FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


def say_where_they_are() -> None:
    """Say where results come from if there is no folder of them: a wheel carries none."""
    folder = files.results_folder()
    if not folder.is_dir():
        complain(
            f"no results in {folder}: they come with the repository and its releases, and "
            "DPSTUDY_RESULTS names their folder"
        )


def end_with(left_out: Collection[object]) -> None:
    """Name what was left out, and end the command as one that met damage, if there is any."""
    for line in left_out:
        complain(f"left out: {line}")
    if left_out:
        raise SystemExit(EXIT_DAMAGED)


@click.group(cls=Group)
def data() -> None:
    """Fetch and verify datasets."""


@data.command()
@_NAME
@click.option("--force", is_flag=True, help="Download again even if it is there.")
def fetch(name: str, force: bool) -> None:
    """Download a dataset and check its content."""
    click.echo(images.fetch(name, force=force))


@data.command("verify")
@_NAME
def verify_data(name: str) -> None:
    """Check a dataset's content against its known hashes."""
    click.echo(images.verify(name))


@click.group(cls=Group)
def results() -> None:
    """Verify stored results, and carry them between machines."""


@results.command("verify")
def verify_results() -> None:
    """Check every stored result; name each that is damaged, foreign or edited by hand."""
    from dpstudy.kinds import RECORDS
    from dpstudy.lab import records, search, store

    folder = store.results_folder()
    if not folder.is_dir():
        raise store.StoreError(f"there are no results in {folder}")
    read = [store.read_all(place) for place in (store.runs_folder(), folder / "repeats")]
    read.append(search.read_choices(records.folder(search.KIND)))
    read += [records.read_all(records.folder(kind), kind) for kind in RECORDS]
    good = sum(len(found) for found, _ in read)
    errors = [error for _, damaged in read for error in damaged]
    for error in errors:
        complain(str(error))
    click.echo(f"{good} results in {folder} are intact, {len(errors)} are not")
    if errors:
        raise SystemExit(EXIT_DAMAGED)


@results.command()
@_FILE
def export(file: Path) -> None:
    """Pack all results, and what searches chose, into FILE, a .tar.gz."""
    from dpstudy.lab import store, transfer

    packed, damaged = transfer.export(store.results_folder(), file)
    click.echo(f"{packed} results packed into {file}")
    end_with(damaged)


@results.command()
@_FILE
def merge(file: Path) -> None:
    """Add the results packed in FILE; nothing stored is replaced."""
    from dpstudy.lab import store, transfer

    merged = transfer.merge(store.results_folder(), file)
    if not (merged.added or merged.already or merged.refused):
        raise store.StoreError(f"{file}: holds no results of this study")
    ignored = f", {merged.ignored} other files ignored" if merged.ignored else ""
    click.echo(f"{merged.added} results added, {merged.already} already there{ignored}")
    end_with(merged.refused)


@results.command()
@_FILE
@click.option("--code", required=True, metavar="URL", help="The repository's address.")
@click.option("--paper", default="", metavar="URL", help="The paper's.  [default: the code's]")
@click.option("--authors", metavar="NAMES", help="As the table is to name them.")
@click.option("--venue", default="", metavar="NAME", help="Where it was published, if it was.")
@click.option(
    "--dataset",
    default="cifar-10",
    show_default=True,
    metavar="NAME",
    help="Whose table it is for.",
)
def entry(file: Path, authors: str | None, **about: str) -> None:
    """Write the recipe's entry for the public leaderboard of private machine learning.

    FILE becomes an item of the YAML that private-machinelearning.github.io keeps for a dataset: the
    answers to its "Submit Report". Accuracies are means over seeds and ε are those accounted for,
    rounded up, all from stored results. Nothing is sent: that is for the repository's owner.
    """
    from dpstudy.lab import store
    from under_the_clip.leaderboard import entry as leaderboard

    text = leaderboard.written(**about, **({"authors": authors} if authors else {}))
    try:
        store.write_atomically(file, text.encode(), replace=False)
    except FileExistsError:
        raise store.StoreError(f"{file} is there already, and stays as it is") from None
    click.echo(f"the entry for {about['dataset']} is in {file}")
