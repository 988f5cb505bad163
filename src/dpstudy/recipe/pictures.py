"""Pictures of any size, grey or in colour, as arrays of one shape: of arrays, files and folders."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.part import SpecError

Pixels = UInt8[np.ndarray, "n h w c"]

# Modes of Pillow in which a picture has shades alone.
_GREY = ("1", "L", "LA", "La")
_WANTED = "pictures must be uint8, from 0 to 255, of shape (n, h, w), (n, h, w, 1) or (n, h, w, 3)"
# What Pillow raises of a file that is no picture, is cut short, or unpacks to gigabytes.
_NO_PICTURE = (
    OSError,
    ValueError,
    SyntaxError,
    RuntimeError,
    UnidentifiedImageError,
    Image.DecompressionBombError,
)
# How arrays of a file are called: images and labels of the training set, and of a test set.
_TRAINING = (
    ("images", "labels"),
    ("x", "y"),
    ("X", "y"),
    ("x_train", "y_train"),
    ("train_images", "train_labels"),
)
_TEST = (("x_test", "y_test"), ("test_images", "test_labels"))


@dataclass(frozen=True)
class Labelled:
    """Pictures with labels, and a test set if there is one."""

    pictures: Any
    labels: list[Any]
    test: Labelled | None = None


class PictureNote(UserWarning):
    """What was done to pictures so that they fit."""


def in_colour(pictures: Any) -> bool:
    """Say whether any of the pictures has colours, by shape or by how the file keeps it.

    SpecError of arrays that are no pictures, DataError of a file that is none.

    >>> in_colour(np.zeros((5, 8, 8), np.uint8)), in_colour(np.zeros((5, 8, 8, 3), np.uint8))
    (False, True)
    """
    pictures = listed(pictures)
    if isinstance(pictures, np.ndarray):
        return pictures.shape[-1] == 3
    return any(
        _of_one(one, lambda image: image.mode not in _GREY and image.mode[0] != "I")
        for one in pictures
    )


def check(pictures: Any) -> None:
    """Raise an error of what is no picture, to its last byte; errors are as of `in_colour`."""
    pictures = listed(pictures)
    if not isinstance(pictures, np.ndarray):
        for one in pictures:
            _of_one(one, lambda image: _fitted(image, (1, 1, 1), set()))


def as_pixels(pictures: Any, shape: tuple[int, int, int], *, say: bool = False) -> Pixels:
    """Return pictures as uint8 of one height, width and number of channels.

    Others are resized, the whole of each, by Lanczos' filter; greys of three channels are alike,
    and a colour's grey is its luminance. What is transparent is on white. Pictures are an array, or
    a sequence of files, of arrays or of Pillow's images, of which each may have another size.
    Errors are as of `in_colour`.

    >>> as_pixels(np.full((2, 8, 8), 7, np.uint8), (28, 28, 1)).shape
    (2, 28, 28, 1)
    """
    pictures = listed(pictures)
    if isinstance(pictures, np.ndarray) and pictures.shape[1:] == shape:
        return pictures
    if not len(pictures):
        return np.zeros((0, *shape), np.uint8)
    found, changed = np.empty((len(pictures), *shape), np.uint8), set()
    for at, picture in enumerate(_with_bar(pictures)):
        found[at] = _of_one(picture, lambda image: _fitted(image, shape, changed))
    if say and changed:
        warnings.warn(_sentence(sorted(changed), shape), PictureNote, stacklevel=3)
    return found


def of_source(source: Path) -> Labelled:
    """Read what to train on: a folder of class folders, or a .npz file of images and labels.

    A folder of the two folders `train` and `test` has a test set, and so may a file. DataError
    where it is neither, or not readable.
    """
    if not source.is_dir():
        return _of_archive(source)
    parts = {path.name for path in source.iterdir() if path.is_dir() and path.name[0] != "."}
    if {"train", "test"} == parts:
        train, test = (_of_folder(source / name) for name in ("train", "test"))
        return Labelled(train.pictures, train.labels, test)
    return _of_folder(source)


def _of_folder(folder: Path) -> Labelled:
    """Return the files of each class' folder, by name."""
    known = set(Image.registered_extensions())
    found, labels, empty, others = [], [], [], 0
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        inside = [one for one in inside if not one.name.startswith(".")]
        of_class = [one for one in inside if path.is_dir() and one.suffix.lower() in known]
        others += len(inside) - len(of_class)
        empty += [repr(path.name)] if path.is_dir() and not of_class else []
        found += of_class
        labels += [path.name] * len(of_class)
    if not found:
        raise DataError(f"{folder}: no folders in it with pictures, one for each class")
    if empty:
        text = f"{folder}: no picture in {', '.join(empty)}: no class"
        warnings.warn(text, PictureNote, stacklevel=3)
    if others:
        text = f"{folder}: {others} of what is in it are no pictures in a class' folder: left out"
        warnings.warn(text, PictureNote, stacklevel=3)
    return Labelled(found, labels)


def _of_archive(path: Path) -> Labelled:
    try:
        files.check_regular(path)
        stored = np.load(path, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("one array alone")
        with stored:
            train, test = (_pair(stored, names) for names in (_TRAINING, _TEST))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such folder or file") from None
    except Exception as error:  # of damaged files NumPy, zipfile and zlib raise a dozen types
        reason = files.brief(error)
        if "pickle" in reason:  # NumPy would have it loaded all the same.
            reason = "of texts or numbers; objects are not read"
        raise DataError(f"{path}: is no .npz file of arrays ({reason})") from error
    if train is None:
        names = ", ".join(" and ".join(pair) for pair in _TRAINING)
        raise DataError(f"{path}: has no arrays called {names}")
    return Labelled(*train, test and Labelled(*test))


def _pair(stored: Any, names: Sequence[tuple[str, str]]) -> tuple[np.ndarray, list[Any]] | None:
    for images, labels in names:
        if images in stored and labels in stored:
            if (kind := stored[labels].dtype).kind not in "biufU":
                raise ValueError(f"labels must be numbers or texts, got {kind}")
            return stored[images], stored[labels].ravel().tolist()
    return None


def listed(pictures: Any) -> Pixels | list[Any]:
    """Return pictures as one array, with its channels, or as a list; SpecError if they are neither.

    >>> listed(("one.png", "two.png")), listed(np.zeros((5, 8, 8), np.uint8)).shape
    (['one.png', 'two.png'], (5, 8, 8, 1))
    """
    if hasattr(pictures, "__array__"):  # of JAX, PyTorch and pandas too
        pictures = np.asarray(pictures)
        if pictures.dtype.kind not in "OUS":
            return _stacked(pictures)
        return list(np.atleast_1d(pictures))
    if isinstance(pictures, str | bytes) or not isinstance(pictures, Sequence):
        raise _no_pictures(pictures)
    return list(pictures)


def _no_pictures(given: Any) -> SpecError:
    text = " ".join(repr(given).split())
    return SpecError(f"{_WANTED}, or a list of files or of such arrays, got {text:.60}")


def _stacked(pictures: np.ndarray) -> Pixels:
    """Return an array of pictures with its channels, however many are said."""
    whole = pictures[..., None] if pictures.ndim == 3 else pictures
    sound = whole.ndim == 4 and whole.shape[-1] in (1, 3) and 0 not in whole.shape[1:]
    if whole.dtype != np.uint8 or not sound:
        raise SpecError(f"{_WANTED}, got {pictures.dtype} of shape {pictures.shape}")
    return whole


def _of_one(picture: Any, of: Callable[[Image.Image], Any]) -> Any:
    """Return what is made of one picture, which is closed again."""
    if isinstance(picture, Image.Image):
        try:
            return _of_known_range(picture, of)
        except ValueError as error:  # a mode that Pillow does not turn into grey or colour
            raise SpecError(f"a picture of mode {picture.mode} is not read ({error})") from None
    if hasattr(picture, "__array__"):
        [stacked] = _stacked(np.asarray(picture)[None])
        return of(Image.fromarray(stacked[..., 0] if stacked.shape[-1] == 1 else stacked))
    if not isinstance(picture, str | Path):
        raise _no_pictures(picture)
    try:
        files.check_regular(Path(picture))
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(picture) as image:
                return _of_known_range(image, of)
    except FileNotFoundError:
        raise DataError(f"{picture}: there is no such file") from None
    except (*_NO_PICTURE, Image.DecompressionBombWarning) as error:
        raise DataError(f"{picture}: is no picture ({files.brief(error)})") from error


def _of_known_range(image: Image.Image, of: Callable[[Image.Image], Any]) -> Any:
    # Pillow's "I" is of 16 bits where it is of a file in another format.
    if image.mode == "F" or (image.mode == "I" and image.format in (None, "TIFF")):
        raise ValueError("numbers of 32 bits, of no known range: keep it in 8 or 16")
    return of(image)


def _fitted(image: Image.Image, shape: tuple[int, int, int], changed: set[str]) -> np.ndarray:
    """Return one picture as an array of a shape, and note in `changed` what that took."""
    height, width, channels = shape
    image = ImageOps.exif_transpose(image)
    if image.mode[0] == "I":  # of 16 bits
        image = Image.fromarray((np.asarray(image).clip(0, 65_535) / 257).round().astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        changed.add("laid on white where transparent")
    wanted = "L" if channels == 1 else "RGB"
    if image.mode != wanted:
        if (image.mode in _GREY) != (channels == 1):
            changed.add("made grey" if channels == 1 else "given three channels")
        image = image.convert(wanted)
    if image.size != (width, height):
        changed.add("resized")
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(image).reshape(shape)


def _sentence(changed: list[str], shape: tuple[int, int, int]) -> str:
    of = "grey" if shape[-1] == 1 else "in colour"
    done = " and ".join([", ".join(changed[:-1]), changed[-1]] if changed[1:] else changed)
    return f"pictures were {done}: the features take {shape[0]} x {shape[1]} pixels, {of}"


def _with_bar(pictures: Sequence[Any]) -> Any:
    from dpstudy.progress import tqdm

    of_files = isinstance(pictures[0], str | Path)
    return tqdm(pictures, desc="pictures read", unit="picture", disable=not of_files)
