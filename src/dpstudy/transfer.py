"""Carry stored results between machines, as one archive."""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dpstudy import privacy, store
from dpstudy.store import StoreError


@dataclass
class Merged:
    """What became of the results in an archive."""

    added: int = 0
    already: int = 0
    refused: list[str] = field(default_factory=list)
    """One line for each entry that is damaged, or differs from what is stored."""


def export(folder: Path, archive: Path) -> int:
    """Pack the intact results below `folder` into a .tar.gz, and return their number.

    Raises:
        StoreError: the archive cannot be written.
    """
    count = 0
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / "results.tar.gz"
        with tarfile.open(draft, "w:gz") as tar:
            for path in store.stored_files(folder):
                try:
                    store.read(path)
                except StoreError:
                    continue
                tar.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False)
                count += 1
        store.write_atomically(archive, draft.read_bytes())
    return count


def merge(folder: Path, archive: Path) -> Merged:
    """Add an archive's results to `folder`, completing those that came without their epsilon.

    A result already stored is kept as it is, whatever the archive holds under its name.

    Raises:
        StoreError: the archive cannot be read, or a result cannot be written.
    """
    merged = Merged()
    with tempfile.TemporaryDirectory() as scratch:
        for place in _unpack(archive, Path(scratch)):
            try:
                result = store.read(Path(scratch) / place)
            except StoreError as error:
                merged.refused.append(str(error).replace(f"{scratch}/", ""))
                continue
            if (folder / place).exists():
                merged.already += 1
                continue
            if result.run.private and not result.epsilon:
                result = privacy.with_epsilon(result)
            store.write((folder / place).parent, result)
            merged.added += 1
    return merged


def _unpack(archive: Path, scratch: Path) -> list[PurePosixPath]:
    """Unpack EXPERIMENT/HASH.json entries; all others are not results."""
    places = []
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                place = PurePosixPath(member.name)
                if not (member.isfile() and place.suffix == ".json" and len(place.parts) == 2):
                    continue
                tar.extract(member, scratch, filter="data")
                places.append(place)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise StoreError(f"{archive}: cannot be read as an archive of results: {error}") from error
    return places
