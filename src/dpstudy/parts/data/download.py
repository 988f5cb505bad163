"""Files of datasets: found on this machine or downloaded, unzipped, and used only once checked.

Nothing is read further than a file of its pinned size goes, whatever it would unpack to.
"""

import errno
import gzip
import hashlib
import io
import os
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dpstudy.errors import DataError
from dpstudy.files import UNREADABLE, brief, cache_folder, kept_in_cache, read_at_most, too_large

# What packing may add to a file, or an archive to its files: headers, a page of explanation.
_PACKING = 2**20
# A download is given up that brings less than a chunk in so many seconds, or takes longer in all.
_CHUNK, _PATIENCE, _LONGEST = 2**13, 40, 2 * 60 * 60


@dataclass(frozen=True)
class Pinned:
    """Files of `size` bytes each whose uncompressed contents, in one order, have one SHA-256."""

    files: tuple[str, ...]
    sha256: str
    size: int


@dataclass(frozen=True)
class Source:
    """Where a dataset lives and how its files become arrays.

    `homes` are URLs, tried in order: of the files' folder, or, if `archive`, of a tar of them all.
    """

    name: str
    folder: str
    homes: tuple[str, ...]
    parts: tuple[Pinned, ...]
    decode: Callable[[Sequence[bytes]], Any]
    order: Callable[[Sequence[bytes]], bytes] = b"".join
    archive: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """The uncompressed size of each file, by its name without `.gz`."""
        return {file: part.size for part in self.parts for file in part.files}

    @property
    def by_hand(self) -> str:
        """Where a dataset that cannot be downloaded is to be put."""
        return (
            f"put {', '.join(self.sizes)} (each as it is or as .gz) into the folder {self.folder} "
            "of the folder that DPSTUDY_DATA names; mnist-5k alone needs none of this"
        )


def existing(folder: Path, file: str) -> Path | None:
    """Return the path of a file in a folder, as it is or gzipped; None if there is neither."""
    # Uncompressed first: that is what a download writes, so `fetch --force` also overrules a bad
    # .gz that someone copied into the cache.
    paths = (folder / file, folder / f"{file}.gz")
    # Unlike Path.is_file, os.path.isfile is false for a folder we may not enter.
    return next(filter(os.path.isfile, paths), None)


def read(source: Source, folder: Path) -> list[bytes]:
    """Return the parts' checked contents; DataError where one is unreadable or altered."""
    paths = {file: existing(folder, file) or folder / file for file in source.sizes}

    def stored(file: str, most: int) -> bytes:
        try:
            with paths[file].open("rb") as stream:
                return read_at_most(stream, most)
        except OSError as error:
            raise DataError(f"{paths[file]}: cannot be read ({brief(error)})") from error

    try:
        return _checked(source, paths, stored)
    except DataError as error:
        in_cache = folder == cache_folder() / source.folder
        # A forced download goes to the cache, which a bad copy in DPSTUDY_DATA would go on hiding.
        first = "" if in_cache else "move it out of DPSTUDY_DATA, then "
        again = f"download it again with `dpstudy data fetch {source.name} --force`"
        raise DataError(f"{error}; {first}{again}") from error


def _checked(
    source: Source, shown: Mapping[str, object], raw: Callable[[str, int], bytes]
) -> list[bytes]:
    """Return each part's content: of what `raw` returns of a file, `shown` in errors."""
    contents = []
    for part in source.parts:
        unzipped = {}
        for file in part.files:
            try:
                unzipped[file] = _unzip(raw(file, part.size + _PACKING), part.size)
            except UNREADABLE as error:
                found = f"a file that cannot be unpacked ({brief(error)})"
                raise DataError(mismatch(shown[file], part.sha256, found)) from error
        content = source.order(list(unzipped.values()))
        found = hashlib.sha256(content).hexdigest()
        if found != part.sha256:
            # To suspect among several: those whose length stands out, if any do.
            [(usual, _)] = Counter(map(len, unzipped.values())).most_common(1)
            odd = [file for file in unzipped if len(unzipped[file]) != usual]
            blamed = ", ".join(str(shown[file]) for file in odd or unzipped)
            raise DataError(mismatch(blamed, part.sha256, f"SHA-256 {found}"))
        contents.append(content)
    return contents


def _unzip(content: bytes, most: int) -> bytes:
    # The first bytes decide, not the name: some servers unzip on the way and keep the `.gz`. No
    # idx file (0, 0, ...) and no CIFAR-10 record (a label of 0 to 9) begins like gzip.
    zipped = content.startswith(b"\x1f\x8b")
    stream = io.BytesIO(content)
    return read_at_most(gzip.GzipFile(fileobj=stream) if zipped else stream, most)


def mismatch(where: object, expected: str, found: str) -> str:
    """Say of content that it is not what it should be."""
    return f"{where}: altered or cut short: expected uncompressed SHA-256 {expected}, found {found}"


def download(source: Source) -> Path:
    """Download the dataset into the cache, from the first home that has it whole.

    It stays in memory until it is checked, so that whatever stops it leaves no file behind.
    DataError where no home has it whole, or it cannot be stored.
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
            for at, file in enumerate(part.files):
                with kept_in_cache(folder / file) as stream:
                    stream.write(content[at * part.size : (at + 1) * part.size])
        return folder
    reasons = "; ".join(dict.fromkeys(failures))
    raise DataError(f"{source.name} could not be downloaded ({reasons}): {source.by_hand}")


def _from_home(source: Source, home: str) -> list[bytes]:
    if source.archive:
        members = _members(home, source.sizes)
        shown = {file: f"{file} in {home}" for file in members}
        return _checked(source, shown, lambda file, _: members[file])
    shown = {file: f"{home}{file}.gz" for file in source.sizes}
    return _checked(source, shown, lambda file, most: _get(shown[file], most))


class _Received(io.BytesIO):
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

        from dpstudy.progress import tqdm
    except ImportError as error:
        raise DataError("downloads need the packages pooch and tqdm") from error
    received, failed = _Received(most), []
    # A bar of our own, to name what it counts and to end its line if the download fails. pooch sets
    # the total, but first asks for the bar's truth, which without one is an error.
    with tqdm(desc=url.rpartition("/")[2], total=1, unit="B", unit_scale=True) as bar:

        def fetch() -> None:
            try:
                pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)(url, received, None)
            except OSError as error:  # every exception of requests is one
                failed.append(error)

        # In a thread: a server that sends a byte a second is never late by the socket's timeout.
        work = threading.Thread(target=fetch, daemon=True)
        work.start()
        had, began, took = -1, time.monotonic(), 0.0
        while work.is_alive() and received.tell() > had and took < _LONGEST:
            had = received.tell()
            work.join(_PATIENCE)
            took = time.monotonic() - began
        if work.is_alive():
            received.most, has = 0, received.tell()  # else it goes on behind the next
            last = f"{has - had:,} of them in the last {_PATIENCE}"
            raise DataError(f"{url}: too slow, {has:,} bytes in {took:.0f} seconds, {last}")
    for error in failed:
        response = getattr(error, "response", None)
        status = "" if response is None else f" {response.status_code}"
        reason = brief(error) if error.errno == errno.EFBIG else f"{type(error).__name__}{status}"
        raise DataError(f"{url}: {reason}") from error
    return received.getvalue()


def _members(url: str, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Return what an archive at a URL holds of some files."""
    most, found = sum(sizes.values()) + _PACKING, {}
    archive = _get(url, most)
    try:
        with tarfile.open(fileobj=io.BytesIO(_unzip(archive, most)), mode="r:") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if name in sizes and (stream := tar.extractfile(member)):
                    found[name] = read_at_most(stream, sizes[name])
    except UNREADABLE as error:
        raise DataError(f"{url}: a broken archive ({brief(error)})") from error
    if missing := [name for name in sizes if name not in found]:
        raise DataError(f"{url}: the archive lacks {', '.join(missing)}")
    return found
