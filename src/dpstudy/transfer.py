"""Carry stored results between machines, as one archive.

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

from dpstudy import store
from dpstudy.store import DamagedError, Result, StoreError

# EXPERIMENT/RUN.json: relative, one folder deep, nothing hidden, nothing that leaves the folder.
_PLACE = re.compile(r"\w[\w.-]*/\w[\w.-]*\.json", re.ASCII)
_UNREADABLE = (OSError, EOFError, tarfile.TarError, zlib.error)


@dataclass
class Merged:
    """What became of the results in an archive."""

    added: int = 0
    already: int = 0
    refused: list[str] = field(default_factory=list)
    """One line for each entry that is damaged, or differs from what is stored."""
    ignored: int = 0
    """Entries that are not at a result's place, EXPERIMENT/RUN.json."""


def export(folder: Path, archive: Path) -> int:
    """Pack the intact results below `folder` into a .tar.gz, and return their number.

    The same results give the same bytes, and those do not say who packed them.

    Raises:
        StoreError: the archive cannot be written.
    """
    count = 0
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in store.stored_files(folder):
            try:
                store.read(path)
            except DamagedError:
                continue
            place = path.relative_to(folder).as_posix()
            tar.add(path, arcname=place, recursive=False, filter=_anonymous)
            count += 1
    store.write_atomically(archive, gzip.compress(packed.getvalue(), mtime=0))
    return count


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
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
                result = store.read(Path(scratch) / place)
            except DamagedError as error:
                merged.refused.append(f"{place}: {error.reason}")
                continue
            if not (folder / place).exists():
                store.write((folder / place).parent, store.completed(result))
                merged.added += 1
            elif problem := _differs(folder / place, result):
                merged.refused.append(f"{place}: {problem}")
            else:
                merged.already += 1
    return merged


def _differs(path: Path, result: Result) -> str | None:
    """Say how a stored file is not the same training as `result`; None if it is the same."""
    try:
        stored = store.read(path)
    except DamagedError as error:
        return f"the stored file is damaged ({error.reason}): remove it, then merge again"
    if (stored.curve, stored.diverged_at) != (result.curve, result.diverged_at):
        return "a result with other numbers is stored for this run, and kept"
    return None


def _unpack(archive: Path, scratch: Path) -> tuple[list[PurePosixPath], int]:
    """Unpack the results, and count the files that are at no result's place."""
    places: list[PurePosixPath] = []
    ignored = 0
    try:
        content = archive.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            # All of it at once: tarfile stops reading before the end, where gzip's checksum is.
            content = gzip.decompress(content)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            for member in tar:
                place = PurePosixPath(member.name)
                if member.isdir():
                    continue
                if not (member.isfile() and _PLACE.fullmatch(place.as_posix())):
                    ignored += 1
                    continue
                stream = tar.extractfile(member)
                assert stream is not None  # it is a file
                (scratch / place).parent.mkdir(exist_ok=True)
                (scratch / place).write_bytes(stream.read())
                places.append(place)
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or "not a .tar.gz, or cut short or damaged"
        raise StoreError(f"{archive}: cannot be read as an archive of results: {reason}") from error
    return list(dict.fromkeys(places)), ignored
