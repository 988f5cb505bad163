"""Files: where a user keeps them; written whole or not at all, read no further than they may go."""

import contextlib
import errno
import gzip
import hashlib
import itertools
import mmap
import os
import stat
import sys
import tarfile
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from dpstudy.errors import DataError, UserError

Content = TypeVar("Content")

# What hostile bytes make of gzip and tarfile, by sizes of twenty digits and chains of headers too.
UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, RecursionError),
    *(tarfile.TarError, zlib.error),
)
_SEAL = hashlib.sha256().digest_size


def given_folder(variable: str) -> Path | None:
    """Return the folder an environment variable names, if any; UserError if of no known user."""
    given = os.environ.get(variable)
    try:
        return Path(given).expanduser() if given else None
    except RuntimeError:
        raise UserError(f"{variable} is {given}, and no such user has a home here") from None


def results_folder(profile: str = "full") -> Path:
    """Return the folder of what is stored, or of the smoke profile's own, which git ignores.

    `$DPSTUDY_RESULTS`, else `results/` of the checkout the package is installed from, or of the
    current folder; UserError where it names the home of a user that there is not.
    """
    if (folder := given_folder("DPSTUDY_RESULTS")) is None:
        folder = (checkout() or Path.cwd()) / "results"
    return folder if profile == "full" else folder / ".smoke"


def checkout() -> Path | None:
    """Return the checkout that the package is installed from; None where it is from none."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").exists() else None


def cache_folder() -> Path:
    """Return where downloads go: XDG_CACHE_HOME, else the system's habit; UserError if no home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "dpstudy"
    if sys.platform == "win32" and (base := os.environ.get("LOCALAPPDATA")):
        return Path(base) / "dpstudy" / "Cache"
    try:
        home = Path.home()
    except RuntimeError:
        raise UserError("this user has no home: set XDG_CACHE_HOME to a folder") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "dpstudy"
    return home / ".cache" / "dpstudy"


def brief(error: Exception) -> str:
    """Return what an error says, in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]  # some libraries explain themselves over several lines


def check_regular(path: Path) -> None:
    """Raise OSError of a pipe, say, which may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def content_of(path: Path) -> bytes:
    """Return the content of a regular file; raise OSError of a pipe, say, that may never end."""
    check_regular(path)
    return path.read_bytes()


def read_at_most(stream: IO[bytes] | gzip.GzipFile, most: int) -> bytes:
    """Read a stream to its end; raise OSError where it goes on beyond `most` bytes."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise too_large(most)
    return content


def too_large(most: int) -> OSError:
    """Return the error of what holds, or unpacks to, more than `most` bytes."""
    return OSError(errno.EFBIG, f"more than {most:,} bytes")


def try_writing(folder: Path) -> None:
    """Raise OSError where no file can be made in a folder, before its content is computed."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
    clean(folder)


def clean(folder: Path) -> None:
    """Remove from a folder what processes were writing that were killed."""
    for path in folder.glob(f".writing-{'?' * 32}"):
        # Where there are no locks nothing is known to be nobody's.
        with contextlib.suppress(ImportError, OSError), path.open("r+b") as left:
            _lock(left)
            # Some seconds: a file is unlocked before it has its name.
            if os.fstat(left.fileno()).st_mtime < time.time() - 10:
                path.unlink()


def _lock(stream: IO[bytes]) -> None:
    """Make a file this process' own until it is closed; OSError where it is another's."""
    import fcntl  # only here: Windows has none

    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def check_new(path: Path, error: type[UserError]) -> None:
    """Raise `error` where no new file can be written at a path, before its content is computed."""
    try:
        with contextlib.suppress(FileNotFoundError):
            path.lstat()
            raise error(f"{path} is there already: name another file, or remove it first")
        try_writing(path.parent)
    except OSError as problem:
        raise error(f"{path}: cannot be written ({brief(problem)})") from problem


def free_name(path: Path) -> Path:
    """Return a path, or with a number behind its stem where something is there already."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not os.path.lexists(one))


def seal(stream: IO[bytes]) -> None:
    """End a file that is being written with the SHA-256 of all before: see `check_seal`."""
    stream.seek(0)
    digest = hashlib.file_digest(stream, "sha256").digest()
    stream.seek(0, os.SEEK_END)  # what is in memory is read without moving on
    stream.write(digest)


def check_seal(path: Path) -> None:
    """Raise ValueError unless a file is as it was sealed; only then is it to be parsed."""
    check_regular(path)
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        if hashlib.sha256(memoryview(whole)[:-_SEAL]).digest() != whole[-_SEAL:]:
            raise ValueError("no checksum of its content: altered, cut short, or of an old version")


@contextlib.contextmanager
def written_whole(path: Path, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to be written whole or not at all: readers of `path` never see a part of it.

    FileExistsError where it is not to `replace` what is there, by then.
    """
    temporary = path.with_name(f".writing-{uuid.uuid4().hex}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "w+b") as stream:
            with contextlib.suppress(ImportError, OSError):
                _lock(stream)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # else a power cut may leave the name without the content
        try:
            (os.replace if replace else os.link)(temporary, path)
        except OSError:  # Some file systems give a file no second name.
            if replace:
                raise
            path.touch(exist_ok=False)
            os.replace(temporary, path)
    finally:
        # Ctrl-C included. Only a killed process leaves its temporary file, which is hidden.
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def kept_in_cache(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of the cache as `written_whole`; raise DataError where it cannot be written."""
    clean(path.parent)
    with _of_cache(path), written_whole(path) as stream:
        yield stream


def check_cache(path: Path) -> None:
    """Raise DataError where a file of the cache cannot be written, before it is computed."""
    with _of_cache(path):
        try_writing(path.parent)


@contextlib.contextmanager
def _of_cache(path: Path) -> Iterator[None]:
    """Raise DataError, with a remedy, in the place of an OSError."""
    try:
        yield
    except OSError as error:
        remedy = "make room, or set XDG_CACHE_HOME to another folder"
        raise DataError(f"{path}: cannot be written ({brief(error)}); {remedy}") from error


def found_in_cache(path: Path, read: Callable[[Path], Content]) -> Content | None:
    """Return what is read of a sealed file; None if it is absent or altered, or on ValueError."""
    try:
        check_seal(path)
        return read(path)
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        remedy = "delete it, and it is computed again"
        raise DataError(f"{path}: cannot be read ({brief(error)}); {remedy}") from error
