"""A trained head that is kept in a file, and classifies images by it."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8

from dpstudy import files
from dpstudy.errors import DataError
from dpstudy.parts.data.images import CLASSES, IMAGE_SHAPE
from dpstudy.parts.part import SpecError
from dpstudy.recipe import basis as synthetic_basis
from dpstudy.recipe.basis import Basis
from dpstudy.recipe.features import SyntheticFeatures
from dpstudy.recipe.whitened import centre

# Of a basis that is another, a witness differs by as much as it is long; by rounding, by far less.
_ALIKE = 1e-2
_ARRAYS = ("kernel", "mean", "witness")
# What reading raises of a file that is sealed, but of something else.
_NO_MODEL = (OSError, ValueError, KeyError, EOFError, TypeError, MemoryError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Model:
    """A linear head on whitened features of synthetic images.

    Its file holds of the features only their settings: where the cache lacks the basis it is
    computed again, which takes minutes. Another processor may round to other components: `witness`,
    of `witness_of`, tells, and it is refused. One of the settings is the seed, by which noise was
    drawn: of private images such a file is nothing to publish. `mean` is taken away of features.

    Raises:
        SpecError: an array is of another shape than the settings say, or not of finite floats.
    """

    features: SyntheticFeatures
    kernel: Float[np.ndarray, "components classes"]
    mean: Float[np.ndarray, "components"]
    witness: Float[np.ndarray, "components"]

    def __post_init__(self) -> None:
        components = self.features.components
        shapes = (components, len(CLASSES[self.features.name])), (components,), (components,)
        for name, shape in zip(_ARRAYS, shapes, strict=True):
            found = getattr(self, name)
            if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
                raise SpecError(f"{name} must be finite floats of shape {shape}")

    def classify(self, images: UInt8[np.ndarray, "n h w c"]) -> Int[np.ndarray, "n"]:
        """Return the class of each image: uint8, 0 to 255, of the shape that was trained on.

        Raises:
            SpecError: images of another type or shape.
            DataError: the basis cannot be kept in the cache, or is not that of the training.
        """
        images = np.asarray(images)
        self.features.check_images(images)
        basis = self.features.basis()
        apart = np.linalg.norm(witness_of(self.features, basis) - self.witness)
        if not apart < _ALIKE * np.linalg.norm(self.witness):
            raise DataError(
                "the features computed here are not those that the model was trained on: copy the "
                f"folder {files.cache_folder() / 'synthetic'} from where it was"
            )
        found = np.empty(len(images), np.int64)
        for start in range(0, len(images), synthetic_basis.BATCH):
            part = slice(start, start + synthetic_basis.BATCH)
            components = self.features.components_of(basis, images[part])
            scaled = self.features.scaled(np.asarray(components), basis.variances)
            centre(scaled, self.mean)
            found[part] = (scaled @ self.kernel).argmax(1)
        return found

    def save(self, path: Path) -> None:
        """Write the model to a new file, whole or not at all; DataError if it cannot be written."""
        files.check_new(path, DataError)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        try:
            with files.written_whole(path) as stream:
                np.savez(stream, features=json.dumps(self.features.to_dict()), **arrays)
                files.seal(stream)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({files.brief(error)})") from error


def witness_of(features: SyntheticFeatures, basis: Basis) -> Float[np.ndarray, "components"]:
    """Return what the basis of features makes of one fixed image: another basis something else."""
    shape = (1, *IMAGE_SHAPE[features.name])
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    return np.asarray(features.components_of(basis, pixels))[0]


def load(path: str | Path) -> Model:
    """Read a model that `dpstudy recipe` or `Model.save` wrote.

    Raises:
        DataError: there is no such file, or it is no model.
    """
    try:
        files.check_seal(Path(path))
        with np.load(path) as stored:
            features = SyntheticFeatures.from_dict(json.loads(str(stored["features"])))
            return Model(features, *(stored[name] for name in _ARRAYS))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (SpecError, *_NO_MODEL) as error:
        raise DataError(f"{path}: is no model of `dpstudy recipe` ({error})") from error
