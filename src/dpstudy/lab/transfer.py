"""Carry stored results, and what searches chose to run, between machines, as one archive.

Packing needs no accounting, so that a bare GPU node can send its results without their epsilon;
merging completes them.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from dpstudy.errors import UserError
from dpstudy.lab import choices, store
from dpstudy.lab.choices import Kept
from dpstudy.lab.store import DamagedError, Result, StoreError
from dpstudy.parts.files import read_at_most, too_large

# Choices are the one kind of record that goes along: without them another machine would choose
# again. Benchmarks are of the machine that ran them, propositions are searched again in minutes.
PACKED = ("runs", choices.KIND)
# Relative, one folder deep, nothing hidden, nothing that leaves the folder.
_PLACE = re.compile(rf"({'|'.join(PACKED)})/\w[\w.-]*\.json", re.ASCII)
_UNREADABLE = (OSError, EOFError, tarfile.TarError, zlib.error)

# A result takes some kilobytes, all of the study's a few megabytes.
_MOST_A_FILE, _MOST_IN_ALL = 2**24, 2**30


@dataclass
class Merged:
    """What became of the results in an archive."""

    added: int = 0
    already: int = 0
    refused: list[str] = field(default_factory=list)
    """One line for each entry that is damaged, or differs from what is stored."""
    ignored: int = 0
    """Entries that are at no result's place, runs/RUN.json or searches/CHOICE.json."""


def export(folder: Path, archive: Path) -> tuple[int, list[DamagedError]]:
    """Pack the intact results below `folder` into a .tar.gz.

    The same results give the same bytes, and those do not say who packed them.

    Returns:
        How many were packed, and what is wrong with those that were not.

    Raises:
        StoreError: the archive cannot be written.
    """
    count, left_out = 0, []
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in [path for kind in PACKED for path in store.stored_files(folder / kind)]:
            try:
                _read(path)
            except DamagedError as error:
                left_out.append(error)
                continue
            place = path.relative_to(folder).as_posix()
            tar.add(path, arcname=place, recursive=False, filter=_anonymous)
            count += 1
    store.write_atomically(archive, gzip.compress(packed.getvalue(), mtime=0))
    return count, left_out


def _read(path: Path) -> Result | Kept:
    """Read a result, or a choice, by where it lies."""
    return choices.read(path) if path.parent.name == choices.KIND else store.read(path)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.mode = 0o644  # Of a checkout it depends on who made it.
    entry.uname = entry.gname = ""
    return entry


def merge(folder: Path, archive: Path) -> Merged:
    """Add an archive's results to `folder`, completing those that came without their epsilon.

    A result already stored is kept as it is, whatever the archive holds under its name.

    Raises:
        StoreError: the archive cannot be read, or a result cannot be written.
    """
    merged = Merged()
    with tempfile.TemporaryDirectory() as scratch:
        places, merged.ignored = _unpack(archive, Path(scratch))
        for place in places:
            try:
                content = _read(Path(scratch) / place)
                if isinstance(content, Result) and not (folder / place).exists():
                    content = store.completed(content)
            except DamagedError as error:
                merged.refused.append(f"{place}: {error.reason}")
                continue
            except StoreError:
                raise
            except UserError as error:
                merged.refused.append(f"{place}: {error}")
                continue
            if not (folder / place).exists():
                _write((folder / place).parent, content)
                merged.added += 1
            elif problem := _differs(folder / place, content):
                merged.refused.append(f"{place}: {problem}")
            else:
                merged.already += 1
    return merged


def _write(folder: Path, content: Result | Kept) -> None:
    if isinstance(content, Result):
        store.write(folder, content)
    else:
        choices.write(folder, content)


def _differs(path: Path, content: Result | Kept) -> str | None:
    """Say how a stored file is not the same training, or choice; None if it is the same."""
    try:
        stored = _read(path)
    except DamagedError as error:
        return f"the stored file is damaged ({error.reason}): remove it, then merge again"
    if isinstance(stored, Result) and isinstance(content, Result):
        if (stored.curve, stored.diverged_at) != (content.curve, content.diverged_at):
            return "a result with other numbers is stored for this run, and kept"
    elif stored != content:
        return "another choice is stored, and kept"
    return None


def _unpack(archive: Path, scratch: Path) -> tuple[list[PurePosixPath], int]:
    """Unpack the results, and count the files that are at no result's place."""
    places: list[PurePosixPath] = []
    ignored = 0
    try:
        with archive.open("rb") as packed:
            content = _Bounded(packed)
            with tarfile.open(fileobj=content, mode="r|") as tar:
                for member in tar:
                    tar.members.clear()  # Else each of a million empty entries would be kept.
                    place = PurePosixPath(member.name)
                    if member.isdir():
                        continue
                    if not (member.isfile() and _PLACE.fullmatch(place.as_posix())):
                        ignored += 1
                        continue
                    stream = tar.extractfile(member)
                    assert stream is not None  # it is a file
                    (scratch / place).parent.mkdir(exist_ok=True)
                    (scratch / place).write_bytes(read_at_most(stream, _MOST_A_FILE))
                    places.append(place)
            content.finish()
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or "not a .tar.gz, or cut short or damaged"
        raise StoreError(f"{archive}: cannot be read as an archive of results: {reason}") from error
    return list(dict.fromkeys(places)), ignored


class _Bounded:
    """A file unzipped as it is read, and not read beyond a limit."""

    def __init__(self, packed: BinaryIO) -> None:
        zipped = packed.read(2) == b"\x1f\x8b"
        packed.seek(0)
        self._stream = gzip.GzipFile(fileobj=packed) if zipped else packed
        self._left = _MOST_IN_ALL

    def read(self, size: int) -> bytes:
        content = self._stream.read(min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise too_large(_MOST_IN_ALL)
        return content

    def finish(self) -> None:
        """Read on to the end: tarfile stops before it, and there gzip's checksum is."""
        while self.read(2**20):
            pass
