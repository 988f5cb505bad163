"""Carry stored results, and what searches chose to run, between machines, as one archive.

A bare GPU node packs its results without their epsilon; merging completes them.
"""

import gzip
import io
import re
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dpstudy.errors import UserError
from dpstudy.files import UNREADABLE, check_new, read_at_most
from dpstudy.lab import search, store
from dpstudy.lab.store import DamagedError, StoreError

# What goes along, and what reads and writes it. Of records choices alone: without them another
# machine would choose again. Benchmarks are of the machine that ran them, propositions are searched
# again in minutes.
PACKED = {"runs": (store.read, store.write), search.KIND: (search.read_choice, search.write_choice)}
# Relative, one folder deep, nothing hidden, nothing that leaves the folder.
_PLACE = re.compile(rf"({'|'.join(PACKED)})/\w[\w.-]*\.json", re.ASCII)
# A result takes some kilobytes, all of the study's a few megabytes.
_MOST_IN_ALL = 2**26


@dataclass
class Merged:
    """What became of an archive's results."""

    added: int = 0
    already: int = 0
    refused: list[str] = field(default_factory=list)  # a line each
    ignored: int = 0  # at no result's place, runs/RUN.json or searches/CHOICE.json


def export(folder: Path, archive: Path) -> tuple[int, list[DamagedError]]:
    """Pack the intact results below `folder` into a .tar.gz; return how many, and those left out.

    The same results give the same bytes: an entry says neither who packed it nor when. StoreError
    where there are no results, something is at the archive's place, or it cannot be written.
    """
    files, packed, damaged = _files(folder), io.BytesIO(), []
    if not files:
        raise StoreError(f"there are no results to pack in {folder}")
    check_new(archive, StoreError)
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in files:
            try:
                PACKED[path.parent.name][0](path)
            except DamagedError as error:
                # Elsewhere it would be refused, and by then what could train it again may be gone.
                damaged.append(error)
                continue
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            content = path.read_bytes()
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    store.write_atomically(archive, gzip.compress(packed.getvalue(), mtime=0), replace=False)
    return len(files) - len(damaged), damaged


def _files(folder: Path) -> list[Path]:
    return [path for kind in PACKED for path in store.stored_files(folder / kind)]


def merge(folder: Path, archive: Path) -> Merged:
    """Add an archive's results to `folder`, completing those that came without their epsilon.

    A result already stored is kept as it is, whatever the archive holds under its name. StoreError
    where the archive cannot be read, or a result cannot be written or completed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        merged = Merged()
        _unpack(archive, Path(scratch), merged)
        for given in _files(Path(scratch)):
            place = given.relative_to(scratch)
            try:
                added = _add(given, folder / place)
            except DamagedError as error:
                # Named from the archive on, or else in full: then it is the stored one.
                merged.refused.append(str(error).removeprefix(f"{scratch}/"))
            except StoreError:
                raise
            except UserError as error:
                merged.refused.append(f"{place}: {error}")
            else:
                merged.added, merged.already = merged.added + added, merged.already + (not added)
    return merged


def _add(given: Path, place: Path) -> bool:
    """Store what was given at its place; return False if the same is stored there already."""
    (read, write), run = PACKED[given.parent.name], given.parent.name == "runs"
    new = read(given)
    if not place.exists():
        write(place.parent, store.completed(new) if run else new)
        return True
    old = read(place)
    # Trained on another day it is the same; chosen otherwise it is not.
    trained = run and (old.curve, old.diverged_at) == (new.curve, new.diverged_at)
    if old != new and not trained:
        raise DamagedError(place, "is kept, though the archive holds another under its name")
    return False


def _unpack(archive: Path, scratch: Path, merged: Merged) -> None:
    """Unpack what is at results' places, once under each name, and count the other files."""
    unlike = set()
    try:
        with gzip.open(archive) as packed:
            content = io.BytesIO(read_at_most(packed, _MOST_IN_ALL))
        with tarfile.open(fileobj=content, mode="r:") as tar:
            for member in tar:
                place = PurePosixPath(member.name)
                # What is sparse unpacks to more than the archive holds.
                if member.isfile() and not member.issparse() and _PLACE.fullmatch(str(place)):
                    given, one = tar.extractfile(member).read(), scratch / place
                    one.parent.mkdir(exist_ok=True)
                    if one.exists() and one.read_bytes() != given:
                        unlike.add(place)
                    one.write_bytes(given)
                else:
                    merged.ignored += not member.isdir()
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or "not a .tar.gz, or cut short or damaged"
        raise StoreError(f"{archive}: cannot be read as an archive of results: {reason}") from error
    for place in sorted(unlike):
        (scratch / place).unlink()
        merged.refused.append(f"{place}: the archive holds different ones under this name")
