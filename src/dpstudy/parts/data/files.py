"""Files of datasets: found on this machine or downloaded, unzipped, and used only once checked.

What is checked is the SHA-256 of the uncompressed content, since mirrors gzip differently. Nothing
is read further than a file of its pinned size goes, whatever it would unpack to.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import sys
import tarfile
import tempfile
import threading
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from dpstudy.errors import UserError

UNREADABLE = (EOFError, OSError, zlib.error, tarfile.TarError)

# What packing may add to a file, or an archive to its files: headers, a page of explanation.
_PACKING = 2**20


class DataError(UserError):
    """A dataset is missing, incomplete or altered, or cannot be stored. One line, with a remedy."""


@dataclass(frozen=True)
class Pinned:
    """Files whose uncompressed contents, brought into one order, have one pinned SHA-256.

    Each of them has `size` bytes.
    """

    files: tuple[str, ...]
    sha256: str
    size: int


@dataclass(frozen=True)
class Source:
    """Where a dataset lives and how its files become arrays.

    `homes` are URLs, tried in order: the address that the files' names (with `.gz`) are appended
    to, or, if `archive`, that of one tar which holds them all.
    """

    folder: str
    homes: tuple[str, ...]
    parts: tuple[Pinned, ...]
    order: Callable[[Sequence[bytes]], bytes]
    decode: Callable[[Sequence[bytes]], Any]
    archive: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files, without `.gz`."""
        return tuple(file for part in self.parts for file in part.files)


def given_folder(variable: str) -> Path | None:
    """Return the folder that an environment variable names, if it is set.

    Raises:
        UserError: it begins with a user's home, and there is no such user.
    """
    given = os.environ.get(variable)
    try:
        return Path(given).expanduser() if given else None
    except RuntimeError:
        raise UserError(f"{variable} is {given}, and no such user has a home here") from None


def cache_folder() -> Path:
    """Return where downloads go: XDG_CACHE_HOME on any system, else the system's own habit.

    Raises:
        UserError: none is set, and the user has no home, as in some containers.
    """
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


def existing(folder: Path, file: str) -> Path | None:
    """Return the path of a file in a folder, as it is or gzipped; None if there is neither."""
    # Uncompressed first: that is what a download writes, so `fetch --force` also overrules a bad
    # .gz that someone copied into the cache.
    for path in (folder / file, folder / f"{file}.gz"):
        if os.path.isfile(path):  # unlike Path.is_file, false for a folder we may not enter
            return path
    return None


def read(name: str, source: Source, folder: Path) -> list[bytes]:
    """Return the parts' checked contents, in the order of `Source.parts`.

    Raises:
        DataError: a file is unreadable, altered or cut short.
    """
    paths = {file: existing(folder, file) or folder / file for file in source.files}
    raw = {}
    for part in source.parts:
        for file in part.files:
            try:
                with paths[file].open("rb") as stream:
                    raw[file] = read_at_most(stream, part.size + _PACKING)
            except OSError as error:
                raise DataError(f"{paths[file]}: cannot be read ({brief(error)})") from error
    shown = {file: str(path) for file, path in paths.items()}
    try:
        return _checked(source, raw, shown)
    except DataError as error:
        in_cache = folder == cache_folder() / source.folder
        # A forced download goes to the cache, which a bad copy in DPSTUDY_DATA would go on hiding.
        first = "" if in_cache else "move it out of DPSTUDY_DATA, then "
        again = f"download it again with `dpstudy data fetch {name} --force`"
        raise DataError(f"{error}; {first}{again}") from error


def _checked(source: Source, raw: Mapping[str, bytes], shown: Mapping[str, str]) -> list[bytes]:
    """Return each part's content, in its one order, or raise: wrong content goes no further.

    `raw` holds what each file holds, gzipped or not; `shown` says what to call it in an error.
    """
    contents = []
    for part in source.parts:
        unzipped = {}
        for file in part.files:
            try:
                unzipped[file] = _unzip(raw[file], part.size)
            except UNREADABLE as error:
                found = f"a file that cannot be unpacked ({brief(error)})"
                raise DataError(mismatch(shown[file], part.sha256, found)) from error
        content = source.order(list(unzipped.values()))
        found = hashlib.sha256(content).hexdigest()
        if found != part.sha256:
            blamed = ", ".join(shown[file] for file in _odd_ones(unzipped))
            raise DataError(mismatch(blamed, part.sha256, f"SHA-256 {found}"))
        contents.append(content)
    return contents


def _unzip(content: bytes, most: int) -> bytes:
    # The first bytes decide, not the name: some servers unzip on the way and keep the `.gz`. No
    # idx file (0, 0, ...) and no CIFAR-10 record (a label of 0 to 9) begins like gzip.
    zipped = content.startswith(b"\x1f\x8b")
    stream = io.BytesIO(content)
    return read_at_most(gzip.GzipFile(fileobj=stream) if zipped else stream, most)


def read_at_most(stream: IO[bytes] | gzip.GzipFile, most: int) -> bytes:
    """Read a stream to its end.

    Raises:
        OSError: it goes on beyond `most` bytes; the rest stays unread.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        raise too_large(most)
    return content


def too_large(most: int) -> OSError:
    """Return the error of what holds, or unpacks to, more than `most` bytes."""
    return OSError(errno.EFBIG, f"more than {most:,} bytes")


def _odd_ones(contents: Mapping[str, bytes]) -> list[str]:
    """Return the files whose length stands out, if any do: those to suspect among several."""
    (usual, _), *_ = Counter(map(len, contents.values())).most_common(1)
    return [file for file, content in contents.items() if len(content) != usual] or list(contents)


def mismatch(where: str, expected: str, found: str) -> str:
    """Say of content that it is not what it should be."""
    return f"{where}: altered or cut short: expected uncompressed SHA-256 {expected}, found {found}"


def try_writing(folder: Path) -> None:
    """Make a folder and a file in it, which is gone again.

    Raises:
        OSError: it cannot be done: known before what is to be written there is computed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()


def brief(error: Exception) -> str:
    """Return what an error says, in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]  # some libraries explain themselves over several lines


def by_hand(source: Source) -> str:
    """Say where a dataset that cannot be downloaded is to be put."""
    return (
        f"put {', '.join(source.files)} (each as it is or as .gz) into the folder {source.folder} "
        "of the folder that DPSTUDY_DATA names; the smoke profile needs none of this, it uses "
        "mnist-5k"
    )


# --------------------------------------------------------------------------- downloading


def download(name: str, source: Source) -> Path:
    """Download the dataset into the cache, from the first home that has it whole.

    A download stays in memory until it is checked, so that whatever stops it leaves no file behind.

    Raises:
        DataError: no home has it whole, or it cannot be stored.
    """
    failures = []
    for home in source.homes:
        try:
            contents = _from_home(source, home)
        except DataError as error:
            failures.append(str(error))
            continue
        folder = cache_folder() / source.folder
        for part, content in zip(source.parts, contents, strict=True):
            for file, piece in zip(part.files, _pieces(content, len(part.files)), strict=True):
                with kept_in_cache(folder / file) as stream:
                    stream.write(piece)
        return folder
    reasons = "; ".join(dict.fromkeys(failures))
    raise DataError(f"{name} could not be downloaded ({reasons}): {by_hand(source)}")


def _from_home(source: Source, home: str) -> list[bytes]:
    sizes = {file: part.size for part in source.parts for file in part.files}
    if source.archive:
        packed = _get(home, sum(sizes.values()) + _PACKING)
        raw = _members(home, packed, sizes)
        shown = {file: f"{file} in {home}" for file in source.files}
    else:
        shown = {file: f"{home}{file}.gz" for file in source.files}
        raw = {file: _get(shown[file], size + _PACKING) for file, size in sizes.items()}
    return _checked(source, raw, shown)


# A download that brings less than a chunk in so many seconds is given up.
_CHUNK, _PATIENCE = 2**13, 40


class _Received(io.BytesIO):
    """Takes in a download, up to a limit."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > self.most:
            raise too_large(self.most)
        return super().write(content)


def _get(url: str, most: int) -> bytes:
    try:
        import pooch
        from tqdm import tqdm
    except ImportError as error:
        raise DataError("downloads need the packages pooch and tqdm") from error
    received, failed = _Received(most), []
    # A bar of our own, to name what it counts and to end its line if the download fails. pooch sets
    # the total, but first asks for the bar's truth, which without one is an error.
    with tqdm(desc=url.rpartition("/")[2], total=1, unit="B", unit_scale=True) as bar:
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)

        def download() -> None:
            try:
                downloader(url, received, None)
            except OSError as error:  # every exception of requests is one
                failed.append(error)

        # In a thread: a server that sends a byte a second is never late by the socket's timeout.
        work = threading.Thread(target=download, daemon=True)
        work.start()
        had = -1
        while work.is_alive() and received.tell() > had:
            had = received.tell()
            work.join(_PATIENCE)
        if work.is_alive():
            raise DataError(f"{url}: too slow, less than {_CHUNK:,} bytes in {_PATIENCE} seconds")
    for error in failed:
        if error.errno == errno.EFBIG:
            raise DataError(f"{url}: {brief(error)}") from error
        response = getattr(error, "response", None)
        status = "" if response is None else f" {response.status_code}"
        raise DataError(f"{url}: {type(error).__name__}{status}") from error
    return received.getvalue()


def _members(url: str, archive: bytes, sizes: Mapping[str, int]) -> dict[str, bytes]:
    found = {}
    try:
        unpacked = io.BytesIO(_unzip(archive, sum(sizes.values()) + _PACKING))
        with tarfile.open(fileobj=unpacked, mode="r:") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if name in sizes and (stream := tar.extractfile(member)):
                    found[name] = read_at_most(stream, sizes[name])
    except UNREADABLE as error:
        raise DataError(f"{url}: a broken archive ({brief(error)})") from error
    if missing := [name for name in sizes if name not in found]:
        raise DataError(f"{url}: the archive lacks {', '.join(missing)}")
    return found


def _pieces(content: bytes, count: int) -> list[bytes]:
    size = -(-len(content) // count)
    return [content[i * size : (i + 1) * size] for i in range(count)]


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written whole or not at all: readers of `path` never see a part of it.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # else a power cut may leave the name without the content
        os.replace(temporary, path)
    finally:
        # Ctrl-C included. Only a killed process leaves its temporary file, which is hidden.
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def kept_in_cache(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of the cache as `written_whole`.

    Raises:
        DataError: it cannot be written.
    """
    try:
        with written_whole(path) as stream:
            yield stream
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({brief(error)}); make room, or set XDG_CACHE_HOME to "
            "another folder"
        ) from error
