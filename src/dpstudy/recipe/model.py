"""A trained head that is kept in a file, and scores images by it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float16, UInt8

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.part import SpecError
from dpstudy.privacy.statement import Statement
from dpstudy.recipe.whitened import Drawn, centre

# By so much of their length two witnesses may differ: rounding does far less, another basis more.
_ALIKE = 1e-2
# Images that are scored together: their features take 200 MB.
_AT_ONCE = 10_000
_ARRAYS = ("kernel", "mean", "witness")
# What reading raises of a file that is sealed, but of something else.
_NO_MODEL = (OSError, ValueError, KeyError, EOFError, TypeError, MemoryError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Model:
    """A linear head on features of drawn images.

    Its file holds of the features only their settings: where the cache lacks a basis it is computed
    again, which takes minutes, since to ship it would take a gigabyte. The seed among them is
    public, and draws images and filters alone. Another processor may round to another basis: the
    `witness` tells, and it is refused.

    Attributes:
        features: how vectors are computed of an image.
        kernel: the weights, without a bias.
        mean: what is taken away of the vectors; 0 where none was released.
        witness: what the features make of one fixed image.
        classes: what the columns of `kernel` stand for.
        statement: what privacy was spent on it.

    Raises:
        SpecError: an array is of another shape than the settings say, or not of finite floats.
    """

    features: Drawn
    kernel: Float[np.ndarray, "features classes"]
    mean: Float[np.ndarray, "features"]
    witness: Float[np.ndarray, "features"]
    classes: tuple[Any, ...]
    statement: Statement

    def __post_init__(self) -> None:
        count = self.features.image_shape[0]
        shapes = (count, len(self.classes)), (count,), (count,)
        for name, shape in zip(_ARRAYS, shapes, strict=True):
            found = getattr(self, name)
            if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
                raise SpecError(f"{name} must be finite floats of shape {shape}")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images that are scored."""
        return IMAGE_SHAPE[self.features.name]

    def scores(self, pixels: UInt8[np.ndarray, "n h w c"]) -> Float[np.ndarray, "n classes"]:
        """Return the logits of images: uint8, 0 to 255, of `image_shape`.

        Raises:
            SpecError: images of another type or shape.
            DataError: a basis cannot be kept in the cache, or is not that of the training.
        """
        pixels = np.asarray(pixels)
        self.features.check_images(pixels)
        found = np.empty((len(pixels), len(self.classes)), np.float32)
        for start in range(0, len(pixels), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            vectors, witness = vectors_and_witness(self.features, pixels[part])
            self._check_witness(witness)
            found[part] = np.float32(centred(vectors, self.mean)) @ self.kernel
        return found

    def _check_witness(self, witness: Float[np.ndarray, "features"]) -> None:
        if not np.linalg.norm(witness - self.witness) < _ALIKE * np.linalg.norm(self.witness):
            raise DataError(
                "the features computed here are not those that the model was trained on: copy the "
                f"folder {files.cache_folder() / 'synthetic'} from where it was"
            )

    def save(self, path: str | Path) -> None:
        """Write the model to a new file, whole or not at all.

        Raises:
            DataError: it cannot be written, or a class is no number, text, truth value, None, or
                tuple of those.
        """
        path = Path(path)
        files.check_new(path, DataError)
        about = {
            "features": self.features.to_dict(),
            "classes": [_written(one) for one in self.classes],
            "statement": self.statement.to_dict(),
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        try:
            with files.written_whole(path) as stream:
                np.savez(stream, about=json.dumps(about), **arrays)
                files.seal(stream)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({files.brief(error)})") from error


def centred(
    vectors: Float16[np.ndarray, "n k"], mean: Float[np.ndarray, "k"]
) -> Float16[np.ndarray, "n k"]:
    """Take a mean from vectors, in place, each of norm 1 again; nothing where the mean is 0."""
    if mean.any():
        centre(vectors, mean)
    return vectors


def vectors_and_witness(
    features: Drawn, pixels: UInt8[np.ndarray, "n h w c"]
) -> tuple[Float16[np.ndarray, "n k"], Float[np.ndarray, "k"]]:
    """Return vectors of images, and the witness: with another basis it is something else.

    Together, since a basis takes seconds to read.
    """
    shape = (1, *IMAGE_SHAPE[features.name])
    fixed = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = features.vectors(np.concatenate([fixed, pixels]))
    return found[1:], np.float32(found[0])


def load(path: str | Path) -> Model:
    """Read a model that `Model.save` wrote.

    Raises:
        DataError: there is no such file, or it is no model.
    """
    try:
        files.check_seal(Path(path))
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            return Model(
                Drawn.from_dict(about["features"]),
                *(stored[name] for name in _ARRAYS),
                tuple(_read(one) for one in about["classes"]),
                Statement.from_dict(about["statement"]),
            )
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (SpecError, *_NO_MODEL) as error:
        raise DataError(f"{path}: is no model of `dpstudy recipe` ({error})") from error


def _written(label: Any) -> Any:
    """Return a class as JSON has it, a tuple as a list."""
    if isinstance(label, tuple):
        return [_written(one) for one in label]
    plain = label.item() if isinstance(label, np.generic) else label
    if plain is None or isinstance(plain, str | bool | int | float):
        return plain
    raise DataError(
        f"a class must be a number or a text to be kept in a file, got {label!r}: train on names"
    )


def _read(label: Any) -> Any:
    return tuple(_read(one) for one in label) if isinstance(label, list) else label
