"""Features that take minutes to compute: kept in the user's cache, whole or not at all.

A file is numpy's format with the SHA-256 of the numbers after them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpstudy import files
from dpstudy.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float16, UInt8

    from dpstudy.parts.data.images import Dataset

    Pixels = UInt8[np.ndarray, "n h w c"]

_DIGEST_SIZE = hashlib.sha256().digest_size


def kept(
    path: Path, shape: tuple[int, ...], compute: Callable[[], Iterable[np.ndarray]]
) -> Float16[np.ndarray, "n *features"]:
    """Return the array of a file, read-only and mapped into memory.

    Args:
        path: of the file, in the cache.
        shape: of the array. A file that is not there whole, or has another, is written anew.
        compute: yields the array's rows, some at a time: all at once take gigabytes.

    Raises:
        DataError: the file cannot be read or written.
    """
    found = _read(path, shape)
    if found is None:
        _write(path, shape, compute())
        found = _read(path, shape)
    if found is None:
        raise DataError(f"{path}: is not what was just written to it; delete it and try again")
    return found


def _read(path: Path, shape: tuple[int, ...]) -> Float16[np.ndarray, "n *features"] | None:
    def read(path: Path) -> np.ndarray:
        mapped = np.lib.format.open_memmap(path, mode="r")
        with path.open("rb") as stream:
            stream.seek(-_DIGEST_SIZE, 2)
            digest = stream.read()
        if mapped.shape != shape or mapped.dtype != np.float16:
            raise ValueError("another array")
        if hashlib.sha256(mapped).digest() != digest:
            raise ValueError("altered or cut short")
        return np.asarray(mapped)

    # A ValueError is numpy's too, of what is not its format or shorter than it says.
    return files.found_in_cache(path, read, (ValueError,))


def _write(path: Path, shape: tuple[int, ...], rows: Iterable[np.ndarray]) -> None:
    digest = hashlib.sha256()
    header = {"descr": np.dtype(np.float16).str, "fortran_order": False, "shape": shape}
    with files.kept_in_cache(path) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for part in rows:
            content = part.astype(np.float16).tobytes()
            digest.update(content)
            stream.write(content)
        stream.write(digest.digest())


def of_each_image(
    dataset: Dataset, function: Callable[[Pixels], np.ndarray], what: str, batch: int
) -> Iterator[np.ndarray]:
    """Yield what a function makes of a dataset's images, some at a time, the training images first.

    With a progress bar that says what it is.
    """
    from tqdm import tqdm

    both = (dataset.train_images, dataset.test_images)
    with tqdm(desc=f"{what} of {dataset.name}", total=sum(map(len, both)), unit="image") as bar:
        for pixels in both:
            for start in range(0, len(pixels), batch):
                found = function(pixels[start : start + batch])
                yield found
                bar.update(len(found))
