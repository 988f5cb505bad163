"""A trained head that is kept in a file, and scores images by it."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float, UInt8

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data.images import IMAGE_SHAPE
from dpstudy.parts.part import SpecError
from dpstudy.privacy.statement import Statement
from dpstudy.recipe.folded import Folded, fold, width
from dpstudy.recipe.whitened import Drawn

# Of the file: those before it had weights of components, which hang on a machine.
_FORMAT = 2
# Images that a model keeps, to tell by whether features come out as at the training; the side of
# the squares that they are made of.
_EXAMPLES, _SIDE = 4, 4
_TINY = np.float32(1e-30)
# What reading raises of a file that is sealed, but of something else.
_NO_MODEL = (OSError, ValueError, KeyError, EOFError, TypeError, MemoryError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Model:
    """A linear head on features of drawn images.

    Its file holds all that scores an image: the settings of the features, their filters, and the
    head as it is `folded` into features. So it works without the basis, on any machine. The seed
    among the settings is public, and drew images and filters alone.

    Attributes:
        features: how vectors are computed of an image.
        blocks: the head, for each block of the features.
        at_mean: what the head's weights, and last the mean itself, make of the mean that is taken
            away of the vectors; 0 where none was released.
        examples: a few images, by which the blocks tell whether features are the same here.
        classes: what scores stand for.
        statement: what privacy was spent on it.

    Raises:
        SpecError: an array is of another shape than the settings say, or not of finite floats.
    """

    features: Drawn
    blocks: tuple[Folded, ...]
    at_mean: Float[np.ndarray, "columns"]
    examples: UInt8[np.ndarray, "examples h w c"]
    classes: tuple[Any, ...]
    statement: Statement

    @classmethod
    def of_head(
        cls,
        features: Drawn,
        kernel: Float[np.ndarray, "components classes"],
        mean: Float[np.ndarray, "components"],
        classes: tuple[Any, ...],
        statement: Statement,
    ) -> Self:
        """Return the model of a head's weights on vectors less their mean; errors as `fold`."""
        columns = np.concatenate([kernel, mean[:, None]], axis=1)
        examples = _mosaics(*IMAGE_SHAPE[features.name])
        blocks, start = [], 0
        for block, share in features.weighted_blocks:
            end = start + block.components
            blocks.append(fold(block, np.sqrt(share) * columns[start:end], examples))
            start = end
        at_mean = np.float32(mean @ columns)
        return cls(features, tuple(blocks), at_mean, examples, classes, statement)

    def __post_init__(self) -> None:
        columns, blocks = len(self.classes) + 1, self.features.weighted_blocks
        if len(blocks) != len(self.blocks):
            raise SpecError(f"{len(blocks)} blocks of features, and {len(self.blocks)} of weights")
        if self.examples.dtype != np.uint8 or self.examples.shape[1:] != self.image_shape:
            raise SpecError(f"examples must be uint8 of shape (n, *{self.image_shape})")
        _check("at_mean", self.at_mean, (columns,))
        for (block, _), folded in zip(blocks, self.blocks, strict=True):
            outputs = width(block, columns)
            _check("scale", folded.scale, (block.features,))
            _check("maps", folded.maps, (block.features, outputs))
            _check("offset", folded.offset, (outputs,))
            _check("witness", folded.witness, (len(self.examples), outputs))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images that are scored."""
        return IMAGE_SHAPE[self.features.name]

    def scores(self, pixels: UInt8[np.ndarray, "n h w c"]) -> Float[np.ndarray, "n classes"]:
        """Return the logits of images: uint8, 0 to 255, of `image_shape`, else SpecError.

        DataError where features come out otherwise here than at the training.
        """
        pixels = np.asarray(pixels)
        self.features.check_images(pixels)
        columns, known = len(self.at_mean), len(self.examples)
        both = np.concatenate([self.examples, pixels])
        found = np.zeros((len(pixels), columns), np.float32)
        for (block, _), folded in zip(self.features.weighted_blocks, self.blocks, strict=True):
            outputs = folded.outputs(block, both)
            folded.check(outputs[:known])
            linear, projected = np.split(outputs[known:], [columns], axis=1)
            norm = np.linalg.norm(projected, axis=1, keepdims=True)
            found += linear / np.maximum(norm, _TINY)
        # The squared norm of the vector less the mean; without the mean it is 1.
        squared = 1 - 2 * found[:, -1:] + self.at_mean[-1]
        return (found - self.at_mean)[:, :-1] / np.sqrt(np.maximum(squared, _TINY))

    def save(self, path: str | Path) -> None:
        """Write the model to a new file, whole or not at all.

        DataError where it cannot be written, or a class is no number, text, truth value, None, or
        tuple of those.
        """
        path = Path(path)
        files.check_new(path, DataError)
        about = {
            "format": _FORMAT,
            "features": self.features.to_dict(),
            "classes": [_written(one) for one in self.classes],
            "statement": self.statement.to_dict(),
        }
        arrays = {
            f"block_{at}_{name}": array
            for at, folded in enumerate(self.blocks)
            for name, array in folded.arrays().items()
        }
        arrays |= {"at_mean": self.at_mean, "examples": self.examples}
        try:
            with files.written_whole(path, replace=False) as stream:
                np.savez(stream, about=json.dumps(about), **arrays)
                files.seal(stream)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({files.brief(error)})") from error


def load(path: str | Path) -> Model:
    """Read a model that `Model.save` wrote; DataError where there is none."""
    try:
        files.check_seal(Path(path))
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            if about.get("format") != _FORMAT:
                raise DataError(
                    f"{path}: is a model of another version of this package: train it again"
                )
            features = Drawn.from_dict(about["features"])
            return Model(
                features,
                tuple(_block(stored, at) for at in range(len(features.weighted_blocks))),
                stored["at_mean"],
                stored["examples"],
                tuple(_read(one) for one in about["classes"]),
                Statement.from_dict(about["statement"]),
            )
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (SpecError, *_NO_MODEL) as error:
        raise DataError(f"{path}: is no model of `dpstudy recipe` ({error})") from error


def _mosaics(height: int, width: int, channels: int) -> UInt8[np.ndarray, "examples h w c"]:
    """Return images of squares of any colour, which have flat places and edges."""
    count = _EXAMPLES, -(-height // _SIDE), -(-width // _SIDE), channels
    coarse = np.random.default_rng(0).integers(0, 256, count, np.uint8)
    return coarse.repeat(_SIDE, 1).repeat(_SIDE, 2)[:, :height, :width]


def _block(stored: Mapping[str, np.ndarray], at: int) -> Folded:
    start = f"block_{at}_"
    return Folded.of_arrays(
        {name.removeprefix(start): stored[name] for name in stored if name.startswith(start)}
    )


def _check(name: str, found: np.ndarray, shape: tuple[int, ...]) -> None:
    if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise SpecError(f"{name} must be finite floats of shape {shape}")


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
